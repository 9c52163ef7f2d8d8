//go:build unix

package check

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/testkit"
)

const site = "queue.example" // the name of the proxy on the page

// TestProxies: nginx and Caddy, with the settings of docs/how-to/proxies.md, pass on everything that clients use.
func TestProxies(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *proxied){"nginx": startNginx, "caddy": startCaddy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := installed(name)
			if program == "" {
				skip(t, "%s is not installed; `scripts/tools` installs it", name)
			}
			p := prepare(t, program)
			start(t, p)
			p.wait(t)
			for _, c := range []struct {
				what string
				test func(*proxied, *testing.T)
			}{
				{"a request without the password", (*proxied).refusesWithoutPassword},
				{"the commands of the page", (*proxied).runsCommands},
				{"long bodies", (*proxied).carriesLongBodies},
				{"an upload in parts", (*proxied).carriesUploads},
				{"an address with two slashes", (*proxied).keepsSlashes},
				{"a claim that waits", (*proxied).waits},
				{"a client that hangs up", (*proxied).reportsHangUps},
				{"results as they come", (*proxied).carriesResultsAtOnce},
				{"the page of the API", (*proxied).showsPage},
				{"quit", (*proxied).refusesQuit},
				{"a stream, and a restart of the server", (*proxied).carriesStream},
			} {
				t.Run(c.what, func(t *testing.T) { c.test(p, t) })
			}
		})
	}
}

// installed returns the path of a program, in bin or installed on the machine, or "".
func installed(name string) string {
	own, err := filepath.Abs("../../bin/" + name)
	if err == nil {
		if _, err = os.Stat(own); err == nil {
			return own
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// A proxied is a server with a proxy in front of it.
type proxied struct {
	page     *page
	program  string
	dir      string // for the files of the proxy
	address  string // of the proxy
	password string
	server   *daybooktest.Process
	http     *http.Client // resolves all names to the proxy
}

// block returns the text of the page's block that contains this text.
func (p *proxied) block(t *testing.T, has string) string {
	t.Helper()
	for _, b := range p.page.blocks {
		if strings.Contains(b.text, has) {
			return b.text
		}
	}
	t.Fatalf("%s has no block with %q", p.page.path, has)
	return ""
}

// prepare starts a server as the page says, and makes a certificate and the password file.
func prepare(t *testing.T, program string) *proxied {
	t.Helper()
	page := testkit.Must(readPage("../..", "docs/how-to/proxies.md"))(t)
	binary := testkit.Must(daybooktest.Binary())(t)
	p := &proxied{page: page, program: program, dir: t.TempDir(), address: testkit.Must(daybooktest.FreeAddress())(t)}
	args := strings.Fields(p.block(t, "daybook serve"))[4:] // without --data and the directory
	p.server = &daybooktest.Process{Binary: binary, Data: t.TempDir(), Args: append(args, "--allow-quit", "--log-level", "warn"), Log: os.Stderr}
	testkit.NoError(t, p.server.Start(t.Context()))
	t.Cleanup(func() { testkit.Check(t, p.server.Stop()) })
	passwords := strings.ReplaceAll(p.block(t, "openssl passwd"), "/etc/nginx", p.dir)
	p.password = strings.TrimSpace(p.shell(t, passwords+`echo "$password"`))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate(t, p.dir))
	dialer := &net.Dialer{}
	p.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, p.address)
		},
	}}
	t.Cleanup(p.http.CloseIdleConnections)
	return p
}

// certificate writes a certificate of the site and of localhost, with its key, and returns it.
func certificate(t *testing.T, dir string) []byte {
	t.Helper()
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: site}, DNSNames: []string{site, "localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der := testkit.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	keyDER := testkit.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(dir, site+".pem"), string(cert))
	write(t, filepath.Join(dir, site+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	return cert
}

// startNginx starts nginx with the page's file instead of the files in /etc/nginx/conf.d.
func startNginx(t *testing.T, p *proxied) {
	t.Helper()
	conf := p.block(t, "upstream daybook")
	for _, m := range regexp.MustCompile(`proxy_read_timeout\s+(\S+);`).FindAllStringSubmatch(conf, -1) {
		wait, err := time.ParseDuration(m[1])
		testkit.Holds(t, err == nil && wait >= 70*time.Second, "proxy_read_timeout is", m[1], "and a claim waits for up to a minute", err)
	}
	conf = strings.NewReplacer(standsFor, p.server.Listen, "listen 443", "listen "+p.address, "/etc/ssl", p.dir, "/etc/nginx", p.dir).Replace(conf)
	write(t, filepath.Join(p.dir, "daybook.conf"), conf)
	paths := "access_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, p.dir, kind)
	}
	write(t, filepath.Join(p.dir, "nginx.conf"), fmt.Sprintf("daemon off;\nmaster_process off;\nerror_log stderr warn;\npid %s/nginx.pid;\nevents {}\nhttp {\n%sinclude %s/daybook.conf;\n}\n", p.dir, paths, p.dir))
	p.start(t, "-p", p.dir, "-c", filepath.Join(p.dir, "nginx.conf"), "-e", "stderr")
}

// startCaddy starts Caddy with the page's file, and with the certificate, since it cannot fetch one. Without auto_https
// off, Caddy would create a certificate authority for localhost, and make the machine trust it.
func startCaddy(t *testing.T, p *proxied) {
	t.Helper()
	hash := exec.CommandContext(t.Context(), p.program, "hash-password", "--plaintext", p.password)
	hash.Env = append(os.Environ(), "HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir, "XDG_DATA_HOME="+p.dir)
	hashed := testkit.Must(hash.Output())(t)
	_, port, _ := net.SplitHostPort(p.address)
	conf := p.block(t, "reverse_proxy")
	sites := fmt.Sprintf("https://%s:%s, https://localhost:%s {\n\tbind 127.0.0.1\n\ttls %s/%s.pem %s/%s.key\n", site, port, port, p.dir, site, p.dir, site)
	conf = strings.NewReplacer(standsFor, p.server.Listen, site+" {\n", sites, "HASH", strings.TrimSpace(string(hashed))).Replace(conf)
	write(t, filepath.Join(p.dir, "Caddyfile"), "{\n\tadmin off\n\tskip_install_trust\n\tauto_https off\n\tlog {\n\t\tlevel ERROR\n\t}\n}\n"+conf)
	p.start(t, "run", "--adapter", "caddyfile", "--config", filepath.Join(p.dir, "Caddyfile"))
}

// start starts the proxy.
func (p *proxied) start(t *testing.T, args ...string) {
	t.Helper()
	proxy := exec.Command(p.program, args...)
	proxy.Env = append(os.Environ(), "HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir, "XDG_DATA_HOME="+p.dir)
	var log bytes.Buffer
	proxy.Stdout, proxy.Stderr = &log, &log
	t.Cleanup(func() { // after the proxy has ended
		if t.Failed() {
			t.Logf("%s:\n%s", p.program, log.String())
		}
	})
	testkit.StartGroup(t, proxy)
}

// wait waits until the proxy accepts connections.
func (p *proxied) wait(t *testing.T) {
	t.Helper()
	p.until(t, "the proxy accepts connections", func() bool {
		conn, err := net.Dial("tcp", p.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (p *proxied) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	testkit.Eventually(t, what, reached)
}

// url returns the URL of a path of the API, with the name of the site and the port of the proxy.
func (p *proxied) url(path string) string {
	_, port, _ := net.SplitHostPort(p.address)
	return "https://" + site + ":" + port + "/queue" + path
}

// client returns a client that uses the proxy.
func (p *proxied) client() *client.Client {
	return client.New(strings.Replace(p.url(""), "://", "://worker:"+p.password+"@", 1), client.Options{HTTP: p.http})
}

// do sends a request with the password, and returns the status and the body of the answer.
func (p *proxied) do(t *testing.T, method, path string, body io.Reader, headers ...string) (int, string) {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), method, p.url(path), body))(t)
	req.SetBasicAuth("worker", p.password)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp := testkit.Must(p.http.Do(req))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(text)
}

// shell runs commands, and returns their standard output.
func (p *proxied) shell(t *testing.T, commands string) string {
	t.Helper()
	for _, name := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			skip(t, "the commands of %s need %s, which is not installed", p.page.path, name)
		}
	}
	bin := filepath.Join(p.dir, "bin")
	testkit.NoError(t, os.MkdirAll(bin, 0o755))
	err := os.Symlink(p.server.Binary, filepath.Join(bin, "daybook"))
	testkit.MustHold(t, err == nil || errors.Is(err, os.ErrExist), err)
	bash := exec.CommandContext(t.Context(), "bash", "-eu", "-c", commands)
	cert := filepath.Join(p.dir, site+".pem")
	bash.Env = append(goEnvironment(t), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+p.dir, "XDG_CONFIG_HOME="+filepath.Join(p.dir, "config"),
		"SSL_CERT_FILE="+cert, "CURL_CA_BUNDLE="+cert, "password="+p.password)
	var stderr bytes.Buffer
	bash.Stderr = &stderr
	out, err := bash.Output()
	testkit.NoError(t, err, &stderr, out)
	return string(out)
}

func (p *proxied) refusesWithoutPassword(t *testing.T) {
	for _, user := range []string{"", "worker:wrong@"} {
		resp := testkit.Must(p.http.Get(strings.Replace(p.url("/jobs"), "://", "://"+user, 1)))(t)
		resp.Body.Close()
		testkit.Equal(t, resp.StatusCode, http.StatusUnauthorized, "as", user, resp.Status)
		testkit.Equal(t, resp.Header.Get("Daybook-Seq"), "", "as", user, resp.Status)
	}
}

func (p *proxied) runsCommands(t *testing.T) {
	_, port, _ := net.SplitHostPort(p.address)
	commands := strings.ReplaceAll(p.block(t, "daybook context add"), site, "localhost:"+port)
	testkit.Contains(t, p.shell(t, commands), `"type":"square"`, `"pending":1000`)
}

func (p *proxied) carriesLongBodies(t *testing.T) {
	lines := strings.Repeat(strings.Repeat("x", 1023)+"\n", 8<<10) // 8 MiB, the longest body of a create
	if status, text := p.do(t, "POST", "/add?jobtype=long", strings.NewReader(lines), "Content-Type", "text/plain"); status != http.StatusCreated || !strings.Contains(text, `"count":8192`) {
		t.Fatalf("create: %d %.300s", status, text)
	}
	// The server refuses a longer body before it has read all of it, which a proxy may report as a 502.
	if status, text := p.do(t, "POST", "/add?jobtype=long", strings.NewReader(lines+"x"), "Content-Type", "text/plain"); status != http.StatusBadGateway && (status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "body_too_large")) {
		t.Errorf("a longer create: %d %.300s", status, text)
	}
	p.http.CloseIdleConnections()                              // net/http may take the refused body's connection for idle until it sees that it was closed
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // 64 MiB
	status, text := p.do(t, "PUT", "/blobs", bytes.NewReader(content))
	var b struct{ Address string }
	if err := json.Unmarshal([]byte(text), &b); err != nil || status != http.StatusCreated {
		t.Fatalf("blob: %d %.300s", status, text)
	}
	status, text = p.do(t, "GET", "/blobs/"+b.Address, nil)
	testkit.Holds(t, status == http.StatusOK && text == string(content), "the blob is read with status", status, "and has", len(text), "bytes")
}

func (p *proxied) carriesUploads(t *testing.T) {
	content := bytes.Repeat([]byte("fedcba98"), 9<<20) // 72 MiB, which the client sends as a resumable upload
	b := testkit.Must(p.client().Blobs("").Put(t.Context(), bytes.NewReader(content)))(t)
	testkit.Equal(t, b.Size, int64(len(content)), b)
	req := testkit.Must(http.NewRequestWithContext(t.Context(), "POST", p.url("/uploads"), nil))(t)
	req.SetBasicAuth("worker", p.password)
	req.Header.Set("Upload-Length", "11")
	resp := testkit.Must(p.http.Do(req))(t)
	resp.Body.Close()
	l := testkit.Must(resp.Location())(t)
	testkit.Holds(t, strings.HasPrefix(l.String(), p.url("/uploads/u")), resp.Status, "the Location is", l)
}

func (p *proxied) keepsSlashes(t *testing.T) {
	for i := range 100_000 {
		content := fmt.Sprint("blob ", i)
		sum := sha256.Sum256([]byte(content))
		address := base64.StdEncoding.EncodeToString(sum[:])
		if !strings.Contains(address, "//") {
			continue
		}
		spellings := []string{strings.ReplaceAll(address, "/", "%2F")}
		if filepath.Base(p.program) == "nginx" {
			spellings = append(spellings, address) // Caddy merges two slashes into one, as the page says
		}
		for _, spelled := range spellings {
			status, text := p.do(t, "PUT", "/blobs/sha256-"+spelled, strings.NewReader(content))
			testkit.Holds(t, status/100 == 2, "PUT", spelled, status, text)
			status, text = p.do(t, "GET", "/blobs/sha256-"+spelled, nil)
			testkit.Holds(t, status == http.StatusOK && text == content, "GET", spelled, status, text)
		}
		return
	}
	t.Fatal("no address has two slashes")
}

func (p *proxied) waits(t *testing.T) {
	created := make(chan error, 1)
	time.AfterFunc(2*time.Second, func() {
		_, err := p.client().Create(context.Background(), client.NewJob{Type: "later", Payload: []byte("x")})
		created <- err
	})
	status, text := p.do(t, "POST", "/jobs/claim", strings.NewReader(`{"runner_id":"waits","types":["later"],"wait_ms":60000}`))
	err := <-created
	testkit.Holds(t, err == nil && status == http.StatusOK && strings.Contains(text, `"type":"later"`), status, text, err)
}

// metric returns the value of a metric of the server.
func (p *proxied) metric(t *testing.T, name string) string {
	t.Helper()
	resp := testkit.Must(http.Get(p.server.URL() + "/metrics"))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	m := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindSubmatch(text)
	testkit.MustHold(t, m != nil, "no metric", name)
	return string(m[1])
}

func (p *proxied) reportsHangUps(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req, err := http.NewRequestWithContext(ctx, "POST", p.url("/jobs/claim"), strings.NewReader(`{"runner_id":"hangs-up","types":["none"],"wait_ms":60000}`))
		if err != nil {
			return
		}
		req.SetBasicAuth("worker", p.password)
		req.Header.Set("Content-Type", "application/json")
		if resp, err := p.http.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	p.until(t, "the claim waits", func() bool { return p.metric(t, "daybook_parked_claims") == "1" })
	hangUp()
	<-ended
	p.until(t, "the server notices that its client hung up", func() bool { return p.metric(t, "daybook_parked_claims") == "0" })
}

func (p *proxied) carriesResultsAtOnce(t *testing.T) {
	c := p.client()
	created, err := c.CreateMany(t.Context(), []client.NewJob{{Type: "follow", Payload: []byte("a")}, {Type: "follow", Payload: []byte("b")}}, client.CreateOptions{})
	testkit.NoError(t, err)
	req := testkit.Must(http.NewRequestWithContext(t.Context(), "GET", p.url("/batches/"+created.BatchID+"/results?follow=true"), nil))(t)
	req.SetBasicAuth("worker", p.password)
	complete := func() {
		if status, text := p.do(t, "POST", "/jobs/claim", strings.NewReader(`{"runner_id":"f","types":["follow"]}`)); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		} else if id := regexp.MustCompile(`"job_id":"([^"]+)"`).FindStringSubmatch(text); true {
			p.do(t, "POST", "/jobs/"+id[1]+"/complete", strings.NewReader(`{"runner_id":"f","status":"completed"}`))
		}
	}
	complete()
	resp := testkit.Must(p.http.Do(req))(t)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	line, err := lines.ReadString('\n')
	testkit.Holds(t, err == nil && strings.Contains(line, `"line":0`), line, err) // before the second job has ended
	complete()
	rest := testkit.Must(io.ReadAll(lines))(t)
	testkit.Holds(t, strings.Contains(string(rest), `"line":1`) && strings.Contains(string(rest), `"end":true`), rest)
}

func (p *proxied) showsPage(t *testing.T) {
	for _, path := range []string{"", "/", "/docs", "/docs/page.js", "/docs/swagger-ui.css", "/openapi.yaml"} { // as the page names them
		if status, text := p.do(t, "GET", path, nil, "Accept", "text/html"); status != http.StatusOK || len(text) < 100 {
			t.Errorf("%s: %d %.300s", path, status, text)
		}
	}
	origin := strings.TrimSuffix(p.url(""), "/queue")
	status, text := p.do(t, "POST", "/jobs/create", strings.NewReader(`{"type":"page"}`), "Origin", origin, "Sec-Fetch-Site", "same-origin")
	testkit.Holds(t, status == http.StatusCreated, "a request of the page", status, text)
	if status, text := p.do(t, "POST", "/jobs/create", strings.NewReader(`{"type":"page"}`), "Origin", "https://other.example"); status != http.StatusForbidden || !strings.Contains(text, "forbidden_origin") {
		t.Errorf("a request of a page of another site: %d %s", status, text)
	}
}

func (p *proxied) refusesQuit(t *testing.T) {
	status, text := p.do(t, "POST", "/quit", nil)
	testkit.Holds(t, status == http.StatusForbidden && strings.Contains(text, "forbidden_peer"), status, text)
}

// carriesStream: a Worker uses a stream. While the server restarts, a create and the Worker wait for it.
func (p *proxied) carriesStream(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ran := make(chan string, 10)
	w := &worker.Worker{Client: p.client(), Types: []string{"streamed"}, Concurrency: 4, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		ran <- string(j.Payload)
		return client.Outcome{}, nil
	}}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	p.until(t, "the Worker has a stream", func() bool { return p.metric(t, "daybook_streams") == "1" })
	runs := func(payload string) {
		t.Helper()
		if _, err := p.client().Create(ctx, client.NewJob{Type: "streamed", Payload: []byte(payload), Key: client.NewKey()}); err != nil {
			t.Error(err)
			return
		}
		select {
		case got := <-ran:
			testkit.Equal(t, got, payload, "ran")
		case <-time.After(time.Minute):
			t.Errorf("%q did not run within a minute", payload)
		}
	}
	runs("first")
	testkit.NoError(t, p.server.Stop())
	restarted := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() { restarted <- p.server.Start(context.Background()) }) // until then, creates get 502
	runs("second")
	testkit.NoError(t, <-restarted)
	stop()
	err := <-ended
	testkit.Holds(t, err == nil || errors.Is(err, context.Canceled), err)
}
