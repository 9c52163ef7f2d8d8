//go:build unix

package main

import "golang.org/x/sys/unix"

// noFollow makes the opening of a symbolic link fail.
const noFollow = unix.O_NOFOLLOW
