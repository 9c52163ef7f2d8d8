package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// NewJob is a job to be created. The zero value of an attribute stands for the server's default.
type NewJob struct {
	Client string
	Type   string

	// Payload of Kind: Text and JSON are sent as such, Bytes in base64. Without a Kind it is taken as a Text when it is
	// valid UTF-8, as Bytes otherwise; an empty one is none then. With BinaryAddr there is none.
	Payload    []byte
	Kind       Kind
	BinaryAddr string
	InputAddr  string

	// UniqueKey is held by the job while it is unfinished: a queue has one such job at most, and creating another makes
	// none.
	UniqueKey string
	// Key is an idempotency key of Create: see NewKey.
	Key string

	Attributes
}

// NewKey returns a random idempotency key. What is created or claimed with a key is repeated when the answer is lost,
// and carried out once: the server keeps the answer for a day. It is not used by itself: with a key a create is
// answered when it was applied, not as soon as it is on disk. A program that makes many requests uses a Session
// instead, which costs the server less.
func NewKey() string { return rand.Text() }

// TextJob is a job whose payload is a text.
func TextJob(typ, payload string) NewJob {
	return NewJob{Type: typ, Payload: []byte(payload), Kind: Text}
}

// JSONJob is a job whose payload is a JSON value.
func JSONJob(typ string, payload jsontext.Value) NewJob {
	return NewJob{Type: typ, Payload: payload, Kind: JSON}
}

type createBody struct {
	Client     string         `json:"client,omitzero"`
	Type       string         `json:"type,omitzero"`
	Payload    jsontext.Value `json:"payload,omitzero"`
	PayloadB64 []byte         `json:"payload_b64,omitzero"`
	BinaryAddr string         `json:"binary_addr,omitzero"`
	InputAddr  string         `json:"input_addr,omitzero"`
	UniqueKey  string         `json:"unique_key,omitzero"`
	Attributes
}

// Create creates one job and returns its document; with a UniqueKey that an unfinished job has, that job's, with
// Existing set. It is answered when the job is on disk. Without a Key or number (see Numbered) it is repeated only when
// it is proven that nothing was stored. Where an answer does not prove that (it is lost, truncated, a proxy's, or
// cannot be read) the error is ErrUnknown, and creating the job again may make it twice.
func (c *Client) Create(ctx context.Context, j NewJob) (*Job, error) {
	b, err := j.body()
	if err != nil {
		return nil, err
	}
	r, err := post("/jobs/create", b, repeatableWith(j.Key))
	if err != nil {
		return nil, err
	}
	r.key = j.Key
	a, err := c.do(ctx, c.numbered(r))
	if err != nil {
		return nil, err
	}
	return decodeJob(a)
}

func (j *NewJob) body() (b createBody, err error) {
	b = createBody{
		Client: j.Client, Type: j.Type, BinaryAddr: j.BinaryAddr, InputAddr: j.InputAddr, UniqueKey: j.UniqueKey, Attributes: j.Attributes,
	}
	b.Payload, b.PayloadB64, err = wireContent(j.Kind, j.Payload)
	return b, err
}

// wireContent is the inverse of content. What has no kind gets one, so that nothing is dropped.
func wireContent(kind Kind, data []byte) (value jsontext.Value, b64 []byte, err error) {
	if kind == None && len(data) > 0 {
		if kind = Bytes; utf8.Valid(data) {
			kind = Text
		}
	}
	switch kind {
	case Text:
		if value, err = jsontext.AppendQuote(nil, data); err != nil {
			return nil, nil, fmt.Errorf("%w: a text: %w", ErrBadRequest, err)
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
		return nil, nil, fmt.Errorf("%w: %d bytes of kind %q", ErrBadRequest, len(data), kind)
	}
	return nil, nil, nil
}
