//go:build linux || darwin

package bench

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes of the disk of a directory are free for users.
func freeSpace(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}

func sameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

func isWritable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
