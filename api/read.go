package api

import (
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
	// gzipOverhead is what gzip may add to bytes that it cannot compress.
	gzipOverhead = maxBodyBytes/1024 + 1024
	// firstReadBytes is what a body of unknown length begins with.
	firstReadBytes = 16 << 10
	// maxPooledBytes bounds the buffers that are kept for the next request.
	maxPooledBytes = 64 << 10

	// A body must arrive within readGrace and the time that a slow link needs for it. Else thirty connections that trickle
	// would hold all bytes that bodies may have.
	readGrace          = 10 * time.Second
	readBytesPerSecond = 256 << 10
)

// A batch cannot have more lines than an ID can number: each takes two bytes of the body, the last one perhaps one.
const _ = uint(job.MaxLines - (maxBodyBytes+1)/2)

// body is a request body in memory. Its budget is held until release.
type body struct {
	bytes  []byte
	held   int64
	budget *budget
	pooled *[]byte
}

// release gives the budget back and, for a body that does not outlive its request, the buffer.
func (b *body) release() {
	b.budget.release(b.held)
	b.held = 0
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
func (s *Server) readBulk(c echo.Context) (body, error) { return s.read(c, s.bulk, false) }

// readJSON reads the body of a JSON route, whose buffer must not be used after release. The type is demanded, except of an
// empty body.
func (s *Server) readJSON(c echo.Context, lane *budget, ndjson bool) (body, error) {
	r := c.Request()
	if r.ContentLength != 0 {
		if err := checkContentType(r.Header[echo.HeaderContentType], ndjson); err != nil {
			return body{budget: lane}, err
		}
	}
	return s.read(c, lane, true)
}

// noBody reads a body that has nothing to say: none, or {}.
func (s *Server) noBody(c echo.Context) error {
	body, err := s.readJSON(c, s.control, false)
	if err != nil {
		return err
	}
	defer body.release()
	if len(body.bytes) > 0 {
		return decodeObject(body.bytes, &struct{}{})
	}
	return nil
}

func (s *Server) read(c echo.Context, lane *budget, pool bool) (b body, err error) {
	b.budget = lane
	r := c.Request()
	zipped, err := isGzip(r.Header[echo.HeaderContentEncoding])
	if err != nil {
		return b, err
	}
	n := r.ContentLength
	if n > maxBodyBytes && (!zipped || n > maxBodyBytes+gzipOverhead) {
		return b, tooLarge()
	}
	if n == 0 {
		return b, nil
	}
	known := n > 0 && !zipped
	first := n
	if !known {
		first = firstReadBytes
	}
	if !lane.acquire(r.Context(), first, maxBudgetWait) {
		if err := r.Context().Err(); err != nil {
			return b, err
		}
		return b, overloaded()
	}
	b.held = first
	defer func() {
		if err != nil {
			b.release()
		}
	}()

	// The deadline is for the body alone: a claim may wait for a minute after it.
	deadline := readGrace + time.Duration(maxBodyBytes/readBytesPerSecond)*time.Second
	if n > 0 {
		deadline = readGrace + time.Duration(n/readBytesPerSecond)*time.Second
	}
	control := http.NewResponseController(c.Response().Writer)
	if err := control.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		return b, fmt.Errorf("set read deadline: %w", err)
	}
	switch {
	case known && pool && n <= maxPooledBytes:
		b.pooled = bodyBuffers.Get().(*[]byte)
		b.bytes = (*b.pooled)[:n]
		_, err = io.ReadFull(r.Body, b.bytes)
	case known:
		b.bytes = make([]byte, n, n+1) // TrimLines may add a newline
		_, err = io.ReadFull(r.Body, b.bytes)
	case zipped:
		err = b.unzip(r.Body)
	default:
		err = b.grow(r.Body)
	}
	if err != nil {
		c.Response().Header().Set(echo.HeaderConnection, "close")
		return b, bodyProblem(err)
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return b, fmt.Errorf("clear read deadline: %w", err)
	}
	return b, nil
}

// grow reads to the end into a buffer that grows with the bytes that have come.
func (b *body) grow(r io.Reader) error {
	b.bytes = make([]byte, 0, firstReadBytes)
	for {
		if len(b.bytes) == cap(b.bytes) {
			more := min(cap(b.bytes), maxBodyBytes+1-cap(b.bytes))
			if more == 0 {
				return tooLarge()
			}
			if !b.budget.tryAcquire(int64(more)) {
				return overloaded()
			}
			b.held += int64(more)
			larger := make([]byte, len(b.bytes), cap(b.bytes)+more)
			copy(larger, b.bytes)
			b.bytes = larger
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if len(b.bytes) > maxBodyBytes {
			return tooLarge()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (b *body) unzip(r io.Reader) error {
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
	return b.grow(z)
}

func tooLarge() *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		detail: fmt.Sprintf("a request body has at most %d bytes", maxBodyBytes)}
}

func overloaded() *problem {
	return &problem{status: http.StatusTooManyRequests, code: codeOverloaded,
		detail: "as many bytes of requests are in flight as may"}
}

// bodyProblem tells why a body could not be read to its end. Nothing of it was used.
func bodyProblem(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, code: "body_too_slow", detail: "the body did not arrive in time"}
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
		field: echo.HeaderContentType, detail: "this route wants Content-Type: " + want}
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
			case mimeJSON:
				return false
			}
		}
	}
	return false
}
