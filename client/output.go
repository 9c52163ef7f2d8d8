package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Output is the output of a job that has ended.
type Output struct {
	Status string // completed, failed or cancelled
	Code   string // of the last outcome: ok, failed, retry or error; "" if there was none
	Kind   Kind   // Text, JSON or Bytes; None if there is no output
	Bytes  []byte
	// Addr is the address of an output that is a blob. Bytes then holds the blob's bytes if the server has it.
	Addr string
}

// maxOutputWait is how long one request may wait for the end of a job.
const maxOutputWait = time.Minute

// Output returns the output of a job. It waits up to a minute for the end of the job. The error is ErrConflict if the
// job has not ended by then, and ErrNotFound if there is no such job, it is purged, or its blob was deleted. Output is
// repeated when the answer is lost. The error is ErrUndecodable if Options.Codec cannot decode the output. Output holds the whole output in memory; use Blobs.Open to stream a long one.
func (c *Client) Output(ctx context.Context, id string, wait time.Duration) (o Output, err error) {
	r := about(http.MethodGet, "/jobs/", id, "/output")
	if wait > 0 {
		wait = min(wait, maxOutputWait)
		r.Query, r.Wait = url.Values{"wait_ms": {strconv.FormatInt(max(wait.Milliseconds(), 1), 10)}}, wait
	}
	a, err := c.conn.Do(ctx, r)
	if err != nil {
		return o, err
	}
	o = Output{Status: a.Header.Get("Daybook-Status"), Code: a.Header.Get("Daybook-Code"), Addr: a.Header.Get("Daybook-Output-Addr"), Bytes: a.Body}
	if a.Status == http.StatusNoContent {
		return o, nil
	}
	switch a.MediaType {
	case transport.MimeText:
		o.Kind = Text
	case transport.MimeJSON:
		o.Kind = JSON
	case "application/octet-stream":
		o.Kind = Bytes
	default:
		return o, a.Unreadable(fmt.Errorf("media type %q", a.MediaType))
	}
	return o, c.decodeOutput(&o)
}

// decodeOutput decodes an output. The runner may have left the kind of a blob open, which is a text if it was encoded.
func (c *Client) decodeOutput(o *Output) error {
	if c.o.Codec != nil && o.Addr != "" && o.Kind == Bytes {
		o.Kind = Text
	}
	return c.decode(PartOutput, &o.Kind, &o.Bytes)
}
