package webhook

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// answerNames returns a pure Go resolver. For each lookup of an IPv4 address it calls next, which returns the zero Addr
// for no address. It answers with no IPv6 addresses.
func answerNames(t *testing.T, next func() netip.Addr) *net.Resolver {
	t.Helper()
	server := testkit.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	stopped := make(chan struct{})
	t.Cleanup(func() { server.Close(); <-stopped })
	go func() {
		defer close(stopped)
		buf := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			server.WriteTo(dnsAnswer(buf[:n], next), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// dnsAnswer answers a query (RFC 1035, 4.1) with its header and question, and one A record.
func dnsAnswer(query []byte, next func() netip.Addr) []byte {
	end := 12
	for query[end] != 0 { // the labels of the name
		end += 1 + int(query[end])
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	end += 5 // the root label, type and class
	answer := append([]byte(nil), query[:end]...)
	copy(answer[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // a response without error, 1 question
	if kind != 1 {
		return answer
	}
	if to := next(); to.IsValid() {
		answer[7] = 1 // answers
		ip := to.As4()
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name of the question, A, IN, no TTL, 4 bytes
		answer = append(answer, ip[:]...)
	}
	return answer
}

// counting starts a server at an address. It counts its requests.
func counting(t *testing.T, address string) (port string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp4", address)
	if err != nil {
		t.Skipf("this machine cannot listen on %s: %v", address, err)
	}
	requests = new(atomic.Int64)
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) })}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, requests
}

func TestRefusedAddresses(t *testing.T) {
	port, requests := counting(t, "127.0.0.1:0")
	for _, batch := range []bool{false, true} {
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "[::]"} {
			e, err := New(Settings{}, handler.Document{Kind: handler.HTTP, URL: "http://" + host + ":" + port, Options: &handler.Options{Batch: batch}})
			testkit.NoError(t, err)
			for _, end := range run(t, t.Context(), e, newJob(1, "a"), newJob(2, "b")) {
				want(t, end, "failed", 0, "--http-allow")
			}
			e.Close()
		}
	}
	testkit.Equal(t, requests.Load(), 0, "requests arrived")
}

// TestAllowedNames: a name in the list allows the addresses that it resolves to, and nothing else does.
func TestAllowedNames(t *testing.T) {
	port, requests := counting(t, "127.0.0.1:0")
	resolver := answerNames(t, func() netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	for entry, code := range map[string]string{"hooks.test": "ok", "hooks.test:" + port: "ok", "hooks.test:1": "failed", "other.test": "failed", "127.0.0.1": "ok", "127.0.0.1:" + port: "ok", "127.0.0.1:1": "failed"} {
		allow := testkit.Must(ParseAllow([]string{entry}))(t)
		e := testkit.Must(New(Settings{Allow: allow}, handler.Document{Kind: handler.HTTP, URL: "http://hooks.test:" + port}))(t)
		e.dialer.free.Resolver, e.dialer.check.Resolver = resolver, resolver
		end := run(t, t.Context(), e, newJob(1, "a"))[0]
		testkit.Equal(t, end.Code, code, entry, "allowed", end)
		e.Close()
	}
	testkit.Equal(t, requests.Load(), 4, "requests arrived")
}

// TestRebinding: a name resolves to a permitted address first, and to a private one in a later lookup. Only requests to
// the permitted address arrive.
func TestRebinding(t *testing.T) {
	port, permitted := counting(t, "127.0.0.2:0")
	_, private := counting(t, "127.0.0.1:"+port)
	var lookups atomic.Int64
	resolver := answerNames(t, func() netip.Addr {
		if lookups.Add(1) == 1 {
			return netip.MustParseAddr("127.0.0.2")
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	allow := testkit.Must(ParseAllow([]string{"127.0.0.2"}))(t) // as if it were public
	e := testkit.Must(New(Settings{Allow: allow}, handler.Document{Kind: handler.HTTP, URL: "http://rebinding.test:" + port}))(t)
	defer e.Close()
	e.dialer.check.Resolver = resolver
	want(t, run(t, t.Context(), e, newJob(1, "a"))[0], "ok", 200, "")
	e.transport.CloseIdleConnections()
	want(t, run(t, t.Context(), e, newJob(2, "a"))[0], "failed", 0, "127.0.0.1:"+port+", which is a loopback address")
	testkit.Holds(t, permitted.Load() == 1 && private.Load() == 0 && lookups.Load() == 2, permitted.Load(), "requests to the permitted address",
		private.Load(), "to the private one", lookups.Load(), "lookups")
}

// TestRedirectToPrivate: a permitted server's redirect to a private address is not followed.
func TestRedirectToPrivate(t *testing.T) {
	port, private := counting(t, "127.0.0.1:0")
	for _, status := range []int{301, 302, 303, 307, 308} {
		to := web(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:"+port+"/", status)
		})
		want(t, run(t, t.Context(), executor(t, to, handler.Options{}), newJob(1, "a"))[0], "retry", 0, "HTTP 30")
	}
	testkit.Equal(t, private.Load(), 0, "redirects were followed")
}

// TestProxies: the environment's proxies are ignored unless the runner sets them. A proxy's address is then checked
// like any other.
func TestProxies(t *testing.T) {
	port, proxied := counting(t, "127.0.0.1:0")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+port)
	document := handler.Document{Kind: handler.HTTP, URL: "http://192.168.0.1/", Options: &handler.Options{TimeoutMs: 60_000}}
	proxy := func(*http.Request) (*url.URL, error) { return url.Parse("http://127.0.0.1:" + port) }
	for _, c := range []struct {
		settings Settings
		code     string
	}{
		{Settings{}, "failed"},
		{Settings{Proxy: proxy}, "failed"},
		{Settings{Proxy: proxy, Allow: loopback(t)}, "ok"},
	} {
		e := testkit.Must(New(c.settings, document))(t)
		end := run(t, t.Context(), e, newJob(1, "a"))[0]
		testkit.Equal(t, end.Code, c.code, end)
		e.Close()
	}
	testkit.Equal(t, proxied.Load(), 1, "requests arrived at the proxy")
}

// TestCheckURL: a URL is refused early if, and only if, its requests would be refused. The refusal names the flag.
func TestCheckURL(t *testing.T) {
	for _, c := range []struct {
		url     string
		allow   []string
		refused string // the value that --http-allow would need
	}{
		{"http://127.0.0.1:8025/mail", nil, "127.0.0.1:8025"},
		{"http://127.0.0.1:8025/mail", []string{"127.0.0.1:8026", "localhost"}, "127.0.0.1:8025"},
		{"http://127.0.0.1:8025/mail", []string{"127.0.0.1:8025"}, ""},
		{"http://127.0.0.1:8025/mail", []string{"127.0.0.0/8"}, ""},
		{"http://10.1.2.3/", nil, "10.1.2.3:80"},
		{"https://10.1.2.3/", []string{"10.1.2.3:80"}, "10.1.2.3:443"},
		{"https://10.1.2.3/", []string{"10.1.2.3:443"}, ""},
		{"http://[::1]/", nil, "[::1]:80"},
		{"http://[::1]/", []string{"::1"}, ""},
		{"http://[fd00::1]:8080/", nil, "[fd00::1]:8080"},
		{"http://[::ffff:192.168.0.1]/", nil, "[::ffff:192.168.0.1]:80"},
		{"http://localhost:8025/", nil, "localhost:8025"},
		{"http://LOCALHOST./", nil, "LOCALHOST.:80"},
		{"http://localhost:8025/", []string{"localhost:8026", "10.0.0.0/8"}, "localhost:8025"},
		{"http://localhost:8025/", []string{"localhost"}, ""},
		{"http://localhost:8025/", []string{"localhost:8025"}, ""},
		{"http://localhost:8025/", []string{"127.0.0.1:8025"}, ""},
		{"http://localhost:8025/", []string{"::1"}, ""},
		{"https://example.com/", nil, ""},
		{"http://no-such-name.invalid/", nil, ""},
		{"http://8.8.8.8/", nil, ""},
	} {
		allow := testkit.Must(ParseAllow(c.allow))(t)
		err := (&Settings{Allow: allow}).CheckURL(c.url)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s with %q: %v", c.url, c.allow, err)
		case c.refused == "":
		case err == nil:
			t.Errorf("%s with %q is not refused", c.url, c.allow)
		case !strings.HasSuffix(err.Error(), " --http-allow "+c.refused):
			t.Errorf("%s with %q: %v", c.url, c.allow, err)
		default: // the advice in the refusal works
			if allow, err = ParseAllow(append(c.allow, c.refused)); err != nil {
				t.Errorf("%s: %v", c.url, err)
			} else if err = (&Settings{Allow: allow}).CheckURL(c.url); err != nil {
				t.Errorf("%s with %q: %v", c.url, c.refused, err)
			}
		}
	}
	proxy := func(*http.Request) (*url.URL, error) { return nil, nil }
	testkit.Check(t, (&Settings{Proxy: proxy}).CheckURL("http://127.0.0.1/"), "with a proxy")
	testkit.Failed(t, (&Settings{}).CheckURL("http://a b/"))
}

// TestRefusalText: the refusal names the address, the reason and the remedy.
func TestRefusalText(t *testing.T) {
	text := newDialer(nil).permit("169.254.169.254:80").Error()
	for _, part := range []string{"169.254.169.254:80", "link-local", "--http-allow"} {
		testkit.Contains(t, text, part)
	}
	testkit.Holds(t, newDialer(nil).permit("unix.sock") != nil, "something that is no address is permitted")
}

func TestAllow(t *testing.T) {
	a, err := ParseAllow([]string{"10.1.0.0/16", "127.0.0.1:8080", "[::1]:80", "192.168.1.2", "fd00::/8", "[fd11::1]", "::ffff:10.9.9.9", "Hooks.Internal.", "localhost:9000", "my_host", "64:ff9b::/96"})
	testkit.NoError(t, err)
	for text, want := range map[string]bool{
		"10.1.2.3:1": true, "10.2.0.0:1": false, "[::ffff:10.1.2.3]:1": true, "127.0.0.1:8080": true, "[::ffff:127.0.0.1]:8080": true, "127.0.0.1:8081": false,
		"127.0.0.2:8080": false, "[::1]:80": true, "[::1]:81": false, "192.168.1.2:5": true, "192.168.1.3:5": false, "[fd12::1]:5": true, "10.9.9.9:80": true,
		"[64:ff9b::7f00:1]:80": true, "[fe80::1%eth0]:80": false,
	} {
		testkit.Equal(t, a.address(netip.MustParseAddrPort(text)), want, text, "is allowed")
	}
	for text, want := range map[string]bool{
		"hooks.internal 80": true, "HOOKS.internal. 443": true, "a.hooks.internal 80": false, "localhost 9000": true, "localhost 9001": false, "my_host 1": true, "127.0.0.1 8080": false,
	} {
		host, port, _ := strings.Cut(text, " ")
		testkit.Equal(t, a.name(host, port), want, text, "is allowed")
	}
	var none *Allow
	testkit.Holds(t, !none.name("a", "80") && !none.address(netip.MustParseAddrPort("127.0.0.1:80")), "an empty list allows something")
	for _, bad := range []string{"", ".", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "http://a", "a:b", "a:0", "a:65536", "a:-1", "a:+1", "*", "*.example.com", "a b", "ä.example", "127.1", "0x7f.1", "127.0.0.0x1", "a..b", ":80", "10.0.0.256", strings.Repeat("a", 254)} {
		if _, err := ParseAllow([]string{"localhost", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		} else if bad != "" && !strings.Contains(err.Error(), bad[:1]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
