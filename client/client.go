package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

// Options of a client. The zero value works.
type Options struct {
	// HTTP replaces the client's own, which keeps up to maxConnections connections open. The default of net/http keeps
	// two, so a busy program would open a new connection for most requests. Redirects are not followed in either case.
	// If the transport does not report to net/http/httptrace, more creates end in ErrUnknown, because the client cannot
	// prove that nothing was sent.
	HTTP *http.Client
	// RetryFor bounds how long a request is repeated. 0 means 30 s; a negative value means that requests are not
	// repeated. The end of the context ends the repeats earlier.
	RetryFor time.Duration
	// Persistent makes requests repeat also after failures of the server, such as a full disk. RetryFor then counts from
	// the moment at which the server can be reached again, so the caller bounds the repeats by a context. It is for
	// reports that must not be lost.
	Persistent bool
	// Timeout is how long the server may be silent during one try. 0 means 30 s. Two times are added: how long a claim
	// waits at the server, and how long the request's body takes at the slowest pace that the server accepts. A try
	// that times out counts as a lost answer.
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
	// NoJoin makes each Create a separate request. Otherwise creates that are made at the same time share a stream, and
	// the server stores them together.
	NoJoin bool
	// Logger receives a debug message for each request that is repeated. nil means no logging.
	Logger *slog.Logger
}

const (
	maxConnections  = 512
	readBuffer      = 32 << 10 // the answer to a claim of 100 jobs of 100 bytes has 10 KiB
	defaultRetryFor = 30 * time.Second
	defaultTimeout  = 30 * time.Second
)

// Client sends requests to one server. Any goroutine may call its methods.
type Client struct {
	url  string
	http *http.Client
	o    Options
	// traced says that the transport is the one of net/http, which reports reliably whether it has sent anything.
	traced bool
	// own is the number of the next request that can have one; zero: see Numbered.
	own Number
	// resumableFrom is the length of the blobs that PutBlob sends as resumable uploads.
	resumableFrom int64
	// joined, if not nil, is the stream that concurrent creates share.
	joined *joinedCreates
	// stream, if not nil, points to the stream that carries the requests with a verb. It holds nil while there is no
	// stream.
	stream *atomic.Pointer[Stream]
}

// New returns a client of the server at url, such as http://127.0.0.1:1717. It does not connect.
func New(url string, o Options) *Client {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: ownTransport()}
	}
	o.setDefaults()
	c := &Client{url: strings.TrimRight(url, "/"), o: o, resumableFrom: resumableFrom}
	if !o.NoJoin {
		c.joined = new(joinedCreates)
	}
	// A Daybook server sends no redirects. Following one would send the request to an unknown server, and a POST as a
	// GET.
	h := *o.HTTP
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &h
	transport := h.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	_, c.traced = transport.(*http.Transport)
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
// Changes of HTTP and NoJoin have no effect.
func (c *Client) With(change func(*Options)) *Client {
	p := *c
	change(&p.o)
	p.o.setDefaults()
	return &p
}

// request is one request to the server.
type request struct {
	method, path string
	verb         string // of the same request in a stream; "" if streams do not carry it
	query        url.Values
	body         []byte
	contentType  string
	accept       string // "" means the default media type of the route
	minSeq       uint64
	key          string // Idempotency-Key
	prefer       string
	number       Number
	repeat       repeating
	wait         time.Duration // how long the server may wait before it answers
	upload       *upload       // instead of body
	header       http.Header   // more headers; may be nil
}

const (
	mimeJSON   = "application/json"
	mimeNDJSON = "application/x-ndjson"
	mimeText   = "text/plain"
)

// repeating says whether a request is repeated when its answer is lost.
type repeating uint8

const (
	sentOnce   repeating = iota // the error is ErrUnknown
	repeatable                  // the request is sent again: doing it twice has the same effect as doing it once
)

// repeatableWith returns repeatable if the request has a key or the id of a claim, by which the server recognizes a
// repeat. Otherwise it returns sentOnce.
func repeatableWith(name string) repeating {
	if name == "" {
		return sentOnce
	}
	return repeatable
}

// post makes a request with a JSON body.
func post(path string, body any, repeat repeating) (request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return request{}, fmt.Errorf("%w: encode the request: %w", ErrBadRequest, err)
	}
	return request{method: http.MethodPost, path: path, body: text, contentType: mimeJSON, repeat: repeat}, nil
}

func get(path string) request { return request{method: http.MethodGet, path: path, repeat: repeatable} }

// do sends a request, and sends it again while that is safe and may succeed.
func (c *Client) do(ctx context.Context, r request) (a answer, err error) {
	err = c.retry(ctx, r.path, r.repeat, func() error {
		a, err = c.once(ctx, r)
		return err
	})
	return a, err
}

// retry calls once, which sends a request, and calls it again while that is safe and may succeed.
func (c *Client) retry(ctx context.Context, path string, repeat repeating, once func() error) error {
	rules := retryRules{repeat: repeat, persistent: c.o.Persistent}
	give := time.Now().Add(c.o.RetryFor)
	lost := false // the answer of the previous try was lost: something may be stored
	for attempt := 0; ; attempt++ {
		err := once()
		if err == nil {
			return nil
		}
		if lost {
			err = afterLost(err)
		}
		lost = errors.Is(err, ErrUnknown)
		if ctx.Err() != nil {
			return err
		}
		if c.o.Persistent && down(err) || verifying(err) {
			give = time.Now().Add(c.o.RetryFor)
		}
		wait, again := rules.wait(err, attempt)
		if !again || time.Now().Add(wait).After(give) {
			return err
		}
		c.o.Logger.DebugContext(ctx, "repeating a request", "path", path, "attempt", attempt+1, "after", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}
