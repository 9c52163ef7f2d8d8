package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/internal/testkit"
)

// secured is a server that speaks TLS, for tests.
type secured struct {
	*Server
	address string
	trusts  *testkit.Authority
}

// serveTLS serves GET /who, which answers with the common name of the client's certificate, and POST /add.
func serveTLS(t *testing.T, change func(*tls.Config, *Options)) *secured {
	t.Helper()
	a := testkit.NewAuthority(t)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.Pair(t, "server")}, ClientCAs: a.Pool}
	o := Options{
		Log: zerolog.Nop(), Registry: prometheus.NewRegistry(), TLS: &TLS{Config: func() *tls.Config { return config }},
		ProblemOf: func(err error) *Problem {
			if p, ok := errors.AsType[*Problem](err); ok {
				return p
			}
			return &Problem{Status: http.StatusInternalServerError, Code: "internal", Detail: err.Error()}
		},
	}
	if change != nil {
		change(config, &o)
	}
	s := &secured{Server: testkit.Must(New(o))(t), trusts: a}
	s.Serve([]Route{
		{Method: http.MethodGet, Path: "/who", Handle: func(c echo.Context) error {
			state := ConnectionOf(c.Request()).TLS()
			name := "nobody"
			if state != c.Request().TLS {
				name = "two states"
			}
			if len(state.VerifiedChains) > 0 {
				name = state.PeerCertificates[0].Subject.CommonName
			}
			return c.String(http.StatusOK, name)
		}},
		{Method: http.MethodPost, Path: "/add", Handle: func(c echo.Context) error { return c.String(http.StatusOK, "added") }},
	})
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.address = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l, time.Second) }()
	t.Cleanup(func() {
		stop()
		testkit.Check(t, <-ended)
	})
	return s
}

// dial opens a TCP connection that a test can read for ten seconds.
func (s *secured) dial(t *testing.T) net.Conn {
	t.Helper()
	c := testkit.Must(net.Dial("tcp", s.address))(t)
	t.Cleanup(func() { c.Close() })
	testkit.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

// speaks opens a connection with TLS.
func (s *secured) speaks(t *testing.T, change func(*tls.Config)) *tls.Conn {
	t.Helper()
	config := &tls.Config{RootCAs: s.trusts.Pool, ServerName: "localhost"}
	if change != nil {
		change(config)
	}
	return tls.Client(s.dial(t), config)
}

// who sends GET /who, and returns the answer.
func who(t *testing.T, c net.Conn) string {
	t.Helper()
	testkit.Must(io.WriteString(c, "GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
	res := testkit.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
	return string(testkit.Must(io.ReadAll(res.Body))(t))
}

// TestClientCertificates: handlers see the verified certificate of a client. A client without one is refused if the server
// requires one, and a certificate of another authority always.
func TestClientCertificates(t *testing.T) {
	for need, c := range map[tls.ClientAuthType]struct{ with, without string }{
		tls.NoClientCert: {"nobody", "nobody"}, tls.VerifyClientCertIfGiven: {"acme", "nobody"}, tls.RequireAndVerifyClientCert: {"acme", ""},
	} {
		s := serveTLS(t, func(c *tls.Config, _ *Options) { c.ClientAuth = need })
		acme := s.trusts.Pair(t, "acme")
		testkit.Equal(t, who(t, s.speaks(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{acme} })), c.with, need)
		bare := s.speaks(t, nil)
		if c.without != "" {
			testkit.Equal(t, who(t, bare), c.without, need)
		} else {
			testkit.NoError(t, bare.Handshake()) // the server refuses after it
			testkit.Fails(bare.Read(make([]byte, 1)))(t, "certificate required")
		}
		if need == tls.NoClientCert {
			continue
		}
		foreign := testkit.NewAuthority(t).Pair(t, "acme")
		wrong := s.speaks(t, func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
		})
		testkit.NoError(t, wrong.Handshake())
		testkit.Fails(wrong.Read(make([]byte, 1)))(t, "tls: ")
		testkit.Eventually(t, "the handshake is counted", func() bool { _, failed := s.Handshakes(); return failed > 0 })
	}
}

// TestProtocolOverTLS: a client that prefers HTTP/2 gets HTTP/1.1, because streams need it.
func TestProtocolOverTLS(t *testing.T) {
	s := serveTLS(t, nil)
	c := s.speaks(t, func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} })
	testkit.Equal(t, who(t, c), "nobody")
	testkit.Equal(t, c.ConnectionState().NegotiatedProtocol, "http/1.1")
	testkit.Equal(t, c.ConnectionState().Version, tls.VersionTLS13)
	testkit.Equal(t, who(t, s.speaks(t, nil)), "nobody") // without a preference
}

// TestRequestWithoutTLS: a client that does not speak TLS gets an answer that says what to do.
func TestRequestWithoutTLS(t *testing.T) {
	s := serveTLS(t, nil)
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		c := s.dial(t)
		testkit.Must(io.WriteString(c, method+" /who HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"))(t)
		res := testkit.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		testkit.Equal(t, res.StatusCode, http.StatusBadRequest, method)
		testkit.Contains(t, string(testkit.Must(io.ReadAll(res.Body))(t)), "this server speaks TLS; use https")
	}
	c := s.dial(t)
	testkit.Must(io.WriteString(c, "SSH-2.0-x\r\n"))(t)
	testkit.Lacks(t, string(testkit.Must(io.ReadAll(c))(t)), "HTTP")
}

// TestFramingOverTLS: the checks of the framing see the requests that TLS carries.
func TestFramingOverTLS(t *testing.T) {
	s := serveTLS(t, nil)
	c := s.speaks(t, nil)
	const smuggled = "GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n"
	testkit.Must(io.WriteString(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+smuggled))(t)
	answers := string(testkit.Must(io.ReadAll(c))(t)) // until the server closes the connection
	testkit.Contains(t, answers, "HTTP/1.1 400", "both Content-Length and Transfer-Encoding")
	testkit.Equal(t, strings.Count(answers, "HTTP/1.1 "), 1, answers)
}

// TestSlowHandshakes: a connection that does not end its handshake counts as silent: at the limit it is closed for a new one,
// before connections that had a request.
func TestSlowHandshakes(t *testing.T) {
	s := serveTLS(t, func(_ *tls.Config, o *Options) { o.MaxConnections = 2 })
	slow := s.dial(t)
	testkit.Must(slow.Write([]byte{22, 3, 1, 0, 200, 1}))(t) // the first bytes of a handshake
	nothing := s.dial(t)
	testkit.Eventually(t, "both are counted", func() bool { open, _ := s.Connections(); return open == 2 })
	testkit.Equal(t, who(t, s.speaks(t, nil)), "nobody")
	testkit.Equal(t, who(t, s.speaks(t, nil)), "nobody")
	for _, c := range []net.Conn{slow, nothing} {
		_, err := c.Read(make([]byte, 1))
		testkit.Holds(t, err != nil && !isTimeout(err), "a connection without a handshake is open", err)
	}
	testkit.Equal(t, who(t, s.speaks(t, nil)), "nobody") // for it, an idle one is closed
	open, evicted := s.Connections()
	testkit.Holds(t, open == 2 && evicted == 3, "connections", open, evicted)
}

func isTimeout(err error) bool { wait, ok := err.(net.Error); return ok && wait.Timeout() }

// TestNewSettingsOfTLS: new settings are for new connections. A connection keeps the ones that it began with.
func TestNewSettingsOfTLS(t *testing.T) {
	var now atomic.Pointer[tls.Config]
	s := serveTLS(t, func(c *tls.Config, o *Options) {
		now.Store(c)
		o.TLS.Config = now.Load
	})
	old := s.speaks(t, nil)
	testkit.Equal(t, who(t, old), "nobody")
	other := testkit.NewAuthority(t)
	now.Store(&tls.Config{Certificates: []tls.Certificate{other.Pair(t, "server")}})
	testkit.Fails(0, s.speaks(t, nil).Handshake())(t, "unknown authority")
	testkit.Equal(t, who(t, s.speaks(t, func(c *tls.Config) { c.RootCAs = other.Pool })), "nobody")
	testkit.Equal(t, who(t, old), "nobody")
	_, unknown := tls.Dial("tcp", s.address, &tls.Config{RootCAs: x509.NewCertPool()})
	testkit.Failed(t, unknown, "unknown authority")
	testkit.Eventually(t, "both are counted", func() bool { done, failed := s.Handshakes(); return done == 2 && failed == 2 })
}

// pipes is a listener of connections in memory.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// inMemory runs test in a bubble with a server that speaks TLS and answers GET /long with a megabyte. dial connects to it.
func inMemory(t *testing.T, test func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	a := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{a.Pair(t, "server")}}
	synctest.Test(t, func(t *testing.T) {
		s := testkit.Must(New(Options{Log: zerolog.Nop(), Registry: prometheus.NewRegistry(), TLS: &TLS{Config: func() *tls.Config { return config }}}))(t)
		s.Serve([]Route{{Method: http.MethodGet, Path: "/long", Handle: func(c echo.Context) error { return c.Blob(http.StatusOK, "text/plain", make([]byte, 1<<20)) }}})
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, l, time.Second) }()
		test(t, func() net.Conn {
			server, client := net.Pipe()
			l.made <- server
			return client
		})
		stop()
		testkit.NoError(t, <-ended)
	})
}

// TestHandshakeDeadline: the handshake and the first head together have the time of a head, even if single bytes arrive all the time.
func TestHandshakeDeadline(t *testing.T) {
	inMemory(t, func(t *testing.T, dial func() net.Conn) {
		client, began := dial(), time.Now()
		var writing sync.WaitGroup
		writing.Go(func() {
			for sent := []byte{22, 3, 1, 0, 200}; ; sent = []byte{1} { // a record of 200 bytes, byte by byte
				if _, err := client.Write(sent); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		testkit.Equal(t, string(testkit.Must(io.ReadAll(client))(t)), "")
		testkit.Equal(t, time.Since(began), readHeaderTimeout)
		writing.Wait()
	})
}

// TestPaceOverTLS: the server closes the connection of a client that does not read the answer.
func TestPaceOverTLS(t *testing.T) {
	inMemory(t, func(t *testing.T, dial func() net.Conn) {
		// The clients do not verify the certificate: in the bubble it is the year 2000.
		const asked = "GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n"
		slow := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true})
		testkit.Must(io.WriteString(slow, asked))(t)
		time.Sleep(PaceTime + time.Second)
		text, _ := io.ReadAll(slow)
		testkit.Holds(t, len(text) < 1<<20, "bytes of the answer", len(text))

		fast := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true})
		testkit.Must(io.WriteString(fast, asked))(t)
		res := testkit.Must(http.ReadResponse(bufio.NewReader(fast), nil))(t)
		testkit.Equal(t, len(testkit.Must(io.ReadAll(res.Body))(t)), 1<<20)
		testkit.NoError(t, fast.Close())
	})
}

// countedWrites counts the writes of a connection, of which those after the first left fail.
type countedWrites struct {
	net.Conn
	writes, left int
}

func (c *countedWrites) Write(p []byte) (int, error) {
	if c.writes++; c.writes > c.left {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(p)
}

// TestRecordsAreJoined: a long answer is written with one system call for several records, unless all buffers are in use. After a
// write that failed, nothing follows.
func TestRecordsAreJoined(t *testing.T) {
	a := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{a.Pair(t, "server")}}
	answer := bytes.Repeat([]byte("0123456789abcdef"), paceBytes/16+100)
	for _, tt := range []struct {
		name         string
		left         int  // how many writes of the answer succeed
		busy         bool // all buffers are in use
		fewest, most int
		fails        bool
	}{
		{"joined", 1000, false, 5, 8, false},
		{"without a buffer", 1000, true, 17, 1000, false},
		{"broken", 2, false, 3, 3, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			near, far := net.Pipe()
			counted := &countedWrites{Conn: near, left: 1000}
			h := newHandshakes(&TLS{Config: func() *tls.Config { return config }}, zerolog.Nop())
			c := newConnection(counted)
			h.begin(c)
			client := tls.Client(far, &tls.Config{RootCAs: a.Pool, ServerName: "localhost"})
			got := make(chan []byte, 1)
			go func() {
				_, _ = io.WriteString(client, "x")
				read, _ := io.ReadAll(client)
				got <- read
			}()
			testkit.Must(c.Read(make([]byte, 1)))(t)
			counted.writes, counted.left = 0, tt.left
			if tt.busy {
				for range joinBuffers {
					<-h.buffers
				}
			}
			n, err := c.Write(answer)
			testkit.Holds(t, (err != nil) == tt.fails && (n == len(answer)) == !tt.fails, n, err)
			testkit.Holds(t, tt.fewest <= counted.writes && counted.writes <= tt.most, counted.writes, "writes")
			if tt.fails {
				counted.left = 1000
				_, err := c.Write([]byte("more"))
				testkit.Holds(t, err != nil, "it goes on after a gap")
			}
			if !tt.busy {
				testkit.Equal(t, len(h.buffers), joinBuffers, "free buffers")
			}
			err = c.Close()
			testkit.Equal(t, err != nil, tt.fails, err)
			if read := <-got; tt.fails {
				testkit.Holds(t, bytes.HasPrefix(answer, read) && len(read) < len(answer), len(read), "bytes arrived")
			} else {
				testkit.Holds(t, bytes.Equal(read, answer), len(read), "bytes arrived")
			}
		})
	}
}

// TestCloseDoesNotWaitForReaders: a connection is closed at once, also if its client does not read the joined records of an answer. A
// server that stops closes one connection after the other.
func TestCloseDoesNotWaitForReaders(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{testkit.NewAuthority(t).Pair(t, "server")}}
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		h := newHandshakes(&TLS{Config: func() *tls.Config { return config }}, zerolog.Nop())
		c := newConnection(near)
		h.begin(c)
		client := tls.Client(far, &tls.Config{InsecureSkipVerify: true}) // in the bubble it is the year 2000
		go func() { _, _ = io.WriteString(client, "x") }()
		testkit.Must(c.Read(make([]byte, 1)))(t)
		ended := make(chan error)
		go func() {
			_, err := c.Write(make([]byte, 8*smallWrite))
			ended <- err
		}()
		synctest.Wait() // it writes, and nobody reads
		began := time.Now()
		_ = c.Close() // TLS cannot say that nothing follows
		testkit.Holds(t, <-ended != nil, "the answer was written")
		took := time.Since(began)
		testkit.Equal(t, took, 0)
		testkit.Equal(t, len(h.buffers), joinBuffers, "free buffers")
		testkit.NoError(t, far.Close())
	})
}
