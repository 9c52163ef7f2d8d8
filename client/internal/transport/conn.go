package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/problem"
)

// Conn sends requests to one server, or to one node of a cluster at a time. A copy with other fields shares the connections.
type Conn struct {
	Servers *Servers
	HTTP    *http.Client
	// Traced says that the transport is the one of net/http, which reports reliably whether it has sent anything.
	Traced bool

	RetryFor, Timeout time.Duration // as in client.Options
	Persistent        bool          // requests are repeated also after failures of the server, and while it is unreachable
	Logger            *slog.Logger
	By, Key           string // as in client.Options
	KeySource         func(context.Context) (string, error)

	// Stream, if not nil, sends a request in a stream. If it returns ErrNotSent, the request is sent over HTTP.
	Stream func(context.Context, *Conn, Request) (Answer, error)
}

// Request is one request to the server.
type Request struct {
	Method, Path string
	Verb         string // of the same request in a stream; "" if streams do not carry it
	Query        url.Values
	Body         []byte
	ContentType  string
	Accept       string // "" means the default media type of the route
	Key          string // Idempotency-Key
	Prefer       string
	Number       Number // zero: none
	Repeat       Repeating
	Wait         time.Duration // how long the server may wait before it answers
	Upload       *Upload       // instead of body
	Header       http.Header   // more headers; may be nil
	Err          error         // why the request is wrong; it is returned, and nothing is sent
}

const (
	MimeJSON   = "application/json"
	MimeNDJSON = "application/x-ndjson"
	MimeText   = "text/plain"
)

// Repeating says whether a request is repeated when its answer is lost.
type Repeating uint8

const (
	SentOnce   Repeating = iota // the error is ErrUnknown
	Repeatable                  // the request is sent again: doing it twice has the same effect as doing it once
)

// RepeatableWith returns repeatable if the request has a key or the id of a claim, by which the server recognizes a
// repeat. Otherwise it returns SentOnce.
func RepeatableWith(name string) Repeating {
	if name == "" {
		return SentOnce
	}
	return Repeatable
}

// Post makes a request with a JSON body.
func Post(path string, body any, repeat Repeating) (Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return Request{}, fmt.Errorf("%w: encode the request: %w", problem.ErrBadRequest, err)
	}
	return Request{Method: http.MethodPost, Path: path, Body: text, ContentType: MimeJSON, Repeat: repeat}, nil
}

func Get(path string) Request { return Request{Method: http.MethodGet, Path: path, Repeat: Repeatable} }
