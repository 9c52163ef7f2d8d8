package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Options of a client. The zero value works.
type Options struct {
	// HTTP replaces the client's own, which keeps up to maxConnections connections open. The two of net/http's default
	// would make most requests of a busy program open one of their own. Redirects are not followed in either case. A
	// transport that does not report to net/http/httptrace makes more creates end in ErrUnknown, since less is known
	// about what was sent.
	HTTP *http.Client
	// RetryFor bounds how long a request is repeated; 0 stands for 30 s, a negative one for never. A context may end it
	// earlier.
	RetryFor time.Duration
	// Timeout bounds each try: how long the server may be silent, beyond the wait that a claim requests and the time
	// that the request's body takes at the slowest pace that the server accepts. 0 stands for 30 s. A try that runs out
	// of it counts as a lost answer.
	Timeout time.Duration
	// Logger receives requests that are repeated, at debug level; nil drops it.
	Logger *slog.Logger
}

const (
	maxConnections  = 512
	readBuffer      = 32 << 10 // the answer to a claim of 100 jobs has some 80 KiB
	defaultRetryFor = 30 * time.Second
	defaultTimeout  = 30 * time.Second
)

// Client talks to one server. Its methods may be called from any goroutine.
type Client struct {
	url  string
	http *http.Client
	o    Options
	// traced says that the transport is net/http's own, which reports reliably whether it has sent anything.
	traced bool
	// stubborn says that requests are repeated after failures of the server, too, and for as long as it cannot be
	// reached at all: what they report is work that is done. A Worker bounds that by its context.
	stubborn bool
	// own, where given, is the number of the next request that can have one: see Numbered.
	own *held
	// session, where given, numbers the requests that are safe to repeat and that the server knows by their numbers.
	session *workerSession
}

// New returns a client of the server at url, such as http://127.0.0.1:1717. It does not connect yet.
func New(url string, o Options) *Client {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: ownTransport()}
	}
	if o.RetryFor == 0 {
		o.RetryFor = defaultRetryFor
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{url: strings.TrimRight(url, "/"), o: o}
	// A redirect is an answer that no Daybook server gives; followed, it would send a request to who knows whom, a POST
	// as a GET.
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

func ownTransport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment} // for programs that have put something else in place of the default
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		t = d.Clone()
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxConnections, maxConnections
	t.ReadBufferSize = readBuffer
	return t
}

// single returns a client that does not repeat, and waits for an answer no longer than timeout.
func (c *Client) single(timeout time.Duration) *Client {
	p := *c
	p.o.RetryFor = -1
	p.o.Timeout = min(p.o.Timeout, timeout)
	return &p
}

// in returns a client that makes its requests in a session.
func (c *Client) in(s *workerSession) *Client {
	p := *c
	p.session = s
	return &p
}

// request is one request to the server.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	contentType  string
	accept       string // "": the route's own media type
	minSeq       uint64
	key          string // Idempotency-Key
	prefer       string
	inSession    bool  // it has a number where the client has a session
	number       *held // nil: a new one
	repeat       repeating
	wait         time.Duration // that it lets the server take before the answer
}

const (
	mimeJSON   = "application/json"
	mimeNDJSON = "application/x-ndjson"
	mimeText   = "text/plain"
)

// repeating says what happens when the answer to a request is lost.
type repeating uint8

const (
	sentOnce   repeating = iota // the error is ErrUnknown
	repeatable                  // the request is sent again: doing it twice is the same as doing it once
)

// repeatableWith is repeatable if the request has a key or names a claim, by which the server knows a repeat.
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
		return request{}, fmt.Errorf("%w: encode it: %w", ErrBadRequest, err)
	}
	return request{method: http.MethodPost, path: path, body: text, contentType: mimeJSON, repeat: repeat}, nil
}

func get(path string) request { return request{method: http.MethodGet, path: path, repeat: repeatable} }

// do makes a request, in the client's session where it has one.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	if r.inSession && c.session != nil {
		return c.session.do(ctx, c, r)
	}
	return c.repeat(ctx, r)
}

// repeat makes a request, again and again while that is safe and has a prospect.
func (c *Client) repeat(ctx context.Context, r request) (answer, error) {
	rules := retryRules{repeat: r.repeat, stubborn: c.stubborn}
	give := time.Now().Add(c.o.RetryFor)
	lost := false // an answer: something may be stored
	for attempt := 0; ; attempt++ {
		a, err := c.once(ctx, r)
		if err == nil {
			return a, nil
		}
		if lost {
			err = afterLost(err)
		}
		lost = errors.Is(err, ErrUnknown)
		if ctx.Err() != nil {
			return a, err
		}
		if c.stubborn && down(err) {
			give = time.Now().Add(c.o.RetryFor)
		}
		wait, again := rules.wait(err, attempt)
		if !again || time.Now().Add(wait).After(give) {
			return a, err
		}
		c.o.Logger.DebugContext(ctx, "repeating a request", "path", r.path, "attempt", attempt+1, "after", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, errors.Join(ctx.Err(), err)
		}
	}
}
