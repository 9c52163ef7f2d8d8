//go:build !linux

package diskspace

import "syscall"

// fallocate returns ENOSYS, so that its caller writes zeros. F_PREALLOCATE of macOS cannot replace it: it reserves space
// beyond the end of a file without changing the length, by which the ballast is recognized.
func fallocate(int, uint32, int64, int64) error { return syscall.ENOSYS }
