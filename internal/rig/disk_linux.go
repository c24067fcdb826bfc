package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A node's disk that can be made full is a file system in memory, whose size
// can be changed while it is in use: to fill it takes no bytes.

// mountDisk puts an empty file system in the place of the directory.
func mountDisk(dir string) error {
	err := unix.Mount("ax-kafka-rig", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755")
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("mount %s: %w: only root may", dir, err)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// fillDisk makes the disk as small as what is on it.
func fillDisk(dir string) error {
	var err error
	for range 100 {
		var st unix.Statfs_t
		if err = unix.Statfs(dir, &st); err != nil {
			break
		}
		// Whoever writes in between makes it too small; the kernel says so.
		if err = resizeDisk(dir, fmt.Sprint((st.Blocks-st.Bfree)*uint64(st.Bsize))); !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	return nil
}

// freeDisk gives the disk the size that it had.
func freeDisk(dir string) error { return resizeDisk(dir, "50%") }

func resizeDisk(dir, size string) error {
	return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "size="+size)
}

// unmountBelow ends all mounts below the directory, also while processes that
// have just been killed still hold files there.
func unmountBelow(dir string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return // what it leaves shows where the directory is removed
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			if point := mountPath.Replace(fields[4]); strings.HasPrefix(point, dir+"/") {
				_ = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			}
		}
	}
}

// mountPath undoes what the kernel does to special characters of a path.
var mountPath = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
