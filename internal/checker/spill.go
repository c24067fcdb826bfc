package checker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
)

const (
	maxLine  = 1 << 20
	maxFiles = 128 // that one spill has open
	maxDepth = 4
)

// read calls take with each fact of a file. A line that is not finished at the
// end of the file is left out.
func read[T any](path string, take func(*T) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read facts: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil // whatever is left has no end
		}
		if err != nil {
			return fmt.Errorf("read facts: %s:%d: %w", path, n, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("read facts: %s:%d: %w", path, n, err)
		}
		if err := take(&v); err != nil {
			return err
		}
	}
}

// spill spreads values over files by the hash of a key, so that all of one key
// are in one file, and each file is small enough to be held in memory.
type spill[T any] struct {
	dir    string
	bucket int64 // bytes that a file should not exceed by much
	depth  uint32
	key    func(*T) string
	paths  []string
	files  []*os.File
	bufs   []*bufio.Writer
	sizes  []int64
}

// newSpill makes the files, in a new folder of dir, for about total bytes.
func newSpill[T any](dir string, total, bucket int64, depth uint32, key func(*T) string) (*spill[T], error) {
	dir, err := os.MkdirTemp(dir, "spill-")
	if err != nil {
		return nil, fmt.Errorf("spread facts: %w", err)
	}
	n := int(min(total/bucket+1, maxFiles))
	s := &spill[T]{dir: dir, bucket: bucket, depth: depth, key: key, sizes: make([]int64, n)}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint(i))
		f, err := os.Create(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("spread facts: %w", err), s.close())
		}
		s.paths, s.files = append(s.paths, path), append(s.files, f)
		s.bufs = append(s.bufs, bufio.NewWriterSize(f, 32<<10))
	}
	return s, nil
}

func (s *spill[T]) add(v *T) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte{byte(s.depth)}) // a hash never fails
	_, _ = h.Write([]byte(s.key(v)))
	sum := h.Sum32()
	i := int((sum ^ sum>>16) % uint32(len(s.bufs)))
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("spread facts: %w", err)
	}
	s.sizes[i] += int64(len(line)) + 1
	if _, err := s.bufs[i].Write(append(line, '\n')); err != nil {
		return fmt.Errorf("spread facts: %w", err)
	}
	return nil
}

func (s *spill[T]) close() error {
	var errs []error
	for i, f := range s.files {
		errs = append(errs, s.bufs[i].Flush(), f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// each calls judge with the values of one file after the other, in the order
// in which they were added, and removes the files. A file that came out much
// too large is spread again.
func (s *spill[T]) each(judge func([]*T) error) error {
	if err := s.close(); err != nil {
		return fmt.Errorf("spread facts: %w", err)
	}
	for i, path := range s.paths {
		if s.sizes[i] == 0 {
			continue
		}
		if err := s.one(path, s.sizes[i], judge); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("spread facts: %w", err)
		}
	}
	return nil
}

func (s *spill[T]) one(path string, size int64, judge func([]*T) error) error {
	if size > 2*s.bucket && s.depth < maxDepth {
		again, err := newSpill(s.dir, 2*size, s.bucket, s.depth+1, s.key)
		if err != nil {
			return err
		}
		if err := read(path, again.add); err != nil {
			return errors.Join(err, again.close())
		}
		return again.each(judge)
	}
	var all []*T
	if err := read(path, func(v *T) error { all = append(all, v); return nil }); err != nil {
		return err
	}
	return judge(all)
}
