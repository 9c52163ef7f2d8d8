package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// servingTLS starts a server that speaks TLS. The test ends if it does not become ready.
func servingTLS(t *testing.T, a *testkit.Authority, args ...string) (s *server, cert, key string) {
	t.Helper()
	cert, key = a.Issue(t, "server")
	s = &server{
		Cmd: command(append([]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--init", "--tls-cert", cert, "--tls-key", key}, args...)...),
		log: &processLog{}, ended: make(chan error, 1),
	}
	s.Stderr = s.log
	out := testkit.Must(s.StdoutPipe())(t)
	testkit.NoError(t, s.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { s.ended <- s.Wait() }()
	t.Cleanup(func() {
		_ = s.Process.Kill() // the process may have ended
		s.ended <- <-s.ended
	})
	testkit.NoError(t, err, s.log)
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	testkit.MustHold(t, strings.HasPrefix(s.url, "https://127.0.0.1:"), "the server printed", line)
	return s, cert, key
}

// over returns a client over TLS, with a certificate unless it is empty.
func over(pool *x509.CertPool, pairs ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: pairs}, MaxIdleConnsPerHost: 8}}
}

// TestServeTLSReload: a server uses new files at SIGHUP, which does not stop it, and by itself. It continues with the old ones
// if the new ones cannot be used. No request fails meanwhile, on kept connections and on new ones.
func TestServeTLSReload(t *testing.T) {
	first, second, third := testkit.NewAuthority(t), testkit.NewAuthority(t), testkit.NewAuthority(t)
	s, cert, key := servingTLS(t, first)
	pool := first.Pool.Clone()
	for _, a := range []*testkit.Authority{second, third} {
		pool.AppendCertsFromPEM(testkit.Must(os.ReadFile(a.CA))(t))
	}
	replace := func(a *testkit.Authority) {
		t.Helper()
		newCert, newKey := a.Issue(t, "server")
		testkit.NoError(t, os.Rename(newKey, key)) // for a moment, the key is not the certificate's
		testkit.NoError(t, os.Rename(newCert, cert))
	}
	serves := func(a *testkit.Authority) bool {
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: a.Pool})
		if err != nil {
			return false
		}
		return c.Close() == nil
	}

	var stop atomic.Bool
	var requests atomic.Int64
	var load sync.WaitGroup
	for kept := range 4 {
		load.Go(func() {
			c := over(pool)
			c.Transport.(*http.Transport).DisableKeepAlives = kept%2 == 0
			for !stop.Load() {
				res, err := c.Get(s.url + "/ping")
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				if err != nil {
					t.Error("a request failed:", err)
					return
				}
				requests.Add(1)
			}
		})
	}
	ended := func() {
		stop.Store(true)
		load.Wait()
	}
	defer ended()

	replace(second)
	testkit.NoError(t, s.Process.Signal(syscall.SIGHUP))
	testkit.Eventually(t, "SIGHUP takes the new files", func() bool { return serves(second) })
	testkit.NoError(t, os.WriteFile(cert, []byte("no certificate\n"), 0o600))
	testkit.NoError(t, s.Process.Signal(syscall.SIGHUP))
	testkit.Eventually(t, "the bad file is logged", func() bool { return strings.Contains(s.log.String(), "the old ones remain in use") })
	testkit.Contains(t, s.log.String(), "--tls-cert "+cert, "failed to find any PEM data")
	testkit.Holds(t, serves(second), "a bad file ends the use of the old one", s.log)
	replace(third)
	testkit.Eventually(t, "the server finds the new files by itself", func() bool { return serves(third) })
	ended()
	testkit.Holds(t, requests.Load() > 100, "requests", requests.Load())

	res := testkit.Must(over(pool).Get(s.url + "/metrics"))(t)
	defer res.Body.Close()
	page := string(testkit.Must(io.ReadAll(res.Body))(t))
	testkit.Lacks(t, page, "daybook_tls_certificate_expires_seconds 0\n", "daybook_tls_reload_failures_total 0\n", `daybook_tls_handshakes_total{result="done"} 0`)
	testkit.Equal(t, s.end(t, syscall.SIGTERM), 0, s.log)
}

// TestServeTLSVersions: TLS 1.2 is refused, unless a setting allows it.
func TestServeTLSVersions(t *testing.T) {
	a := testkit.NewAuthority(t)
	old := &tls.Config{RootCAs: a.Pool, MaxVersion: tls.VersionTLS12}
	s, _, _ := servingTLS(t, a)
	testkit.Fails(tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), old))(t, "protocol version not supported")
	s, _, _ = servingTLS(t, a, "--tls-min-version", "1.2")
	c := testkit.Must(tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), old))(t)
	testkit.Equal(t, c.ConnectionState().Version, tls.VersionTLS12)
	testkit.NoError(t, c.Close())
}

// TestServeTLSClientCertificates: with --tls-client-ca, a client needs a certificate, or may have one.
func TestServeTLSClientCertificates(t *testing.T) {
	a, foreign := testkit.NewAuthority(t), testkit.NewAuthority(t)
	ours, theirs := a.Pair(t, "ours"), foreign.Pair(t, "theirs")
	for auth, without := range map[string]bool{"required": false, "optional": true} {
		s, _, _ := servingTLS(t, a, "--tls-client-ca", a.CA, "--tls-client-auth", auth)
		for name, c := range map[string]struct {
			client *http.Client
			served bool
		}{"ours": {over(a.Pool, ours), true}, "none": {over(a.Pool), without}, "theirs": {over(a.Pool, theirs), false}} {
			_, err := c.client.Get(s.url + "/ping")
			testkit.Equal(t, err == nil, c.served, auth, name, err)
			if !c.served {
				testkit.Failed(t, err, "remote error: tls: ", "certificate")
			}
		}
	}
}

// TestServeTLSRefuses: settings that do not fit together, and files that cannot be used, are refused before the server does
// anything.
func TestServeTLSRefuses(t *testing.T) {
	a := testkit.NewAuthority(t)
	cert, key := a.Issue(t, "server")
	_, other := a.Issue(t, "other")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--tls-cert " + cert, terminal.ExitUsage, "--tls-cert and --tls-key belong together"},
		{"--tls-key " + key, terminal.ExitUsage, "belong together"},
		{"--tls-client-ca " + a.CA, terminal.ExitUsage, "--tls-client-ca needs --tls-cert"},
		{"--tls-client-auth optional --tls-cert " + cert + " --tls-key " + key, terminal.ExitUsage, "--tls-client-auth optional needs --tls-client-ca"},
		{"--tls-client-auth perhaps", terminal.ExitUsage, `"perhaps" is not one of required, optional`},
		{"--tls-min-version 1.1", terminal.ExitUsage, `"1.1" is not one of 1.3, 1.2`},
		{"--tls-cert missing.pem --tls-key " + key, terminal.ExitFile, "--tls-cert missing.pem: no such file or directory; check the path, or make a certificate"},
		{"--tls-cert " + cert + " --tls-key " + other, terminal.ExitFile, "private key does not match"},
		{"--tls-cert " + cert + " --tls-key " + key + " --tls-client-ca " + key, terminal.ExitFile, "it has no certificate in PEM"},
	} {
		execute(t, "", append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data"), "--init"}, strings.Fields(c.args)...)...).ends(t, c.code, c.want)
	}
	if runtime.GOOS == "windows" {
		return
	}
	testkit.NoError(t, os.Chmod(key, 0o644))
	execute(t, "", "serve", "--data", filepath.Join(t.TempDir(), "data"), "--init", "--tls-cert", cert, "--tls-key", key).
		ends(t, terminal.ExitFile, "--tls-key "+key+": other users of this machine can read the key (mode 0644); run: chmod o= "+key)
}

// TestSelfSigned: the certificate is for the names of this machine and the given ones. No file is replaced.
func TestSelfSigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	out := ok(t, "tls", "self-signed", "--out", dir, "--host", "queue.example", "--host", "10.0.0.1")
	cert, key, ca := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"), filepath.Join(dir, "ca.pem")
	testkit.Contains(t, out, fmt.Sprintf("\ndaybook serve --tls-cert %s --tls-key %s\n", cert, key), "\ndaybook queues --server https://localhost:1717 --tls-ca "+ca+"\n")
	pair := testkit.Must(tls.LoadX509KeyPair(cert, key))(t)
	pool := x509.NewCertPool()
	testkit.Holds(t, pool.AppendCertsFromPEM(testkit.Must(os.ReadFile(ca))(t)), "no certificate in", ca)
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "queue.example", "10.0.0.1", testkit.Must(os.Hostname())(t)} {
		testkit.Must(pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}))(t)
	}
	if runtime.GOOS != "windows" {
		testkit.Equal(t, testkit.Must(os.Stat(key))(t).Mode().Perm(), 0o600)
	}
	before := string(testkit.Must(os.ReadFile(key))(t))
	testkit.NoError(t, os.Remove(ca))
	execute(t, "", "tls", "self-signed", "--out", dir).ends(t, terminal.ExitFile, cert+": file already exists; give another --out")
	testkit.Equal(t, string(testkit.Must(os.ReadFile(key))(t)), before)

	var made trialFiles
	testkit.NoError(t, json.Unmarshal([]byte(ok(t, "tls", "self-signed", "--json", "--out", t.TempDir())), &made))
	pair = testkit.Must(tls.LoadX509KeyPair(made.Cert, made.Key))(t)
	testkit.Holds(t, pair.Leaf.NotAfter.Equal(made.Expires), "expires", made)
}
