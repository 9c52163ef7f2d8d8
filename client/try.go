package client

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
)

const (
	// maxClaimBytes is how many bytes of payload a claim requests at most. It is also the server's default. As JSON
	// text they are up to six times as long.
	maxClaimBytes = 8 << 20
	// maxAnswerBytes bounds how much is read of an answer. It has room for the payloads of a claim at their longest and
	// the other fields of its jobs, or for one job with the longest payload, output and history.
	maxAnswerBytes = 6*maxClaimBytes + 48<<20
	// slowestPace is how fast the server must receive a body, in bytes per second.
	slowestPace = 256 << 10
)

var (
	errSilent = errors.New("the server did not answer in time")
	// ErrAnswerTooLarge is an answer that is too large, and would be as large if the request were repeated. Claim fewer
	// jobs after it.
	ErrAnswerTooLarge = fmt.Errorf("%w: more than %d bytes", ErrUnexpectedAnswer, maxAnswerBytes)
)

// answer is an answer with a status of 2xx.
type answer struct {
	status    int
	mediaType string // without its parameters
	header    http.Header
	seq       uint64 // Daybook-Seq; 0 if it is missing
	body      []byte
	at        time.Time // when its header arrived
	replayed  bool      // the server had answered the request before
	// once says that the request must not be repeated. If its answer cannot be read, the error is ErrUnknown as well.
	once bool
}

// once sends a request once. Its error is a *Error or wraps one of these:
//   - ErrUnavailable, if nothing can have been stored;
//   - ErrUnknown, if something may have been stored;
//   - ErrUnexpectedAnswer.
//
// If the request must not be repeated, such as a create, every failure that does not prove that nothing was stored is
// ErrUnknown as well: for example the 502 of a proxy, a truncated answer, or a 2xx that cannot be read.
func (c *Client) once(ctx context.Context, r request) (a answer, err error) {
	if r.verb != "" && r.contentType == mimeJSON && len(r.body) <= maxStreamedBody && c.stream != nil {
		if s := c.stream.Load(); s != nil {
			if a, err := s.once(ctx, c, r); !errors.Is(err, errNotSent) {
				return a, err
			}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := c.o.Timeout + r.wait + time.Duration(len(r.body))*time.Second/slowestPace
	late := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer late.Stop()

	var t tracer
	req, err := c.newRequest(httptrace.WithClientTrace(ctx, t.trace()), r)
	if err != nil {
		return a, err
	}
	if r.upload != nil {
		end, err := r.upload.begin(req, func() { late.Reset(patience) })
		if err != nil {
			return a, err
		}
		defer end()
	}
	if r.minSeq > 0 {
		req.Header.Set("Daybook-Min-Seq", strconv.FormatUint(r.minSeq, 10))
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
		// Otherwise net/http would silently repeat the request. An error of its last try would then say nothing about
		// the first.
		req.GetBody = nil
	}
	if r.number.Session != "" {
		r.number.set(req.Header)
	}
	if r.prefer != "" {
		req.Header.Set("Prefer", r.prefer)
	}
	broken := func(err error, sent bool) error {
		if context.Cause(ctx) == errSilent {
			err = errSilent // the transport's error is "context canceled"
		}
		result := ErrUnavailable
		if sent && r.method != http.MethodGet { // a read stores nothing
			result = ErrUnknown
		}
		return fmt.Errorf("%s %s: %w: %w", r.method, r.path, result, err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return a, broken(err, !t.provesUnsent(err, c.traced))
	}
	defer res.Body.Close()
	a.at, a.status, a.once = time.Now(), res.StatusCode, r.repeat != repeatable
	a.replayed = res.Header.Get("Idempotency-Replayed") == "true"
	a.header = res.Header
	a.mediaType, _, _ = strings.Cut(res.Header.Get("Content-Type"), ";")
	late.Reset(c.o.Timeout)
	a.body, err = readAnswer(res, func() { late.Reset(c.o.Timeout) })
	switch {
	case errors.Is(err, ErrAnswerTooLarge):
		return a, a.unreadable(fmt.Errorf("%s %s: %w", r.method, r.path, err))
	case err != nil:
		return a, broken(err, true)
	case a.status >= 300:
		return a, a.unproven(refusal(r, res, a.body))
	}
	if seq := res.Header.Get("Daybook-Seq"); seq != "" {
		if a.seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return a, a.unreadable(fmt.Errorf("Daybook-Seq: %w", err))
		}
	}
	return a, nil
}

// newRequest returns the request of net/http, with the headers that do not depend on the try.
func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	address := c.url + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	return req, nil
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
	if n := res.ContentLength; n > 0 && n <= maxAnswerBytes {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(lively{res.Body, alive}, maxAnswerBytes+1))
	if err == nil && b.Len() > maxAnswerBytes {
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
	return fmt.Sprintf("%v: status %s", ErrUnexpectedAnswer, s.text)
}
func (s *strangeStatus) Is(target error) bool { return target == ErrUnexpectedAnswer }

func refusal(r request, res *http.Response, body []byte) error {
	var after time.Duration
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds >= 0 { // a Daybook server never sends a date
		after = time.Duration(seconds) * time.Second
	}
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Code == "" {
		return fmt.Errorf("%s %s: %w", r.method, r.path, &strangeStatus{res.StatusCode, res.Status, after})
	}
	e.Status, e.RetryAfter = res.StatusCode, after
	return e
}

// StatusOf returns the HTTP status of the answer that refused a request, by the server or a proxy. It is 0 if err is no
// refusal.
func StatusOf(err error) int {
	var refused *Error
	var strange *strangeStatus
	switch {
	case errors.As(err, &refused):
		return refused.Status
	case errors.As(err, &strange):
		return strange.status
	}
	return 0
}

// unproven adds ErrUnknown to a refusal that does not prove that nothing was stored, if the request must not be
// repeated.
func (a *answer) unproven(err error) error {
	var refused *Error
	if !a.once || errors.Is(err, ErrUnknown) || errors.As(err, &refused) && refused.Outcome == "not_stored" {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// unreadable returns the error of an answer with a status of 2xx that cannot be read.
func (a *answer) unreadable(err error) error {
	if !errors.Is(err, ErrUnexpectedAnswer) {
		err = fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
	}
	return a.unproven(err)
}

// decode parses an answer's JSON into doc. Fields that doc does not have are ignored.
func decode(a answer, doc any) error {
	if err := json.Unmarshal(a.body, doc); err != nil {
		return a.unreadable(err)
	}
	return nil
}
