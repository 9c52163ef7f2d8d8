package daybooktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports that FreeAddress returns: above those of well-known services, and below those that Linux, macOS and Windows
// give to outgoing connections.
const firstPort, ports = 12000, 18000

// tried is the last port of this process that FreeAddress tried. Processes begin at random ports, so that two that run at the same time
// seldom try the same one.
var tried = struct {
	sync.Mutex
	port int
}{port: rand.IntN(ports)}

// FreeAddress returns an address of loopback, host:port, to listen on. Nothing listens there. No outgoing connection takes
// the port, so a server can listen on it later, and again after a restart. It returns another address each time, up to
// 18,000.
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
