package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Quota bounds what the server keeps for a client, whose name it has. A request that would exceed it is refused as ErrOverloaded, with
// the code quota_exceeded.
type Quota struct {
	Client string `json:"client"`
	QuotaLimits
	Use       QuotaLimits `json:"use"`        // what the client has
	ChangedAt int64       `json:"changed_at"` // unix ms
	By        string      `json:"by"`         // the key that set it
}

// QuotaLimits are the numbers of a quota; 0 means without a bound.
type QuotaLimits struct {
	Unfinished      int64 `json:"unfinished,omitzero"` // jobs that have not ended
	Queues          int64 `json:"queues,omitzero"`
	Bytes           int64 `json:"bytes,omitzero"`            // of the payloads of all jobs that are kept
	Sessions        int64 `json:"sessions,omitzero"`         // open ones of keys whose first client this is
	IdempotencyKeys int64 `json:"idempotency_keys,omitzero"` // of the last day and a half at most
	Sweeps          int64 `json:"sweeps,omitzero"`           // in progress, of keys whose first client this is
}

// SetQuota gives a client a quota, which replaces the one that it has. What the client already has stays.
func (c *Client) SetQuota(ctx context.Context, client string, limits QuotaLimits) (Quota, error) {
	r := transport.New(http.MethodPut, "/limits/"+url.PathEscape(client)).With(limits)
	r.Repeat = transport.Repeatable
	return transport.Ask[Quota](ctx, &c.conn, r)
}

// Quota reads the quota of a client. The error is ErrNotFound if it has none.
func (c *Client) Quota(ctx context.Context, client string) (Quota, error) {
	return transport.Ask[Quota](ctx, &c.conn, transport.Get("/limits/"+url.PathEscape(client)))
}

// Quotas yields all quotas in the order of their clients. An error ends the iteration.
func (c *Client) Quotas(ctx context.Context) iter.Seq2[Quota, error] {
	return transport.List[Quota](ctx, &c.conn, transport.Get("/limits"), "limits")
}

// DeleteQuota deletes the quota of a client. The error is ErrNotFound if it has none; an earlier try whose answer was lost may
// have deleted it.
func (c *Client) DeleteQuota(ctx context.Context, client string) error {
	return c.conn.Tell(ctx, transport.New(http.MethodDelete, "/limits/"+url.PathEscape(client)))
}
