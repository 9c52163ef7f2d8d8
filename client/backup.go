package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Backup requests a backup of the server. It returns the stream of a tar, which the caller must read to its end and close.
// The last file of a complete backup is backup.json, which has the digests of the others; package backup of the server
// reads and verifies it, as `daybook backup` does. The server sends one backup at a time; while another is sent, the error
// is ErrConflict. A read fails with ErrUnavailable if the connection breaks or the server is silent for Options.Timeout.
// The server takes up to a minute to begin.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	r := get("/backup")
	var stream io.ReadCloser
	err := c.retry(ctx, r.path, repeatable, func() (err error) {
		stream, err = c.openBackup(ctx, r)
		return err
	})
	return stream, err
}

// backupWait is how long the server may take to begin a backup, beside Options.Timeout: it first writes what it has in
// memory to disk.
const backupWait = time.Minute

func (c *Client) openBackup(ctx context.Context, r request) (_ io.ReadCloser, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.o.Timeout+backupWait, func() { cancel(errSilent) })
	defer func() {
		if err != nil {
			late.Stop()
			cancel(nil)
		}
	}()
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	res, err := c.http.Do(req)
	if err != nil {
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		return nil, fmt.Errorf("GET %s: %w: %w", r.path, ErrUnavailable, err)
	}
	if res.StatusCode != http.StatusOK {
		text, err := readAnswer(res, func() {})
		if err != nil {
			err = fmt.Errorf("GET %s: %w: %w", r.path, ErrUnavailable, err)
		} else {
			err = refusal(r, res, text)
		}
		return nil, errors.Join(err, res.Body.Close())
	}
	late.Reset(c.o.Timeout)
	return &backupStream{body: res.Body, ctx: ctx, cancel: cancel, late: late, timeout: c.o.Timeout}, nil
}

// backupStream is the answer with a backup.
type backupStream struct {
	body    io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	late    *time.Timer // ends the request; it runs during Read only
	timeout time.Duration
}

func (b *backupStream) Read(p []byte) (int, error) {
	b.late.Reset(b.timeout)
	n, err := b.body.Read(p)
	b.late.Stop()
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
		err = fmt.Errorf("GET /backup: %w: %w", ErrUnavailable, err)
	}
	return n, err
}

// Close ends the request.
func (b *backupStream) Close() error {
	b.late.Stop()
	err := b.body.Close()
	b.cancel(nil)
	return err
}

// BlobClients returns the clients that have blobs of their own, in order. A client whose last blob was removed may be
// among them.
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
