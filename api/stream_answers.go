package api

import (
	"context"
	"strconv"
	"sync"

	"github.com/coder/websocket"
)

// maxQueuedAnswers is how many bytes may wait for a client that does not read, before its subscriptions get no more
// jobs. Answers to its requests are bounded by maxStreamRequests.
const maxQueuedAnswers = 256 << 10

// answerQueue joins what is sent to the client: what arrives while a message is written becomes the next message, with
// a line for each answer. Whoever adds to an idle queue writes the message.
type answerQueue struct {
	t *stream

	mu      sync.Mutex
	emptied sync.Cond
	text    []byte
	spare   []byte // empty; for the next text
	slots   int    // how many requests end when text is written
	writing bool
	failed  bool // the connection has ended
}

func (q *answerQueue) init(t *stream) { q.t, q.emptied.L = t, &q.mu }

// add appends a line, which must end in a newline. When it is written, or cannot be written, that many requests end.
func (q *answerQueue) add(line []byte, requests int) {
	q.mu.Lock()
	q.text = append(q.text, line...)
	q.slots += requests
	if q.writing {
		q.mu.Unlock()
		return
	}
	q.writing = true
	for len(q.text) > 0 {
		text, slots, failed := q.text, q.slots, q.failed
		q.text, q.slots, q.spare = q.spare, 0, nil
		q.mu.Unlock()
		if !failed {
			failed = q.t.conn.Write(context.Background(), websocket.MessageText, text) != nil // read reports the reason
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

// refuse answers a request with a problem.
func (q *answerQueue) refuse(n uint64, err error, requests int) {
	b := strconv.AppendUint(append([]byte(nil), `{"n":`...), n, 10)
	q.add(appendProblem(b, err), requests)
}

// appendProblem appends a problem as the last field of an object.
func appendProblem(b []byte, err error) []byte {
	b = append(b, `,"problem":`...)
	text, failed := encodeDocument(documentOfProblem(problemOf(err)))
	if failed != nil { // the encoding of texts and numbers cannot fail
		text = []byte("{}\n")
	}
	b = append(b, text[:len(text)-1]...)
	return append(b, "}\n"...)
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
