package client

import (
	"context"
	"io"
)

// FilesetTar returns a version of a fileset, or the files that the patterns select, as a tar archive. The caller closes
// it. If the connection breaks, or a file is damaged, a Read fails, so a caller that gets io.EOF has got the whole
// archive. The error is ErrNotFound if there is no such fileset or version.
func (c *Client) FilesetTar(ctx context.Context, client, name string, q FilesetQuery) (io.ReadCloser, error) {
	rq, err := q.request(client, name)
	if err != nil {
		return nil, err
	}
	rq.accept = "application/x-tar"
	var t *tarReader
	err = c.retry(ctx, rq.path, repeatable, func() (err error) {
		t, err = c.openTar(ctx, rq, filesetWait)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
