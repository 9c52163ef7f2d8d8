package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// The bytes that answers may have in memory at once, with what they are made from. A client that does not read keeps
// its share until it is cut off. Claims have a budget of their own, so that no reader of lists keeps work from a
// runner.
const (
	documentsBudgetBytes = 32 << 20 // of GETs
	handoutsBudgetBytes  = 64 << 20 // of claims
	changesBudgetBytes   = 16 << 20 // of changes to one job, which show its document, and of completions of many
	parkedBudgetBytes    = 16 << 20 // of the results of completions whose claims wait
	// A document is made from about jobStateBytes beside its payload and output, most of it read from meta.
	jobStateBytes = 2 << 10
	// maxDocumentBytes is what the longest document is made from: payload, output, the errors of its history, and the
	// rest.
	maxDocumentBytes = job.MaxPayloadBytes + job.MaxOutputBytes + job.MaxHistory*(job.MaxErrorBytes+jobStateBytes) + 64<<10
	// maxDocumentsBytes is what a page of jobs is made from: payloads and details, and the rest of its documents.
	maxDocumentsBytes = job.MaxClaimBytes + job.MaxPage*jobStateBytes
	// Of a completion's results, what each is made from, and its text.
	resultBytes     = 64
	resultTextBytes = 192
	// maxRowsBytes is what a page of queues or runners is made from, with its text.
	maxRowsBytes = 4 << 20
)

// resultsBytes is about what n results take, with as much of their text as is in memory at once.
func resultsBytes(n int) int64 {
	return 512 + int64(n)*resultBytes + min(int64(n)*resultTextBytes, maxPooledAnswer)
}

// hold takes a share of a budget for an answer, before what it is made from is read. The caller resizes it to what was
// read, and releases it when the answer is written.
func (s *Server) hold(c echo.Context, from *budget, n int64) (*share, error) {
	held := s.shareOf(c, from)
	return held, held.resize(c.Request().Context(), n)
}

// holdPage is hold for a page of documents, after the state has caught up: a request must not hold a share while it
// waits for that.
func (s *Server) holdPage(c echo.Context, n int64) (*share, error) {
	if err := s.catchUp(c); err != nil {
		return nil, err
	}
	return s.hold(c, s.documents, n)
}

// readJob reads the document of a job, with a share for the answer, to be released when it is written. Most documents
// are short: a small share is taken first, and one for the longest document only when the job does not fit into that.
func (s *Server) readJob(c echo.Context, from *budget, id job.ID) (j job.Job, held *share, err error) {
	ctx := c.Request().Context()
	held = s.shareOf(c, from)
	for _, n := range [...]int64{smallShareBytes, maxDocumentBytes} {
		var fits bool
		if err = held.resize(ctx, n); err == nil {
			j, fits, err = s.engine.JobWithin(id, n-jobStateBytes)
		}
		if err != nil {
			held.release()
			return j, held, err
		}
		if fits {
			held.shrink(max(0, n-stateBytes(&j)))
			return j, held, nil
		}
	}
	held.release()
	return j, held, fmt.Errorf("job %s is longer than a job can be: more than %d bytes", id, maxDocumentBytes)
}

// readJobAfter reads the document of a job as of a change of it, or later.
func (s *Server) readJobAfter(c echo.Context, r ingest.Receipt, id job.ID) (job.Job, *share, error) {
	if err := s.engine.CatchUp(c.Request().Context(), r.Seq); err != nil {
		return job.Job{}, s.shareOf(c, s.changes), err
	}
	return s.readJob(c, s.changes, id)
}

// turns are had by those who make pages of documents, while they use a processor: half of the processors, so that
// lists, however many are asked for at once, leave the others to claims and reports. Nil turns need not be waited for.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// do waits for a turn and calls f in it.
func (t turns) do(ctx context.Context, f func() error) error {
	if t == nil {
		return f()
	}
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) shareOf(c echo.Context, from *budget) *share {
	held := &share{budget: from}
	if conn := connectionOf(c.Request()); conn != nil {
		held.peer = conn.peer
	}
	return held
}

// resize makes a share hold n bytes. It waits for those that it does not have.
func (s *share) resize(ctx context.Context, n int64) error {
	switch more := n - s.held; {
	case more < 0:
		s.shrink(-more)
	case more > 0 && !s.grow(ctx, more, maxBudgetWait):
		if err := ctx.Err(); err != nil {
			return err
		}
		return &problem{status: http.StatusServiceUnavailable, code: codeOverloaded,
			detail: "the server holds as many bytes of answers as it may, for clients that have not read them yet; repeat the request later"}
	}
	return nil
}

// Answers are built in buffers that serve again, up to a size that a thousand ordinary jobs fit into.
const maxPooledAnswer = 1 << 20

var answerBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// withBuffer calls f with an empty buffer. f returns the buffer with what it has appended, and keeps nothing of it.
func withBuffer(f func(b []byte) ([]byte, error)) error {
	at := buffer()
	b, err := f(*at)
	putBuffer(at, b)
	return err
}

// buffer takes a buffer; putBuffer gives it back.
func buffer() *[]byte { return answerBuffers.Get().(*[]byte) }

func putBuffer(at *[]byte, b []byte) {
	if cap(b) <= maxPooledAnswer {
		*at = b[:0]
		answerBuffers.Put(at)
	}
}

// answer writes a whole answer with its length.
func answer(c echo.Context, status int, kind string, text []byte) error {
	w := c.Response()
	h := w.Header()
	h[echo.HeaderContentType] = []string{kind}
	h[echo.HeaderContentLength] = []string{strconv.Itoa(len(text))}
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(status)
	_, err := w.Write(text)
	return err
}

// A browser must not take a payload that is shown for a page of this server.
var nosniff = []string{"nosniff"}

const (
	headerSeq    = "Daybook-Seq"     // of an answer: the position of the change in the journal
	headerMinSeq = "Daybook-Min-Seq" // of a request: the position that a read must include
)

func setSeq(c echo.Context, seq uint64) {
	c.Response().Header()[headerSeq] = []string{strconv.FormatUint(seq, 10)}
}

// answerHeld writes a whole answer whose text a share is grown to.
func answerHeld(c echo.Context, held *share, status int, kind string, text []byte) error {
	if err := held.resize(c.Request().Context(), max(held.held, int64(cap(text)))); err != nil {
		return err
	}
	return answer(c, status, kind, text)
}

// answerStored answers a change that is stored, whatever becomes of the answer.
func answerStored(c echo.Context, held *share, status int, text []byte) error {
	if err := held.resize(c.Request().Context(), int64(cap(text))); err != nil {
		return after(err)
	}
	return answer(c, status, mimeJSON, text)
}

// pieceBytes is how much of a long answer is in memory as text.
const pieceBytes = maxPooledAnswer - 64<<10

// pieces is a successful answer. A long one is written while it is made; a short one is written whole, with its length.
type pieces struct {
	c    echo.Context
	kind string
	b    []byte // what is not written yet
	held *share // what is not written yet, and what the rest is made from

	turns turns // had while documents are made, not while they are written
	at    *[]byte
	begun bool
}

func newPieces(c echo.Context, kind string, held *share, t turns) *pieces {
	at := buffer()
	return &pieces{c: c, kind: kind, held: held, turns: t, at: at, b: *at}
}

// jobs appends documents of jobs, which it forgets as they are written. A separator is written between two of them, an
// end after each.
func (p *pieces) jobs(list []job.Job, separator, end string, one func(b []byte, before *jobs, j *job.Job) []byte) error {
	for at := 0; at < len(list); {
		from, made := at, int64(0)
		var before jobs
		err := p.turns.do(p.c.Request().Context(), func() error {
			for ; at < len(list) && len(p.b) < pieceBytes; at++ {
				if at > 0 {
					p.b = append(p.b, separator...)
				}
				made += stateBytes(&list[at])
				p.b = append(one(p.b, &before, &list[at]), end...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(p.b) < pieceBytes {
			return nil // that was all
		}
		if err := p.write(); err != nil {
			return err
		}
		clear(list[from:at])
		p.held.shrink(min(made, p.held.held))
	}
	return nil
}

// stateBytes is about what a job's document is made from.
func stateBytes(j *job.Job) int64 {
	n := jobStateBytes + len(j.Payload) + len(j.Output) + len(j.Error)
	for i := range j.Attempts {
		n += len(j.Attempts[i].Error)
	}
	return int64(n)
}

func statesBytes(list []job.Job) (n int64) {
	for i := range list {
		n += stateBytes(&list[i])
	}
	return n
}

// write writes what there is. A single document may be far longer than a piece, since JSON may have six bytes for one
// of a payload.
func (p *pieces) write() error {
	w := p.c.Response()
	over := int64(max(0, cap(p.b)-2*maxPooledAnswer))
	if err := p.held.resize(p.c.Request().Context(), p.held.held+over); err != nil {
		return err
	}
	defer p.held.shrink(over)
	if !p.begun {
		p.begun = true
		h := w.Header()
		h[echo.HeaderContentType] = []string{p.kind}
		h["X-Content-Type-Options"] = nosniff
		h.Set(gzhttp.HeaderNoCompression, "long") // megabytes would take a processor from others for a tenth of a second
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(p.b)
	if p.b = p.b[:0]; over > 0 {
		p.b = *p.at
	}
	return err
}

// end writes the rest.
func (p *pieces) end() (err error) {
	if p.begun {
		err = p.write()
	} else {
		err = answer(p.c, http.StatusOK, p.kind, p.b)
	}
	putBuffer(p.at, p.b)
	return err
}
