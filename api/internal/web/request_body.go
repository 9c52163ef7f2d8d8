package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

const (
	// MaxBodyBytes bounds every request body, after decompression.
	MaxBodyBytes = job.MaxBodyBytes
	// SmallBodyBytes bounds the bodies of routes without payloads and outputs. It is enough for a thousand ids with
	// indentation.
	SmallBodyBytes = SmallShareBytes
	// gzipOverhead is the number of bytes by which gzip can lengthen incompressible bytes.
	gzipOverhead = MaxBodyBytes/1024 + 1024
	// A buffer begins with FirstReadBytes. When it is full, its size is multiplied by growBy.
	FirstReadBytes = 16 << 10
	growBy         = 8
	// Bodies of minPooledBytes to maxPooledBytes are read into buffers that later requests reuse.
	minPooledBytes = 4 << 10
	maxPooledBytes = 64 << 10
)

// A body cannot have more lines than an ID can number. Each line takes at least two bytes, and the last line one.
const _ = uint(job.MaxLines - (MaxBodyBytes+1)/2)

// BodyRule describes the bodies that a route accepts.
type BodyRule struct {
	Lane     *Lane
	Limit    int      // bytes, after decompression
	Types    []string // accepted media types; nil: any
	Optional bool     // an empty body means {}
	Pooled   bool     // the buffer is reused after release, so the handler must not keep it
}

// Body is a request body in memory. It holds its share of the lane until release.
type Body struct {
	Bytes  []byte
	Rule   *BodyRule
	Share  Share
	pooled *[]byte
	Paced  *PacedReader // the reader of the body; nil if the request has no body
}

// Release returns the share, and the buffer if it is pooled. A second call does nothing.
func (b *Body) Release() {
	b.Bytes = nil
	if b.Share.Lane != nil {
		b.Share.Release()
	}
	if b.pooled != nil {
		bodyBuffers.Put(b.pooled)
		b.pooled = nil
	}
}

var bodyBuffers = sync.Pool{New: func() any {
	b := make([]byte, maxPooledBytes)
	return &b
}}

var gzipReaders sync.Pool // of *gzip.Reader

// ReadObject decodes a body that is one JSON object into a struct. The caller releases the body.
func ReadObject(c echo.Context, rule *BodyRule, into any) (*Body, error) {
	b, err := ReadBody(c, rule)
	if err != nil || len(b.Bytes) == 0 && rule.Optional {
		return b, err
	}
	if err := DecodeObject(b.Bytes, into); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// NoBody reads the body of a request without fields, whose rule must be for an optional body. The body must be empty or
// {}.
func NoBody(c echo.Context, rule *BodyRule) error {
	b, err := ReadObject(c, rule, &struct{}{})
	if err == nil {
		b.Release()
	}
	return err
}

// ReadBody reads a body. If the buffer is not pooled, its capacity is at least one byte more than its length.
func ReadBody(c echo.Context, rule *BodyRule) (_ *Body, err error) {
	r := c.Request()
	if r.ContentLength != 0 && rule.Types != nil {
		if err := CheckContentType(r.Header[echo.HeaderContentType], rule.Types); err != nil {
			return nil, err
		}
	}
	zipped, err := isGzip(r.Header[echo.HeaderContentEncoding])
	if err != nil {
		return nil, err
	}
	b := &Body{Rule: rule, Share: Share{Lane: rule.Lane}}
	n := r.ContentLength
	switch {
	case n == 0:
		return b, nil
	case n > int64(rule.Limit) && (!zipped || n > int64(rule.Limit)+gzipOverhead):
		return nil, b.tooLarge()
	}
	conn := ConnectionOf(r)
	if conn != nil {
		b.Share.Peer = conn.Peer
	}
	from := &PacedReader{From: r.Body, Deadline: http.NewResponseController(c.Response().Writer)}
	b.Paced = from
	began := time.Now()
	switch {
	case zipped:
		err = b.unzip(r.Context(), from)
	case n > 0:
		err = b.fill(r.Context(), from, int(n))
	default:
		err = b.Grow(r.Context(), from)
	}
	if err != nil {
		b.Release()
		c.Response().Header().Set(echo.HeaderConnection, "close")
		return nil, bodyProblem(err)
	}
	if conn != nil {
		conn.unread = false
		if err := conn.server.grantedSince(c, began); err != nil {
			b.Release()
			return nil, err
		}
	}
	// The deadline is only for the body. A claim may wait for a minute after that.
	if err := from.Deadline.SetReadDeadline(time.Time{}); err != nil {
		b.Release()
		return nil, fmt.Errorf("clear read deadline: %w", err)
	}
	return b, nil
}

// PacedReader reads a body. It fails if paceBytes, or a shorter rest, do not arrive within PaceTime. The time between
// two reads does not count: during it the server stores the bytes that have arrived.
type PacedReader struct {
	From     io.Reader
	Deadline interface{ SetReadDeadline(time.Time) error }
	ctx      context.Context // of a request that lasts; see lasting.cut
	left     int             // the part of paceBytes that must still arrive
	spent    time.Duration   // time that the reads of it have taken
}

func (r *PacedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		r.left, r.spent = paceBytes, 0
	}
	began := time.Now()
	if err := r.Deadline.SetReadDeadline(began.Add(PaceTime - r.spent)); err != nil {
		return 0, fmt.Errorf("set read deadline: %w", err)
	}
	if r.ctx != nil && r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.From.Read(p[:min(len(p), r.left)])
	r.left -= n
	r.spent += time.Since(began)
	return n, err
}

// Reserve waits until the lane has n more bytes for the body. The client does not cause this wait, so it gets the
// full PaceTime for its next bytes.
func (b *Body) Reserve(ctx context.Context, n int64) error {
	switch {
	case b.Share.Grow(ctx, n, MaxBudgetWait):
		if b.Paced != nil {
			b.Paced.left = 0
		}
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return Overloaded()
}

// Take replaces the buffer by a longer one with the same bytes.
func (b *Body) Take(ctx context.Context, size int) error {
	if err := b.Reserve(ctx, int64(size-cap(b.Bytes))); err != nil {
		return err
	}
	larger := make([]byte, len(b.Bytes), size)
	copy(larger, b.Bytes)
	b.Bytes = larger
	return nil
}

// fill reads a body of n bytes. It reserves no memory before the first byte arrives.
func (b *Body) fill(ctx context.Context, r io.Reader, n int) error {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return err
	}
	if b.Rule.Pooled && n > minPooledBytes && n <= maxPooledBytes {
		if err := b.Reserve(ctx, maxPooledBytes); err != nil {
			return err
		}
		b.pooled = bodyBuffers.Get().(*[]byte)
		b.Bytes = (*b.pooled)[:n]
		b.Bytes[0] = first[0]
		_, err := io.ReadFull(r, b.Bytes[1:])
		return err
	}
	for size := min(n, FirstReadBytes); ; size = min(n, size*growBy) {
		spare := 0
		if size == n {
			spare = 1 // job.TrimLines may add a newline
		}
		if err := b.Take(ctx, size+spare); err != nil {
			return err
		}
		have := max(1, len(b.Bytes))
		b.Bytes = b.Bytes[:size]
		b.Bytes[0] = first[0]
		if _, err := io.ReadFull(r, b.Bytes[have:]); err != nil {
			return err
		}
		if size == n {
			return nil
		}
	}
}

// Grow reads a body of unknown length to its end.
func (b *Body) Grow(ctx context.Context, r io.Reader) error {
	for {
		if len(b.Bytes) == cap(b.Bytes) {
			size := min(max(cap(b.Bytes)*growBy, FirstReadBytes), b.Rule.Limit+1)
			if size == cap(b.Bytes) {
				return b.tooLarge()
			}
			if err := b.Take(ctx, size); err != nil {
				return err
			}
		}
		n, err := r.Read(b.Bytes[len(b.Bytes):cap(b.Bytes)])
		b.Bytes = b.Bytes[:len(b.Bytes)+n]
		if len(b.Bytes) > b.Rule.Limit {
			return b.tooLarge()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (b *Body) unzip(ctx context.Context, r io.Reader) error {
	z, _ := gzipReaders.Get().(*gzip.Reader)
	if z == nil {
		z = new(gzip.Reader)
	}
	defer gzipReaders.Put(z)
	if err := z.Reset(r); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return b.Grow(ctx, z)
}

func (b *Body) tooLarge() *Problem {
	detail := fmt.Sprintf("the body is too long; the maximum of this route is %d bytes; split it into several requests", b.Rule.Limit)
	if b.Rule.Limit == MaxBodyBytes {
		detail += " (`daybook add` and the Go client's Add do this for lines)"
	}
	return &Problem{Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge, Detail: detail}
}

func Overloaded() *Problem {
	return &Problem{Status: http.StatusTooManyRequests, Code: CodeOverloaded,
		Detail: "other requests take all memory for request bodies; repeat the request later"}
}

// bodyProblem returns the problem of a body that could not be read to its end. The server has used no part of the body.
func bodyProblem(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Problem{Status: http.StatusRequestTimeout, Code: "body_too_slow", Detail: fmt.Sprintf("the body arrived too slowly: each %d KiB of it, or its shorter rest, must arrive within %s", paceBytes>>10, PaceTime)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return BadRequest("", "the body is incomplete: the connection or the gzip data ended before the end of the body")
	}
	return BadRequest("", "the body cannot be read: "+err.Error())
}
