//go:build unix

package directory

import "syscall"

// openFlags make an open fail at a symbolic link, and return at once for a named pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
