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

// These budgets bound the bytes of answers in memory, including the data that the answers are made from. A client that
// does not read its answer keeps its share until the server closes the connection. Claims have a separate budget, so
// that clients that read lists cannot prevent runners from claiming jobs.
const (
	documentsBudgetBytes = 32 << 20 // answers to GET
	handoutsBudgetBytes  = 64 << 20 // answers to claims
	changesBudgetBytes   = 16 << 20 // answers to changes of one job, which have its document, and to completions
	parkedBudgetBytes    = 16 << 20 // results of completions whose claim waits
	// jobStateBytes is about the memory that a job needs in addition to its payload, output and errors. Most of it is
	// meta.
	jobStateBytes = 2 << 10
	// maxDocumentBytes is the memory for the largest job: payload, output, the errors of its history, and the rest.
	maxDocumentBytes = job.MaxPayloadBytes + job.MaxOutputBytes + job.MaxHistory*(job.MaxErrorBytes+jobStateBytes) + 64<<10
	// maxDocumentsBytes is the memory for the jobs of a page: payloads and details, and the rest.
	maxDocumentsBytes = job.MaxClaimBytes + job.MaxPage*jobStateBytes
	// A result of a completion takes resultBytes in memory, and resultTextBytes in the answer.
	resultBytes     = 64
	resultTextBytes = 192
	// maxRowsBytes is the memory for a page of queues or runners, including its text.
	maxRowsBytes = 4 << 20
)

// resultsBytes is about the memory for n results, including the part of their text that is in memory at a time.
func resultsBytes(n int) int64 {
	return 512 + int64(n)*resultBytes + min(int64(n)*resultTextBytes, maxPooledAnswer)
}

// hold takes a share of a budget for an answer, before the answer's data is read. The caller resizes the share to the
// size of the data, and releases it after it has written the answer.
func (s *Server) hold(c echo.Context, from *budget, n int64) (*share, error) {
	held := s.shareOf(c, from)
	return held, held.resize(c.Request().Context(), n)
}

// holdPage waits until the state has caught up, and then takes a share for a page of documents. A request must not hold
// a share while it waits.
func (s *Server) holdPage(c echo.Context, n int64) (*share, error) {
	if err := s.catchUp(c); err != nil {
		return nil, err
	}
	return s.hold(c, s.documents, n)
}

// readJob reads a job, and takes a share for the answer. The caller releases the share after it has written the answer.
// Most jobs are small, so readJob takes a small share first. If the job does not fit, it takes a share for the largest
// job.
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
	return j, held, fmt.Errorf("job %s takes more than %d bytes, the maximum for a job", id, maxDocumentBytes)
}

// readJobAfter waits until the state includes the change with the receipt r, and then reads the job.
func (s *Server) readJobAfter(c echo.Context, r ingest.Receipt, id job.ID) (job.Job, *share, error) {
	if err := s.engine.CatchUp(c.Request().Context(), r.Seq); err != nil {
		return job.Job{}, s.shareOf(c, s.changes), err
	}
	return s.readJob(c, s.changes, id)
}

// turns limits how many goroutines make pages of documents at the same time. The limit is half of the processors, so
// any number of simultaneous list requests leaves the other half to claims and completions. A nil turns has no limit.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// do waits for a turn and then calls f.
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

// resize changes the size of a share to n bytes. If the share must grow, resize waits until the bytes are free.
func (s *share) resize(ctx context.Context, n int64) error {
	switch more := n - s.held; {
	case more < 0:
		s.shrink(-more)
	case more > 0 && !s.grow(ctx, more, maxBudgetWait):
		if err := ctx.Err(); err != nil {
			return err
		}
		return &problem{status: http.StatusServiceUnavailable, code: codeOverloaded,
			detail: "the answers that clients have not read yet take all memory for answers; repeat the request later"}
	}
	return nil
}

// Answers are built in reused buffers. A buffer longer than maxPooledAnswer, which is enough for a thousand ordinary
// jobs, is not reused.
const maxPooledAnswer = 1 << 20

var answerBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// withBuffer calls f with an empty buffer. f appends to the buffer, returns it, and keeps no reference to it.
func withBuffer(f func(b []byte) ([]byte, error)) error {
	at := buffer()
	b, err := f(*at)
	putBuffer(at, b)
	return err
}

// buffer takes a buffer from the pool, and putBuffer returns it.
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

// nosniff prevents a browser from showing a payload as an HTML page of this server.
var nosniff = []string{"nosniff"}

const (
	headerSeq    = "Daybook-Seq"     // in an answer: the position of the change in the journal
	headerMinSeq = "Daybook-Min-Seq" // in a request: the position that the state must include
)

func setSeq(c echo.Context, seq uint64) {
	c.Response().Header()[headerSeq] = []string{strconv.FormatUint(seq, 10)}
}

// answerHeld grows a share to the size of the text, and then writes a whole answer.
func answerHeld(c echo.Context, held *share, status int, kind string, text []byte) error {
	if err := held.resize(c.Request().Context(), max(held.held, int64(cap(text)))); err != nil {
		return err
	}
	return answer(c, status, kind, text)
}

// answerStored answers a change that is stored. If there is no memory for the answer, the problem says that the change
// is stored.
func answerStored(c echo.Context, held *share, status int, text []byte) error {
	if err := held.resize(c.Request().Context(), int64(cap(text))); err != nil {
		return after(err)
	}
	return answer(c, status, mimeJSON, text)
}

// pieceBytes is the length of the text that a long answer keeps in memory at a time.
const pieceBytes = maxPooledAnswer - 64<<10

// pieces is a successful answer. A short answer is written in one piece. A long answer is written in pieces while the
// rest is still being made.
type pieces struct {
	ctx  context.Context
	to   sink
	b    []byte // text that is not written yet
	held *share // for b, and for the data of the rest of the answer

	turns turns // a turn is taken while documents are made, but not while they are written
	at    *[]byte
	begun bool
}

// sink receives the pieces of an answer.
type sink interface {
	more(piece []byte) error // writes a piece that is not the last
	end(piece []byte) error  // writes the last piece, or the whole answer
}

// newPieces returns the pieces of an answer to an HTTP request.
func newPieces(c echo.Context, kind string, held *share, t turns) *pieces {
	return piecesTo(c.Request().Context(), &body200{c: c, kind: kind}, held, t)
}

func piecesTo(ctx context.Context, to sink, held *share, t turns) *pieces {
	at := buffer()
	return &pieces{ctx: ctx, to: to, held: held, turns: t, at: at, b: *at}
}

// body200 is the body of an answer with status 200. An answer in one piece gets a Content-Length.
type body200 struct {
	c     echo.Context
	kind  string
	begun bool
}

func (a *body200) more(piece []byte) error {
	w := a.c.Response()
	if !a.begun {
		a.begun = true
		h := w.Header()
		h[echo.HeaderContentType] = []string{a.kind}
		h["X-Content-Type-Options"] = nosniff
		h.Set(gzhttp.HeaderNoCompression, "long") // compressing megabytes would occupy a processor for a tenth of a second
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(piece)
	return err
}

func (a *body200) end(piece []byte) error {
	if a.begun {
		return a.more(piece)
	}
	return answer(a.c, http.StatusOK, a.kind, piece)
}

// jobs appends the document of each job, and clears the jobs of the list that are written. It puts separator between
// two documents, and end after each.
func (p *pieces) jobs(list []job.Job, separator, end string, one func(b []byte, before *jobs, j *job.Job) []byte) error {
	for at := 0; at < len(list); {
		from, made := at, int64(0)
		var before jobs
		err := p.turns.do(p.ctx, func() error {
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

// stepBytes is about the memory for a step in addition to its name, in a job and in a document of its states.
const stepBytes = 128

// stateBytes is about the memory for a job.
func stateBytes(j *job.Job) int64 {
	n := jobStateBytes + len(j.Payload) + len(j.Output) + len(j.OutputAddr) + len(j.LogAddr) + len(j.Error)
	for i := range j.Attempts {
		n += len(j.Attempts[i].Error)
	}
	for i := range j.Steps {
		n += stepBytes + len(j.Steps[i].Name)
	}
	return int64(n)
}

func statesBytes(list []job.Job) (n int64) {
	for i := range list {
		n += stateBytes(&list[i])
	}
	return n
}

// write writes the text in b.
func (p *pieces) write() error {
	p.begun = true
	return p.flush(p.to.more)
}

// end writes the rest of the answer.
func (p *pieces) end() (err error) {
	err = p.flush(p.to.end)
	putBuffer(p.at, p.b)
	return err
}

// flush writes the text in b, which can be much longer than a piece, because JSON can need six bytes for one byte of a
// payload.
func (p *pieces) flush(write func([]byte) error) error {
	over := int64(max(0, cap(p.b)-2*maxPooledAnswer))
	if err := p.held.resize(p.ctx, p.held.held+over); err != nil {
		return err
	}
	defer p.held.shrink(over)
	err := write(p.b)
	if p.b = p.b[:0]; over > 0 {
		p.b = *p.at
	}
	return err
}
