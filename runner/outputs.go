package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/task"
)

const (
	// outputPatience is how long the runner tries to store an output while the server is unreachable. A long output
	// gets one second more for every slowestPut bytes.
	outputPatience = 5 * time.Minute
	slowestPut     = 256 << 10
)

// withBlob stores an output that is too long for the outcome as a blob, and puts the blob's address into the outcome.
// All kinds of handlers that keep outputs in memory use it. Guests of kind wasi write theirs to a file and store it
// themselves.
func (r *Runner) withBlob(u *worker.Run, e task.End) task.End {
	n, most := int64(len(e.Output)), int64(r.Client.MaxContent(job.MaxOutputBytes))
	if e.Unget || e.MostInline == 0 || n <= min(e.MostInline, most) {
		return e
	}
	blob, kind, err := encoded(r.Client, e.Output, e.OutputKind)
	if err != nil {
		return task.Failed(fmt.Sprintf("encode the output, %d bytes: %v", n, err))
	}
	address, err := r.putOutput(u, u.Job, blob)
	switch {
	case err == nil:
		e.Output, e.OutputKind, e.OutputAddr, e.OutputAddrKind = nil, client.None, address, kind
		return e
	case u.Err() != nil:
		return task.Error(fmt.Sprintf("the run was ended while its output was stored: %v", context.Cause(u)))
	case errors.Is(err, client.ErrNoBlobs) && n <= most:
		return e
	case errors.Is(err, client.ErrNoBlobs): // a retry would produce the same output
		return task.Failed(fmt.Sprintf("OUTPUT_TOO_LONG: the output has %d bytes, and the server keeps no blobs; without them, the maximum is %d", n, most))
	case errors.Is(err, client.ErrTooLarge):
		return task.Failed(fmt.Sprintf("OUTPUT_TOO_LONG: the output has %d bytes: %v", n, err))
	}
	return task.Error(fmt.Sprintf("store the output, %d bytes, as a blob: %v", n, err))
}

// encoded returns an output as the Codec of the client encodes it for a blob, and the kind of that.
func encoded(c *client.Client, output []byte, kind client.Kind) ([]byte, client.Kind, error) {
	codec := c.Codec()
	if codec == nil {
		return output, kind, nil
	}
	text, err := codec.Encode(client.PartOutput, client.Content{Kind: kind, Data: output}, "")
	return text, client.Text, err
}

// putOutput stores a job's output as a blob. It tries again while the server is unreachable.
func (r *Runner) putOutput(ctx context.Context, j *client.Job, output []byte) (address string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.outputPatience+time.Duration(len(output)/slowestPut)*time.Second)
	defer cancel()
	err = runlog.Patiently(ctx, r.outputPause, r.Log, j.ID, func(ctx context.Context) (err error) {
		address, err = r.blobs.Put(ctx, j.Client, bytes.NewReader(output))
		return err
	})
	return address, err
}
