package blob

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// syncFS makes all files of a file system durable.
func syncFS(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// canTrustSyncFS reports whether syncfs returns the errors of all earlier writes in the file system of a directory.
func canTrustSyncFS(dir string) bool {
	var fs unix.Statfs_t
	var kernel unix.Utsname
	if unix.Statfs(dir, &fs) != nil || unix.Uname(&kernel) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(kernel.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	known := []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}
	return (major > 5 || major == 5 && minor >= 8) && slices.Contains(known, int64(fs.Type))
}

// startFlush makes the kernel begin to write a part of a file, so that a later fsync has less to do. It is only a hint:
// the fsync reports errors.
func startFlush(f *os.File, offset, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE) // see above
}
