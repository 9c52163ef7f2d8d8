package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Key describes a key. Nobody can read its text from the server.
type Key struct {
	Name string `json:"name"`
	KeyLimits
	ExpiresAt  *int64 `json:"expires_at"`   // unix ms; nil: never
	Generation int    `json:"generation"`   // how many secrets it has had
	OldUntil   *int64 `json:"old_until"`    // unix ms; until when the secret before this one is good
	ChangedAt  int64  `json:"changed_at"`   // unix ms; when it was created or got its secret
	By         string `json:"by"`           // the key that created it or gave it its secret
	LastUsedAt *int64 `json:"last_used_at"` // unix ms; the hour in which the server, or the asked node, last got a request with it; nil: never
	// Text is the text of a key that the server has just made. It is never there again.
	Text string `json:"key,omitzero"`
}

// KeyLimits are what a key may do, and with what.
type KeyLimits struct {
	Roles        []string `json:"roles"`                  // admin, operator, producer, worker, reader, backup, metrics
	Clients      []string `json:"clients,omitempty"`      // whose jobs the key is for; nil: all
	Types        []string `json:"types,omitempty"`        // of the jobs that the key is for; nil: all
	RunnerPrefix string   `json:"runner_prefix,omitzero"` // with what the ids of its runners begin; "": any, and for a new key with clients or types its name and a colon
	HidePayloads bool     `json:"hide_payloads,omitzero"` // payloads, outputs and errors are not shown
	Rates        *Rates   `json:"rates,omitempty"`        // how fast the key may be used; nil: as fast as the server serves it
	Redact       []string `json:"redact,omitempty"`       // names of fields of JSON payloads and outputs whose values are not shown
}

// Rates bound how fast a key is used; 0 means without a bound. See docs/how-to/limits.md.
type Rates struct {
	Creates      int64 `json:"creates,omitzero"`       // jobs a second that its requests create
	Claims       int64 `json:"claims,omitzero"`        // jobs a second that its claims get
	Reads        int64 `json:"reads,omitzero"`         // GET requests a second
	Bytes        int64 `json:"bytes,omitzero"`         // of request bodies a second; at least 1024
	Streams      int64 `json:"streams,omitzero"`       // open at the same time
	ParkedClaims int64 `json:"parked_claims,omitzero"` // claims that wait for jobs at the same time
}

// KeyRequest describes a key to create. ExpiresAt is in unix ms; 0 means never. SHA256 are 64 hexadecimal digits: the digest of the
// text of a key that was made elsewhere; with "" the server makes one.
type KeyRequest struct {
	Name string `json:"name"`
	KeyLimits
	ExpiresAt int64  `json:"expires_at,omitzero"`
	SHA256    string `json:"sha256,omitzero"`
}

// CreateKey creates a key. It is not repeated when the answer is lost, because nobody would know the text of the first one: then
// the error is ErrUnknown, and the caller revokes the key if it exists, and creates it again. If the server has a key of this
// name, the error is ErrConflict.
func (c *Client) CreateKey(ctx context.Context, k KeyRequest) (Key, error) {
	return transport.Ask[Key](ctx, &c.conn, transport.Request{Method: http.MethodPost, Path: "/keys"}.With(k))
}

// RotateKey gives a key another secret. The one before it is good for overlap more. RotateKey is not repeated when the answer is
// lost. The error is ErrNotFound if there is no such key.
func (c *Client) RotateKey(ctx context.Context, name string, overlap time.Duration) (Key, error) {
	body := struct {
		OverlapMs int64 `json:"overlap_ms"`
	}{overlap.Milliseconds()}
	return transport.Ask[Key](ctx, &c.conn, transport.Request{Method: http.MethodPost, Path: "/keys/" + url.PathEscape(name) + "/rotate"}.With(body))
}

// Key reads a key. The error is ErrNotFound if there is no such key.
func (c *Client) Key(ctx context.Context, name string) (Key, error) {
	return transport.Ask[Key](ctx, &c.conn, transport.Get("/keys/"+url.PathEscape(name)))
}

// Keys yields all keys in the order of their names. An error ends the iteration.
func (c *Client) Keys(ctx context.Context) iter.Seq2[Key, error] {
	return transport.List[Key](ctx, &c.conn, transport.Get("/keys"), "keys")
}

// RevokeKey revokes a key. Requests with it are refused from then on. The error is ErrNotFound if there is no such key; it may
// then have been revoked by an earlier try whose answer was lost.
func (c *Client) RevokeKey(ctx context.Context, name string) error {
	return c.conn.Tell(ctx, transport.New(http.MethodDelete, "/keys/"+url.PathEscape(name)))
}

// Whoami reads what the client's key is for. The name is "" if the server does not use keys.
func (c *Client) Whoami(ctx context.Context) (Key, error) {
	return transport.Ask[Key](ctx, &c.conn, transport.Get("/whoami"))
}

// RunnerID returns an id for a runner with a name: the name, after the prefix that the client's key requires. Keys for some clients
// or types name only runners of their own. RunnerID waits until the server can be reached. A client without a key asks nobody.
func (c *Client) RunnerID(ctx context.Context, name string) (string, error) {
	if c.o.Key == "" && c.o.KeySource == nil {
		return name, nil
	}
	k, err := c.With(func(o *Options) { o.Persistent = true }).Whoami(ctx)
	if err != nil {
		return "", fmt.Errorf("read which runners the key is for: %w", err)
	}
	return k.RunnerPrefix + name, nil
}
