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
	// maxClaimBytes of payload are claimed at most; it is what the server hands out when a claim names no bound. As
	// JSON text they are up to six times as long.
	maxClaimBytes = 8 << 20
	// maxAnswerBytes bounds what is read of an answer: a claim's payloads at their longest, and the other fields of its
	// jobs, or a single job with the longest payload, output and history.
	maxAnswerBytes = 6*maxClaimBytes + 48<<20
	// slowestPace is how fast a body must reach the server, in bytes a second.
	slowestPace = 256 << 10
)

var (
	errSilent = errors.New("the server did not answer in time")
	// errAnswerTooLarge is an answer that came, and that asking again would not make smaller.
	errAnswerTooLarge = fmt.Errorf("%w: more than %d bytes", ErrUnexpectedAnswer, maxAnswerBytes)
)

// answer is what came back with a status of 2xx.
type answer struct {
	status    int
	mediaType string // without its parameters
	seq       uint64 // Daybook-Seq; 0 without one
	body      []byte
	at        time.Time // when it began to come
	replayed  bool      // it is the answer to a repeat
	// once says that the request may not be repeated: an answer that cannot be read leaves it unknown.
	once bool
}

// once makes a request once. Its error is a *Error, or wraps ErrUnavailable when nothing can have been stored,
// ErrUnknown when something may have been, or ErrUnexpectedAnswer. For what is not repeatable, such as a create, all
// that does not prove that nothing was stored is ErrUnknown, too: a proxy's 502, a truncated answer, a 2xx that nobody
// can read.
func (c *Client) once(ctx context.Context, r request) (a answer, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := c.o.Timeout + r.wait + time.Duration(len(r.body))*time.Second/slowestPace
	late := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer late.Stop()

	var t tracer
	address := c.url + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, t.trace()), r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.minSeq > 0 {
		req.Header.Set("Daybook-Min-Seq", strconv.FormatUint(r.minSeq, 10))
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
		// Otherwise net/http would repeat it by itself, and what the last try met would be taken for what became of the
		// first.
		req.GetBody = nil
	}
	if r.number != nil && r.number.Session != "" {
		r.number.set(req.Header)
	}
	if r.prefer != "" {
		req.Header.Set("Prefer", r.prefer)
	}
	broken := func(err error, sent bool) error {
		if context.Cause(ctx) == errSilent {
			err = errSilent // the transport's own words are "context canceled"
		}
		fate := ErrUnavailable
		if sent && r.method != http.MethodGet { // a read stores nothing, whatever became of it
			fate = ErrUnknown
		}
		return fmt.Errorf("%s %s: %w: %w", r.method, r.path, fate, err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return a, broken(err, !t.provesUnsent(err, c.traced))
	}
	defer res.Body.Close()
	a.at, a.status, a.once = time.Now(), res.StatusCode, r.repeat != repeatable
	a.replayed = res.Header.Get("Idempotency-Replayed") == "true"
	a.mediaType, _, _ = strings.Cut(res.Header.Get("Content-Type"), ";")
	late.Reset(c.o.Timeout)
	a.body, err = readAnswer(res, func() { late.Reset(c.o.Timeout) })
	switch {
	case errors.Is(err, errAnswerTooLarge):
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

// tracer notes what the transport reports about a request.
type tracer struct{ connected, sent atomic.Bool }

func (t *tracer) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { t.connected.Store(true) },
		WroteHeaders: func() { t.sent.Store(true) },
	}
}

// provesUnsent reports whether err, from a transport, proves that nothing went out. A transport that is not net/http's
// may tell the trace nothing at all; its silence proves something only once it has spoken. A connection that could not
// be made is proof with any.
func (t *tracer) provesUnsent(err error, traced bool) bool {
	if t.sent.Load() {
		return false
	}
	var dial *net.OpError
	return traced || t.connected.Load() || errors.As(err, &dial) && dial.Op == "dial"
}

// readAnswer reads a body, and calls alive when some of it came.
func readAnswer(res *http.Response, alive func()) ([]byte, error) {
	var b bytes.Buffer
	if n := res.ContentLength; n > 0 && n <= maxAnswerBytes {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(lively{res.Body, alive}, maxAnswerBytes+1))
	if err == nil && b.Len() > maxAnswerBytes {
		err = errAnswerTooLarge
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

// strangeStatus is a refusal that is not a Daybook server's: of a proxy, say.
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
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds >= 0 { // its form as a date is not ours
		after = time.Duration(seconds) * time.Second
	}
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Code == "" {
		return fmt.Errorf("%s %s: %w", r.method, r.path, &strangeStatus{res.StatusCode, res.Status, after})
	}
	e.Status, e.RetryAfter = res.StatusCode, after
	return e
}

// unproven adds ErrUnknown to a refusal that does not prove that nothing was stored, where that matters.
func (a *answer) unproven(err error) error {
	var refused *Error
	if !a.once || errors.Is(err, ErrUnknown) || errors.As(err, &refused) && refused.Outcome == "not_stored" {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// unreadable is the error of an answer of 2xx that makes no sense.
func (a *answer) unreadable(err error) error {
	if !errors.Is(err, ErrUnexpectedAnswer) {
		err = fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
	}
	return a.unproven(err)
}

// decode reads an answer's JSON into doc. Fields that this version does not know are passed over.
func decode(a answer, doc any) error {
	if err := json.Unmarshal(a.body, doc); err != nil {
		return a.unreadable(err)
	}
	return nil
}
