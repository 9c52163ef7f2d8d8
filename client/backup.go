package client

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Backup requests a backup of the server and returns it as the stream of a tar, which the caller must read to its end
// and close. The last file of a complete backup is backup.json, which has the digests of all other files; package
// backup of the server reads and verifies it, as `daybook backup` does. Backup returns ErrConflict while the server
// sends another backup. A read fails with ErrUnavailable if the connection breaks or the server is silent for
// Options.Timeout. The server takes up to a minute to begin.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	r := get("/backup")
	r.header = http.Header{"Accept-Encoding": {"identity"}} // its tables are compressed already
	r.wait = backupWait
	return c.openAgain(ctx, r, c.o.Timeout)
}

// backupWait is how long the server may take to begin a backup, in addition to Options.Timeout: it first writes the data
// that it has in memory to disk.
const backupWait = time.Minute

// BlobClients returns, in order, the clients that have blobs in addition to the shared ones. A client whose last blob
// was removed may be among them.
func (c *Client) BlobClients(ctx context.Context) ([]string, error) {
	a, err := c.do(ctx, get("/backup/clients"))
	if err != nil {
		return nil, err
	}
	var doc struct {
		Clients []string `json:"clients"`
	}
	return doc.Clients, decode(a, &doc)
}
