//go:build linux || darwin

package serve

import "golang.org/x/sys/unix"

// fileLimit returns how many files this process may have open.
func fileLimit() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}
