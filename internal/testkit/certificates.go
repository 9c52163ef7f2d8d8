package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for tests. They are valid for an hour.
type Authority struct {
	CA   string // the file with its certificate
	Pool *x509.CertPool
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority whose files are deleted with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir(), Pool: x509.NewCertPool()}
	a.CA, a.key = filepath.Join(a.dir, "ca.pem"), Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := Must(x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key))(t)
	a.Pool.AddCert(Must(x509.ParseCertificate(der))(t))
	writePEM(t, a.CA, "CERTIFICATE", der)
	return a
}

// Issue writes a certificate for 127.0.0.1 and localhost with this common name, for either end of a connection, and its key.
// It returns the paths of both files.
func (a *Authority) Issue(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	key := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", Must(x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key))(t))
	writePEM(t, keyFile, "PRIVATE KEY", Must(x509.MarshalPKCS8PrivateKey(key))(t))
	return certFile, keyFile
}

// Pair is Issue for a test that needs the contents of the files.
func (a *Authority) Pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	return Must(tls.LoadX509KeyPair(a.Issue(t, name)))(t)
}

func writePEM(t testing.TB, path, kind string, content []byte) {
	t.Helper()
	NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
}
