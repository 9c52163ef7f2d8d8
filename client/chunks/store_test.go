package chunks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// makeOld sets the times of all files in a directory back by two days.
func makeOld(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-48 * time.Hour)
	testkit.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chtimes(path, old, old)
		}
		return err
	}))
}

const looksLikeOne = `{"chunk_addr": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "chunk_bytes": 0, "chunk_kind": "text"}`

// longChunks are payloads of each kind that are stored by address with a limit of 1,000 bytes, and some that are not.
func longChunks() []client.NewJob {
	return []client.NewJob{
		client.TextJob("long", strings.Repeat("é\n", 700)),
		client.JSONJob("long", []byte(`{ "a" : "`+strings.Repeat("x", 3000)+`" }`)),
		{Type: "long", Payload: bytes.Repeat([]byte{0, 0xff}, 600), Kind: client.Bytes},
		{Type: "long", Payload: bytes.Repeat([]byte{0xff}, 1001)}, // sent as bytes
		client.JSONJob("long", []byte(looksLikeOne)),
		client.TextJob("long", looksLikeOne),
		client.TextJob("long", strings.Repeat("x", 1000)),
		client.JSONJob("long", []byte(`{"chunk_addr":"x"}`)),
		{Type: "long"},
		{Type: "long", Client: "acme", Payload: bytes.Repeat([]byte("acme"), 2<<20)}, // for another client, and longer than a payload may be
	}
}

// TestChunksByAddress: long payloads and outputs of each kind are read unchanged. The server keeps the blobs that jobs
// and outputs refer to.
func TestChunksByAddress(t *testing.T) {
	blobs := t.TempDir()
	c := daybooktest.Start(t, "--blobs", blobs).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := &chunks.Store{Limit: 1000}
	collect := func(want int) {
		t.Helper()
		makeOld(t, blobs)
		done := testkit.Must(c.CollectBlobs(ctx))(t)
		testkit.Equal(t, done.Blobs, want, "collected", done, "blobs")
	}
	testkit.Must(c.Blobs("").Put(ctx, strings.NewReader("nothing names this")))(t)
	given := longChunks()
	s := testkit.Must(chunks.Submit(ctx, c, client.NewBatch{}, slices.Values(given), o))(t)
	testkit.MustEqual(t, s.Count, int64(len(given)), s)
	testkit.Holds(t, bytes.Equal(given[0].Payload, longChunks()[0].Payload), "Submit has changed a job of its caller")
	collect(1)

	// A program without Chunks sees the references.
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 100, Types: []string{"long"}}))(t)
	references := 0
	for _, j := range claim.Jobs {
		if j.Kind == client.JSON && bytes.HasPrefix(j.Payload, []byte(`{"chunk_addr":"sha256:`)) {
			references++
		}
	}
	testkit.Equal(t, references, 6, "references")
	for _, j := range claim.Jobs {
		testkit.Must(c.Release(ctx, j.ID, claim.ID, client.Unget, nil))(t)
	}

	stop := consuming(t, c, chunks.ConsumeOptions{Worker: worker.Worker{Types: []string{"long"}, Concurrency: 3}, Store: o}, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
		want := longChunks()[chunk.Line]
		kind := want.Kind
		if kind == client.None && len(want.Payload) > 0 {
			kind = client.Text
			if want.Payload[0] == 0xff {
				kind = client.Bytes
			}
		}
		if !bytes.Equal(chunk.Payload, want.Payload) || chunk.Kind != kind {
			return client.Outcome{}, worker.Fail(fmt.Errorf("line %d has %d bytes of the kind %s: %.200q", chunk.Line, len(chunk.Payload), chunk.Kind, chunk.Payload))
		}
		return client.Outcome{Output: chunk.Payload, OutputKind: chunk.Kind}, nil
	})
	b := testkit.Must(s.Wait(ctx))(t)
	testkit.Equal(t, b.Status, "completed", b)
	stop()
	collect(0)
	line := 0
	for r, err := range s.Results(ctx) {
		testkit.NoError(t, err, "line", line)
		want := given[line]
		if r.Status != "completed" || !bytes.Equal(r.Output, want.Payload) || want.Kind != client.None && r.OutputKind != want.Kind || r.Line != int64(line) {
			t.Errorf("line %d: %s %s, %d bytes of the kind %s, want %d of %s: %.200q", r.Line, r.Status, r.Error, len(r.Output), r.OutputKind, len(want.Payload), want.Kind, r.Output)
		}
		isLong := len(want.Payload) > 1000 || line == 4
		testkit.Equal(t, strings.HasPrefix(r.OutputAddr, "sha256:"), isLong, "line", line, "has the output_addr", r.OutputAddr)
		testkit.Holds(t, !isLong || r.OutputAddrKind == r.OutputKind, "line", line, "has the output_addr_kind", r.OutputAddrKind, r.OutputKind)
		line++
	}
	testkit.Equal(t, line, len(given), "results")
	testkit.Must(c.DeleteBatch(ctx, s.ID, ""))(t)
	testkit.Fails(c.Batch(ctx, s.ID))(t, client.ErrNotFound)
}

// TestChunkIsMissing: a chunk that is missing or damaged never reaches the program, and its job shows the reason.
func TestChunkIsMissing(t *testing.T) {
	dir := t.TempDir()
	c := daybooktest.Start(t, "--blobs", dir).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := &chunks.Store{Limit: 10, MaxBytes: 100}
	long := func(text string) client.NewJob {
		j := client.TextJob("x", strings.Repeat(text, 10))
		j.MaxAttempts = 1
		return j
	}
	jobs := []client.NewJob{long("missing"), long("damaged"), long("shorter"), long("longer"), long("sound"), client.TextJob("x", "huge")}
	testkit.NoError(t, o.Put(ctx, c, "", jobs))
	created := testkit.Must(c.CreateBatch(ctx, client.NewBatch{}, jobs))(t)
	testkit.Failed(t, o.Put(ctx, c, "", []client.NewJob{long("more than 10")}), client.ErrTooLarge)
	for _, bad := range []client.NewJob{{Payload: bytes.Repeat([]byte{0xff}, 20), Kind: client.Text}, {Payload: []byte("not a JSON value"), Kind: client.JSON}, {Payload: make([]byte, 20), Kind: "x"}} {
		err := o.Put(ctx, c, "", []client.NewJob{bad})
		testkit.Holds(t, errors.Is(err, client.ErrBadRequest), bad.Payload, "as", bad.Kind, err)
	}
	harm(t, dir, map[string]func(path string, text []byte) error{
		"missing": func(path string, _ []byte) error { return os.Remove(path) },
		"damaged": func(path string, text []byte) error { text[69] ^= 1; return os.WriteFile(path, text, 0o600) },
		"shorter": func(path string, _ []byte) error { return os.Truncate(path, 69) },
		"longer":  func(path string, text []byte) error { return os.WriteFile(path, append(text, 'x'), 0o600) },
	})
	stop := consuming(t, c, chunks.ConsumeOptions{Store: o, Worker: worker.Worker{Types: []string{"x"}}}, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
		if chunk.Line == 5 {
			return client.TextOutput(strings.Repeat("huge", 100)), nil
		}
		if string(chunk.Payload) != strings.Repeat("sound", 10) {
			return client.Outcome{}, fmt.Errorf("the program has got %q", chunk.Payload)
		}
		return client.TextOutput(strings.Repeat("output", 10)), nil
	})
	testkit.Must(c.AwaitBatch(ctx, created.BatchID))(t)
	stop()
	for line, want := range []string{"not found", "damaged", "damaged", "damaged", "", "the maximum of Store.MaxBytes"} {
		for r, err := range c.Results(ctx, created.BatchID, client.ResultsQuery{From: int64(line)}) {
			testkit.Holds(t, err == nil && (r.Status == "completed") == (want == "") && strings.Contains(r.Error, want),
				"line", r.Line, r.Status, r.Error, err, "want", want)
			break
		}
	}

	// The output of line 4 cannot be read.
	harm(t, dir, map[string]func(path string, text []byte) error{"output": func(path string, _ []byte) error { return os.Remove(path) }})
	var seen []string
	for r, err := range chunks.Results(ctx, c, created.BatchID, client.ResultsQuery{From: 3}, o) {
		seen = append(seen, fmt.Sprint(r.Line, errors.Is(err, client.ErrNotFound)))
	}
	for r, err := range chunks.Results(ctx, c, created.BatchID, client.ResultsQuery{From: 5}, o) {
		seen = append(seen, fmt.Sprint(r.Line, err))
	}
	testkit.EqualSlices(t, seen, []string{"3 false", "4 true", "5 <nil>"}, "results")
}

// harm calls do for the file of each blob whose content begins with a key of do.
func harm(t *testing.T, dir string, do map[string]func(path string, text []byte) error) {
	t.Helper()
	done := 0
	testkit.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for begin, f := range do {
			if err == nil && bytes.HasPrefix(text, []byte(begin)) {
				done++
				err = f(path, text)
			}
		}
		return err
	}))
	testkit.MustEqual(t, done, len(do), "blobs")
}

// TestOutputAtAddress: an output that a runner has stored as a blob, without a reference, is read too.
func TestOutputAtAddress(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created := testkit.Must(c.CreateBatch(ctx, client.NewBatch{Client: "acme"}, []client.NewJob{{}, {}, {}, {}, {}, {}}))(t)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 6, Clients: []string{"acme"}}))(t)
	put := func(content string) string {
		t.Helper()
		b := testkit.Must(c.Blobs("acme").Put(ctx, strings.NewReader(content)))(t)
		return b.Address
	}
	text := put("the output")
	for i, o := range []client.Outcome{
		{OutputAddr: put(`["output"]`), OutputAddrKind: client.JSON}, {OutputAddr: text, Output: []byte("inline")}, {OutputAddr: "ftp://elsewhere"},
		// The kind that a runner gives for a blob counts only if it is true.
		{OutputAddr: text, OutputAddrKind: client.JSON}, {OutputAddr: put("\xff"), OutputAddrKind: client.Text}, {OutputAddr: put(""), OutputAddrKind: client.JSON},
	} {
		testkit.Must(c.Complete(ctx, claim.Jobs[i].ID, claim.ID, o))(t)
	}
	var got []string
	for r, err := range chunks.Results(ctx, c, created.BatchID, client.ResultsQuery{}, &chunks.Store{}) {
		got = append(got, fmt.Sprint(string(r.Output), " ", r.OutputKind, " ", err))
	}
	want := []string{`["output"] json <nil>`, "inline text <nil>", "  <nil>", "the output text <nil>", "\xff bytes <nil>", "  <nil>"}
	testkit.Holds(t, slices.Equal(got, want), got, "want", want)
	for _, err := range chunks.Results(ctx, c, created.BatchID, client.ResultsQuery{}, &chunks.Store{MaxBytes: 9}) {
		testkit.Failed(t, err, client.ErrTooLarge)
		break
	}
}

// TestChunkChain: the job that follows gets a long output as its payload, whole.
func TestChunkChain(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := client.TextJob("first", "x")
	first.OnComplete = &client.FollowOn{Type: "second"}
	testkit.Must(c.CreateBatch(ctx, client.NewBatch{Client: "acme"}, []client.NewJob{first}))(t)
	long := `{"a":"` + strings.Repeat("long ", 100_000) + `"}`
	got := make(chan *chunks.Chunk, 1)
	stop := consuming(t, c, chunks.ConsumeOptions{Store: &chunks.Store{}, Worker: worker.Worker{Types: []string{"first", "second"}}}, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
		if chunk.Type == "first" {
			return client.JSONOutput([]byte(long)), nil
		}
		got <- chunk
		return client.Outcome{}, nil
	})
	defer stop()
	select {
	case chunk := <-got:
		if string(chunk.Payload) != long || chunk.Kind != client.JSON || chunk.Client != "acme" {
			t.Errorf("%d bytes of the kind %s for %s: %.200q", len(chunk.Payload), chunk.Kind, chunk.Client, chunk.Payload)
		}
	case <-ctx.Done():
		t.Error("no second job")
	}
}
