package stockclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/opsqueue/wire"
)

// ErrLeave makes RunEachChunk fail the chunk and then return, as an interrupt does in the original.
var ErrLeave = errors.New("leave after this chunk")

// pauseEmpty is the pause after an empty reply to a reservation.
const pauseEmpty = 500 * time.Millisecond

// RunEachChunk reserves one chunk after the other and calls fn with its content, until ctx ends. Then it returns the
// error of ctx. If fn returns an error, the chunk fails with its text. RunEachChunk ignores errors of the connection and
// continues.
func (c *Consumer) RunEachChunk(ctx context.Context, objects *ObjectStore, strategy wire.Strategy, fn func(c wire.ReservedChunk, input []byte) ([]byte, error)) error {
	for {
		chunks, err := c.Reserve(ctx, 1, strategy)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrClosed):
			return err
		case err == nil && len(chunks) == 0:
			_ = sleep(ctx, pauseEmpty) // the next Reserve returns the error
		}
		for _, chunk := range chunks {
			if errors.Is(c.runChunk(ctx, objects, chunk, fn), ErrLeave) {
				return ErrLeave
			}
		}
	}
}

// runChunk runs one chunk and reports its end. It returns ErrLeave, or an error of the connection.
func (c *Consumer) runChunk(ctx context.Context, objects *ObjectStore, chunk wire.ReservedChunk, fn func(c wire.ReservedChunk, input []byte) ([]byte, error)) error {
	id, prefix := chunk.Chunk.ChunkID, chunk.Submission.Prefix
	input := chunk.Chunk.InputContent
	if input == nil && prefix != nil {
		key := objectKey(*prefix, id.Index, "in")
		content, ok := objects.get(key)
		if !ok {
			return c.Fail(ctx, id, fmt.Sprintf("object %s does not exist", key))
		}
		input = content
	}
	output, err := fn(chunk, input)
	if err != nil {
		failed := c.Fail(ctx, id, err.Error())
		if errors.Is(err, ErrLeave) {
			return ErrLeave
		}
		return failed
	}
	if prefix != nil {
		objects.put(objectKey(*prefix, id.Index, "out"), output)
		output = nil
	}
	return c.Complete(ctx, id, output)
}
