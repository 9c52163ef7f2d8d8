package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Options of a client. The zero value works.
type Options struct {
	// HTTP replaces the http.Client that New makes, which keeps up to maxConnections connections open. The default of
	// net/http keeps two, so a busy program would open a new connection for most requests. The client never follows
	// redirects. If the transport does not report to net/http/httptrace, more creates end in ErrUnknown, because the client
	// cannot prove that nothing was sent.
	HTTP *http.Client
	// TLS are the settings of TLS for servers with https. RootCAs has the authorities that sign the servers' certificates, if
	// the system does not trust them. Certificates or GetClientCertificate has the client's own. Streams use the same
	// settings. If HTTP is set, TLS is ignored. A request is not repeated after a certificate was refused: the error is
	// ErrUnavailable, and wraps *tls.CertificateVerificationError if the client has refused the server's.
	TLS *tls.Config
	// RetryFor bounds how long a request is repeated. 0 means 30 s; a negative value means that requests are not
	// repeated. The end of the context ends the repeats earlier.
	RetryFor time.Duration
	// With Persistent, the client also repeats requests after failures of the server, such as a full disk. RetryFor then
	// counts from the moment at which the server can be reached again, so the caller bounds the repeats by a context. It is
	// for reports that must not be lost.
	Persistent bool
	// Timeout is how long the server may be silent during one try. 0 means 30 s. The client adds two times to it: how long
	// a claim waits at the server, and how long the request's body takes at the slowest pace that the server accepts. A try
	// that times out counts as a lost answer. With the URLs of several nodes, 0 means 10 s.
	Timeout time.Duration
	// Traceparent returns the trace context of a caller, in the form of W3C Trace Context, from the context that the
	// caller passed; "" means none. Create, CreateMany, AddLines and Add send it, and the server gives it to the jobs
	// that set no Traceparent themselves. A text of another form is not sent. If Traceparent is nil, none is sent. With
	// OpenTelemetry it is, for example:
	//
	//	func(ctx context.Context) string {
	//		carrier := propagation.MapCarrier{}
	//		propagation.TraceContext{}.Inject(ctx, carrier)
	//		return carrier["traceparent"]
	//	}
	Traceparent func(ctx context.Context) string
	// Key is the text of the key with which the client uses the server: dbk_NAME_SECRET, or a token of an issuer that the server
	// knows. With "", requests have no key.
	Key string
	// KeySource, if not nil, returns the key or token for each request and each stream, for tokens that end and are replaced. It is
	// called from many goroutines, so it should remember a token. A request for which it returns an error is not sent, and is
	// repeated like one that found no server. The server ends a stream with its token; Workers then open another one.
	KeySource func(ctx context.Context) (string, error)
	// Codec encodes payloads, outputs and errors, so that the server cannot read them; see package encryption. With nil,
	// they are stored as they are.
	Codec Codec
	// NoJoin makes each Create a separate request. Otherwise creates that are made at the same time share a stream, and
	// the server stores them together.
	NoJoin bool
	// By is the name of the person or program that changes handlers and filesets, for their histories: at most 100 bytes,
	// without control characters. With "", the histories have no name.
	By string
	// Logger receives a debug message for each request that is repeated. nil means no logging.
	Logger *slog.Logger
}

const (
	maxConnections  = 512
	readBuffer      = 32 << 10 // the answer to a claim of 100 jobs of 100 bytes has 10 KiB
	defaultRetryFor = 30 * time.Second
	defaultTimeout  = 30 * time.Second

	// A node answers every request within some seconds, if only that it knows no leader.
	defaultNodeTimeout = 10 * time.Second
)

// Client sends requests to one server. Any goroutine may call its methods.
type Client struct {
	conn transport.Conn
	o    Options
	// own is the number of the next request that can have one; zero: see Numbered.
	own transport.Number
	// joined, if not nil, is the stream that concurrent creates share.
	joined *joinedCreates
}

// New returns a client of the server at url, such as http://127.0.0.1:1717. It does not connect. For a cluster, url has the
// URLs of several nodes, separated by commas. The client uses one of them until it refuses connections, is silent for
// Options.Timeout, or answers 503, and then the next one.
func New(url string, o Options) *Client {
	if o.HTTP == nil {
		t := ownTransport()
		if o.TLS != nil {
			t.TLSClientConfig = o.TLS.Clone()
		}
		o.HTTP = &http.Client{Transport: t}
	}
	if o.Timeout <= 0 && strings.Contains(url, ",") {
		o.Timeout = defaultNodeTimeout
	}
	o.setDefaults()
	c := &Client{o: o, conn: transport.Conn{Servers: transport.NewServers(url)}}
	c.configure()
	if !o.NoJoin {
		c.joined = new(joinedCreates)
	}
	// A Daybook server sends no redirects. Following one would send the request to an unknown server, and a POST as a
	// GET.
	h := *o.HTTP
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.conn.HTTP = &h
	by := h.Transport
	if by == nil {
		by = http.DefaultTransport
	}
	_, c.conn.Traced = by.(*http.Transport)
	return c
}

func (o *Options) setDefaults() {
	if o.RetryFor == 0 {
		o.RetryFor = defaultRetryFor
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// configure passes the options on.
func (c *Client) configure() {
	c.conn.RetryFor, c.conn.Persistent, c.conn.Timeout, c.conn.Logger, c.conn.By = c.o.RetryFor, c.o.Persistent, c.o.Timeout, c.o.Logger, c.o.By
	c.conn.Key, c.conn.KeySource = c.o.Key, c.o.KeySource
}

func ownTransport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment} // for programs that have replaced http.DefaultTransport
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		t = d.Clone()
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxConnections, maxConnections
	t.ReadBufferSize = readBuffer
	return t
}

// With returns a client of the same server and on the same connections, with changed options. For example, its requests
// are not repeated after
//
//	c.With(func(o *client.Options) { o.RetryFor = -1 })
//
// Changes of HTTP, TLS and NoJoin have no effect.
func (c *Client) With(change func(*Options)) *Client {
	p := *c
	change(&p.o)
	p.o.setDefaults()
	p.configure()
	return &p
}
