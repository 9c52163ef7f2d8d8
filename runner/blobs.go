package runner

import (
	"context"
	"io"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// blobs are the blobs of the server, as guests and containers have them.
type blobs struct{ client *client.Client }

// Get opens a blob that a client may read: one of its own, or a shared one.
func (b blobs) Get(ctx context.Context, of, address string) (io.ReadCloser, error) {
	r, err := b.client.GetBlob(ctx, of, address)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Put stores a blob of a client. Jobs that were created without a client have blobs that were stored without one, so their
// outputs are shared, too.
func (b blobs) Put(ctx context.Context, of string, r io.Reader) (address string, err error) {
	stored, err := b.client.PutBlob(ctx, owner(of), r)
	return stored.Address, err
}

// owner returns the client whose blobs and filesets a job writes: "", which means all, for the client of jobs that were
// created without one.
func owner(of string) string {
	if of == job.DefaultName {
		return ""
	}
	return of
}
