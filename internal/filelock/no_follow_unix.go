//go:build unix

package filelock

import "golang.org/x/sys/unix"

// noFollow makes the opening of a symbolic link fail.
const noFollow = unix.O_NOFOLLOW
