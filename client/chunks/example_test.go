package chunks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/worker"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleConsume() {
	c, stop := clienttest.Server()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	batch := client.NewBatch{Name: "report", Meta: map[string]any{"user": 42}}
	submission := must(chunks.Submit(ctx, c, batch, slices.Values([]client.NewJob{
		client.TextJob("count", "a few words"),
		client.TextJob("count", strings.Repeat("word ", 100_000)), // stored as a blob
	}), &chunks.Store{}))

	done := make(chan error)
	go func() {
		done <- chunks.Consume(ctx, chunks.ConsumeOptions{
			Worker: worker.Worker{Client: c, Types: []string{"count"}, Strategy: client.PreferDistinct("user", client.Random), Concurrency: 4},
			Store:  &chunks.Store{},
		}, func(ctx context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
			words := len(strings.Fields(string(chunk.Payload)))
			return client.TextOutput(fmt.Sprintf("chunk %d of %s has %d words", chunk.Line, chunk.Batch.Name, words)), nil
		})
	}()
	for result, err := range submission.Results(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(result.Output))
	}
	cancel() // Consume drains, and returns
	fmt.Println(<-done)
	// Output:
	// chunk 0 of report has 3 words
	// chunk 1 of report has 100000 words
	// <nil>
}

func ExampleSubmission_Cancel() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	submission := must(chunks.Submit(ctx, c, client.NewBatch{}, slices.Values([]client.NewJob{client.TextJob("count", "one"), client.TextJob("count", "two")}), nil))
	if err := submission.Cancel(ctx); err != nil {
		fmt.Println(err)
		return
	}
	batch := must(c.Batch(ctx, submission.ID))
	fmt.Println(batch.Status, batch.Counts["cancelled"])
	// Output: cancelled 2
}
