package config

import (
	"errors"
	"net"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// DefaultListen is the address on which a server listens.
const DefaultListen = "127.0.0.1:1717"

// ErrExposed is the refusal to listen on an address that other machines can connect to.
var ErrExposed = errors.New("other machines could connect; listen on 127.0.0.1, or give --insecure if the network itself blocks other machines")

// ListenAddress returns the address of --listen, with its name resolved. Without --insecure it refuses an address that
// other machines can connect to, with ErrExposed.
func ListenAddress(listen string, insecure bool) (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, terminal.Usagef("--listen %q is not an address with a port, like 127.0.0.1:1717: %w", listen, err)
	}
	if IsExposed(address) && !insecure {
		return nil, terminal.Usagef("--listen %s is not a loopback address: %w", listen, ErrExposed)
	}
	return address, nil
}

// IsExposed reports whether other machines may be able to connect to an address.
func IsExposed(address *net.TCPAddr) bool { return !address.IP.IsLoopback() }

// NetworkOf returns the network to listen on. 0.0.0.0 means IPv4 only; with "tcp" it would include IPv6.
func NetworkOf(address *net.TCPAddr) string {
	if address.IP.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}
