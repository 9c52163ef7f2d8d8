package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
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

// lane is what the bodies of a route may take.
type lane struct {
	budget *budget
	limit  int
}

// body is a request body in memory. Its share is held until release.
type body struct {
	bytes  []byte
	limit  int
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

// readBulk reads the body of a create in the fast lane into a buffer of its exact size that the caller may give away, with room for
// one more byte.
func (s *Server) readBulk(c echo.Context) (*body, error) { return s.read(c, s.creates, false) }

// readJSON reads the body of a JSON route, whose buffer must not be used after release. The type is demanded, except of an
// empty body.
func (s *Server) readJSON(c echo.Context, l lane, ndjson bool) (*body, error) {
	r := c.Request()
	if r.ContentLength != 0 {
		if err := checkContentType(r.Header[echo.HeaderContentType], ndjson); err != nil {
			return nil, err
		}
	}
	return s.read(c, l, true)
}

// noBody reads a body that has nothing to say: none, or {}.
func (s *Server) noBody(c echo.Context) error {
	body, err := s.readJSON(c, s.orders, false)
	if err != nil {
		return err
	}
	defer body.release()
	if len(body.bytes) > 0 {
		return decodeObject(body.bytes, &struct{}{})
	}
	return nil
}

func (s *Server) read(c echo.Context, l lane, pool bool) (_ *body, err error) {
	r := c.Request()
	zipped, err := isGzip(r.Header[echo.HeaderContentEncoding])
	if err != nil {
		return nil, err
	}
	b := &body{limit: l.limit, share: share{budget: l.budget}}
	n := r.ContentLength
	switch {
	case n == 0:
		return b, nil
	case n > int64(l.limit) && (!zipped || n > int64(l.limit)+gzipOverhead):
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
		err = b.fill(r.Context(), from, int(n), pool)
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

// reserve waits until n more bytes may be in memory. The wait is the server's, so that what the client sends next has its full time again.
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
func (b *body) fill(ctx context.Context, r io.Reader, n int, pool bool) error {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return err
	}
	if pool && n > minPooledBytes && n <= maxPooledBytes {
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
			size := min(max(cap(b.bytes)*growBy, firstReadBytes), b.limit+1)
			if size == cap(b.bytes) {
				return b.tooLarge()
			}
			if err := b.take(ctx, size); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if len(b.bytes) > b.limit {
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
	detail := fmt.Sprintf("a body of this route has at most %d bytes; split it into several requests", b.limit)
	if b.limit == maxBodyBytes {
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

func isGzip(encoding []string) (bool, error) {
	if len(encoding) == 0 {
		return false, nil
	}
	if len(encoding) == 1 {
		switch strings.ToLower(strings.TrimSpace(encoding[0])) {
		case "gzip", "x-gzip":
			return true, nil
		case "identity", "":
			return false, nil
		}
	}
	return false, &problem{status: http.StatusUnsupportedMediaType, code: codeUnsupported,
		field: echo.HeaderContentEncoding, detail: "a body may be gzip or not encoded at all"}
}

const (
	mimeJSON   = "application/json"
	mimeNDJSON = "application/x-ndjson"
	mimeText   = "text/plain"
	mimeHTML   = "text/html"

	// JSON, of routes whose answer has another shape as well: a media type stands for one shape, so that typed clients know which it is.
	mimeClaim = "application/vnd.daybook.claim+json" // of POST /jobs/claim, where a single job is mimeJSON
	mimeBatch = "application/vnd.daybook.batch+json" // of POST /jobs/create, where a single job is mimeJSON
	mimeTypes = "application/vnd.daybook.types+json" // of GET /queues?waiting=true, where queues are mimeJSON
)

func checkContentType(header []string, ndjson bool) error {
	if len(header) == 1 {
		if header[0] == mimeJSON || ndjson && header[0] == mimeNDJSON {
			return nil
		}
		kind, params, err := mime.ParseMediaType(header[0])
		charset, named := params["charset"]
		if err == nil && (kind == mimeJSON || ndjson && kind == mimeNDJSON) && (!named || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	want := mimeJSON
	if ndjson {
		want += " or " + mimeNDJSON
	}
	return &problem{status: http.StatusUnsupportedMediaType, code: codeUnsupported,
		field: echo.HeaderContentType, detail: "this route requires Content-Type: " + want}
}

// isNDJSON reports whether a body that checkContentType let pass is lines.
func isNDJSON(r *http.Request) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get(echo.HeaderContentType))), mimeNDJSON)
}

// prefers reports whether the Accept header names kind, and before JSON.
func prefers(r *http.Request, kind string) bool {
	for _, header := range r.Header[echo.HeaderAccept] {
		for header != "" {
			var item string
			item, header, _ = strings.Cut(header, ",")
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case kind:
				return true
			case mimeJSON, mimeClaim, mimeBatch, mimeTypes:
				return false
			}
		}
	}
	return false
}
