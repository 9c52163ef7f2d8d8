package webhook

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// dialTimeout bounds how long a connection takes to be made, for all addresses of a name together.
const dialTimeout = 10 * time.Second

// refusedError is the refusal to dial an address.
type refusedError struct {
	address string
	what    string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the URL leads to %s, which is %s; to allow it, start the runner with --http-allow %[1]s", e.address, e.what)
}

// dialer makes the connections of an executor.
type dialer struct {
	allow *Allow
	free  net.Dialer // for names that the list has
	check net.Dialer // for all others: checks each address before it connects
}

func newDialer(allow *Allow) *dialer {
	d := &dialer{allow: allow, free: net.Dialer{Timeout: dialTimeout}}
	d.check = d.free
	d.check.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return d.permit(address)
	}
	return d
}

// permit returns nil if a socket may connect to an address, which is an IP address with a port.
func (d *dialer) permit(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedError{address, "no IP address with a port"}
	}
	if what := special(to.Addr()); what != "" && !d.allow.address(to) {
		return &refusedError{address, what}
	}
	return nil
}

// dial is the DialContext of the transport.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && d.allow.name(host, port) {
		return d.free.DialContext(ctx, network, address)
	}
	return d.check.DialContext(ctx, network, address)
}

// DialContext connects to an address as executors do: to a public one, or one that the list has. A nil list is empty.
func (a *Allow) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return newDialer(a).dial(ctx, network, address)
}

// CheckURL says why requests to a URL are refused whatever happens, or returns nil. It is for a handler that somebody may
// still correct. A name other than localhost is not looked up: what counts are its addresses when it is dialled.
func (s *Settings) CheckURL(text string) error {
	to, err := url.Parse(text)
	if err != nil {
		return err
	}
	host, port := to.Hostname(), to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	if s.Proxy != nil || s.Allow.name(host, port) { // a proxy makes the connection
		return nil
	}
	d := newDialer(s.Allow)
	if plainName(host) == "localhost" {
		if d.permit(net.JoinHostPort("127.0.0.1", port)) == nil || d.permit(net.JoinHostPort("::1", port)) == nil {
			return nil
		}
		return &refusedError{net.JoinHostPort(host, port), "a loopback address"}
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return nil // a name
	}
	return d.permit(net.JoinHostPort(host, port))
}
