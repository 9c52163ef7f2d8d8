//go:build !linux && !windows

package powerfs

import "golang.org/x/sys/unix"

// unmount unmounts a file system, even if somebody still has a file open.
func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_FORCE) }
