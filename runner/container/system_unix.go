//go:build linux || darwin

package container

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openDirectory opens a directory inside another. It returns an error for anything else without blocking: a container can
// put a pipe in its place, and opening a pipe blocks.
func openDirectory(in *os.Root, name string) (*os.Root, error) {
	f, err := in.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return os.OpenRoot(fmt.Sprintf("/dev/fd/%d", f.Fd())) // exactly this directory
}

// processLimit returns how many processes a user of this machine may have, at most 32768. Podman lowers its own limit to
// the number of process ids of the machine, which is at least that many.
func processLimit() (int64, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		return 0, false
	}
	return int64(min(limit.Max, 32768)), true
}

// diskBytes returns the disk space of a file.
func diskBytes(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}

// ownSocket returns an error if a socket does not belong to the runner's user. A rootless engine runs containers as its
// own user, who could not use another user's workspaces.
func ownSocket(address string) error {
	info, err := os.Stat(strings.TrimPrefix(address, "unix://"))
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Getuid() {
		return fmt.Errorf("it belongs to the user %d, and the runner is the user %d; both must be the same", s.Uid, os.Getuid())
	}
	return nil
}

// safeOwner returns an error if other users could change a directory.
func safeOwner(info os.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Getuid() {
		return fmt.Errorf("it belongs to the user %d, and the runner is the user %d", s.Uid, os.Getuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("its mode is %v, so that others may write to it", info.Mode().Perm())
	}
	return nil
}
