package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// opened is an answer that is read while it arrives.
type opened struct {
	status int
	header http.Header

	path     string
	ctx      context.Context
	cancel   context.CancelCauseFunc
	body     io.ReadCloser
	patience time.Duration // how long a Read may take; 0: as long as the server is silent
	late     *time.Timer
}

// open sends a read once, and returns its answer when the server has begun it. patience is how long the server may be
// silent later on; 0 means for ever.
func (c *Client) open(ctx context.Context, r request, patience time.Duration) (_ *opened, err error) {
	o := &opened{path: r.path, patience: patience}
	o.ctx, o.cancel = context.WithCancelCause(ctx)
	o.late = time.AfterFunc(c.o.Timeout+r.wait, func() { o.cancel(errSilent) })
	defer func() {
		o.late.Stop()
		if err != nil {
			o.cancel(nil)
		}
	}()
	req, err := c.newRequest(o.ctx, r)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, o.broken(err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		text, err := readAnswer(res, func() {})
		if err != nil {
			err = o.broken(err)
		} else {
			err = refusal(r, res, text)
		}
		return nil, errors.Join(err, res.Body.Close())
	}
	o.status, o.header, o.body = res.StatusCode, res.Header, res.Body
	return o, nil
}

// openAgain opens an answer, and repeats that while it may succeed.
func (c *Client) openAgain(ctx context.Context, r request, patience time.Duration) (io.ReadCloser, error) {
	var o *opened
	err := c.retry(ctx, r.path, repeatable, func() (err error) {
		o, err = c.open(ctx, r, patience)
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// broken returns the error of a connection that broke: the transport's own is "context canceled" if the server was
// silent.
func (o *opened) broken(err error) error {
	if context.Cause(o.ctx) == errSilent {
		err = errSilent
	}
	return fmt.Errorf("GET %s: %w: %w", o.path, ErrUnavailable, err)
}

// Read returns the next bytes. The error is ErrUnavailable if the connection breaks or the server is silent, and
// context.Canceled if the caller has ended the reading.
func (o *opened) Read(p []byte) (int, error) {
	if o.patience > 0 {
		o.late.Reset(o.patience)
		defer o.late.Stop()
	}
	n, err := o.body.Read(p)
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) && context.Cause(o.ctx) != errSilent {
		return n, err
	}
	return n, o.broken(err)
}

// Close ends the reading.
func (o *opened) Close() error {
	defer o.cancel(nil)
	o.late.Stop()
	return o.body.Close()
}
