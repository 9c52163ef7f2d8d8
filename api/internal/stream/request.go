package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// streamRequest is a request: a number, one verb with the body of the equivalent HTTP request, and, for verbs that
// change jobs, the fields that let the client repeat the request.
type streamRequest struct {
	onlyNumber
	Hello       jsontext.Value `json:"hello"`
	Subscribe   jsontext.Value `json:"subscribe"`
	Credit      jsontext.Value `json:"credit"`
	Unsubscribe jsontext.Value `json:"unsubscribe"`
	Create      jsontext.Value `json:"create"`
	Complete    jsontext.Value `json:"complete"`
	Tickle      jsontext.Value `json:"tickle"`
	Release     jsontext.Value `json:"release"`
	Begin       jsontext.Value `json:"begin"`

	Batch   *bool          `json:"batch"` // of create
	Key     *string        `json:"idempotency_key"`
	Session *sessionNumber `json:"session"`

	runs bool     // a binary message: the body is in runs
	in   *message // nil in tests of requests alone
}

// reserve takes more memory for the request. The memory is freed when all holders have released the message.
func (r *streamRequest) reserve(bytes int64) error {
	if r.in == nil {
		return nil
	}
	return r.in.Reserve(context.Background(), bytes)
}

// onlyNumber is the number of a request.
type onlyNumber struct {
	N *uint64 `json:"n"`
}

// sessionNumber is the number of a request in a session, as in the headers of HTTP requests.
type sessionNumber struct {
	ID     job.ID `json:"id"`
	Slot   int64  `json:"slot"`
	Number int64  `json:"number"`
}

// maxRequestNumber is the largest whole number that all JSON libraries read exactly.
const maxRequestNumber = 1<<53 - 1

// numbered returns nil if a request has a number under which it can be answered, and otherwise the reason why not. err
// is the error of decoding the request.
func numbered(r *streamRequest, err error) error {
	p, refused := errors.AsType[*web.Problem](err)
	otherType := refused && strings.HasPrefix(p.Detail, "n must be ")
	if refused && !otherType && (r.N == nil || p.Field == "n") {
		return p
	}
	if otherType || r.N == nil || *r.N > maxRequestNumber {
		return web.BadRequest("n", fmt.Sprintf("n must be a whole number from 0 to %d, which numbers the request", int64(maxRequestNumber)))
	}
	return nil
}

// message is a client's message in memory. Decoded requests refer to its bytes, so the stream that reads it and each of
// its requests hold it.
type message struct {
	web.Body
	t       *stream
	kind    websocket.MessageType
	counted int
	holders atomic.Int32
}

// hold adds a holder, and release removes one. The last release frees the memory.
func (m *message) hold() { m.holders.Add(1) }

func (m *message) Release() {
	if m.holders.Add(-1) > 0 {
		return
	}
	m.Body.Release()
	m.t.requests.release(m.counted)
}

// A message is first read into firstMessageBytes, which is enough for most.
const firstMessageBytes = 4 << 10
