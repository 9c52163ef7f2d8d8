package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/wsframe"
)

var messageBuffers = sync.Pool{New: func() any {
	b := make([]byte, firstMessageBytes)
	return &b
}}

// receive waits for the next message, and reads all of it. The memory for it counts against the same lanes as bodies
// of HTTP requests.
func (t *stream) receive() (*message, error) {
	kind, r, err := t.conn.Reader(context.Background())
	if err != nil {
		return nil, unreadable(err)
	}
	t.receiving.Store(true)
	defer t.receiving.Store(false)
	m := &message{t: t, kind: kind}
	m.Rule = &t.s.messages
	m.Share = t.share(m.Rule.Lane)
	if t.accepted != nil {
		m.Paced = &web.PacedReader{From: r, Deadline: t.accepted}
		r = m.Paced
	}
	if err := m.read(r); err != nil {
		m.Body.Release()
		return nil, unreadable(err)
	}
	if t.accepted != nil {
		if err := t.accepted.SetReadDeadline(time.Time{}); err != nil {
			m.Body.Release()
			return nil, err
		}
	}
	m.holders.Store(1)
	m.counted = len(m.Bytes)
	t.requests.hold(m.counted)
	return m, nil
}

// unreadable returns the error with which the server ends the stream when a message cannot be read.
func unreadable(err error) error {
	if p, ok := errors.AsType[*web.Problem](err); ok {
		status := websocket.StatusMessageTooBig
		if p.Code == web.CodeOverloaded {
			status = websocket.StatusTryAgainLater
		}
		return &protocolError{status, p.Code}
	}
	if broken, ok := errors.AsType[*wsframe.Error](err); ok {
		return &protocolError{broken.Status, broken.Reason}
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return &protocolError{websocket.StatusPolicyViolation, "a message arrived too slowly"}
	}
	return err
}

// read reads a message to its end.
func (m *message) read(r io.Reader) error {
	ctx := context.Background()
	if err := m.Reserve(ctx, firstMessageBytes); err != nil {
		return err
	}
	first := messageBuffers.Get().(*[]byte)
	n, err := io.ReadFull(r, *first)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF: // the whole message
		m.Bytes = append(make([]byte, 0, n), (*first)[:n]...)
		messageBuffers.Put(first)
		m.Share.Shrink(firstMessageBytes - int64(n))
		return nil
	case err != nil:
		messageBuffers.Put(first)
		return err
	}
	if isCreateMessage(*first) { // so that bulk posts do not take the memory for completions
		m.Share.Release()
		m.Rule = &m.t.s.bulkMessages
		m.Share.Lane = m.Rule.Lane
	}
	err = m.Take(ctx, web.FirstReadBytes)
	if err == nil {
		m.Bytes = append(m.Bytes, *first...)
		err = m.Grow(ctx, r)
	}
	messageBuffers.Put(first)
	return err
}

// isCreateMessage reports whether a long message looks like a create. A long message usually has one request.
func isCreateMessage(beginning []byte) bool {
	beginning = beginning[:min(len(beginning), 512)]
	return bytes.Contains(beginning, []byte(`"create"`)) || bytes.Contains(beginning, []byte("\n#:create "))
}

// serve begins the requests of a message. A text message has one JSON object per line, and a binary message is one
// request.
func (t *stream) serve(m *message) error {
	if m.kind == websocket.MessageBinary {
		r, err := binaryRequest(m.Bytes)
		r.in = m
		if r.N == nil {
			return &protocolError{websocket.StatusPolicyViolation, closeReason(refusal.Of(err).Detail)}
		}
		t.accept(m, r, err)
		m.Bytes = nil // as below
		return nil
	}
	for rest := m.Bytes; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r := streamRequest{in: m}
		err := decodeLine(line, &r)
		if err != nil && r.N == nil { // the number may be after the mistake
			_ = json.Unmarshal(line, &r.onlyNumber) // without a number, the first mistake is reported
		}
		if err == nil && r.N == nil && !web.Absent(r.Begin) {
			if err := t.beginQuietly(&r); err != nil {
				return &protocolError{websocket.StatusPolicyViolation, closeReason(refusal.Of(err).Detail)}
			}
			continue
		}
		if unnumbered := numbered(&r, err); unnumbered != nil {
			return &protocolError{websocket.StatusPolicyViolation, closeReason(refusal.Of(unnumbered).Detail)}
		}
		t.accept(m, &r, err)
	}
	m.Bytes = nil // every request has begun, and refers to the parts that it still needs
	return nil
}

// aliasedBytes is the length from which decoding a line without copies is worth the search for its values.
const aliasedBytes = 16 << 10

// decodeLine decodes a request.
func decodeLine(line []byte, r *streamRequest) error {
	if len(line) < aliasedBytes {
		return web.DecodeObject(line, r)
	}
	return decodeAliased(line, r)
}

// decodeAliased decodes a request without copying its bodies: they refer to the line.
func decodeAliased(line []byte, r *streamRequest) error {
	return web.DecodeObject(line, r, json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *jsontext.Value) error {
		value, err := d.ReadValue()
		end := int(d.InputOffset())
		*v = line[end-len(value) : end : end]
		return err
	})))
}

// closeReason shortens a text to the size of a close frame.
func closeReason(text string) string {
	const most = 120
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// accept begins a request and answers it when it has ended. If err is not nil, accept only answers.
func (t *stream) accept(m *message, r *streamRequest, err error) {
	began := time.Now()
	if !t.requests.begin() {
		if !t.answers.crowded() { // the client still sends although the server is going away
			t.answers.refuse(*r.N, web.ErrShuttingDown, 0)
		}
		return
	}
	v := verbUnknown
	var finish finisher
	if err == nil {
		v, err = t.permitted(r)
	}
	if err == nil {
		err = t.guarded(func() error {
			finish, err = v.begin(t, r)
			return err
		})
	}
	n := *r.N
	if err != nil {
		t.refuse(v, n, began, err)
		return
	}
	m.hold()
	// The waiting function must not refer to the request, which may be long.
	t.s.finishers.run(func() {
		defer m.Release()
		var line []byte
		at := web.Buffer()
		err := t.guarded(func() (err error) {
			line, err = finish.answer(*at, n)
			return err
		})
		if err != nil {
			web.PutBuffer(at, nil)
			t.refuse(v, n, began, err)
			return
		}
		held := t.share(t.s.Changes)
		if len(line) > smallAnswerBytes {
			if err := held.Resize(context.Background(), int64(cap(line))); err != nil {
				t.refuse(v, n, began, refusal.After(err))
				return
			}
		}
		t.s.verbs[v.name].Observe(http.StatusOK, time.Since(began))
		t.answers.addHeld(line, 1, &held)
		web.PutBuffer(at, line)
	})
}

// refuse answers a request with a problem.
func (t *stream) refuse(v *streamVerb, n uint64, began time.Time, err error) {
	p := refusal.Of(err)
	t.s.verbs[v.name].Observe(p.Status, time.Since(began))
	if p.Status >= http.StatusInternalServerError && !p.Reported {
		t.s.Log.Warn().Str("stream", v.name).Str("code", p.Code).AnErr("error", err).Msg("request of a stream failed")
	}
	t.answers.refuse(n, err, 1)
}
