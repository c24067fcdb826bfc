package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const formatTimeout = time.Minute

// formatNodes fills each node's directories of data and metadata. The storage tool takes a second,
// so it runs for the first node only, which also holds the users; the others
// get copies under their own identity. Its checkpoint of feature levels is part
// of the copy: without that a broker starts, silently, as an old one.
func formatNodes(ctx context.Context, j *jvm, nodes []*node, sec *security, g *guard) error {
	ctx, cancel := context.WithTimeoutCause(ctx, formatTimeout, fmt.Errorf("not done within %s", formatTimeout))
	defer cancel()
	clusterID := newKafkaID()
	first := nodes[0]
	args := append([]string{"format", "-t", clusterID, "-c", first.propertiesFile()}, sec.scramArgs()...)
	if _, err := runTool(ctx, j.command(nil, "kafka.tools.StorageTool", args...), g); err != nil {
		return fmt.Errorf("format node %d: %w", first.id, err)
	}
	for _, n := range nodes[1:] {
		for dir, source := range map[string]string{n.dataDir(): first.dataDir(), n.metaDir(): first.metaDir()} {
			if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
				return fmt.Errorf("format node %d: %w", n.id, err)
			}
			meta := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", clusterID, n.id, newKafkaID())
			if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte(meta), 0o644); err != nil {
				return fmt.Errorf("format node %d: %w", n.id, err)
			}
		}
	}
	return nil
}

// newKafkaID returns an id in Kafka's notation: 16 random bytes in URL-safe
// base64. One that starts with a dash would look like an option to the tool.
func newKafkaID() string {
	for {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // never fails, by its documentation
		if id := base64.RawURLEncoding.EncodeToString(b); id[0] != '-' {
			return id
		}
	}
}
