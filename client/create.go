package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// NewJob is a job to be created. The zero value of an attribute means the server's default.
type NewJob struct {
	Client string `json:"client,omitzero"`
	Type   string `json:"type,omitzero"`

	// Payload is sent according to Kind: Text and JSON as they are, Bytes in base64. With an empty Kind it is sent as
	// Text if it is valid UTF-8, otherwise as Bytes, and not at all if it is empty. With BinaryAddr it must be empty.
	Payload    []byte `json:"-"`
	Kind       Kind   `json:"-"`
	BinaryAddr string `json:"binary_addr,omitzero"`
	InputAddr  string `json:"input_addr,omitzero"`

	// UniqueKey belongs to the job until the job ends. A queue has at most one unfinished job with a given UniqueKey:
	// Create then returns that job instead of creating another.
	UniqueKey string `json:"unique_key,omitzero"`
	// Key is an idempotency key of Create: see NewKey.
	Key string `json:"-"`

	Attributes
}

// NewKey returns a random idempotency key. A create or claim with a key is repeated when the answer is lost, and the
// server carries it out once. The server keeps the answer for a day. No key is used unless the caller sets one, since a
// create with a key takes longer: the server answers when it has applied the create, not as soon as it is on disk. For
// many requests use a Session, which costs the server less.
func NewKey() string { return rand.Text() }

// TextJob returns a job whose payload is a text.
func TextJob(typ, payload string) NewJob {
	return NewJob{Type: typ, Payload: []byte(payload), Kind: Text}
}

// JSONJob returns a job whose payload is a JSON value.
func JSONJob(typ string, payload jsontext.Value) NewJob {
	return NewJob{Type: typ, Payload: payload, Kind: JSON}
}

type createBody struct {
	NewJob
	Payload    jsontext.Value `json:"payload,omitzero"`
	PayloadB64 []byte         `json:"payload_b64,omitzero"`
}

// Create creates one job and returns its document. If an unfinished job has the same UniqueKey, it returns that job
// with Existing set. The server answers when the job is on disk.
//
// Creates that are made at the same time share requests in a stream, if they have neither Key nor UniqueKey nor number;
// see Options.NoJoin.
//
// Without a Key or number (see Numbered), Create is repeated only if it is proven that nothing was stored. Without that
// proof the error is ErrUnknown: the answer was lost, was truncated, was sent by a proxy, or cannot be read. Calling
// Create again may then create the job twice.
func (c *Client) Create(ctx context.Context, j NewJob) (*Job, error) {
	j, err := c.encodedJob(j, c.repeatOf(j.Key))
	if err != nil {
		return nil, err
	}
	if c.joined != nil && j.Key == "" && j.UniqueKey == "" && c.own == (transport.Number{}) {
		defer c.joined.end()
		traced := j // in a request that creates share, each job has its own
		if traced.Traceparent == "" {
			traced.Traceparent = c.traceparent(ctx)
		}
		if own := c.joined.begin(c, &traced); own != nil {
			a := c.joined.create(ctx, c, own)
			if a.err == nil {
				return c.decodeJob(traced.created(own, a)), nil
			}
			if !errors.Is(a.err, errNotJoined) {
				return nil, a.err
			}
		}
	}
	b, err := j.body()
	if err != nil {
		return nil, err
	}
	r := post("/jobs/create", b, transport.RepeatableWith(j.Key))
	r.Key = j.Key
	return c.askJob(ctx, c.numbered(c.inTrace(ctx, r)))
}

// traceparent returns the trace context of a caller; "" if there is none.
func (c *Client) traceparent(ctx context.Context) string {
	if c.o.Traceparent == nil {
		return ""
	}
	text := c.o.Traceparent(ctx)
	if job.CheckTraceparent(text) != nil {
		return ""
	}
	return text
}

// inTrace adds the trace context of a caller to a request. It is a header, so that a repeat with the same key may have
// a different one.
func (c *Client) inTrace(ctx context.Context, r transport.Request) transport.Request {
	if text := c.traceparent(ctx); text != "" {
		r.Header = maps.Clone(r.Header)
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Traceparent", text)
	}
	return r
}

func (j *NewJob) body() (b createBody, err error) {
	b.NewJob = *j
	b.Payload, b.PayloadB64, err = wireContent(j.Kind, j.Payload)
	return b, err
}

// wireContent is the inverse of content.
func wireContent(kind Kind, data []byte) (value jsontext.Value, b64 []byte, err error) {
	switch kind = kind.Of(data); kind {
	case Text:
		if value, err = jsontext.AppendQuote(nil, data); err != nil {
			return nil, nil, fmt.Errorf("%w: a payload or output of kind text: %w", problem.ErrBadRequest, err)
		}
		return value, nil, nil
	case JSON:
		return data, nil, nil
	case Bytes:
		if data == nil {
			data = []byte{}
		}
		return nil, data, nil
	}
	if len(data) > 0 || kind != None && kind != WASI {
		return nil, nil, fmt.Errorf("%w: a payload or output of %d bytes cannot have the kind %q; use text, json or bytes", problem.ErrBadRequest, len(data), kind)
	}
	return nil, nil, nil
}
