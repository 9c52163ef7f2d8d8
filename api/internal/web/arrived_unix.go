//go:build unix

package web

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// arrived reports whether the kernel has received bytes from the client that the server has not read yet.
func arrived(c net.Conn) (yes bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(list, 0)
		yes = err == nil && n > 0
	})
	return yes && err == nil
}
