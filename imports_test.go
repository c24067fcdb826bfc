package ax_test

import (
	"bytes"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	// The test cache sees what this process reads, not what go list does.
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if path == ".git" {
			return fs.SkipDir
		}
		return err
	}))
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return slices.DeleteFunc(slices.Compact(lines), func(s string) bool { return s == "" })
}

// A service that submits tasks should not have to link, audit and update what
// it does not use.
func TestProducerLinksOnlyKafkaAndTheTelemetryAPI(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"github.com/axtasks/ax",
		"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", // of franz-go
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/log", "go.opentelemetry.io/auto/sdk", // of the API
		"github.com/go-logr/logr", "github.com/go-logr/stdr", "github.com/cespare/xxhash/v2",
	}
	kafka := []string{"github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kadm"}
	for _, module := range goList(t, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./producer") {
		require.True(t, slices.Contains(allowed, module) || slices.Contains(kafka, module), "producer links %s", module)
	}
}

func TestRootLinksOnlyKafka(t *testing.T) {
	t.Parallel()
	for _, module := range goList(t, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".") {
		require.Contains(t, []string{
			"github.com/axtasks/ax", "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kmsg",
			"github.com/klauspost/compress", "github.com/pierrec/lz4/v4",
		}, module)
	}
}

// Dependencies point one way: the root knows nobody, and the YAML loader and
// the stores are leaves.
func TestDependenciesPointOneWay(t *testing.T) {
	t.Parallel()
	const module = "github.com/axtasks/ax"
	for _, path := range goList(t, "-deps", ".") {
		require.False(t, strings.HasPrefix(path, module+"/") && !strings.HasPrefix(path, module+"/internal/"), "the root links %s", path)
	}
	for _, leaf := range []string{"spec", "idempotency"} {
		for _, path := range goList(t, "-deps", "./"+leaf) {
			if strings.HasPrefix(path, module+"/") && !strings.HasPrefix(path, module+"/internal/") {
				require.Equal(t, module+"/"+leaf, path, "%s links it", leaf)
			}
		}
	}
}

// Package testing registers flags and pulls in much, and so do the libraries
// for tests. Packages that are there for tests may import them; nobody may
// import those packages but tests.
func TestNoTestLibraryIsReachableFromTheLibrary(t *testing.T) {
	t.Parallel()
	const module = "github.com/axtasks/ax/"
	forTests := []string{module + "idempotency/storetest", module + "internal/fakekafka"}
	for _, line := range goList(t, "-e", "-f", `{{.ImportPath}}:{{range .Imports}} {{.}}{{end}}`, "./...") {
		path, imports, _ := strings.Cut(line, ":")
		if slices.Contains(forTests, path) {
			continue
		}
		for i := range strings.FieldsSeq(imports) {
			forbidden := i == "testing" || strings.HasPrefix(i, "testing/") || strings.HasPrefix(i, "github.com/stretchr/") ||
				strings.HasPrefix(i, "pgregory.net/") || slices.Contains(forTests, i)
			require.False(t, forbidden, "%s imports %s", path, i)
		}
	}
}
