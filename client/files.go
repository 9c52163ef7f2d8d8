package client

import (
	"context"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/client/internal/transport"
)

// Blobs returns the blobs of a client, or with "" those that all clients share.
func (c *Client) Blobs(client string) *files.Blobs { return files.NewBlobs(&c.conn, client) }

// Filesets returns the filesets of a client, or with "" those that belong to no client.
func (c *Client) Filesets(client string) *files.Filesets { return files.NewFilesets(&c.conn, client) }

// collectWait is how long a collection may take.
const collectWait = time.Hour

// CollectedBlobs is the number and size of the blobs that CollectBlobs removed.
type CollectedBlobs struct {
	Blobs int   `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// CollectBlobs removes the blobs that were stored more than a day ago and that nothing names. The server also does this
// regularly without a request. It may take minutes, which do not count for Options.Timeout. The error is ErrConflict
// while the server runs a collection.
func (c *Client) CollectBlobs(ctx context.Context) (CollectedBlobs, error) {
	r := transport.New(http.MethodPost, "/blobs/collect")
	r.Wait = collectWait
	return transport.Ask[CollectedBlobs](ctx, &c.conn, r)
}

// BlobClients returns, in order, the clients that have blobs in addition to the shared ones. A client whose last blob
// was removed may be among them.
func (c *Client) BlobClients(ctx context.Context) ([]string, error) {
	doc, err := transport.Ask[struct {
		Clients []string `json:"clients"`
	}](ctx, &c.conn, transport.Get("/backup/clients"))
	return doc.Clients, err
}
