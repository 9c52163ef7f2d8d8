package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// JobLog opens the log of a job: while the job runs, the part at its end that the server has, and afterwards the blob
// at LogAddr. With follow, the reader waits for more text until the job ends. The error is ErrNotFound if there is no
// such job, or no log of it. Opening is repeated after a failure. If the connection breaks later, Read returns
// ErrUnavailable.
func (c *Client) JobLog(ctx context.Context, id string, follow bool) (io.ReadCloser, error) {
	r := about(http.MethodGet, "/jobs/", id, "/log")
	if follow {
		r.Query = url.Values{"follow": {"true"}}
	}
	return c.conn.OpenAgain(ctx, r, 0)
}

// AppendLog adds text that a run of a job has printed to the log that JobLog returns while it runs. offset is the
// position of the text in the run's whole output; text has at most 256 KiB. The server keeps the end of the log in
// memory. AppendLog returns ErrNotFound, ErrNotActive or ErrClaimLost if the server refuses. It is repeated when the
// answer is lost.
func (c *Client) AppendLog(ctx context.Context, jobID, claimID string, offset int64, text []byte) error {
	if _, err := job.ParseID(claimID); err != nil {
		return fmt.Errorf("%w: claim id %q: %w", problem.ErrBadRequest, claimID, err)
	}
	r := about(http.MethodPost, "/jobs/", jobID, "/log")
	r.Query, r.Body, r.ContentType = url.Values{"claim_id": {claimID}, "offset": {strconv.FormatInt(offset, 10)}}, text, transport.MimeText
	return c.conn.Tell(ctx, r)
}
