package client

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Backup requests a backup of the server and returns it as the stream of a tar, which the caller must read to its end
// and close. The last file of a complete backup is backup.json, which has the digests of all other files; package
// backup of the server reads and verifies it, as `daybook backup` does. Backup returns ErrConflict while the server
// sends another backup. A read fails with ErrUnavailable if the connection breaks or the server is silent for
// Options.Timeout. The server takes up to a minute to begin.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	r := transport.Get("/backup")
	r.Header = http.Header{"Accept-Encoding": {"identity"}} // its tables are compressed already
	r.Wait = backupWait
	return c.conn.OpenAgain(ctx, r, c.conn.Timeout)
}

// backupWait is how long the server may take to begin a backup, in addition to Options.Timeout: it first writes the data
// that it has in memory to disk.
const backupWait = time.Minute
