package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const (
	countEvery    = time.Second
	progressEvery = time.Minute
)

// progress counts the workers, and prints a line about once a minute, until ctx
// ends.
func (s *soak) progress(ctx context.Context) {
	last := time.Now()
	for wait(ctx, countEvery) == nil {
		n := s.alive("worker")
		if s.most == 0 || n < s.fewest {
			s.fewest = n
		}
		s.most = max(s.most, n)
		if time.Since(last) < progressEvery {
			continue
		}
		last = time.Now()
		s.say("%s", s.state(ctx, n))
	}
}

func (s *soak) alive(role string) int {
	n := 0
	for _, sl := range s.slotsOf(role) {
		if sl.running() != nil {
			n++
		}
	}
	return n
}

// state tells what a long soak could run out of.
func (s *soak) state(ctx context.Context, workers int) string {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	waiting, kafka := "?", "?"
	if lag, err := s.lag(ctx); err == nil {
		waiting = fmt.Sprint(lag)
	}
	if dirs, err := s.adm.DescribeAllLogDirs(ctx, nil); err == nil {
		var size int64
		for _, broker := range dirs {
			size += broker.Size()
		}
		kafka = fmt.Sprint(size >> 20)
	}
	return fmt.Sprintf("%d workers, %s records wait; facts %d MB, logs %d MB, Kafka's partitions %s MB, memory of the driver %d MB",
		workers, waiting, size(filepath.Join(s.dir, "facts"))>>20, size(filepath.Join(s.dir, "logs"))>>20, kafka, mem.Sys>>20)
}

// size returns how many bytes the files of a folder hold.
func size(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var n int64
	for _, e := range entries {
		if st, err := e.Info(); err == nil {
			n += st.Size()
		}
	}
	return n
}
