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

// errExposed is the refusal to listen on an address that other machines can connect to.
var errExposed = errors.New("other machines could connect, and the server has no access control: anybody who connects can read, change and delete all jobs; " +
	"listen on 127.0.0.1, or give --insecure if the network itself blocks other machines")

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

// networkOf returns the network to listen on. 0.0.0.0 means IPv4 only; with "tcp" it would include IPv6.
func networkOf(address *net.TCPAddr) string {
	if address.IP.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

// serverFlag adds the flag --server. It accepts any text: an error of the flag library would show a password in it.
// check refuses a text that is not an address.
func serverFlag(cmd *cobra.Command, to *serverAddress) {
	*to = defaultServer
	cmd.Flags().Var(to, "server", "address of the server: a URL, host:port, or mdns: to find it on the local network")
}

// serverAddress is the text of --server: a URL, which may have a user and a path, or host:port.
type serverAddress string

func (a *serverAddress) Set(text string) error {
	*a = serverAddress(text)
	return nil
}
func (a *serverAddress) Type() string { return "address" }

// String returns the address without user and password, so that it can be shown.
func (a *serverAddress) String() string { return redacted(string(*a)) }

// check returns the URL that all requests begin with. An address that begins with mdns: is looked up once.
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

// redacted replaces the user and password in an address, even if the address is not a URL.
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
