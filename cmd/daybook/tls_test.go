package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
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

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// servingTLS starts a server that speaks TLS. The test ends if it does not become ready.
func servingTLS(t *testing.T, a *testkit.Authority, args ...string) (s *server, cert, key string) {
	t.Helper()
	cert, key = a.Issue(t, "server")
	s = launch(t, command(append([]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--init", "--tls-cert", cert, "--tls-key", key}, args...)...))
	testkit.MustHold(t, strings.HasPrefix(s.url, "https://127.0.0.1:"), "the server printed", s.url)
	return s, cert, key
}

// over returns a client over TLS, with a certificate unless it is empty.
func over(pool *x509.CertPool, pairs ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: pairs}, MaxIdleConnsPerHost: 8}}
}

// TestServeTLSReload: a server uses new files at SIGHUP, which does not stop it, and also without a signal. It continues with
// the old ones if the new ones cannot be used. No request fails meanwhile, on kept and on new connections.
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
	testkit.Lacks(t, page, "daybook_tls_certificate_expires_timestamp_seconds 0\n", "daybook_tls_reload_failures_total 0\n", `daybook_tls_handshakes_total{result="done"} 0`)
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

// TestServeTLSClientRules: a client whose certificate meets a rule has a key, until the key is revoked, also in a stream. A key
// in the request counts instead.
func TestServeTLSClientRules(t *testing.T) {
	a := testkit.NewAuthority(t)
	s, _, _ := servingTLS(t, a, "--tls-client-ca", a.CA, "--tls-client-auth", "optional", "--tls-client-rule", "cn:nobody=boss,cn:mixer=worker-key", "--tls-client-rule", "dns:lost.example=gone")
	with := func(key string, pairs ...tls.Certificate) *client.Client {
		return client.New(s.url, client.Options{Key: key, TLS: &tls.Config{RootCAs: a.Pool, Certificates: pairs}})
	}
	boss := testkit.Must(with("").CreateKey(t.Context(), client.KeyRequest{Name: "boss", KeyLimits: client.KeyLimits{Roles: []string{"admin"}}}))(t)
	admin := with(boss.Text)
	testkit.Must(admin.CreateKey(t.Context(), client.KeyRequest{Name: "worker-key", KeyLimits: client.KeyLimits{Roles: []string{"worker"}}}))(t)
	mixer := with("", a.Pair(t, "mixer"))
	testkit.Equal(t, testkit.Must(mixer.Whoami(t.Context()))(t).Name, "worker-key")
	testkit.Equal(t, testkit.Must(with(boss.Text, a.Pair(t, "mixer")).Whoami(t.Context()))(t).Name, "boss")
	for name, c := range map[string]*client.Client{"no certificate": with(""), "no rule": with("", a.Pair(t, "other")), "a wrong key beside it": with(job.KeyText("boss", [job.SecretBytes]byte{}), a.Pair(t, "mixer"))} {
		_, err := c.Whoami(t.Context())
		testkit.Holds(t, errors.Is(err, client.ErrForbidden), name, err)
	}
	stream := testkit.Must(mixer.OpenStream(t.Context(), client.StreamOptions{RunnerID: "r"}))(t)
	defer stream.Close()
	testkit.NoError(t, admin.RevokeKey(t.Context(), "worker-key"))
	_, err := mixer.Whoami(t.Context())
	testkit.Failed(t, err, client.ErrForbidden)
	<-stream.Done()
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
		{"--tls-client-rule cn:a=b --tls-cert " + cert + " --tls-key " + key, terminal.ExitUsage, "--tls-client-rule needs --tls-client-ca"},
		{"--tls-client-rule cn=b --tls-client-ca " + a.CA + " --tls-cert " + cert + " --tls-key " + key, terminal.ExitUsage, "does not have the form FIELD:NAME=KEY"},
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

// TestCLIOverTLS: commands connect by TLS, with the files of flags, variables or a context. Streams do, too. If a connection
// cannot be made, the error says what to do.
func TestCLIOverTLS(t *testing.T) {
	a := testkit.NewAuthority(t)
	cert, key := a.Issue(t, "acme")
	s, _, _ := servingTLS(t, a, "--tls-client-ca", a.CA)
	address := strings.TrimPrefix(s.url, "https://") // files for TLS mean https
	flags := []string{"--server", address, "--tls-ca", a.CA, "--tls-cert", cert, "--tls-key", key}
	with := func(args ...string) string {
		t.Helper()
		return ok(t, append(args, flags...)...)
	}
	id := strings.Fields(with("create", "payload", "--type", "t"))[0]
	testkit.Contains(t, with("get", id), "payload")
	testkit.Contains(t, with("top", "--once"), "default/t")
	testkit.Contains(t, with("claim", "--runner-id", "r", "--type", "t"), id)
	with("complete", id, "--output", "done")
	testkit.Contains(t, ok(t, append(append([]string{"__complete", "queues", "delete"}, flags...), "")...), "default/t")
	execute(t, "a\nb\n", append([]string{"add", "--type", "wasi"}, flags...)...).ends(t, terminal.ExitOK)
	execute(t, "", append([]string{"work", "--until-idle", "10ms"}, flags...)...).ends(t, terminal.ExitOK, "the runner has ended")
	execute(t, "", append([]string{"logs", id}, flags...)...).ends(t, terminal.ExitNotFound)

	c := testkit.Must((&config.ServerAddress{}).Client(s.url, client.Options{TLS: nil}))(t)
	testkit.Failed(t, c.Ping(t.Context()), client.ErrUnavailable)
	c = client.New(s.url, client.Options{TLS: &tls.Config{RootCAs: a.Pool, Certificates: []tls.Certificate{a.Pair(t, "streamer")}}})
	stream := testkit.Must(c.OpenStream(t.Context(), client.StreamOptions{RunnerID: "r2"}))(t)
	defer stream.Close()
	got := make(chan *client.Claim, 1)
	testkit.Must(stream.Subscribe(t.Context(), client.SubscribeOptions{Types: []string{"streamed"}, Credit: 1, Take: func(c *client.Claim) { got <- c }}))(t)
	made := testkit.Must(stream.Client().Create(t.Context(), client.TextJob("streamed", "x")))(t)
	testkit.Equal(t, (<-got).Jobs[0].ID, made.ID)

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--server", s.url}, "pass --tls-ca FILE"},
		{[]string{"--server", "http://" + address}, "the server speaks TLS\nGive --server with https://"},
		{[]string{"--server", s.url, "--tls-ca", a.CA}, "give --tls-cert and --tls-key"},
		{[]string{"--server", s.url, "--tls-ca", testkit.NewAuthority(t).CA}, "pass --tls-ca FILE"},
	} {
		execute(t, "", append([]string{"queues"}, c.args...)...).ends(t, terminal.ExitNoAnswer, c.want)
	}
	execute(t, "", "work", "--server", s.url).ends(t, terminal.ExitNoAnswer, "pass --tls-ca FILE") // it does not wait
	execute(t, "", "queues", "--server", s.url, "--tls-cert", cert).ends(t, terminal.ExitUsage, "--tls-cert and --tls-key belong together")
	execute(t, "", "queues", "--server", s.url, "--tls-ca", "missing.pem").ends(t, terminal.ExitFile, "--tls-ca missing.pem: no such file")
	plain := serving(t, filepath.Join(t.TempDir(), "plain"))
	execute(t, "", "queues", "--server", strings.TrimPrefix(plain.url, "http://"), "--tls-ca", a.CA).ends(t, terminal.ExitNoAnswer, "The server does not speak TLS: give --server with http://")

	t.Chdir(filepath.Dir(a.CA)) // a context keeps absolute paths
	ok(t, "context", "add", "secure", address, "--tls-ca", filepath.Base(a.CA), "--tls-cert", filepath.Base(cert), "--tls-key", filepath.Base(key))
	defer ok(t, "context", "remove", "secure")
	t.Chdir(t.TempDir())
	testkit.Contains(t, ok(t, "get", id, "--context", "secure"), "payload")
	testkit.Contains(t, ok(t, "context", "list", "--json"), `"tls_ca":"`+a.CA+`"`)
	execute(t, "", "context", "add", "wrong", address, "--tls-ca", "missing.pem").ends(t, terminal.ExitFile, "missing.pem")

	t.Setenv("DAYBOOK_TLS_CA", a.CA)
	t.Setenv("DAYBOOK_CLIENT_TLS_CERT", cert)
	t.Setenv("DAYBOOK_CLIENT_TLS_KEY", key)
	testkit.Contains(t, ok(t, "get", id, "--server", s.url), "payload")
	testkit.Contains(t, ok(t, "config", "queues", "--toml"), "# tls-cert = '"+cert+"' # DAYBOOK_CLIENT_TLS_CERT", "tls-ca = '"+a.CA+"' # DAYBOOK_TLS_CA")
	t.Setenv("DAYBOOK_TLS_CA", "")
	t.Setenv("DAYBOOK_CLIENT_TLS_CERT", "")
	t.Setenv("DAYBOOK_CLIENT_TLS_KEY", "")
	file := filepath.Join(t.TempDir(), "daybook.toml") // of a server, whose certificate clients do not take for their own
	testkit.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "server = %q\ntls-ca = %q\ntls-cert = 'server.pem'\ntls-key = 'server.key'\n[create]\ntls-cert = %q\ntls-key = %q\n", s.url, a.CA, cert, key), 0o600))
	ok(t, "create", "x", "--config", file)
	execute(t, "", "queues", "--config", file).ends(t, terminal.ExitNoAnswer, "The server requires a certificate of its clients")
}
