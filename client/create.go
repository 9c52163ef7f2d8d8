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

// Attributes are what creates of all forms can say of their jobs.
type Attributes struct {
	RunAt       int64 // unix ms; excludes DelayMs
	DelayMs     int64
	Priority    *int // 0 … 9, the highest first
	MaxAttempts int
	Backoff     *Backoff
	LeaseMs     int64
	RetentionMs *int64 // 0: gone at once
	ExpiresAt   int64  // unix ms: when a job is cancelled that has not been started; 0: never
	TimeoutMs   int64  // how long a run may last however often it is tickled; 0: no limit
	Meta        map[string]string
	Traceparent string // W3C Trace Context, version 00
}

// NewKey returns a random idempotency key. What is created or claimed with a key is repeated when the answer is lost,
// and carried out once: the server keeps the answer for a day. It is not used by itself: with a key a create is
// answered when it was applied, not as soon as it is on disk. A program that makes many requests uses a Session
// instead, which costs the server less.
func NewKey() string { return rand.Text() }

// Backoff is how long a job waits after a retry or error: InitialMs, then FactorMilli/1000 times as long each time, at
// most MaxMs.
type Backoff struct {
	InitialMs   *int64 `json:"initial_ms,omitzero"`
	FactorMilli *int64 `json:"factor_milli,omitzero"`
	MaxMs       *int64 `json:"max_ms,omitzero"`
}

// TextJob is a job whose payload is a text.
func TextJob(typ, payload string) NewJob {
	return NewJob{Type: typ, Payload: []byte(payload), Kind: Text}
}

// JSONJob is a job whose payload is a JSON value.
func JSONJob(typ string, payload jsontext.Value) NewJob {
	return NewJob{Type: typ, Payload: payload, Kind: JSON}
}

type createBody struct {
	Client      string         `json:"client,omitzero"`
	Type        string         `json:"type,omitzero"`
	Payload     jsontext.Value `json:"payload,omitzero"`
	PayloadB64  []byte         `json:"payload_b64,omitzero"`
	BinaryAddr  string         `json:"binary_addr,omitzero"`
	InputAddr   string         `json:"input_addr,omitzero"`
	RunAt       int64          `json:"run_at,omitzero"`
	DelayMs     int64          `json:"delay_ms,omitzero"`
	Priority    *int           `json:"priority,omitzero"`
	MaxAttempts int            `json:"max_attempts,omitzero"`
	Backoff     *Backoff       `json:"backoff,omitzero"`
	LeaseMs     int64          `json:"lease_ms,omitzero"`
	RetentionMs *int64         `json:"retention_ms,omitzero"`

	ExpiresAt   int64             `json:"expires_at,omitzero"`
	TimeoutMs   int64             `json:"timeout_ms,omitzero"`
	Meta        map[string]string `json:"meta,omitempty"`
	Traceparent string            `json:"traceparent,omitzero"`
	UniqueKey   string            `json:"unique_key,omitzero"`
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
	r, err := post("/jobs/create", b, j.Key != "")
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
		Client: j.Client, Type: j.Type, BinaryAddr: j.BinaryAddr, InputAddr: j.InputAddr, RunAt: j.RunAt, DelayMs: j.DelayMs,
		Priority: j.Priority, MaxAttempts: j.MaxAttempts, Backoff: j.Backoff, LeaseMs: j.LeaseMs, RetentionMs: j.RetentionMs,
		ExpiresAt: j.ExpiresAt, TimeoutMs: j.TimeoutMs, Meta: j.Meta, Traceparent: j.Traceparent, UniqueKey: j.UniqueKey,
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
