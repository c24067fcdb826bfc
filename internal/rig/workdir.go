package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	workdirPrefix = "ax-kafka-rig-"
	// A directory that is being made has no locked file in it yet, so it has
	// another name, which sweep leaves alone until it must be abandoned.
	unfinishedPrefix = "ax-kafka-new-"
	unfinishedAge    = time.Hour

	liveFile = "live.lock"
)

// workdir is a temporary directory whose live.lock is locked for as long as
// this process lives. The kernel drops the lock even after kill -9.
type workdir struct {
	path string
	lock *os.File
}

// newWorkdir makes a directory in parent. On this occasion it removes those
// that dead rigs have left there.
func newWorkdir(parent string) (*workdir, error) {
	sweep(parent)
	tmp, err := os.MkdirTemp(parent, unfinishedPrefix)
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	w, err := claim(tmp)
	if err != nil {
		os.RemoveAll(tmp)
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	return w, nil
}

// claim locks the directory tmp and then gives it its final name, in this order:
// under that name an unlocked one counts as abandoned.
func claim(tmp string) (*workdir, error) {
	lock, err := os.OpenFile(filepath.Join(tmp, liveFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	dir, base := filepath.Split(tmp)
	path := filepath.Join(dir, workdirPrefix+strings.TrimPrefix(base, unfinishedPrefix))
	if err := os.Rename(tmp, path); err != nil {
		lock.Close()
		return nil, err
	}
	return &workdir{path: path, lock: lock}, nil
}

func (w *workdir) remove() error {
	defer w.lock.Close() // last, so that no sweep works on it at the same time
	return removeTree(w.path)
}

// removeTree removes a data directory, and ends what is mounted there.
func removeTree(dir string) error {
	unmountBelow(dir)
	return os.RemoveAll(dir)
}

// sweep removes the directories of dead rigs as far as it can: other users' are
// none of its business.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, workdirPrefix+"*"))
	for _, dir := range dirs {
		if f, err := os.OpenFile(filepath.Join(dir, liveFile), os.O_RDWR, 0); err == nil {
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				_ = removeTree(dir)
			}
			f.Close()
		} else if os.IsNotExist(err) {
			// The lock goes before the rest when a removal is cut short.
			_ = removeTree(dir)
		}
	}
	dirs, _ = filepath.Glob(filepath.Join(parent, unfinishedPrefix+"*"))
	for _, dir := range dirs {
		if st, err := os.Stat(dir); err == nil && time.Since(st.ModTime()) > unfinishedAge {
			os.RemoveAll(dir)
		}
	}
}
