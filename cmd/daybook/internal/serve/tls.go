package serve

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cmd/daybook/internal/certificates"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// tlsFlags make the server speak TLS to its clients.
type tlsFlags struct {
	tlsCert, tlsKey, tlsMin     string
	tlsClientCA, tlsClientNeeds string
	tlsClientRules              []string
}

// The values of --tls-client-auth.
const (
	clientRequired = "required"
	clientOptional = "optional"
)

// tlsVersions are the values of --tls-min-version.
var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func (f *tlsFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.tlsCert, "tls-cert", "", "file with the certificate of the server, which then speaks TLS only; new files are used within ten seconds, or at SIGHUP (default: no TLS)")
	flags.StringVar(&f.tlsKey, "tls-key", "", "file with the key of --tls-cert, which other users must not be able to read")
	flags.StringVar(&f.tlsMin, "tls-min-version", "1.3", "oldest version of TLS that clients may speak: 1.3 or 1.2")
	flags.StringVar(&f.tlsClientCA, "tls-client-ca", "", "file with the certificates that sign those of clients (default: clients need no certificates)")
	flags.StringVar(&f.tlsClientNeeds, "tls-client-auth", clientRequired, "with --tls-client-ca: whether each client needs a certificate, required or optional")
	flags.StringSliceVar(&f.tlsClientRules, "tls-client-rule", nil, "with --tls-client-ca: for which key the certificate of a client stands, as FIELD:NAME=KEY with one of the fields cn, dns, email and uri; the first rule that it meets counts (default: certificates stand for no keys)")
}

// rules returns the rules of --tls-client-rule.
func (f *tlsFlags) rules() (list []api.CertificateRule, err error) {
	for _, text := range f.tlsClientRules {
		r, err := api.ParseCertificateRule(text)
		if err != nil {
			return nil, terminal.Usagef("--tls-client-rule: %w", err)
		}
		list = append(list, r)
	}
	return list, nil
}

// speaksTLS reports whether clients connect by TLS.
func (f *tlsFlags) speaksTLS() bool { return f.tlsCert != "" }

// scheme is the scheme of the server's URL.
func (f *tlsFlags) scheme() string {
	if f.speaksTLS() {
		return "https"
	}
	return "http"
}

func (f *tlsFlags) files() certificates.Files {
	return certificates.Files{
		Cert: certificates.File{Flag: "tls-cert", Path: f.tlsCert}, Key: certificates.File{Flag: "tls-key", Path: f.tlsKey},
		CA: certificates.File{Flag: "tls-client-ca", Path: f.tlsClientCA},
	}
}

// check refuses settings that do not fit together, and files that cannot be used.
func (f *tlsFlags) check() error {
	switch {
	case tlsVersions[f.tlsMin] == 0:
		return terminal.Usagef("--tls-min-version %q is not one of 1.3, 1.2", f.tlsMin)
	case f.tlsClientNeeds != clientRequired && f.tlsClientNeeds != clientOptional:
		return terminal.Usagef("--tls-client-auth %q is not one of %s, %s", f.tlsClientNeeds, clientRequired, clientOptional)
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return terminal.Usagef("--tls-cert and --tls-key belong together")
	case f.tlsClientCA != "" && !f.speaksTLS():
		return terminal.Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	case f.tlsClientNeeds == clientOptional && f.tlsClientCA == "":
		return terminal.Usagef("--tls-client-auth %s needs --tls-client-ca", clientOptional)
	case len(f.tlsClientRules) > 0 && f.tlsClientCA == "":
		return terminal.Usagef("--tls-client-rule needs --tls-client-ca")
	}
	if _, err := f.rules(); err != nil || !f.speaksTLS() {
		return err
	}
	_, err := f.files().Load()
	return err
}

// settings returns the settings of TLS with the contents of the files.
func (f *tlsFlags) settings(l certificates.Loaded) *tls.Config {
	c := &tls.Config{MinVersion: tlsVersions[f.tlsMin], Certificates: []tls.Certificate{*l.Pair}}
	if l.CA != nil {
		if c.ClientCAs, c.ClientAuth = l.CA, tls.RequireAndVerifyClientCert; f.tlsClientNeeds == clientOptional {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return c
}

// stopSignals are the signals that stop the server. With certificates or issuers in files, SIGHUP does not: it means that there
// are new files, as for other servers.
func (f *Flags) stopSignals() []os.Signal {
	signals := terminal.StopSignals()
	if f.speaksTLS() || f.clusterFlags.secure() || f.oidcFile != "" {
		signals = slices.DeleteFunc(signals, func(s os.Signal) bool { return s == syscall.SIGHUP })
	}
	return signals
}

// startTLS reads the files of TLS, for clients and for other nodes, and watches them until end is called.
func (s *serverRun) startTLS(ctx context.Context) (end func(), err error) {
	var watched []*certificates.Watched
	log := slog.New(zerolog.NewSlogHandler(s.log))
	if s.speaksTLS() {
		w, err := certificates.Watch(s.tlsFlags.files(), s.tlsFlags.settings, log)
		if err != nil {
			return nil, err
		}
		if s.options.Certificates, err = s.rules(); err != nil {
			return nil, err
		}
		s.options.TLS = &api.TLS{Config: w.Config, Expires: w.Expires, Failures: w.Failures}
		watched = append(watched, w)
	}
	if s.clusterFlags.secure() {
		if s.nodesTLS, err = certificates.Watch(s.clusterFlags.files(), nodeSettings, log); err != nil {
			return nil, err
		}
		watched = append(watched, s.nodesTLS)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // outstanding requests may open connections until the end
	var running sync.WaitGroup
	for _, w := range watched {
		hangUps := make(chan os.Signal, 1)
		signal.Notify(hangUps, syscall.SIGHUP)
		running.Go(func() {
			defer signal.Stop(hangUps)
			w.Run(ctx, hangUps)
		})
	}
	return func() {
		stop()
		running.Wait()
	}, nil
}
