package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// makeOld sets the time of all files in a directory back by two days.
func makeOld(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-48 * time.Hour)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// files returns how many files a directory has.
func files(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

const looksLikeOne = `{"chunk_addr": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "chunk_bytes": 0, "chunk_kind": "text"}`

// longChunks are payloads of each kind that are stored by address with a limit of 1,000 bytes, and others that are not.
func longChunks() []client.NewJob {
	return []client.NewJob{
		client.TextJob("long", strings.Repeat("é\n", 700)),
		client.JSONJob("long", []byte(`{ "a" : "`+strings.Repeat("x", 3000)+`" }`)),
		{Type: "long", Payload: bytes.Repeat([]byte{0, 0xff}, 600), Kind: client.Bytes},
		{Type: "long", Payload: bytes.Repeat([]byte{0xff}, 1001)}, // is sent as bytes
		client.JSONJob("long", []byte(looksLikeOne)),
		client.TextJob("long", looksLikeOne),
		client.TextJob("long", strings.Repeat("x", 1000)),
		client.JSONJob("long", []byte(`{"chunk_addr":"x"}`)),
		{Type: "long"},
		{Type: "long", Client: "acme", Payload: bytes.Repeat([]byte("acme"), 2<<20)}, // of another client, and longer than a payload may be
	}
}

// TestChunksByAddress: long payloads and outputs of each kind pass through each store unchanged. The server keeps the blobs
// that jobs and outputs refer to.
func TestChunksByAddress(t *testing.T) {
	for _, where := range []string{"blobs", "directory"} {
		t.Run(where, func(t *testing.T) {
			blobs := t.TempDir()
			c := daybooktest.Start(t, "--blobs", blobs).Client
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			o := &client.Chunks{Limit: 1000}
			stored := 0 // in the directory
			if where == "directory" {
				dir := filepath.Join(t.TempDir(), "of", "chunks [1]")
				store, err := client.OpenChunks("file://" + filepath.ToSlash(dir))
				if err != nil {
					t.Fatal(err)
				}
				o.Store, stored = store, 6
				defer func() {
					if n := files(t, filepath.Join(dir, "sha256")); n != stored || files(t, filepath.Join(dir, "new")) != 0 {
						t.Errorf("%d chunks in the directory, not %d", n, stored)
					}
				}()
			}
			collect := func(want int) {
				t.Helper()
				makeOld(t, blobs)
				if done, err := c.CollectBlobs(ctx); err != nil || done.Blobs != want {
					t.Errorf("collected %+v, %v; want %d blobs", done, err, want)
				}
			}
			if _, err := c.PutBlob(ctx, "", strings.NewReader("nothing names this")); err != nil {
				t.Fatal(err)
			}
			given := longChunks()
			s, err := c.Submit(ctx, client.NewBatch{Chunks: o}, slices.Values(given))
			if err != nil || s.Count != int64(len(given)) {
				t.Fatalf("%+v, %v", s, err)
			}
			if !bytes.Equal(given[0].Payload, longChunks()[0].Payload) {
				t.Error("Submit has changed a job of its caller")
			}
			collect(1)

			// A program without Chunks sees the references.
			claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 100, Types: []string{"long"}})
			if err != nil {
				t.Fatal(err)
			}
			references := 0
			for _, j := range claim.Jobs {
				if j.Kind == client.JSON && bytes.HasPrefix(j.Payload, []byte(`{"chunk_addr":"sha256:`)) {
					references++
				}
			}
			if references != 6 {
				t.Errorf("%d references", references)
			}
			for _, j := range claim.Jobs {
				if _, err := c.Release(ctx, j.ID, claim.ID, client.Unget, nil); err != nil {
					t.Fatal(err)
				}
			}

			stop := consuming(t, c, client.ConsumeOptions{Worker: client.Worker{Types: []string{"long"}, Concurrency: 3}, Chunks: o}, func(_ context.Context, chunk *client.Chunk) (client.Outcome, error) {
				want := longChunks()[chunk.Line]
				kind := want.Kind
				if kind == client.None && len(want.Payload) > 0 {
					kind = client.Text
					if want.Payload[0] == 0xff {
						kind = client.Bytes
					}
				}
				if !bytes.Equal(chunk.Payload, want.Payload) || chunk.Kind != kind {
					return client.Outcome{}, client.Fail(fmt.Errorf("line %d has %d bytes of the kind %s: %.200q", chunk.Line, len(chunk.Payload), chunk.Kind, chunk.Payload))
				}
				return client.Outcome{Output: chunk.Payload, OutputKind: chunk.Kind}, nil
			})
			if b, err := s.Wait(ctx); err != nil || b.Status != "completed" {
				t.Errorf("%+v, %v", b, err)
			}
			stop()
			collect(0)
			line := 0
			for r, err := range s.Results(ctx) {
				if err != nil {
					t.Fatalf("line %d: %v", line, err)
				}
				want := given[line]
				if r.Status != "completed" || !bytes.Equal(r.Output, want.Payload) || want.Kind != client.None && r.OutputKind != want.Kind || r.Line != int64(line) {
					t.Errorf("line %d: %s %s, %d bytes of the kind %s, want %d of %s: %.200q", r.Line, r.Status, r.Error, len(r.Output), r.OutputKind, len(want.Payload), want.Kind, r.Output)
				}
				if isLong := len(want.Payload) > 1000 || line == 4; isLong != strings.HasPrefix(r.OutputAddr, "sha256:") {
					t.Errorf("line %d has the output_addr %q", line, r.OutputAddr)
				} else if isLong && r.OutputAddrKind != r.OutputKind {
					t.Errorf("line %d has the output_addr_kind %q and the kind %q", line, r.OutputAddrKind, r.OutputKind)
				}
				line++
			}
			if line != len(given) {
				t.Errorf("%d results", line)
			}
			if _, err := c.DeleteBatch(ctx, s.ID, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Batch(ctx, s.ID); !errors.Is(err, client.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// TestChunkIsMissing: a chunk that is missing or damaged never reaches the program, and its job says why it failed.
func TestChunkIsMissing(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	store, err := client.OpenChunkDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := &client.Chunks{Limit: 10, MaxBytes: 100, Store: store}
	long := func(text string) client.NewJob {
		j := client.TextJob("x", strings.Repeat(text, 10))
		j.MaxAttempts = 1
		return j
	}
	created, err := c.CreateBatch(ctx, client.NewBatch{Chunks: o}, []client.NewJob{long("missing"), long("damaged"), long("shorter"), long("longer"), long("sound"), client.TextJob("x", "huge")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateBatch(ctx, client.NewBatch{Chunks: o}, []client.NewJob{long("more than 10")}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("a chunk of more than MaxBytes: %v", err)
	}
	for _, bad := range []client.NewJob{{Payload: bytes.Repeat([]byte{0xff}, 20), Kind: client.Text}, {Payload: []byte("not a JSON value"), Kind: client.JSON}, {Payload: make([]byte, 20), Kind: "x"}} {
		if _, err := c.CreateBatch(ctx, client.NewBatch{Chunks: o}, []client.NewJob{bad}); !errors.Is(err, client.ErrBadRequest) {
			t.Errorf("%q as %s: %v", bad.Payload, bad.Kind, err)
		}
	}
	for _, path := range must(filepath.Glob(filepath.Join(dir, "sha256", "*"))) {
		text, err := os.ReadFile(path)
		if err == nil {
			switch text[0] {
			case 'm':
				err = os.Remove(path)
			case 'd':
				text[69] ^= 1
				err = os.WriteFile(path, text, 0o600)
			case 's':
				if text[1] == 'h' {
					err = os.Truncate(path, 69)
				}
			case 'l':
				err = os.WriteFile(path, append(text, 'x'), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stop := consuming(t, c, client.ConsumeOptions{Chunks: o, Worker: client.Worker{Types: []string{"x"}}}, func(_ context.Context, chunk *client.Chunk) (client.Outcome, error) {
		if chunk.Line == 5 {
			return client.TextOutput(strings.Repeat("huge", 100)), nil
		}
		if string(chunk.Payload) != strings.Repeat("sound", 10) {
			return client.Outcome{}, fmt.Errorf("the program has got %q", chunk.Payload)
		}
		return client.TextOutput(strings.Repeat("output", 10)), nil
	})
	if _, err := c.AwaitBatch(ctx, created.BatchID); err != nil {
		t.Fatal(err)
	}
	stop()
	for line, want := range []string{"no such file", "is damaged", "is damaged", "is damaged", "", "the maximum of Chunks.MaxBytes"} {
		for r, err := range c.Results(ctx, created.BatchID, client.ResultsQuery{From: int64(line)}) {
			if err != nil || (r.Status == "completed") != (want == "") || !strings.Contains(r.Error, want) {
				t.Errorf("line %d: %s: %s, %v; want %q", r.Line, r.Status, r.Error, err, want)
			}
			break
		}
	}

	// The output of line 4 cannot be read.
	if err := os.RemoveAll(filepath.Join(dir, "sha256")); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for r, err := range c.Results(ctx, created.BatchID, client.ResultsQuery{From: 3, Chunks: o}) {
		seen = append(seen, fmt.Sprint(r.Line, errors.Is(err, fs.ErrNotExist)))
	}
	for r, err := range c.Results(ctx, created.BatchID, client.ResultsQuery{From: 5, Chunks: o}) {
		seen = append(seen, fmt.Sprint(r.Line, err))
	}
	if want := []string{"3 false", "4 true", "5 <nil>"}; !slices.Equal(seen, want) {
		t.Errorf("results %q, want %q", seen, want)
	}
}

// TestOutputAtAddress: an output that a runner has stored as a blob, without a reference, is read too.
func TestOutputAtAddress(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created, err := c.CreateBatch(ctx, client.NewBatch{Client: "acme"}, []client.NewJob{{}, {}, {}, {}, {}, {}})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 6, Clients: []string{"acme"}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(content string) string {
		t.Helper()
		b, err := c.PutBlob(ctx, "acme", strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return b.Address
	}
	text := put("the output")
	for i, o := range []client.Outcome{
		{OutputAddr: put(`["output"]`), OutputAddrKind: client.JSON}, {OutputAddr: text, Output: []byte("inline")}, {OutputAddr: "ftp://elsewhere"},
		// What a runner says of a blob counts only if it is true.
		{OutputAddr: text, OutputAddrKind: client.JSON}, {OutputAddr: put("\xff"), OutputAddrKind: client.Text}, {OutputAddr: put(""), OutputAddrKind: client.JSON},
	} {
		if _, err := c.Complete(ctx, claim.Jobs[i].ID, claim.ID, o); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for r, err := range c.Results(ctx, created.BatchID, client.ResultsQuery{Chunks: &client.Chunks{}}) {
		got = append(got, fmt.Sprint(string(r.Output), " ", r.OutputKind, " ", err))
	}
	if want := []string{`["output"] json <nil>`, "inline text <nil>", "  <nil>", "the output text <nil>", "\xff bytes <nil>", "  <nil>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, err := range c.Results(ctx, created.BatchID, client.ResultsQuery{Chunks: &client.Chunks{MaxBytes: 9}}) {
		if !errors.Is(err, client.ErrTooLarge) {
			t.Errorf("an output of more than MaxBytes: %v", err)
		}
		break
	}
}

// TestChunkDirectory: what a directory of chunks does with addresses and files.
func TestChunkDirectory(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	open := func() client.ChunkStore {
		t.Helper()
		store, err := client.OpenChunkDirectory(dir)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	address, err := store.Put(ctx, []byte("chunk"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sha256", strings.TrimPrefix(address, "sha256:"))
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := store.Put(ctx, []byte("chunk")); err != nil || again != address {
		t.Fatal(again, err)
	}
	in, err := store.Get(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if text, err := io.ReadAll(in); err != nil || string(text) != "chunk" {
		t.Errorf("%q, %v: Put has not repaired the chunk", text, err)
	}
	for _, none := range []string{"", "../../etc/passwd", "sha256:../x", strings.Repeat("0", 40)} {
		if in, err := store.Get(ctx, none); err == nil || in != nil {
			t.Errorf("%q was opened", none)
		}
	}
	if in, err := store.Get(ctx, "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, fs.ErrNotExist) || in != nil {
		t.Errorf("no chunk: %v", err)
	}

	for _, name := range []string{"old", "young"} {
		if err := os.WriteFile(filepath.Join(dir, "new", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "old" {
			makeOld(t, dir)
		}
	}
	open()
	if left := must(os.ReadDir(filepath.Join(dir, "new"))); len(left) != 1 || left[0].Name() != "young" {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}

	if err := os.RemoveAll(filepath.Join(dir, "sha256")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, []byte("chunk")); err == nil {
		t.Error("a chunk was stored in a directory that is not there")
	}
	if n := files(t, filepath.Join(dir, "new")); n != 1 {
		t.Errorf("a Put that failed has left %d files", n-1)
	}
	for _, bad := range []string{"", "chunks", "s3://bucket/prefix", "file://host/dir", "file:///dir?x=1", "file:relative", "http://host/", "file://%zz"} {
		if _, err := client.OpenChunks(bad); !errors.Is(err, client.ErrBadRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestChunkChain: a long output becomes the payload of the job that follows, whole.
func TestChunkChain(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := client.TextJob("first", "x")
	first.OnComplete = &client.FollowOn{Type: "second"}
	if _, err := c.CreateBatch(ctx, client.NewBatch{Client: "acme"}, []client.NewJob{first}); err != nil {
		t.Fatal(err)
	}
	long := `{"a":"` + strings.Repeat("long ", 100_000) + `"}`
	got := make(chan *client.Chunk, 1)
	stop := consuming(t, c, client.ConsumeOptions{Chunks: &client.Chunks{}, Worker: client.Worker{Types: []string{"first", "second"}}}, func(_ context.Context, chunk *client.Chunk) (client.Outcome, error) {
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
