package powerfs

import "syscall"

// unmount unmounts a file system, even if somebody still has a file open.
func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
