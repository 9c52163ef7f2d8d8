package runner

import (
	"bytes"
	"context"
	"fmt"
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

// outputBlobs stores what the Codec of the client makes of an output, which is in memory meanwhile.
type outputBlobs struct{ blobs }

// maxEncodedOutput bounds an output that is encoded as a whole.
const maxEncodedOutput = 64 << 20

// Put stores an output as a blob; see blobs.Put. With a Codec, the error is client.ErrTooLarge if it has more than
// maxEncodedOutput bytes.
func (b outputBlobs) Put(ctx context.Context, of string, r io.Reader) (address string, err error) {
	if b.client.Codec() == nil {
		return b.blobs.Put(ctx, of, r)
	}
	output, err := io.ReadAll(io.LimitReader(r, maxEncodedOutput+1))
	if err != nil {
		return "", err
	}
	if len(output) > maxEncodedOutput {
		return "", fmt.Errorf("%w: an output that is encoded may have %d bytes", client.ErrTooLarge, maxEncodedOutput)
	}
	text, _, err := encoded(b.client, output, client.None)
	if err != nil {
		return "", err
	}
	return b.blobs.Put(ctx, of, bytes.NewReader(text))
}

// owner returns the client to whose blobs and filesets a job writes. It is "", which means all clients, if the job was
// created without one.
func owner(of string) string {
	if of == job.DefaultName {
		return ""
	}
	return of
}
