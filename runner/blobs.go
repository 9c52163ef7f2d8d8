package runner

import (
	"context"
	"io"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// blobs gives guests and containers access to the server's blobs.
type blobs struct{ client *client.Client }

// Get opens a blob that the client may read: its own, or a shared one.
func (b blobs) Get(ctx context.Context, of, address string) (io.ReadCloser, error) {
	r, err := b.client.Blobs(of).Open(ctx, address)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Put stores a blob for a client. For a job that was created without a client, it stores a shared blob.
func (b blobs) Put(ctx context.Context, of string, r io.Reader) (address string, err error) {
	stored, err := b.client.Blobs(owner(of)).Put(ctx, r)
	return stored.Address, err
}

// owner returns the client to whose blobs and filesets a job writes. It is "", which means all clients, if the job was
// created without one.
func owner(of string) string {
	if of == job.DefaultName {
		return ""
	}
	return of
}
