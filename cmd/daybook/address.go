package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// errExposed is the refusal to listen on an address that other machines can connect to.
var errExposed = errors.New("other machines could connect, and the server has no access control: anybody who connects can read, change and delete all jobs; " +
	"listen on 127.0.0.1, or give --insecure if the network itself blocks other machines")

// listenAddress returns the address of --listen, with its name resolved. Without --insecure it refuses an address that
// other machines can connect to.
func (f *networkFlags) listenAddress() (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", f.listen)
	if err != nil {
		return nil, terminal.Usagef("--listen %q is not an address with a port, like 127.0.0.1:1717: %w", f.listen, err)
	}
	if isExposed(address) && !f.insecure {
		return nil, terminal.Usagef("--listen %s is not a loopback address: %w", f.listen, errExposed)
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

// serverFlag adds the flags --server and --context. --server accepts any text, because the flag library would show a
// password in its error. check refuses a text that is not an address.
func serverFlag(cmd *cobra.Command, to *serverAddress) {
	flags := cmd.Flags()
	flags.Var(to, "server", "address of the server: a URL, host:port, a host whose server listens on port 1717, or mdns: to find it on the local network")
	flags.StringVar(&to.context, "context", "", "name of a server that was stored with \"daybook context add\"")
	cmd.MarkFlagsMutuallyExclusive("server", "context")
	completeFlag(cmd, "context", contextNames)
}

// serverAddress selects the server of a command. It is one of: the text of --server, either a URL, which may have a
// user and a path, or host:port; the name of a context; or neither, which means the context in use, or the default.
type serverAddress struct {
	text, context string
	given         bool // as a text, which may be empty
}

func (a *serverAddress) Set(text string) error {
	a.text, a.given = text, true
	return nil
}
func (a *serverAddress) Type() string { return "address" }

// String returns the address without user and password, so that it can be shown.
func (a *serverAddress) String() string {
	if a.text == "" && a.context == "" && !a.given {
		return defaultServer
	}
	return redacted(a.text)
}

// resolve finds the address if --server was not given. It returns the name of the context that has it, or "".
func (a *serverAddress) resolve() (name string, err error) {
	if a.text != "" || a.given {
		return "", nil
	}
	all, err := readContexts()
	if err != nil {
		return "", err
	}
	if name = cmp.Or(a.context, all.Use); name == "" {
		a.text = defaultServer
		return "", nil
	}
	a.text, err = all.address(name)
	return name, err
}

// isDiscovered reports whether the server must be found on the local network.
func (a *serverAddress) isDiscovered() bool { return strings.HasPrefix(a.text, mdnsScheme) }

// check returns the base URL of all requests. It looks up an address that begins with mdns: once.
func (a *serverAddress) check(ctx context.Context) (string, error) {
	if _, err := a.resolve(); err != nil {
		return "", err
	}
	if a.isDiscovered() {
		url, err := discover(ctx, a.text)
		if err != nil {
			return "", err
		}
		a.text = url
	}
	text := a.text
	if !strings.Contains(text, "://") {
		text = "http://" + withPort(text)
	}
	text = strings.TrimRight(text, "/")
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", terminal.Usagef("%q is not the address of a server, like http://127.0.0.1:1717 or 127.0.0.1:1717", a.String())
	}
	return text, nil
}

// withPort adds the default port of a server to host:port without a port. It does not change a user and a path.
func withPort(address string) string {
	authority, _, _ := strings.Cut(address, "/")
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if i := strings.LastIndexByte(host, ':'); host == "" || i > strings.LastIndexByte(host, ']') {
		return address
	}
	_, port, _ := strings.Cut(defaultListen, ":")
	return authority + ":" + port + strings.TrimPrefix(address, authority)
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
