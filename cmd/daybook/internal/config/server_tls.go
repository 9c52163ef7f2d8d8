package config

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/certificates"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// ServerTLS names the files for connections to a server by TLS. A context stores them, too.
type ServerTLS struct {
	CA   string `toml:"tls-ca,omitempty" json:"tls_ca,omitempty"`
	Cert string `toml:"tls-cert,omitempty" json:"tls_cert,omitempty"`
	Key  string `toml:"tls-key,omitempty" json:"tls_key,omitempty"`
}

// Flags defines the flags.
func (t *ServerTLS) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&t.CA, "tls-ca", "", "file with the certificates that sign the server's (default: those that the system trusts)")
	flags.StringVar(&t.Cert, "tls-cert", "", "file with a certificate of this client, if the server requires one")
	flags.StringVar(&t.Key, "tls-key", "", "file with the key of this client's certificate")
}

// ClientPair are the flags of ServerTLS that serve has, too, with another meaning. So their variables have other names, and the
// top level of a file does not set them.
var ClientPair = []string{"tls-cert", "tls-key"}

func (t *ServerTLS) given() bool { return *t != ServerTLS{} }

// fill sets the values that were not given to those of a context. A certificate and its key are one value.
func (t *ServerTLS) fill(from ServerTLS) {
	t.CA = cmp.Or(t.CA, from.CA)
	if t.Cert == "" && t.Key == "" {
		t.Cert, t.Key = from.Cert, from.Key
	}
}

// Absolute makes the paths absolute, and fails if the files cannot be used.
func (t *ServerTLS) Absolute() error {
	for _, path := range []*string{&t.CA, &t.Cert, &t.Key} {
		if *path != "" {
			whole, err := filepath.Abs(*path)
			if err != nil {
				return err
			}
			*path = whole
		}
	}
	_, err := t.config()
	return err
}

// config returns the settings of TLS, or nil if there are none. Each new connection has the client's certificate that the files
// have by then, because a runner lives longer than a certificate.
func (t *ServerTLS) config() (*tls.Config, error) {
	if !t.given() {
		return nil, nil
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, terminal.Usagef("--tls-cert and --tls-key belong together")
	}
	files := certificates.Files{
		CA:   certificates.File{Flag: "tls-ca", Path: t.CA},
		Cert: certificates.File{Flag: "tls-cert", Path: t.Cert}, Key: certificates.File{Flag: "tls-key", Path: t.Key},
	}
	w, err := certificates.Watch(files, func(l certificates.Loaded) *tls.Config {
		c := &tls.Config{RootCAs: l.CA}
		if l.Pair != nil {
			c.Certificates = []tls.Certificate{*l.Pair}
		}
		return c
	}, slog.New(slog.DiscardHandler))
	if err != nil || t.Cert == "" {
		if err != nil {
			return nil, err
		}
		return w.Config(), nil
	}
	return &tls.Config{RootCAs: w.Config().RootCAs, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		w.Look(false)
		return &w.Config().Certificates[0], nil
	}}, nil
}

// TLS returns the settings for connections to the server by TLS, or nil if there are none.
func (a *ServerAddress) TLS() (*tls.Config, error) {
	if _, err := a.resolve(); err != nil {
		return nil, err
	}
	return a.tls.config()
}

// Options returns options of a client with the settings of TLS, the key for the server and the codec.
func (a *ServerAddress) Options(o client.Options) (_ client.Options, err error) {
	if o.TLS, err = a.TLS(); err == nil {
		o.Key, err = a.Key()
	}
	if path := a.keyPath(); err == nil && path != "" {
		o.KeySource = freshKey(path, o.Key)
	}
	if err == nil {
		o.Codec, err = a.Codec()
	}
	return o, err
}

// Client returns a client of the server at url, which URL has returned.
func (a *ServerAddress) Client(url string, o client.Options) (*client.Client, error) {
	o, err := a.Options(o)
	if err != nil {
		return nil, err
	}
	return client.New(url, o), nil
}

// HTTP returns an HTTP client for the server. All calls share its connections.
func (a *ServerAddress) HTTP() (*http.Client, error) {
	if a.http != nil {
		return a.http, nil
	}
	config, err := a.TLS()
	if err != nil {
		return nil, err
	}
	a.http = &http.Client{}
	if config != nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = config
		a.http.Transport = t
	}
	return a.http, nil
}
