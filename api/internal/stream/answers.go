package stream

import (
	"context"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
)

// maxQueuedAnswers is the number of bytes that may wait for a client that does not read. Beyond it, the client's
// subscriptions get no more jobs. Answers to its requests are bounded by maxStreamRequests.
const maxQueuedAnswers = 256 << 10

// smallAnswerBytes is the largest answer without a share of the lane for answers. A stream has at most
// maxStreamRequests of them.
const smallAnswerBytes = 1 << 10

// answerQueue joins the answers to a client. Answers that arrive while a message is being written become the next
// message, with a line for each answer. The goroutine that adds to an idle queue writes the message.
type answerQueue struct {
	t *stream

	mu      sync.Mutex
	emptied sync.Cond
	text    []byte
	spare   []byte       // empty; for the next text
	slots   int          // number of requests that end when text is written
	held    []*web.Share // of the long answers in text
	writing bool
	failed  bool // the connection has ended
}

func (q *answerQueue) init(t *stream) { q.t, q.emptied.L = t, &q.mu }

// add appends a line, which must end in a newline. When the line is written, or cannot be written, that many requests
// end.
func (q *answerQueue) add(line []byte, requests int) { q.addHeld(line, requests, nil) }

// addHeld is add for an answer that holds a share of a lane until it is written.
func (q *answerQueue) addHeld(line []byte, requests int, held *web.Share) {
	q.mu.Lock()
	q.text = append(q.text, line...)
	q.slots += requests
	if held != nil && held.Held > 0 {
		q.held = append(q.held, held)
	}
	if q.writing {
		q.mu.Unlock()
		return
	}
	q.writing = true
	if q.t.requests.more(q.slots) {
		// The answers to all requests of a commit are ready at the same time. Gosched lets the other goroutines add
		// theirs first.
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	for len(q.text) > 0 {
		text, slots, held, failed := q.text, q.slots, q.held, q.failed
		q.text, q.slots, q.held, q.spare = q.spare, 0, nil, nil
		q.mu.Unlock()
		if !failed && q.t.write(websocket.MessageText, text) != nil {
			failed = true
			_ = q.t.conn.CloseNow() // the library leaves it open if the client only reads too slowly
		}
		for _, h := range held {
			h.Release()
		}
		if slots > 0 {
			q.t.requests.end(slots)
		}
		q.mu.Lock()
		q.failed = failed
		if cap(text) <= maxQueuedAnswers {
			q.spare = text[:0]
		}
	}
	if cap(q.text)+cap(q.spare) > firstMessageBytes { // thousands of streams may be idle
		q.text, q.spare = nil, nil
	}
	q.writing = false
	q.emptied.Broadcast()
	q.mu.Unlock()
}

// MaxFrameBytes bounds the frames of long messages. Between two frames the server can answer a ping, for which the
// library waits 5 s and then closes the connection. A client at the minimum speed reads a frame in 1.3 s.
const MaxFrameBytes = 64 << 10

// write writes a message. If it fails, the connection must be closed.
func (t *stream) write(kind websocket.MessageType, text []byte) error {
	ctx := context.Background()
	if len(text) <= MaxFrameBytes {
		return t.conn.Write(ctx, kind, text)
	}
	w, err := t.conn.Writer(ctx, kind)
	if err == nil {
		err = writeFrames(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	return err
}

// writeFrames writes a part of a message.
func writeFrames(w io.Writer, text []byte) error {
	for frame := range slices.Chunk(text, MaxFrameBytes) {
		if _, err := w.Write(frame); err != nil {
			return err
		}
	}
	return nil
}

// refuse answers a request with a problem.
func (q *answerQueue) refuse(n uint64, err error, requests int) {
	b := strconv.AppendUint(append([]byte(nil), `{"n":`...), n, 10)
	q.add(appendProblem(b, err), requests)
}

// appendProblem appends a problem as the last field of an object.
func appendProblem(b []byte, err error) []byte {
	b = append(b, `,"problem":`...)
	text, failed := web.EncodeDocument(web.DocumentOfProblem(refusal.Of(err)))
	if failed != nil { // the encoding of texts and numbers cannot fail
		text = []byte("{}\n")
	}
	b = append(b, text[:len(text)-1]...)
	return append(b, "}\n"...)
}

// crowded reports whether many bytes wait for the client.
func (q *answerQueue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.text) > maxQueuedAnswers
}

// flush waits until everything is written.
func (q *answerQueue) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.emptied.Wait()
	}
}

// waitForReader waits until few bytes wait for the client. It reports false if the connection has ended.
func (q *answerQueue) waitForReader() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing && len(q.text) > maxQueuedAnswers && !q.failed {
		q.emptied.Wait()
	}
	return !q.failed
}
