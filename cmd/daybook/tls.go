package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newTLS() *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "tls",
		Short: "Make certificates for trials",
		Long: `Make certificates, so that TLS can be tried. For real use, take the certificates of your own authority, or
of one that clients know already.`,
		Example: `  daybook tls self-signed`,
	}, newTLSSelfSigned())
}

// trialFor is how long the certificates of tls self-signed are valid.
const trialFor = 30 * 24 * time.Hour

func newTLSSelfSigned() *cobra.Command {
	var out string
	var hosts []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "self-signed",
		Short: "Make a certificate for trials",
		Long: `Make a certificate for the server, its key, and the certificate of an authority that has signed it, and print
the commands that use them. The files are server.pem, server-key.pem and ca.pem. The command never replaces
a file.

The certificate is valid for thirty days, for localhost, 127.0.0.1, ::1, the name of this machine, and the
names and addresses of --host. Nobody keeps the key of the authority, so it cannot sign anything else.`,
		Example: `  daybook tls self-signed
  daybook tls self-signed --out /etc/daybook/tls --host queue.example --host 10.0.0.1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := trialNames(hosts)
			made, err := makeTrial(out, names, time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return printLines(cmd.OutOrStdout(), []trialFiles{made})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "made %s, %s and %s, valid until %s\ndaybook serve --tls-cert %s --tls-key %s\ndaybook queues --server https://localhost:1717 --tls-ca %s\n",
				made.CA, made.Cert, made.Key, made.Expires.Format(time.DateOnly), made.Cert, made.Key, made.CA)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "daybook-tls", "directory for the files; it is created if it does not exist")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "more names or addresses of the server")
	remote.JSONFlag(cmd, &asJSON)
	cobra.CheckErr(cmd.MarkFlagDirname("out"))
	return cmd
}

// trialNames returns the names and addresses that a server on this machine has.
func trialNames(more []string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil { // a machine may have no name
		names = append(names, host)
	}
	names = append(names, more...)
	slices.Sort(names)
	return slices.Compact(names)
}

// trialFiles is the JSON output of tls self-signed.
type trialFiles struct {
	CA      string    `json:"ca"`
	Cert    string    `json:"cert"`
	Key     string    `json:"key"`
	Names   []string  `json:"names"`
	Expires time.Time `json:"expires"`
}

// makeTrial writes the files.
func makeTrial(dir string, names []string, now time.Time) (made trialFiles, err error) {
	made = trialFiles{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server-key.pem"),
		Names: names, Expires: now.Add(trialFor).UTC().Truncate(time.Second),
	}
	for _, path := range []string{made.CA, made.Cert, made.Key} { // before any of them is written
		if _, err := os.Lstat(path); err == nil {
			return made, fmt.Errorf("%w; give another --out, or remove the file", &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist})
		}
	}
	authority := x509.Certificate{
		Subject:   pkix.Name{CommonName: "Daybook trial authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: made.Expires, // an hour, because the clocks of clients may differ
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := x509.Certificate{
		Subject:   pkix.Name{CommonName: "Daybook trial server"},
		NotBefore: authority.NotBefore, NotAfter: made.Expires,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, name)
		}
	}
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return made, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return made, err
	}
	for _, c := range []*x509.Certificate{&authority, &server} {
		if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
			return made, err
		}
	}
	signed, err := x509.CreateCertificate(rand.Reader, &authority, &authority, &signing.PublicKey, signing)
	if err != nil {
		return made, err
	}
	cert, err := x509.CreateCertificate(rand.Reader, &server, &authority, &key.PublicKey, signing)
	if err != nil {
		return made, fmt.Errorf("make a certificate for %q: %w", names, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return made, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return made, err
	}
	return made, errors.Join(
		writeNew(made.CA, "CERTIFICATE", signed, 0o644), writeNew(made.Cert, "CERTIFICATE", cert, 0o644), writeNew(made.Key, "PRIVATE KEY", private, 0o600))
}

// writeNew writes a file in PEM that must not exist.
func writeNew(path, kind string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: content}), f.Close())
}
