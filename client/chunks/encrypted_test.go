package chunks_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// TestEncryptedChunks: long payloads and outputs are encrypted before they are stored as blobs, and are read as they were, in
// each kind. Without the key, the results are refused.
func TestEncryptedChunks(t *testing.T) {
	s := daybooktest.Start(t)
	keyed := func() *client.Client {
		return client.New(s.URL, client.Options{Codec: testkit.Must(encryption.Parse([]byte(encryption.NewKey())))(t)})
	}
	c, store := keyed(), &chunks.Store{Limit: 1000}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	long := bytes.Repeat([]byte("secret "), 1000)
	jobs := []client.NewJob{
		client.TextJob("c", "short"), client.TextJob("c", string(long)), client.JSONJob("c", []byte(`"`+string(long)+`"`)), {Type: "c", Payload: append([]byte{0xff}, long...), Kind: client.Bytes},
	}
	sub := testkit.Must(chunks.Submit(ctx, c, client.NewBatch{Type: "c"}, slices.Values(slices.Clone(jobs)), store))(t)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- chunks.Consume(working, chunks.ConsumeOptions{Worker: worker.Worker{Client: c, Types: []string{"c"}}, Store: store}, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
			return client.Outcome{Output: chunk.Job.Payload, OutputKind: chunk.Job.Kind}, nil
		})
	}()
	n := 0
	for r, err := range sub.Results(ctx) {
		testkit.NoError(t, err)
		want := jobs[n]
		testkit.Holds(t, r.Status == "completed" && r.OutputKind == want.Kind && bytes.Equal(r.Output, want.Payload), n, r.Status, r.OutputKind, len(r.Output), r.Undecodable)
		n++
		if r.OutputAddr != "" {
			in := testkit.Must(s.Client.Blobs("default").Open(ctx, r.OutputAddr))(t)
			blob := testkit.Must(io.ReadAll(in))(t)
			testkit.NoError(t, in.Close())
			testkit.Holds(t, strings.HasPrefix(string(blob), "dbe1.o."), "the blob", len(blob))
		}
	}
	testkit.Equal(t, n, len(jobs), "results")
	stop()
	testkit.NoError(t, <-ended)
	var failed error
	for r, err := range chunks.Results(ctx, keyed(), sub.ID, client.ResultsQuery{From: 1}, store) {
		failed = err
		testkit.Equal(t, bytes.Contains(r.Output, []byte("secret")), false, "the output is read without the key")
	}
	testkit.Failed(t, failed, client.ErrUndecodable, encryption.ErrNoKey)

	testkit.Must(chunks.Submit(ctx, c, client.NewBatch{Type: "c"}, slices.Values(slices.Clone(jobs[1:2])), store))(t)
	errs := make(chan error, 1)
	working, stop = context.WithCancel(ctx)
	go func() {
		ended <- chunks.Consume(working, chunks.ConsumeOptions{Worker: worker.Worker{Client: s.Client, Types: []string{"c"}, OnEvent: func(e worker.Event) {
			if e.Job != nil {
				errs <- errors.New(e.Outcome.Error)
			}
		}}, Store: store}, func(context.Context, *chunks.Chunk) (client.Outcome, error) {
			t.Error("a chunk runs with its encrypted payload")
			return client.Outcome{}, nil
		})
	}()
	testkit.Contains(t, (<-errs).Error(), encryption.ErrNoKey.Error())
	stop()
	testkit.NoError(t, <-ended)
}
