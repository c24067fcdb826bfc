package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// compose is what our file uses of the Compose format. Decoding is strict, so
// that a slip in a key fails here and not in somebody's terminal.
type compose struct {
	Name     string
	Services map[string]service
	Configs  map[string]struct{ File string }
	Volumes  map[string]struct{}
}

type service struct {
	Image string
	Build struct {
		Context    string
		Dockerfile string
		Args       map[string]string
	}
	Command     []string
	Environment map[string]string
	Configs     []struct{ Source, Target string }
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test        []string
		Interval    string
		Timeout     string
		Retries     int
		StartPeriod string `yaml:"start_period"`
	}
	Ports           []string
	Volumes         []string
	Profiles        []string
	Restart         string
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	TTY             bool     `yaml:"tty"`
	Init            bool
}

func load(t *testing.T) compose {
	t.Helper()
	data, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	var c compose
	require.NoError(t, yaml.Load(data, &c, yaml.WithKnownFields(), yaml.WithUniqueKeys()))
	return c
}

func TestComposeHasAllRoles(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range []string{"kafka", "topics", "mover", "trim", "orders-worker", "orders-service", "demo"} {
		require.Contains(t, c.Services, name)
	}
	for name, s := range c.Services {
		for needed, how := range s.DependsOn {
			require.Contains(t, c.Services, needed, name)
			switch how.Condition {
			case "service_healthy":
				require.NotEmpty(t, c.Services[needed].Healthcheck.Test, "%s waits for the health of %s", name, needed)
			case "service_completed_successfully":
				require.Equal(t, "no", c.Services[needed].Restart, "%s waits for the end of %s", name, needed)
			default:
				t.Errorf("%s depends on %s: condition %q", name, needed, how.Condition)
			}
		}
		for _, config := range s.Configs {
			require.Contains(t, c.Configs, config.Source, name)
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			require.Contains(t, c.Volumes, volume, name)
		}
		if name != "kafka" {
			require.True(t, s.ReadOnly, name)
			require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		}
	}
}

func TestComposeNamesNoPathOfTheHost(t *testing.T) {
	t.Parallel()
	c := load(t)
	relative := func(path, what string) {
		require.True(t, filepath.IsLocal(filepath.Join("deploy", path)), "%s: %s is not in the repository", what, path)
		_, err := os.Stat(path)
		require.NoError(t, err, what)
	}
	for name, config := range c.Configs {
		relative(config.File, name)
	}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			require.False(t, strings.ContainsAny(source, "/.~"), "%s mounts %s of the host", name, source)
		}
		if s.Build.Context != "" {
			relative(s.Build.Context, name)
			relative(filepath.Join(s.Build.Context, s.Build.Dockerfile), name)
		}
	}
}

// requirePinned fails unless the image has a tag that stays what it is.
func requirePinned(t *testing.T, image string) {
	t.Helper()
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	require.True(t, ok && tag != "" && tag != "latest", "image %s is not pinned by a tag", image)
}

func TestImagesArePinnedByTag(t *testing.T) {
	t.Parallel()
	for name, s := range load(t).Services {
		require.NotEmpty(t, s.Image, name)
		requirePinned(t, s.Image)
	}
	for _, s := range stages(t) {
		requirePinned(t, s.from)
	}
}

// What Compose starts must be what the binaries accept, or the file rots with
// the next renamed flag.
func TestCommandsAndFlagsExist(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	built := map[string]string{}
	flags := regexp.MustCompile(`(?m)^\s+(-.+?)(?:\s{2,}|$)`)
	for name, s := range load(t).Services {
		if s.Build.Context == "" {
			continue
		}
		main := s.Build.Args["MAIN"]
		if main == "" {
			main = "./cmd/ax" // the Dockerfile's default
		}
		if built[main] == "" {
			built[main] = filepath.Join(bin, filepath.Base(main))
			build := exec.CommandContext(t.Context(), "go", "build", "-o", built[main], main)
			build.Dir = ".."
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		words := slices.Clone(s.Command)
		if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
			words = words[:i]
		}
		out, err := exec.CommandContext(t.Context(), built[main], append(words, "--help")...).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		help := string(out)
		if len(words) > 0 {
			require.Contains(t, help, "ax "+strings.Join(words, " "), "%s: the help is of another command", name)
		}
		known := map[string]bool{}
		for _, line := range flags.FindAllStringSubmatch(help, -1) {
			for word := range strings.FieldsFuncSeq(line[1], func(r rune) bool { return r == ' ' || r == ',' }) {
				if flag, ok := strings.CutPrefix(word, "-"); ok {
					known[strings.TrimPrefix(flag, "-")] = true
				}
			}
		}
		for _, word := range s.Command {
			if flag, ok := strings.CutPrefix(word, "-"); ok {
				flag, _, _ = strings.Cut(strings.TrimPrefix(flag, "-"), "=")
				require.True(t, known[flag], "%s: no flag %s in:\n%s", name, word, help)
			}
		}
	}
}

type stage struct {
	from, name string
	lines      []string // instruction first
}

// stages reads the Dockerfile.
func stages(t *testing.T) []stage {
	t.Helper()
	data, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	var all []stage
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case words[0] == "FROM":
			s := stage{from: words[1]}
			if len(words) == 4 && words[2] == "AS" {
				s.name = words[3]
			}
			all = append(all, s)
		default:
			require.NotEmpty(t, all, "%s comes before FROM", line)
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		}
	}
	return all
}

func TestDockerfileMakesASmallImageWithoutRights(t *testing.T) {
	t.Parallel()
	all := stages(t)
	require.Len(t, all, 2)
	build, final := strings.Join(all[0].lines, "\n"), strings.Join(all[1].lines, "\n")
	require.Contains(t, build, "CGO_ENABLED=0")
	require.Contains(t, build, "ARG MAIN=./cmd/ax\n")
	require.Contains(t, build, `go build`)

	require.Regexp(t, `static|scratch`, all[1].from)
	require.Regexp(t, `(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`, final)
	require.Contains(t, final, "COPY --from="+all[0].name+" ")
	require.NotContains(t, final, "RUN", "there is no shell")
	require.Contains(t, final, `ENTRYPOINT ["/app"]`)
}

func TestDockerfileBuildsWithTheModulesGo(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(data))
	require.NotNil(t, version)
	require.Contains(t, stages(t)[0].from, "golang:"+version[1]+"-")
}
