package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/spec"
)

// The README shows this program; what people copy must be what was tested.
func TestTheReadmeShowsThisProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, block := range []struct{ language, file string }{{"go", "main.go"}, {"yaml", "hello.yaml"}} {
		want, err := os.ReadFile(block.file)
		require.NoError(t, err)
		require.Contains(t, string(readme), "```"+block.language+"\n"+string(want)+"```\n", block.file)
	}
}

func TestItGreetsAtOnceAndFiveSecondsLater(t *testing.T) {
	c := fakekafka.Start(t)
	t.Setenv("AX_KAFKA", strings.Join(c.Addrs(), ","))
	domain, err := spec.Load("hello.yaml")
	require.NoError(t, err)
	c.Provision(t, domain)
	mover, err := delay.New(domain, delay.WithKafka(c.Opts()...))
	require.NoError(t, err)

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.Close() }) // or a greeting that never comes would be waited for
	done := make(chan error, 2)
	go func() { done <- mover.Run(ctx) }()
	go func() { done <- run(ctx, "hello.yaml", w) }()
	began := time.Now()
	greeting := make([]byte, len("hello, world\n"))
	for range 2 {
		_, err = io.ReadFull(r, greeting)
		require.NoError(t, err)
		require.Equal(t, "hello, world\n", string(greeting))
	}
	require.Greater(t, time.Since(began), 4*time.Second)
	stop()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}
