package blob

import "syscall"

func mountTmpfs(dir, size string) error {
	return syscall.Mount("daybook-blob", dir, "tmpfs", 0, "size="+size)
}

func remountReadOnly(dir string) error {
	return syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
