package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
	"github.com/axtasks/ax/spec"
)

// pages returns the text of all documents by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := files(t, ".md")
	require.Contains(t, all, "README.md")
	require.Contains(t, all, "docs/design.md")
	return all
}

func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := os.DirFS("..")
	require.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		all[path] = string(text)
		return err
	}))
	return all
}

// anchors returns what GitHub makes of a page's headings.
func anchors(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for path, page := range all {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			at := path
			if target != "" {
				at = filepath.Join(filepath.Dir(path), target)
				_, err := os.Stat(filepath.Join("..", at))
				require.NoError(t, err, "%s links to %s", path, m[1])
			}
			if anchor != "" {
				require.Contains(t, anchors(all[at]), anchor, "%s links to %s", path, m[1])
			}
		}
	}
}

// A promise that names a test stands and falls with that test.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, text := range files(t, "_test.go") {
		source.WriteString(text)
	}
	for path, page := range pages(t) {
		for _, name := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(page, -1) {
			require.Contains(t, source.String(), "\nfunc "+name[1]+"(", "%s names it", path)
		}
	}
}

func TestNamedMakeTargetsExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	for path, page := range pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^|`)(?:AX_KAFKA=\\S+ )?make ([a-z]+)").FindAllStringSubmatch(page, -1) {
			require.Contains(t, string(makefile), "\n"+m[1]+":", "%s names make %s", path, m[1])
		}
	}
}

func TestTheReadmesCommandsExist(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "ax")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/ax")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	commands := regexp.MustCompile("(?m)^\\| `(ax [a-z ]+)` \\|").FindAllStringSubmatch(pages(t)["README.md"], -1)
	require.NotEmpty(t, commands)
	for _, c := range commands {
		words := append(strings.Fields(c[1])[1:], "--help")
		out, err := exec.CommandContext(t.Context(), bin, words...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "\n   "+c[1]+" - ", "the help is of another command")
	}
}

// The record's format is a contract with clients in other languages.
func TestEveryHeaderIsDocumented(t *testing.T) {
	t.Parallel()
	design := pages(t)["docs/design.md"]
	names := []string{
		ax.HeaderKind, ax.HeaderID, ax.HeaderLane, ax.HeaderDue, ax.HeaderLeave, ax.HeaderExpires, ax.HeaderTimeout,
		ax.HeaderAttempt, ax.HeaderMaxAttempts, ax.HeaderDeferrals, ax.HeaderSubmitted, ax.HeaderHop,
		ax.HeaderDeadReason, ax.HeaderDeadError, ax.HeaderDeadAt, ax.HeaderDeadAttempt, ax.HeaderDeadSource, ax.HeaderDeadKey,
	}
	var source string
	for _, file := range []string{"../record.go", "../dead.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source += string(text)
	}
	for _, m := range regexp.MustCompile(`"(ax-[a-z-]*[a-z])"`).FindAllStringSubmatch(source, -1) {
		require.Contains(t, names, m[1], "the list of this test lacks a header")
	}
	for _, name := range names {
		require.Contains(t, design, "| `"+name+"` |")
	}
	for _, reason := range []ax.Reason{ax.ReasonFailed, ax.ReasonPermanent, ax.ReasonTimeout, ax.ReasonPanic, ax.ReasonMalformed, ax.ReasonTooLarge} {
		require.Contains(t, design, "`"+string(reason)+"`")
	}
}

func TestTheReadmesDomainIsValid(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(pages(t)["README.md"], -1)
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		_, err := spec.Parse("README.md", []byte(block[1]))
		require.NoError(t, err)
	}
}

// The numbers of the design's main argument about hops.
func TestTheDesignCountsHopsRight(t *testing.T) {
	t.Parallel()
	tiers := []string{"5s", "30s", "1m", "5m", "15m", "1h"}
	domain, err := spec.Parse("tiers", []byte("domain: d\ndelay: {tiers: ["+strings.Join(tiers, ", ")+"]}"))
	require.NoError(t, err)
	r, err := router.New(domain)
	require.NoError(t, err)
	require.Equal(t, []string{"d.delay.1h", "d.delay.near"}, r.Hops(domain.Delay.Tiers[5]))

	// Where a wait is as long as its tier's name.
	hops, left := 1, domain.Delay.Tiers[5]-domain.Delay.Window // near
	for _, wait := range slices.Backward(domain.Delay.Tiers) {
		for ; wait <= left; left -= wait {
			hops++
		}
	}
	require.Equal(t, 16, hops)
}
