package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// errExposed refuses to listen where other machines can connect.
var errExposed = errors.New("other machines could connect, and the server has no access control: whoever connects can read, change and delete every job; " +
	"listen on 127.0.0.1, or give --insecure if the network itself keeps others out")

// listenAddress returns the address of --listen, with its name resolved. It refuses one that other machines can connect
// to, unless --insecure is given.
func (f *networkFlags) listenAddress() (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", f.listen)
	if err != nil {
		return nil, usageError{fmt.Errorf("--listen %q is not an address with a port, like 127.0.0.1:1717: %w", f.listen, err)}
	}
	if isExposed(address) && !f.insecure {
		return nil, usageError{fmt.Errorf("--listen %s is not a loopback address: %w", f.listen, errExposed)}
	}
	return address, nil
}

// isExposed reports whether other machines may be able to connect to an address.
func isExposed(address *net.TCPAddr) bool { return !address.IP.IsLoopback() }

// networkOf is the network to listen on: 0.0.0.0 stands for IPv4 alone, where "tcp" would take IPv6 as well.
func networkOf(address *net.TCPAddr) string {
	if address.IP.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

// serverFlag is the flag --server. It takes any text, since an error of the flag library would show a password in it;
// check refuses what is no address.
func serverFlag(cmd *cobra.Command, to *serverAddress) {
	*to = defaultServer
	cmd.Flags().Var(to, "server", "address of the server, as URL or as host:port; mdns: for the one on the local network")
}

// serverAddress is the address of a server as it was given: a URL, perhaps with a user and a path, or host:port.
type serverAddress string

func (a *serverAddress) Set(text string) error {
	*a = serverAddress(text)
	return nil
}
func (a *serverAddress) Type() string { return "address" }

// String is the address as people may see it, without user and password.
func (a *serverAddress) String() string { return redacted(string(*a)) }

// check returns the address as the URL that requests begin with. An address that begins with mdns: is looked up, once.
func (a *serverAddress) check(ctx context.Context) (string, error) {
	if strings.HasPrefix(string(*a), mdnsScheme) {
		url, err := discover(ctx, string(*a))
		if err != nil {
			return "", err
		}
		*a = serverAddress(url)
	}
	text := strings.TrimRight(string(*a), "/")
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", usageError{fmt.Errorf("--server %q is not the address of a server, like http://127.0.0.1:1717 or 127.0.0.1:1717", a.String())}
	}
	return text, nil
}

// redacted replaces the user and password in an address, also in one that is not a URL.
func redacted(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	scheme := ""
	if before, _, found := strings.Cut(address[:at], "://"); found {
		scheme = before + "://"
	}
	return scheme + "…" + address[at:]
}
