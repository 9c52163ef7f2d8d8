package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/client"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// DefaultServer is the server of commands if none is given and no context is in use.
const DefaultServer = "http://" + DefaultListen

// ServerFlag adds the flags --server and --context. --server accepts any text, because the flag library would show a
// password in its error. URL refuses a text that is not an address.
func ServerFlag(cmd *cobra.Command, to *ServerAddress) {
	flags := cmd.Flags()
	flags.Var(to, "server", "address of the server: a URL, host:port, a host whose server listens on port 1717, or mdns: to find it on the local network; several nodes of a cluster are separated by commas")
	flags.StringVar(&to.context, "context", "", "name of a server that was stored with \"daybook context add\"")
	flags.StringVar(&to.keyFile, "key-file", "", "file with the key that the server requires (default: the key in the variable DAYBOOK_KEY)")
	to.keyFlag, to.warnings = flags.Lookup("key-file"), cmd.ErrOrStderr
	to.tls.Flags(flags)
	cmd.MarkFlagsMutuallyExclusive("server", "context")
	CompleteFlag(cmd, "context", ContextNames)
}

// ServerAddress selects the server of a command. It is one of: the text of --server, either a URL, which may have a
// user and a path, or host:port; the name of a context; or neither, which means the context in use, or the default.
type ServerAddress struct {
	text, context string
	given         bool // as a text, which may be empty
	keyFile       string
	keyFlag       *pflag.Flag      // of keyFile
	warnings      func() io.Writer // standard error of the command
	warned        bool             // that others can read the file with the key
	tls           ServerTLS
	http          *http.Client // made by HTTP

	encrypts       bool // the command has EncryptionFlag
	encryptKeyFile string
	codec          client.Codec // made by Codec
}

func (a *ServerAddress) Set(text string) error {
	a.text, a.given = text, true
	return nil
}
func (a *ServerAddress) Type() string { return "address" }

// String returns the address without user and password, so that it can be shown.
func (a *ServerAddress) String() string {
	if a.text == "" && a.context == "" && !a.given {
		return a.defaultServer()
	}
	return Redacted(a.text)
}

// resolve finds the address if --server was not given. It returns the name of the context that has it, or "".
func (a *ServerAddress) resolve() (name string, err error) {
	if a.text != "" || a.given {
		return "", nil
	}
	all, err := ReadContexts()
	if err != nil {
		return "", err
	}
	if name = cmp.Or(a.context, all.Use); name == "" {
		a.text = a.defaultServer()
		return "", nil
	}
	if a.text, err = all.Address(name); err == nil {
		a.tls.fill(all.List[name].ServerTLS)
		a.keyFile = cmp.Or(a.keyFile, all.List[name].KeyFile)
		a.encryptKeyFile = cmp.Or(a.encryptKeyFile, all.List[name].EncryptKeyFile)
	}
	return name, err
}

// defaultServer is the server if none is given. Files for TLS mean that it speaks TLS.
func (a *ServerAddress) defaultServer() string {
	if a.tls.given() {
		return "https://" + DefaultListen
	}
	return DefaultServer
}

// URL returns the base URL of all requests, or of those to each node of a cluster, separated by commas. It looks up an address
// that begins with mdns: once.
func (a *ServerAddress) URL(ctx context.Context) (string, error) {
	if _, err := a.resolve(); err != nil {
		return "", err
	}
	if strings.HasPrefix(a.text, mdnsScheme) {
		url, err := discover(ctx, a.text)
		if err != nil {
			return "", err
		}
		a.text = url
	}
	scheme := "http://"
	if a.tls.given() {
		scheme = "https://"
	}
	return baseURLs(a.text, scheme)
}

// baseURLs is baseURL for addresses that are separated by commas.
func baseURLs(addresses, scheme string) (string, error) {
	var urls []string
	for address := range strings.SplitSeq(addresses, ",") {
		one, err := baseURL(strings.TrimSpace(address), scheme)
		if err != nil {
			return "", err
		}
		urls = append(urls, one)
	}
	return strings.Join(urls, ","), nil
}

// baseURL returns the base URL of all requests to the server at an address, which has the scheme if it names none, or an error
// without its password.
func baseURL(address, scheme string) (string, error) {
	text := address
	if !strings.Contains(text, "://") {
		text = scheme + withPort(text)
	}
	text = strings.TrimRight(text, "/")
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", terminal.Usagef("%q is not the address of a server, like http://127.0.0.1:1717 or 127.0.0.1:1717", Redacted(address))
	}
	return text, nil
}

// CheckServer refuses a text that is not the address of a server. The server need not run.
func CheckServer(address string) error {
	if address == "" {
		return terminal.Usagef("the address is empty")
	}
	if strings.HasPrefix(address, mdnsScheme) {
		return nil
	}
	_, err := baseURLs(address, "http://")
	return err
}

// withPort adds the default port of a server to host:port without a port. It does not change a user and a path.
func withPort(address string) string {
	authority, _, _ := strings.Cut(address, "/")
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if i := strings.LastIndexByte(host, ':'); host == "" || i > strings.LastIndexByte(host, ']') {
		return address
	}
	_, port, _ := strings.Cut(DefaultListen, ":")
	return authority + ":" + port + strings.TrimPrefix(address, authority)
}

// Redacted replaces the user and password in each of the addresses that are separated by commas, even if they are not URLs.
func Redacted(addresses string) string {
	list := strings.Split(addresses, ",")
	for i, address := range list {
		list[i] = redacted(address)
	}
	return strings.Join(list, ",")
}

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

// ErrNoServer means that no server answered.
var ErrNoServer = errors.New("no server answered on the local network; start one with --listen on an address that other machines can connect to, since only such a server announces itself")

const mdnsScheme = "mdns:"

// discover returns the URL of the server for an address of the form mdns: or mdns:ID.
func discover(ctx context.Context, address string) (string, error) {
	id := strings.TrimPrefix(address, mdnsScheme)
	found, err := client.Discover(ctx, client.DiscoverOptions{})
	if err != nil {
		return "", err
	}
	var urls []string
	var ids []string
	for _, f := range found {
		if id == "" || f.ID == strings.ToLower(id) {
			urls, ids = append(urls, f.URL), append(ids, f.ID+" at "+f.URL)
		}
	}
	switch {
	case len(found) == 0:
		return "", ErrNoServer
	case len(urls) == 0:
		return "", fmt.Errorf("none of the %d servers that answered has the id %q; `daybook discover` lists them", len(found), id)
	case len(urls) > 1:
		return "", terminal.Usagef("%d servers answered; name one, as in --server mdns:%s: %s", len(urls), found[0].ID, strings.Join(ids, ", "))
	}
	return urls[0], nil
}
