package wasi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/runlog"
)

const (
	// maxOutputBytes bounds the output of a run.
	maxOutputBytes = 64 << 30
	// storePatience is how long store retries if the server is unreachable. A long output gets more time, at slowestPut
	// bytes a second. The client aborts a stalled upload.
	storePatience = 5 * time.Minute
	slowestPut    = 256 << 10
)

// output is the stdout of a guest. It is held in memory up to the maximum length of an inline output. A longer output is
// written to a file, and stored as a blob when the guest has ended.
type output struct {
	pool   *Pool
	ctx    context.Context // of the job
	job    *client.Job
	inline int64
	always bool // store a blob in any case

	held  []byte
	total int64
	long  *spool // nil while held has all bytes
}

func newOutput(ctx context.Context, p *Pool, j *client.Job, inline int64) *output {
	return &output{pool: p, ctx: ctx, job: j, inline: inline, always: j.BinaryAddr != ""}
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.total += int64(len(b))
	if o.total > maxOutputBytes {
		return 0, refuse("the guest wrote more than %d bytes to its stdout, and was ended", int64(maxOutputBytes))
	}
	if o.long == nil && o.total <= o.inline {
		o.held = append(o.held, b...)
		return len(b), nil
	}
	if o.long == nil {
		if o.pool.settings.Blobs == nil {
			return 0, refuse("the guest wrote more than options.inline_bytes, %d bytes, to its stdout, and was ended: this runner has no access to blobs", o.inline)
		}
		var err error
		if o.long, err = o.pool.newSpool(); err != nil {
			return 0, err
		}
		if _, err := o.long.Write(o.held); err != nil {
			return 0, err
		}
		o.held = nil
	}
	return o.long.Write(b)
}

// close deletes the file, if there is one.
func (o *output) close() {
	if o.long == nil {
		return
	}
	if err := o.long.close(); err != nil {
		o.pool.settings.Log.Warn("the file of an output cannot be removed", "job_id", o.job.ID, "error", err)
	}
	o.long = nil
}

// store stores the output as a blob, and returns its address, or "" if the output is only inline.
func (o *output) store() (address string, err error) {
	var from io.ReadSeeker = bytes.NewReader(o.held)
	switch {
	case o.long != nil:
		if from, err = o.long.reader(); err != nil {
			return "", err
		}
	case !o.always:
		return "", nil
	case o.pool.settings.Blobs == nil:
		return "", errNoBlobs
	}
	ctx, cancel := context.WithTimeout(o.ctx, o.pool.storePatience+time.Duration(o.total/o.pool.slowestPut)*time.Second)
	defer cancel()
	err = runlog.Patiently(ctx, o.pool.firstPause, o.pool.settings.Log, o.job.ID, func(ctx context.Context) error {
		if _, err := from.Seek(0, io.SeekStart); err != nil {
			return &machineError{err}
		}
		var err error
		address, err = o.pool.settings.Blobs.Put(ctx, o.job.Client, from)
		if err == nil && address == "" {
			err = errors.New("the server has returned no address")
		}
		return err
	})
	if err != nil {
		return "", blobError("store the output", err)
	}
	return address, nil
}

// kind returns the kind of the inline output.
func (o *output) kind() client.Kind {
	switch {
	case len(o.held) == 0:
		return client.None
	case utf8.Valid(o.held):
		return client.Text
	}
	return client.Bytes
}
