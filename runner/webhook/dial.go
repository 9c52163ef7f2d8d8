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

// dialTimeout bounds the time to connect, for all addresses of a name together.
const dialTimeout = 10 * time.Second

// refusedError is returned by dials to addresses that are not allowed.
type refusedError struct {
	address string
	what    string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the URL leads to %s, which is %s; to allow it, start the runner with --http-allow %[1]s", e.address, e.what)
}

// dialer makes an executor's connections.
type dialer struct {
	allow *Allow
	free  net.Dialer // for names in the list
	check net.Dialer // for all other names: checks each address before it connects
}

func newDialer(allow *Allow) *dialer {
	d := &dialer{allow: allow, free: net.Dialer{Timeout: dialTimeout}}
	d.check = d.free
	d.check.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return d.permit(address)
	}
	return d
}

// permit returns nil if a socket may connect to an address, and otherwise a *refusedError. The address is an IP address
// with a port.
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

// dial is the transport's DialContext.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && d.allow.name(host, port) {
		return d.free.DialContext(ctx, network, address)
	}
	return d.check.DialContext(ctx, network, address)
}

// DialContext connects as executors do: only to public addresses and to addresses in the list. A nil list is empty.
func (a *Allow) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return newDialer(a).dial(ctx, network, address)
}

// CheckURL returns an error if requests to a URL would always be refused, and otherwise nil. It reports the mistake
// while somebody can still correct the handler. It does not look up names other than localhost, because only the
// addresses at the time of a request count.
func (s *Settings) CheckURL(text string) error {
	to, err := url.Parse(text)
	if err != nil {
		return err
	}
	host, port := to.Hostname(), to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	if s.Proxy != nil || s.Allow.name(host, port) { // the proxy connects
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
