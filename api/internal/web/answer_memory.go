package web

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"
)

// MaxRowsBytes is the memory for a page of documents, such as those of queues or runners, including its text.
const MaxRowsBytes = 4 << 20

// Hold takes a share of a lane for an answer, before the answer's data is read. The caller resizes the share to the
// size of the data, and releases it after it has written the answer.
func Hold(c echo.Context, from *Lane, n int64) (*Share, error) {
	held := ShareOf(c, from)
	return held, held.Resize(c.Request().Context(), n)
}

// Turns limits how many goroutines make pages of documents at the same time. The limit is half of the processors, so
// any number of simultaneous list requests leaves the other half to claims and completions. A nil Turns is without a limit.
type Turns chan struct{}

func NewTurns() Turns { return make(Turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// Do waits for a turn and then calls f.
func (t Turns) Do(ctx context.Context, f func() error) error {
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

func ShareOf(c echo.Context, from *Lane) *Share {
	held := &Share{Lane: from}
	if conn := ConnectionOf(c.Request()); conn != nil {
		held.Peer = conn.Peer
	}
	return held
}

// Resize changes the size of a share to n bytes. If the share must grow, resize waits until the bytes are free.
func (s *Share) Resize(ctx context.Context, n int64) error {
	switch more := n - s.Held; {
	case more < 0:
		s.Shrink(-more)
	case more > 0 && !s.Grow(ctx, more, MaxBudgetWait):
		if err := ctx.Err(); err != nil {
			return err
		}
		return &Problem{Status: http.StatusServiceUnavailable, Code: CodeOverloaded,
			Detail: "the answers that clients have not read yet take all memory for answers; repeat the request later"}
	}
	return nil
}

// Answers are built in reused buffers. A buffer longer than MaxPooledAnswer, which is enough for a thousand ordinary
// jobs, is not reused.
const MaxPooledAnswer = 1 << 20

var answerBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// WithBuffer calls f with an empty buffer. f appends to the buffer, returns it, and keeps no reference to it.
func WithBuffer(f func(b []byte) ([]byte, error)) error {
	at := Buffer()
	b, err := f(*at)
	PutBuffer(at, b)
	return err
}

// Buffer takes a buffer from the pool, and PutBuffer returns it.
func Buffer() *[]byte { return answerBuffers.Get().(*[]byte) }

func PutBuffer(at *[]byte, b []byte) {
	if cap(b) <= MaxPooledAnswer {
		*at = b[:0]
		answerBuffers.Put(at)
	}
}

// Answer writes a whole answer with its length.
func Answer(c echo.Context, status int, kind string, text []byte) error {
	w := c.Response()
	h := w.Header()
	h[echo.HeaderContentType] = []string{kind}
	h[echo.HeaderContentLength] = []string{strconv.Itoa(len(text))}
	h["X-Content-Type-Options"] = Nosniff
	w.WriteHeader(status)
	_, err := w.Write(text)
	return err
}

// Nosniff prevents a browser from showing a payload as an HTML page of this server.
var Nosniff = []string{"nosniff"}

const (
	headerSeq    = "Daybook-Seq"     // in an answer: the position of the change in the journal
	headerMinSeq = "Daybook-Min-Seq" // in a request: the position that the state must include
	HeaderBy     = "Daybook-By"      // in a request: who makes a change, for histories. Nobody checks it
)

func SetSeq(c echo.Context, seq uint64) {
	c.Response().Header()[headerSeq] = []string{strconv.FormatUint(seq, 10)}
}

// AnswerHeld grows a share to the size of the text, and then writes a whole answer.
func AnswerHeld(c echo.Context, held *Share, status int, kind string, text []byte) error {
	if err := held.Resize(c.Request().Context(), max(held.Held, int64(cap(text)))); err != nil {
		return err
	}
	return Answer(c, status, kind, text)
}

// PieceBytes is the length of the text that a long answer keeps in memory at a time.
const PieceBytes = MaxPooledAnswer - 64<<10

// Pieces is a successful answer. A short answer is written in one piece. A long answer is written in pieces while the
// rest is still being made.
type Pieces struct {
	Ctx  context.Context
	To   Sink
	B    []byte // text that is not written yet
	Held *Share // for b, and for the data of the rest of the answer

	Turns Turns // a turn is taken while documents are made, but not while they are written
	at    *[]byte
	Begun bool
}

// Sink receives the pieces of an answer.
type Sink interface {
	More(piece []byte) error // writes a piece that is not the last
	End(piece []byte) error  // writes the last piece, or the whole answer
}

// NewPieces returns the pieces of an answer to an HTTP request.
func NewPieces(c echo.Context, kind string, held *Share, t Turns) *Pieces {
	return PiecesTo(c.Request().Context(), &body200{c: c, kind: kind}, held, t)
}

func PiecesTo(ctx context.Context, to Sink, held *Share, t Turns) *Pieces {
	at := Buffer()
	return &Pieces{Ctx: ctx, To: to, Held: held, Turns: t, at: at, B: *at}
}

// body200 is the body of an answer with status 200. An answer in one piece gets a Content-Length.
type body200 struct {
	c     echo.Context
	kind  string
	begun bool
}

func (a *body200) More(piece []byte) error {
	w := a.c.Response()
	if !a.begun {
		a.begun = true
		h := w.Header()
		h[echo.HeaderContentType] = []string{a.kind}
		h["X-Content-Type-Options"] = Nosniff
		h.Set(gzhttp.HeaderNoCompression, "long") // compressing megabytes would occupy a processor for a tenth of a second
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(piece)
	return err
}

func (a *body200) End(piece []byte) error {
	if a.begun {
		return a.More(piece)
	}
	return Answer(a.c, http.StatusOK, a.kind, piece)
}

// Write writes the text in b.
func (p *Pieces) Write() error {
	p.Begun = true
	return p.flush(p.To.More)
}

// End writes the rest of the answer.
func (p *Pieces) End() (err error) {
	err = p.flush(p.To.End)
	PutBuffer(p.at, p.B)
	return err
}

// flush writes the text in b, which can be much longer than a piece, because JSON can need six bytes for one byte of a
// payload.
func (p *Pieces) flush(write func([]byte) error) error {
	over := int64(max(0, cap(p.B)-2*MaxPooledAnswer))
	if err := p.Held.Resize(p.Ctx, p.Held.Held+over); err != nil {
		return err
	}
	defer p.Held.Shrink(over)
	err := write(p.B)
	if p.B = p.B[:0]; over > 0 {
		p.B = *p.at
	}
	return err
}
