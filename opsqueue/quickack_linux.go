package opsqueue

import "golang.org/x/sys/unix"

// quickAck sends the acknowledgement that is due, and lets the next ones be sent without a delay.
func quickAck(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // without it the connection is slow and right
}
