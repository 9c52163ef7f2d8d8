package cluster

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence lets a connection break when the other end has confirmed nothing for silence. Without it, the kernel waits
// longer after each attempt to send, so a node would be cut off for seconds after the network is back.
func limitSilence(conn net.Conn) error {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	c, is := conn.(syscall.Conn)
	if !is {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(err, failed)
}
