package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/job"
)

const (
	// maxBodyBytes bounds every request body, after decompression.
	maxBodyBytes = job.MaxBodyBytes
	// smallBodyBytes bounds the bodies of routes without payloads and outputs. It is enough for a thousand ids with
	// indentation.
	smallBodyBytes = smallShareBytes
	// gzipOverhead is the number of bytes by which gzip can lengthen incompressible bytes.
	gzipOverhead = maxBodyBytes/1024 + 1024
	// A buffer begins with firstReadBytes. When it is full, its size is multiplied by growBy.
	firstReadBytes = 16 << 10
	growBy         = 8
	// Bodies of minPooledBytes to maxPooledBytes are read into buffers that later requests reuse.
	minPooledBytes = 4 << 10
	maxPooledBytes = 64 << 10
)

// A body cannot have more lines than an ID can number. Each line takes at least two bytes, and the last line one.
const _ = uint(job.MaxLines - (maxBodyBytes+1)/2)

// bodyRule describes the bodies that a route accepts.
type bodyRule struct {
	budget   *budget
	limit    int      // bytes, after decompression
	types    []string // accepted media types; nil: any
	optional bool     // an empty body means {}
	pooled   bool     // the buffer is reused after release, so the handler must not keep it
}

// bodyRules are the rules of all routes that accept a body.
type bodyRules struct {
	lines       bodyRule // lines of a bulk post; the buffer becomes part of a journal record
	creates     bodyRule // JSON, NDJSON or runs with payloads
	added       bodyRule // JSON, NDJSON or runs with payloads; lines of text have another rule
	outcomes    bodyRule // JSON with outputs
	outcomeList bodyRule // JSON, NDJSON or runs with outputs
	small       bodyRule // JSON without payloads and outputs
	optional    bodyRule // like small, or no body
	handler     bodyRule // JSON with the source of a handler
	toml        bodyRule // the source of a handler, or a manifest in TOML
	log         bodyRule // the output of a job
	addresses   bodyRule // JSON with addresses of blobs
	manifest    bodyRule // the manifest of a fileset

	messages     bodyRule // messages of streams
	bulkMessages bodyRule // long messages of streams with creates
}

func newBodyRules(bulk, control, manifests *budget) bodyRules {
	asJSON, asList := []string{mimeJSON}, []string{mimeJSON, mimeNDJSON, mimeRuns}
	return bodyRules{
		lines:       bodyRule{budget: bulk, limit: maxBodyBytes},
		creates:     bodyRule{budget: bulk, limit: maxBodyBytes, types: asList, pooled: true},
		added:       bodyRule{budget: bulk, limit: maxBodyBytes, types: append(slices.Clone(asList), mimeText), pooled: true},
		outcomes:    bodyRule{budget: control, limit: maxBodyBytes, types: asJSON, pooled: true},
		outcomeList: bodyRule{budget: control, limit: maxBodyBytes, types: asList, pooled: true},
		small:       bodyRule{budget: control, limit: smallBodyBytes, types: asJSON, pooled: true},
		optional:    bodyRule{budget: control, limit: smallBodyBytes, types: asJSON, pooled: true, optional: true},
		log:         bodyRule{budget: control, limit: joblog.MaxBytes, types: []string{mimeText, echo.MIMEOctetStream}},
		handler:     bodyRule{budget: control, limit: 2 * job.MaxHandlerBytes, types: asJSON}, // escapes take up to twice as many bytes
		toml:        bodyRule{budget: control, limit: 2 * job.MaxHandlerBytes, types: []string{mimeJSON, mimeTOML}},

		manifest:  bodyRule{budget: manifests, limit: fileset.MaxManifestBytes, types: asJSON},
		addresses: bodyRule{budget: control, limit: 1 << 20, types: asJSON},

		messages:     bodyRule{budget: control, limit: maxBodyBytes},
		bulkMessages: bodyRule{budget: bulk, limit: maxBodyBytes},
	}
}

// body is a request body in memory. It holds its share of the budget until release.
type body struct {
	bytes  []byte
	rule   *bodyRule
	share  share
	pooled *[]byte
	paced  *pacedReader // the reader of the body; nil if the request has no body
}

// release returns the share, and the buffer if it is pooled. A second call does nothing.
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

// readObject decodes a body that is one JSON object into a struct. The caller releases the body.
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

// readJobRequest reads a request about one job: it returns the id in the path, and decodes the body into a struct.
func (s *Server) readJobRequest(c echo.Context, rule *bodyRule, into any) (job.ID, *body, error) {
	id, err := pathID(c)
	if err != nil {
		return id, nil, err
	}
	b, err := s.readObject(c, rule, into)
	return id, b, err
}

// noBody reads the body of a request without fields. The body must be empty or {}.
func (s *Server) noBody(c echo.Context) error {
	b, err := s.readObject(c, &s.bodies.optional, &struct{}{})
	if err == nil {
		b.release()
	}
	return err
}

// readBody reads a body. If the buffer is not pooled, its capacity is at least one byte more than its length.
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
	from := &pacedReader{from: r.Body, deadline: http.NewResponseController(c.Response().Writer)}
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
	// The deadline is only for the body. A claim may wait for a minute after that.
	if err := from.deadline.SetReadDeadline(time.Time{}); err != nil {
		b.release()
		return nil, fmt.Errorf("clear read deadline: %w", err)
	}
	return b, nil
}

// pacedReader reads a body. It fails if paceBytes, or a shorter rest, do not arrive within paceTime. The time between
// two reads does not count: during it the server stores the bytes that have arrived.
type pacedReader struct {
	from     io.Reader
	deadline interface{ SetReadDeadline(time.Time) error }
	left     int           // the part of paceBytes that must still arrive
	spent    time.Duration // time that the reads of it have taken
}

func (r *pacedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		r.left, r.spent = paceBytes, 0
	}
	began := time.Now()
	if err := r.deadline.SetReadDeadline(began.Add(paceTime - r.spent)); err != nil {
		return 0, fmt.Errorf("set read deadline: %w", err)
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	r.spent += time.Since(began)
	return n, err
}

// reserve waits until the budget has n more bytes for the body. The client does not cause this wait, so it gets the
// full paceTime for its next bytes.
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

// take replaces the buffer by a longer one with the same bytes.
func (b *body) take(ctx context.Context, size int) error {
	if err := b.reserve(ctx, int64(size-cap(b.bytes))); err != nil {
		return err
	}
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.bytes = larger
	return nil
}

// fill reads a body of n bytes. It reserves no memory before the first byte arrives.
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
			spare = 1 // job.TrimLines may add a newline
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

// grow reads a body of unknown length to its end.
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
	detail := fmt.Sprintf("the body is too long; the maximum of this route is %d bytes; split it into several requests", b.rule.limit)
	if b.rule.limit == maxBodyBytes {
		detail += " (`daybook add` and the Go client's Add do this for lines)"
	}
	return &problem{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, detail: detail}
}

func overloaded() *problem {
	return &problem{status: http.StatusTooManyRequests, code: codeOverloaded,
		detail: "other requests take all memory for request bodies; repeat the request later"}
}

// bodyProblem returns the problem of a body that could not be read to its end. The server has used no part of the body.
func bodyProblem(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, code: "body_too_slow", detail: fmt.Sprintf("the body arrived too slowly: each %d KiB of it, or its shorter rest, must arrive within %s", paceBytes>>10, paceTime)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest("", "the body is incomplete: the connection or the gzip data ended before the end of the body")
	}
	return badRequest("", "the body cannot be read: "+err.Error())
}
