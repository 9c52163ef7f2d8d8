package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

// Options of a client. The zero value works.
type Options struct {
	// HTTP replaces the client's own, which keeps up to maxConnections connections open. The two of net/http's default would make
	// most requests of a busy program open one of their own.
	HTTP *http.Client
	// RetryFor bounds how long a request is repeated; 0 stands for 30 s, a negative one for never. A context may end it earlier.
	RetryFor time.Duration
	// Logger is told of requests that are repeated, at debug level; nil drops it.
	Logger *slog.Logger
}

const (
	maxConnections  = 512
	defaultRetryFor = 30 * time.Second
	firstWait       = 20 * time.Millisecond
	maxWait         = 2 * time.Second
	// maxAnswerBytes bounds what is read of an answer: a thousand jobs with 8 MiB of payload in base64, and all their fields.
	maxAnswerBytes = 64 << 20
)

// Client talks to one server. Its methods may be called from any goroutine.
type Client struct {
	url  string
	http *http.Client
	o    Options
}

// New returns a client of the server at url, such as http://127.0.0.1:1717. It does not connect yet.
func New(url string, o Options) *Client {
	if o.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
		o.HTTP = &http.Client{Transport: transport}
	}
	if o.RetryFor == 0 {
		o.RetryFor = defaultRetryFor
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Client{url: strings.TrimRight(url, "/"), http: o.HTTP, o: o}
}

// patient returns a client that repeats for d at least.
func (c *Client) patient(d time.Duration) *Client {
	p := *c
	p.o.RetryFor = max(p.o.RetryFor, d)
	return &p
}

// request is one request to the server.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	contentType  string
	minSeq       uint64
	// repeatable says that doing it twice is the same as doing it once.
	repeatable bool
}

const (
	mimeJSON = "application/json"
	mimeText = "text/plain"
)

// post makes a request with a JSON body.
func post(path string, body any, repeatable bool) (request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return request{}, fmt.Errorf("encode request: %w", err)
	}
	return request{method: http.MethodPost, path: path, body: text, contentType: mimeJSON, repeatable: repeatable}, nil
}

func get(path string) request { return request{method: http.MethodGet, path: path, repeatable: true} }

// answer is what came back with a status of 2xx.
type answer struct {
	status int
	seq    uint64 // Daybook-Seq; 0 without one
	body   []byte
}

// do makes a request, again and again while that is safe and has a prospect.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	give := time.Now().Add(c.o.RetryFor)
	for attempt := 0; ; attempt++ {
		a, err := c.once(ctx, r)
		if err == nil || ctx.Err() != nil {
			return a, err
		}
		wait, again := retryWait(err, r.repeatable, attempt)
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

// once makes a request once. Its error is a *Error, or wraps ErrUnavailable when nothing can have been stored and ErrUnknown
// when something may have been.
func (c *Client) once(ctx context.Context, r request) (a answer, err error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	address := c.url + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return a, err
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.minSeq > 0 {
		req.Header.Set("Daybook-Min-Seq", strconv.FormatUint(r.minSeq, 10))
	}
	broken := func(err error) error {
		if sent.Load() {
			return fmt.Errorf("%s %s: %w: %w", r.method, r.path, ErrUnknown, err)
		}
		return fmt.Errorf("%s %s: %w: %w", r.method, r.path, ErrUnavailable, err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return a, broken(err)
	}
	defer res.Body.Close()
	a.status = res.StatusCode
	if a.body, err = readAnswer(res); err != nil {
		return a, broken(err)
	}
	if seq := res.Header.Get("Daybook-Seq"); seq != "" {
		if a.seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return a, fmt.Errorf("%w: Daybook-Seq: %w", ErrUnexpectedAnswer, err)
		}
	}
	if a.status >= 300 {
		return a, refusal(r, res, a.body)
	}
	return a, nil
}

func readAnswer(res *http.Response) ([]byte, error) {
	var b bytes.Buffer
	if n := res.ContentLength; n > 0 && n <= maxAnswerBytes {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err == nil && b.Len() > maxAnswerBytes {
		err = fmt.Errorf("%w: more than %d bytes", ErrUnexpectedAnswer, maxAnswerBytes)
	}
	return b.Bytes(), err
}

func refusal(r request, res *http.Response, body []byte) error {
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Code == "" {
		return fmt.Errorf("%s %s: %w: status %s", r.method, r.path, ErrUnexpectedAnswer, res.Status)
	}
	e.Status = res.StatusCode
	if after := res.Header.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
			e.RetryAfter = time.Duration(seconds) * time.Second
		}
	}
	return e
}

// decode reads an answer's JSON into doc. Fields that this version does not know are passed over.
func decode(a answer, doc any) error {
	if err := json.Unmarshal(a.body, doc); err != nil {
		return fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
	}
	return nil
}
