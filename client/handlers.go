package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
)

// StoredHandler is a version of a handler that the server stores. It defines how runners run the jobs of a type.
type StoredHandler struct {
	ID        string `json:"handler_id"`
	Client    string `json:"client"` // "" if it is for all clients without a handler of the type
	Type      string `json:"type"`
	Version   int    `json:"version"` // from 1 on
	Newest    bool   `json:"newest"`
	Deleted   bool   `json:"deleted"` // this version deleted the handler. It has no kind, digest and document
	Gone      bool   `json:"gone"`    // the handler was deleted later, so the server does not keep the document
	Kind      string `json:"kind"`
	Digest    string `json:"digest"` // SHA-256 of Document as the server stores it, as sha256:hex
	Bytes     int64  `json:"bytes"`  // of Document as the server stores it
	By        string `json:"by"`     // who stored it, see Options.By
	CreatedAt int64  `json:"created_at"`
	// Document is the stored document. Lists leave it out.
	Document *handler.Document `json:"handler"`

	Text []byte `json:"-"` // the document as the server sent it
}

// UnmarshalJSON decodes a document of the server.
func (h *StoredHandler) UnmarshalJSON(text []byte) error {
	type document StoredHandler
	*h = StoredHandler{Text: bytes.Clone(text)}
	return json.Unmarshal(text, (*document)(h))
}

// ClaimHandler names a version of a handler in the answer to a claim. It runs the jobs of its type, for its client or,
// with "", for all clients without a handler of the type.
type ClaimHandler struct {
	ID     string `json:"handler_id"`
	Client string `json:"client"`
	Type   string `json:"type"`
	Kind   string `json:"kind"`
	Digest string `json:"digest"` // as in StoredHandler
}

// PutHandler stores a version of the handler of a type. With a client, it is for the jobs of that client; with "", for
// the jobs of all clients without a handler of the type. If the newest version has the same document, PutHandler stores
// nothing and returns that version. The error is ErrBadRequest if the document is wrong, ErrVersionDiffers if only does
// not hold, and ErrOverloaded if the server lacks room for it. PutHandler is repeated when the answer is lost.
func (c *Client) PutHandler(ctx context.Context, client, typ string, document handler.Document, only ...IfVersion) (h StoredHandler, err error) {
	of, err := handlerRequest(http.MethodPut, client, typ, "")
	if err != nil {
		return h, err
	}
	r, err := transport.Post(of.Path, document, transport.Repeatable)
	if err != nil {
		return h, err
	}
	r.Method, r.Query = of.Method, of.Query
	c.conn.Require(&r, only)
	return c.handlerCall(ctx, r)
}

// Handler returns a version of the handler of a type, or with 0 the newest one, for a client or with "" for all. The
// error is ErrNotFound if there is none.
func (c *Client) Handler(ctx context.Context, client, typ string, version int) (h StoredHandler, err error) {
	r, err := handlerRequest(http.MethodGet, client, typ, "")
	if err != nil {
		return h, err
	}
	if version != 0 {
		if r.Query == nil {
			r.Query = url.Values{}
		}
		r.Query.Set("version", strconv.Itoa(version))
	}
	return c.handlerCall(ctx, r)
}

// HandlerVersion returns a version of a handler by its id, or ErrNotFound if the server does not keep it.
func (c *Client) HandlerVersion(ctx context.Context, id string) (h StoredHandler, err error) {
	path, err := idPath("/handler-versions/", id, "")
	if err != nil {
		return h, err
	}
	return c.handlerCall(ctx, transport.Get(path))
}

// HandlerHistory returns the newest 20 versions of a handler, the newest first, also if it was deleted. The error is
// ErrNotFound if the server knows none.
func (c *Client) HandlerHistory(ctx context.Context, client, typ string) ([]StoredHandler, error) {
	r, err := handlerRequest(http.MethodGet, client, typ, "/history")
	if err != nil {
		return nil, err
	}
	a, err := c.conn.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	list, _, err := handlersOf(a)
	return list, err
}

// Handlers yields all handlers in order of type and client, each in its newest version. An error ends the list. A page
// is read again when the answer is lost.
func (c *Client) Handlers(ctx context.Context) iter.Seq2[StoredHandler, error] {
	return transport.Pages(ctx, &c.conn, transport.Get("/handlers"), handlersOf)
}

// DeleteHandler deletes a handler with the documents of all versions. The error is ErrNotFound if there is none, and
// ErrVersionDiffers if only does not hold. DeleteHandler is repeated when the answer is lost; ErrNotFound may then mean
// that the first request deleted the handler.
func (c *Client) DeleteHandler(ctx context.Context, client, typ string, only ...IfVersion) error {
	r, err := handlerRequest(http.MethodDelete, client, typ, "")
	if err != nil {
		return err
	}
	c.conn.Require(&r, only)
	_, err = c.conn.Do(ctx, r)
	return err
}

func handlersOf(a transport.Answer) (list []StoredHandler, next string, err error) {
	var page struct {
		Handlers []StoredHandler `json:"handlers"`
		Next     string          `json:"next"`
	}
	err = transport.Decode(a, &page)
	return page.Handlers, page.Next, err
}

func (c *Client) handlerCall(ctx context.Context, r transport.Request) (h StoredHandler, err error) {
	a, err := c.conn.Do(ctx, r)
	if err != nil {
		return h, err
	}
	return h, transport.Decode(a, &h)
}

// handlerRequest returns a request about the handler of a type. part is the end of its path.
func handlerRequest(method, client, typ, part string) (transport.Request, error) {
	if err := job.CheckName("type", typ); err != nil {
		return transport.Request{}, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	r := transport.Request{Method: method, Path: "/handlers/" + typ + part, Repeat: transport.Repeatable}
	if client != "" {
		r.Query = url.Values{"client": {client}}
	}
	return r, nil
}
