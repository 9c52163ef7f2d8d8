package daybooktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// FreeAddress returns these ports. Well-known services have lower ones. Linux, macOS and Windows give higher ones to
// outgoing connections, unless an administrator has configured another range.
const firstPort, ports = 12000, 18000

// tried is the last port that FreeAddress tried. Each process begins at a random port, so that two processes seldom try
// the same port at the same time.
var tried = struct {
	sync.Mutex
	port int
}{port: rand.IntN(ports)}

// FreeAddress returns an address of loopback, host:port, on which nothing listens. Outgoing connections do not take the
// port, so a server can listen on it later, and again after a restart. FreeAddress returns a different address each
// time, up to 18,000.
func FreeAddress() (string, error) {
	tried.Lock()
	defer tried.Unlock()
	for range ports {
		tried.port = (tried.port + 1) % ports
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+tried.port)
		if l, err := net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("no port of loopback is free")
}
