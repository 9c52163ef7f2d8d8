//go:build !linux

package ingest

import "syscall"

// fallocate returns ENOSYS, so that its caller writes zeros. F_PREALLOCATE of macOS does not serve instead: it reserves
// space beyond the end of a file and does not change the length, by which the ballast is recognized.
func fallocate(int, uint32, int64, int64) error { return syscall.ENOSYS }
