package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// openTar requests an archive. The server may take wait to begin, in addition to Options.Timeout.
func (c *Client) openTar(ctx context.Context, rq request, wait time.Duration) (_ *tarReader, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &tarReader{ctx: ctx, cancel: cancel, patience: c.o.Timeout}
	t.late = time.AfterFunc(t.patience+wait, func() { cancel(errSilent) })
	defer func() {
		if err != nil {
			t.late.Stop()
			cancel(nil)
		}
	}()
	req, err := c.newRequest(ctx, rq)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w: %w", rq.path, ErrUnavailable, t.cause(err))
	}
	t.body = res.Body
	if res.StatusCode != http.StatusOK {
		text, err := readAnswer(res, func() {})
		if err != nil {
			err = fmt.Errorf("GET %s: %w: %w", rq.path, ErrUnavailable, err)
		} else {
			err = refusal(rq, res, text)
		}
		return nil, errors.Join(err, res.Body.Close())
	}
	t.late.Stop()
	return t, nil
}

// tarReader is an archive that is read while it arrives.
type tarReader struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	late     *time.Timer
	patience time.Duration
	body     io.ReadCloser
}

func (t *tarReader) Read(p []byte) (int, error) {
	t.late.Reset(t.patience)
	n, err := t.body.Read(p)
	t.late.Stop()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read archive: %w: %w", ErrUnavailable, t.cause(err))
	}
	return n, err
}

// cause returns the reason why the transport has failed: its own error is "context canceled" if the server was silent.
func (t *tarReader) cause(err error) error {
	if context.Cause(t.ctx) == errSilent {
		return errSilent
	}
	return err
}

// Close ends the reading.
func (t *tarReader) Close() error {
	t.late.Stop()
	t.cancel(nil)
	return t.body.Close()
}
