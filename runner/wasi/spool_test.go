package wasi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/disk"
)

// flakyBlobs disconnects during the first uploads.
type flakyBlobs struct {
	*memoryBlobs
	away int // number of uploads that fail
	puts int
	runs int64 // guests that had ended when the first upload started
	pool *Pool
}

func (b *flakyBlobs) Put(ctx context.Context, of string, r io.Reader) (string, error) {
	if b.puts++; b.puts == 1 {
		b.runs = b.pool.Stats().Runs["ok"]
	}
	if b.puts <= b.away {
		if _, err := io.CopyN(io.Discard, r, 100_000); err != nil {
			return "", err
		}
		return "", fmt.Errorf("the connection broke: %w", client.ErrUnknown)
	}
	return b.memoryBlobs.Put(ctx, of, r)
}

// TestLongOutput: a long output is stored after its guest has ended. Failed uploads are repeated without running the
// guest again. No file is left.
func TestLongOutput(t *testing.T) {
	dir := t.TempDir()
	blobs := &flakyBlobs{away: 2}
	f := newFixture(t, func(s *Settings) {
		blobs.memoryBlobs = s.Blobs.(*memoryBlobs)
		s.Blobs, s.Dir = blobs, dir
	})
	blobs.pool = f.Pool
	f.storePatience = time.Minute
	kit := f.handler("kit", handler.Options{TimeoutMs: 60_000})
	const n = 1 << 20
	e := f.text(kit, fmt.Sprintf("write %d", n))
	if e.Code != "ok" || !bytes.Equal(f.blobs.get("c", e.OutputAddr), bytes.Repeat([]byte("x"), n)) {
		t.Errorf("the run ended with %s", show(e))
	}
	if runs := f.Stats().Runs["ok"]; blobs.runs != 1 || runs != 1 || blobs.puts != 3 {
		t.Errorf("the first of %d uploads began after %d runs, and there were %d", blobs.puts, blobs.runs, runs)
	}

	blobs.away = 1 << 30
	f.storePatience = 20 * time.Millisecond
	if e := f.text(kit, fmt.Sprintf("write %d", n)); !e.Unget {
		t.Errorf("the run ended with %s, want unget", show(e))
	}
	wantEnd(t, f.text(f.handler("kit", handler.Options{TimeoutMs: 500, InlineBytes: 1}), "says and is busy"), "error", "500 ms")
	f.free = func(string) (int64, error) { return disk.ReserveBytes - 1, nil }
	if e := f.text(kit, fmt.Sprintf("write %d", n)); !e.Unget || f.Stats().Returned != 1 {
		t.Errorf("the run ended with %s, want unget", show(e))
	}
	left := cacheFiles(t, filepath.Join(dir, temporary))
	testkit.Holds(t, len(left) == 0, "left over", left)
}

// TestFullDisk: an output that alone fills the disk is an error of the run. If the disk was full for another reason, the
// machine lacks space.
func TestFullDisk(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Dir = t.TempDir() })
	free := int64(disk.ReserveBytes)
	f.free = func(string) (int64, error) { return free, nil }
	for _, c := range []struct {
		bytes   int64
		machine bool
	}{{disk.ReserveBytes, true}, {disk.ReserveBytes + 1, false}} {
		free = disk.ReserveBytes
		s, err := f.newSpool()
		testkit.NoError(t, err)
		testkit.Must(s.Write([]byte("x")))(t)
		s.bytes, s.look = c.bytes, c.bytes
		free--
		_, err = s.Write([]byte("x"))
		if _, machine := errors.AsType[*machineError](err); machine != c.machine || err == nil || !strings.Contains(err.Error(), "guests must leave 268435456") {
			t.Errorf("after %d bytes: %v", c.bytes, err)
		}
		testkit.NoError(t, s.close())
	}
}

// TestPauses: the pause grows each time that the same job goes back to its queue, until the job has an outcome.
func TestPauses(t *testing.T) {
	f := newFixture(t, nil)
	f.firstPause = 10 * time.Millisecond
	f.storePatience = time.Millisecond
	kit := f.handler("kit", handler.Options{InlineBytes: 1000})
	f.blobs.broken = client.ErrUnavailable
	for _, want := range []time.Duration{10, 20, 40} {
		if e := f.text(kit, "write 2000"); !e.Unget || f.returned["1"] != want*time.Millisecond {
			t.Errorf("%s, after a pause of %v, want %v ms", show(e), f.returned["1"], int(want))
		}
	}
	f.returned["1"] = mostPause
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.giveBack(ended, "1", client.ErrUnavailable)
	testkit.Equal(t, f.returned["1"], mostPause, "the longest pause")
	f.blobs.broken = nil
	if e := f.text(kit, "write 2000"); e.Code != "ok" || len(f.returned) != 0 {
		t.Errorf("%s, pauses %v", show(e), f.returned)
	}
	for i := range maxReturned + 10 {
		f.giveBack(ended, fmt.Sprint(i), client.ErrUnavailable)
	}
	n := len(f.returned)
	testkit.Holds(t, n <= maxReturned, n, "jobs are remembered")
}
