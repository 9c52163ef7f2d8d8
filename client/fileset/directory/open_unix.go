//go:build unix

package directory

import "syscall"

// openFlags make an open fail for a symbolic link, and not block for a named pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
