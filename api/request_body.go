package api

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
	// maxBodyBytes bounds every request body, after decompression.
	maxBodyBytes = job.MaxBodyBytes
	// smallBodyBytes bounds the bodies of routes that take no payloads and no outputs: a thousand ids, indented.
	smallBodyBytes = smallShareBytes
	// gzipOverhead is what gzip may add to bytes that it cannot compress.
	gzipOverhead = maxBodyBytes/1024 + 1024
	// A buffer begins with firstReadBytes. When it is full, it becomes growBy times as long.
	firstReadBytes = 16 << 10
	growBy         = 8
	// Bodies of minPooledBytes to maxPooledBytes are read into buffers that are kept for the next request.
	minPooledBytes = 4 << 10
	maxPooledBytes = 64 << 10
)

// A batch cannot have more lines than an ID can number: each takes two bytes of the body, the last one perhaps one.
const _ = uint(job.MaxLines - (maxBodyBytes+1)/2)

// bodyRule is what the bodies of a route may be.
type bodyRule struct {
	budget   *budget
	limit    int      // bytes, after decompression
	types    []string // media types; nil: any
	optional bool     // no body is the same as {}
	pooled   bool     // the buffer serves again after release, so that nobody may keep it
}

// bodyRules are those of all routes that take bodies.
type bodyRules struct {
	lines       bodyRule // of a bulk post; the buffer becomes part of a record of the journal
	creates     bodyRule // with payloads
	outcomes    bodyRule // with outputs
	outcomeList bodyRule // the same, as JSON or lines
	small       bodyRule // without either
	optional    bodyRule // the same, or none
}

func newBodyRules(bulk, control *budget) bodyRules {
	asJSON, asLines := []string{mimeJSON}, []string{mimeJSON, mimeNDJSON}
	return bodyRules{
		lines:       bodyRule{budget: bulk, limit: maxBodyBytes},
		creates:     bodyRule{budget: bulk, limit: maxBodyBytes, types: asLines, pooled: true},
		outcomes:    bodyRule{budget: control, limit: maxBodyBytes, types: asJSON, pooled: true},
		outcomeList: bodyRule{budget: control, limit: maxBodyBytes, types: asLines, pooled: true},
		small:       bodyRule{budget: control, limit: smallBodyBytes, types: asJSON, pooled: true},
		optional:    bodyRule{budget: control, limit: smallBodyBytes, types: asJSON, pooled: true, optional: true},
	}
}

// body is a request body in memory. Its share is held until release.
type body struct {
	bytes  []byte
	rule   *bodyRule
	share  share
	pooled *[]byte
	paced  *pacedReader // that it is read from; nil without a body
}

// release gives the share back and, for a body that does not outlive its request, the buffer. It may be called again.
func (b *body) release() {
	b.bytes = nil
	if b.share.budget != nil {
		b.share.release()
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

// readObject reads a body that is one JSON object into a struct. The caller releases the body.
func (s *Server) readObject(c echo.Context, rule *bodyRule, into any) (*body, error) {
	b, err := readBody(c, rule)
	if err != nil || len(b.bytes) == 0 && rule.optional {
		return b, err
	}
	if err := decodeObject(b.bytes, into); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// readJobRequest reads what a request about one job begins with: the id in its path, and its body into a struct.
func (s *Server) readJobRequest(c echo.Context, rule *bodyRule, into any) (job.ID, *body, error) {
	id, err := pathID(c)
	if err != nil {
		return id, nil, err
	}
	b, err := s.readObject(c, rule, into)
	return id, b, err
}

// noBody reads the body of a request that has no fields: none, or {}.
func (s *Server) noBody(c echo.Context) error {
	b, err := s.readObject(c, &s.bodies.optional, &struct{}{})
	if err == nil {
		b.release()
	}
	return err
}

// readBody reads a body. Its buffer has room for one more byte if it is not pooled.
func readBody(c echo.Context, rule *bodyRule) (_ *body, err error) {
	r := c.Request()
	if r.ContentLength != 0 && rule.types != nil {
		if err := checkContentType(r.Header[echo.HeaderContentType], rule.types); err != nil {
			return nil, err
		}
	}
	zipped, err := isGzip(r.Header[echo.HeaderContentEncoding])
	if err != nil {
		return nil, err
	}
	b := &body{rule: rule, share: share{budget: rule.budget}}
	n := r.ContentLength
	switch {
	case n == 0:
		return b, nil
	case n > int64(rule.limit) && (!zipped || n > int64(rule.limit)+gzipOverhead):
		return nil, b.tooLarge()
	}
	conn := connectionOf(r)
	if conn != nil {
		b.share.peer = conn.peer
	}
	from := &pacedReader{from: r.Body, control: http.NewResponseController(c.Response().Writer)}
	b.paced = from
	switch {
	case zipped:
		err = b.unzip(r.Context(), from)
	case n > 0:
		err = b.fill(r.Context(), from, int(n))
	default:
		err = b.grow(r.Context(), from)
	}
	if err != nil {
		b.release()
		c.Response().Header().Set(echo.HeaderConnection, "close")
		return nil, bodyProblem(err)
	}
	if conn != nil {
		conn.unread = false
	}
	// The deadline is for the body alone: a claim may wait for a minute after it.
	if err := from.control.SetReadDeadline(time.Time{}); err != nil {
		b.release()
		return nil, fmt.Errorf("clear read deadline: %w", err)
	}
	return b, nil
}

// pacedReader reads a body of which paceBytes, or all of it if it is shorter, must arrive within paceTime.
type pacedReader struct {
	from    io.Reader
	control *http.ResponseController
	left    int // of paceBytes
}

func (r *pacedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		if err := r.control.SetReadDeadline(time.Now().Add(paceTime)); err != nil {
			return 0, fmt.Errorf("set read deadline: %w", err)
		}
		r.left = paceBytes
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// reserve waits until n more bytes may be in memory. The wait is the server's, so that what the client sends next has
// its full time again.
func (b *body) reserve(ctx context.Context, n int64) error {
	switch {
	case b.share.grow(ctx, n, maxBudgetWait):
		if b.paced != nil {
			b.paced.left = 0
		}
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return overloaded()
}

// take makes the buffer longer.
func (b *body) take(ctx context.Context, size int) error {
	if err := b.reserve(ctx, int64(size-cap(b.bytes))); err != nil {
		return err
	}
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.bytes = larger
	return nil
}

// fill reads n bytes. Nothing is taken for a body before its first byte has come.
func (b *body) fill(ctx context.Context, r io.Reader, n int) error {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return err
	}
	if b.rule.pooled && n > minPooledBytes && n <= maxPooledBytes {
		if err := b.reserve(ctx, maxPooledBytes); err != nil {
			return err
		}
		b.pooled = bodyBuffers.Get().(*[]byte)
		b.bytes = (*b.pooled)[:n]
		b.bytes[0] = first[0]
		_, err := io.ReadFull(r, b.bytes[1:])
		return err
	}
	for size := min(n, firstReadBytes); ; size = min(n, size*growBy) {
		spare := 0
		if size == n {
			spare = 1 // TrimLines may add a newline
		}
		if err := b.take(ctx, size+spare); err != nil {
			return err
		}
		have := max(1, len(b.bytes))
		b.bytes = b.bytes[:size]
		b.bytes[0] = first[0]
		if _, err := io.ReadFull(r, b.bytes[have:]); err != nil {
			return err
		}
		if size == n {
			return nil
		}
	}
}

// grow reads to the end.
func (b *body) grow(ctx context.Context, r io.Reader) error {
	for {
		if len(b.bytes) == cap(b.bytes) {
			size := min(max(cap(b.bytes)*growBy, firstReadBytes), b.rule.limit+1)
			if size == cap(b.bytes) {
				return b.tooLarge()
			}
			if err := b.take(ctx, size); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if len(b.bytes) > b.rule.limit {
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

func (b *body) unzip(ctx context.Context, r io.Reader) error {
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
	return b.grow(ctx, z)
}

func (b *body) tooLarge() *problem {
	detail := fmt.Sprintf("a body of this route has at most %d bytes; split it into several requests", b.rule.limit)
	if b.rule.limit == maxBodyBytes {
		detail += " (`daybook add` and the Go client's Add do this for lines)"
	}
	return &problem{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, detail: detail}
}

func overloaded() *problem {
	return &problem{status: http.StatusTooManyRequests, code: codeOverloaded,
		detail: "the server holds as many bytes of requests as it may; repeat it later"}
}

// bodyProblem says why a body could not be read to its end. Nothing of it was used.
func bodyProblem(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, code: "body_too_slow", detail: fmt.Sprintf("the body arrived too slowly: each %d KiB, and what is left of a shorter one, must arrive within %s", paceBytes>>10, paceTime)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest("", "the body was cut off before its end")
	}
	return badRequest("", "the body cannot be read: "+err.Error())
}
