package opsqueue

import "golang.org/x/sys/unix"

// quickAck sends the pending acknowledgement, and disables the delay for the next ones.
func quickAck(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // if this fails, the connection is slow but works
}
