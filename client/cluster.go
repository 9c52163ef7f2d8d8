package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/job"
)

// Cluster describes the nodes of the cluster of which the server is one. The error is ErrConflict for a single server.
func (c *Client) Cluster(ctx context.Context) (job.ClusterStatus, error) {
	return transport.Ask[job.ClusterStatus](ctx, &c.conn, transport.Get("/cluster"))
}

// TransferLeadership lets a node of the cluster lead: the one with this name, or with "" the one that lacks the least. It is
// repeated when the answer is lost. The error is ErrNotFound if no such node votes.
func (c *Client) TransferLeadership(ctx context.Context, node string) (job.ClusterStatus, error) {
	body := map[string]string{}
	if node != "" {
		body["to"] = node
	}
	return transport.Ask[job.ClusterStatus](ctx, &c.conn, transport.New(http.MethodPost, "/cluster/transfer").With(body))
}

// RemoveNode makes a node no member of its cluster. Its name is never used again. It is repeated when the answer is lost. The
// error is ErrNotFound if the cluster has no such node, and ErrConflict if the nodes that are left could store nothing.
func (c *Client) RemoveNode(ctx context.Context, node string) error {
	return c.conn.Tell(ctx, transport.New(http.MethodDelete, "/cluster/nodes/"+url.PathEscape(node)))
}
