package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client/problem"
)

// Opened is an answer that is read while it arrives.
type Opened struct {
	Status int
	Header http.Header

	path     string
	ctx      context.Context
	cancel   context.CancelCauseFunc
	body     io.ReadCloser
	patience time.Duration // how long a Read may take; 0: as long as the server is silent
	late     *time.Timer
}

// Open sends a read once, and returns its answer when the server has begun it. patience is how long the server may be
// silent later on; 0 means for ever.
func (c *Conn) Open(ctx context.Context, r Request, patience time.Duration) (_ *Opened, err error) {
	if r.Err != nil {
		return nil, r.Err
	}
	o := &Opened{path: r.Path, patience: patience}
	o.ctx, o.cancel = context.WithCancelCause(ctx)
	o.late = time.AfterFunc(c.Timeout+r.Wait, func() { o.cancel(ErrSilent) })
	defer func() {
		o.late.Stop()
		if err != nil {
			o.cancel(nil)
		}
	}()
	url := c.Servers.URL()
	req, err := c.newRequest(o.ctx, url, r)
	if err != nil {
		return nil, err
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		c.Servers.Failed(url)
		return nil, o.Broken(err)
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		c.Servers.Failed(url)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		text, err := readAnswer(res, func() {})
		if err != nil {
			err = o.Broken(err)
		} else {
			err = Refusal(r, res, text)
		}
		return nil, errors.Join(err, res.Body.Close())
	}
	o.Status, o.Header, o.body = res.StatusCode, res.Header, res.Body
	return o, nil
}

// OpenAgain opens an answer, and repeats that while it may succeed.
func (c *Conn) OpenAgain(ctx context.Context, r Request, patience time.Duration) (io.ReadCloser, error) {
	var o *Opened
	err := c.Retry(ctx, r.Path, Repeatable, func() (err error) {
		o, err = c.Open(ctx, r, patience)
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Broken returns the error of a connection that broke: the transport's own is "context canceled" if the server was
// silent.
func (o *Opened) Broken(err error) error {
	if context.Cause(o.ctx) == ErrSilent {
		err = ErrSilent
	}
	return fmt.Errorf("GET %s: %w: %w", o.path, problem.ErrUnavailable, err)
}

// Read returns the next bytes. The error is ErrUnavailable if the connection breaks or the server is silent, and
// context.Canceled if the caller has ended the reading.
func (o *Opened) Read(p []byte) (int, error) {
	if o.patience > 0 {
		o.late.Reset(o.patience)
		defer o.late.Stop()
	}
	n, err := o.body.Read(p)
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) && context.Cause(o.ctx) != ErrSilent {
		return n, err
	}
	return n, o.Broken(err)
}

// Close ends the reading.
func (o *Opened) Close() error {
	defer o.cancel(nil)
	o.late.Stop()
	return o.body.Close()
}
