package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/problem"
)

const (
	// MaxClaimBytes is how many bytes of payload a claim requests at most. It is also the server's default. As JSON
	// text they are up to six times as long.
	MaxClaimBytes = 8 << 20
	// MaxAnswerBytes bounds how much is read of an answer. It has room for the payloads of a claim at their longest and
	// the other fields of its jobs, or for one job with the longest payload, output and history.
	MaxAnswerBytes = 6*MaxClaimBytes + 48<<20
	// slowestPace is how fast the server must receive a body, in bytes per second.
	slowestPace = 256 << 10
)

var (
	// ErrNotSent says that a request was not sent, because its stream has ended.
	ErrNotSent = fmt.Errorf("%w: the stream has ended", problem.ErrUnavailable)
	ErrSilent  = errors.New("the server did not answer in time")
	// ErrAnswerTooLarge is an answer that is too large, and would be as large if the request were repeated. Claim fewer
	// jobs after it.
	ErrAnswerTooLarge = fmt.Errorf("%w: more than %d bytes", problem.ErrUnexpectedAnswer, MaxAnswerBytes)
)

// Answer is an answer with a status of 2xx.
type Answer struct {
	URL       string // of the server that answered
	Status    int
	MediaType string // without its parameters
	Header    http.Header
	Seq       uint64 // Daybook-Seq; 0 if it is missing
	Body      []byte
	At        time.Time // when its header arrived
	Replayed  bool      // the server had answered the request before
	// once says that the request must not be repeated. If its answer cannot be read, the error is ErrUnknown as well.
	Once bool
}

// Once sends a request once. Its error is a *Error or wraps one of these:
//   - ErrUnavailable, if nothing can have been stored;
//   - ErrUnknown, if something may have been stored;
//   - ErrUnexpectedAnswer.
//
// If the request must not be repeated, such as a create, every failure that does not prove that nothing was stored is
// ErrUnknown as well: for example the 502 of a proxy, a truncated answer, or a 2xx that cannot be read.
func (c *Conn) Once(ctx context.Context, r Request) (a Answer, err error) {
	if r.Err != nil {
		return a, r.Err
	}
	if c.Stream != nil {
		if a, err := c.Stream(ctx, c, r); !errors.Is(err, ErrNotSent) {
			return a, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := c.Timeout + r.Wait + time.Duration(len(r.Body))*time.Second/slowestPace
	late := time.AfterFunc(patience, func() { cancel(ErrSilent) })
	defer late.Stop()

	var t tracer
	url := c.Servers.URL()
	req, err := c.newRequest(httptrace.WithClientTrace(ctx, t.trace()), url, r)
	if err != nil {
		return a, err
	}
	if r.Upload != nil {
		end, err := r.Upload.begin(req, func() { late.Reset(patience) })
		if err != nil {
			return a, err
		}
		defer end()
	}
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
		// Otherwise net/http would silently repeat the request. An error of its last try would then say nothing about
		// the first.
		req.GetBody = nil
	}
	if r.Number.Session != "" {
		r.Number.set(req.Header)
	}
	if r.Prefer != "" {
		req.Header.Set("Prefer", r.Prefer)
	}
	broken := func(err error, sent bool) error {
		if context.Cause(ctx) == ErrSilent {
			err = ErrSilent // the transport's error is "context canceled"
		}
		if errors.Is(err, ErrSilent) || !errors.Is(err, context.Canceled) {
			c.Servers.Failed(url)
		}
		result := problem.ErrUnavailable
		if sent && r.Method != http.MethodGet { // a read stores nothing
			result = problem.ErrUnknown
		}
		return fmt.Errorf("%s %s: %w: %w", r.Method, r.Path, result, err)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return a, broken(err, !t.provesUnsent(err, c.Traced) && !unverified(err))
	}
	defer res.Body.Close()
	a.URL, a.At, a.Status, a.Once = url, time.Now(), res.StatusCode, r.Repeat != Repeatable
	a.Replayed = res.Header.Get("Idempotency-Replayed") == "true"
	a.Header = res.Header
	a.MediaType, _, _ = strings.Cut(res.Header.Get("Content-Type"), ";")
	late.Reset(c.Timeout)
	a.Body, err = readAnswer(res, func() { late.Reset(c.Timeout) })
	switch {
	case errors.Is(err, ErrAnswerTooLarge):
		return a, a.Unreadable(fmt.Errorf("%s %s: %w", r.Method, r.Path, err))
	case err != nil:
		return a, broken(err, true)
	case a.Status >= 300:
		if a.Status == http.StatusServiceUnavailable {
			c.Servers.Failed(url)
		}
		return a, a.Unproven(Refusal(r, res, a.Body))
	}
	if seq := res.Header.Get("Daybook-Seq"); seq != "" {
		if a.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return a, a.Unreadable(fmt.Errorf("Daybook-Seq: %w", err))
		}
	}
	return a, nil
}

// newRequest returns the request of net/http, with the headers that do not depend on the try.
func (c *Conn) newRequest(ctx context.Context, url string, r Request) (*http.Request, error) {
	address := url + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	return req, c.Authorize(ctx, req.Header)
}

// Authorize sets the header with the key, if there is one. Its error is problem.ErrUnavailable, because nothing was sent.
func (c *Conn) Authorize(ctx context.Context, header http.Header) (err error) {
	key := c.Key
	if c.KeySource != nil {
		if key, err = c.KeySource(ctx); err != nil {
			return fmt.Errorf("%w: there is no key for the request: %w", problem.ErrUnavailable, err)
		}
	}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return nil
}

// tracer records the events of a request that the transport reports.
type tracer struct{ connected, sent atomic.Bool }

func (t *tracer) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { t.connected.Store(true) },
		WroteHeaders: func() { t.sent.Store(true) },
	}
}

// provesUnsent reports whether err, from a transport, proves that nothing was sent. A transport that is not the one of
// net/http may report nothing to the trace. If it reported no headers, this proves something only if it reported the
// connection. A connection that could not be made is a proof with any transport.
func (t *tracer) provesUnsent(err error, traced bool) bool {
	if t.sent.Load() {
		return false
	}
	var dial *net.OpError
	return traced || t.connected.Load() || errors.As(err, &dial) && dial.Op == "dial"
}

// readAnswer reads a body. It calls alive whenever some of the body arrives.
func readAnswer(res *http.Response, alive func()) ([]byte, error) {
	var b bytes.Buffer
	if res.Request != nil && res.Request.Method == http.MethodHead {
		return nil, nil // its Content-Length is the length of the answer to a GET
	}
	if n := res.ContentLength; n > 0 && n <= MaxAnswerBytes {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(lively{res.Body, alive}, MaxAnswerBytes+1))
	if err == nil && b.Len() > MaxAnswerBytes {
		err = ErrAnswerTooLarge
	}
	return b.Bytes(), err
}

type lively struct {
	r     io.Reader
	alive func()
}

func (l lively) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.alive()
	}
	return n, err
}

// strangeStatus is a refusal that a Daybook server has not sent, but for example a proxy.
type strangeStatus struct {
	status     int
	text       string
	retryAfter time.Duration
}

func (s *strangeStatus) Error() string {
	return fmt.Sprintf("%v: status %s", problem.ErrUnexpectedAnswer, s.text)
}
func (s *strangeStatus) Is(target error) bool { return target == problem.ErrUnexpectedAnswer }

func Refusal(r Request, res *http.Response, body []byte) error {
	var after time.Duration
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds >= 0 { // a Daybook server never sends a date
		after = time.Duration(seconds) * time.Second
	}
	e := &problem.Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Code == "" {
		return fmt.Errorf("%s %s: %w", r.Method, r.Path, &strangeStatus{res.StatusCode, res.Status, after})
	}
	e.Status, e.RetryAfter = res.StatusCode, after
	return e
}

// StatusOf returns the HTTP status of the answer that refused a request, by the server or a proxy. It is 0 if err is no
// refusal.
func StatusOf(err error) int {
	var refused *problem.Error
	var strange *strangeStatus
	switch {
	case errors.As(err, &refused):
		return refused.Status
	case errors.As(err, &strange):
		return strange.status
	}
	return 0
}

// Unproven adds ErrUnknown to a refusal that does not prove that nothing was stored, if the request must not be
// repeated.
func (a *Answer) Unproven(err error) error {
	var refused *problem.Error
	if !a.Once || errors.Is(err, problem.ErrUnknown) || errors.As(err, &refused) && refused.Outcome == "not_stored" {
		return err
	}
	return fmt.Errorf("%w: %w", problem.ErrUnknown, err)
}

// Unreadable returns the error of an answer with a status of 2xx that cannot be read.
func (a *Answer) Unreadable(err error) error {
	if !errors.Is(err, problem.ErrUnexpectedAnswer) {
		err = fmt.Errorf("%w: %w", problem.ErrUnexpectedAnswer, err)
	}
	return a.Unproven(err)
}

// Decode parses an answer's JSON into doc. Fields that doc does not have are ignored.
func Decode(a Answer, doc any) error {
	if err := json.Unmarshal(a.Body, doc); err != nil {
		return a.Unreadable(err)
	}
	return nil
}
