package wasi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/semaphore"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/disk"
)

// TestEncodedBytes: encodedBytes returns the length that the JSON encoder produces.
func TestEncodedBytes(t *testing.T) {
	var all strings.Builder
	for c := range 128 {
		all.WriteByte(byte(c))
	}
	for _, text := range []string{"", "plain", all.String(), "äöü\u2028\u2029\U0001F600<&>", strings.Repeat("\x00\"", 1000)} {
		b := testkit.Must(json.Marshal(text))(t)
		testkit.Equal(t, encodedBytes([]byte(text), true), len(b), "bytes for", text)
		testkit.Equal(t, encodedBytes([]byte(text), false), len(base64.StdEncoding.EncodeToString([]byte(text)))+2, "bytes of base64 for", text)
	}
}

// TestReadBody: readBody returns a whole body or an error, and long bodies take room.
func TestReadBody(t *testing.T) {
	run := newClock(time.Hour, func() {})
	defer run.stop()
	broken := errors.New("broken")
	for _, c := range []struct {
		name         string
		bytes, known int64
		breaks       error
		fails        string
		room         int64
	}{
		{"empty", 0, 0, nil, "", 0},
		{"short", 100, 100, nil, "", 0},
		{"short, unknown", 100, -1, nil, "", 0},
		{"without room", freeBytes - 1, -1, nil, "", 0},
		{"of the first part", freeBytes, freeBytes, nil, "", freeBytes * bodyCopies},
		{"of the first part, unknown", freeBytes, -1, nil, "", freeBytes * bodyCopies},
		{"long", 1 << 20, 1 << 20, nil, "", 1 << 20 * bodyCopies},
		{"long, unknown", 1 << 20, -1, nil, "", 1 << 20 * bodyCopies},
		{"maximum", maxBodyBytes, maxBodyBytes, nil, "", maxBodyBytes * bodyCopies},
		{"maximum, unknown", maxBodyBytes, -1, nil, "", maxBodyBytes * bodyCopies},
		{"one more", maxBodyBytes + 1, maxBodyBytes + 1, nil, "more than 8388608 bytes", 0},
		{"one more, unknown", maxBodyBytes + 1, -1, nil, "more than 8388608 bytes", maxBodyBytes * bodyCopies},
		{"short and broken", 100, -1, io.ErrUnexpectedEOF, "unexpected EOF", 0},
		{"long and broken", 1 << 20, -1, broken, "broken", maxBodyBytes * bodyCopies},
	} {
		t.Run(c.name, func(t *testing.T) {
			var from io.Reader = io.LimitReader(zeroReader{}, c.bytes)
			if c.breaks != nil {
				from = io.MultiReader(from, iotest.ErrReader(c.breaks))
			}
			held := &room{of: semaphore.NewWeighted(roomBytes)}
			body, err := readBody(t.Context(), run, &http.Response{Body: io.NopCloser(from), ContentLength: c.known}, held)
			testkit.Holds(t, (c.fails != "" || err == nil && int64(len(body)) == c.bytes) &&
				(c.fails == "" || err != nil && strings.Contains(err.Error(), c.fails)), len(body), "bytes", err)
			testkit.Equal(t, held.bytes, c.room, "it has room of", "bytes, want")
			held.free()
			testkit.Holds(t, held.of.TryAcquire(roomBytes), "the room was not given back")
		})
	}
}

// TestRoom: a long answer waits for room without using up the guest's time, and becomes an error if no room is released
// in time. All room is released at the end.
func TestRoom(t *testing.T) {
	const long = 1 << 20
	body := strings.Repeat("x", long)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/control" {
			body = strings.Repeat("\x01", 3<<20)
		}
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	q := &requests{transport: &http.Transport{}, turns: make(chan struct{}, 1), room: semaphore.NewWeighted(roomBytes)}
	defer q.transport.CloseIdleConnections()
	ask := func(run *clock, path string) (answer guestAnswer) {
		q.do(t.Context(), run, permissions{"http:*"}, []byte(`{"url":"`+server.URL+path+`"}`), func(b []byte) { testkit.NoError(t, json.Unmarshal(b, &answer)) })
		return answer
	}
	testkit.NoError(t, q.room.Acquire(t.Context(), roomBytes-1))
	run := newClock(200*time.Millisecond, func() { t.Error("the time of the run was over") })
	defer run.stop()
	a := ask(run, "/")
	testkit.Holds(t, strings.Contains(a.Error, "no room for this one"), "error", a.Error)
	run.stop()
	run = newClock(time.Minute, func() {})
	defer run.stop()
	waits, cancel := context.WithCancel(t.Context())
	go func() { // releases the room while the request waits for it
		defer cancel()
		for waits.Err() == nil {
			run.mu.Lock()
			is := run.state == paused
			run.mu.Unlock()
			if is {
				q.room.Release(roomBytes - 1)
				return
			}
			time.Sleep(time.Millisecond) // real time: until the run pauses, or has ended
		}
	}()
	a = ask(run, "/")
	testkit.Holds(t, a.Error == "" && len(a.Body) == long, len(a.Body), "bytes, error", a.Error)
	<-waits.Done()
	a = ask(run, "/control")
	testkit.Holds(t, strings.Contains(a.Error, "the answer has at least 18874370 bytes of JSON; the maximum is"), "error", a.Error)
	testkit.Holds(t, q.room.TryAcquire(roomBytes), "some room was not given back")
}

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
	f := newFixture(t, func(s *Settings) { blobs.memoryBlobs = s.Blobs.(*memoryBlobs); s.Blobs, s.Dir = blobs, dir })
	blobs.pool = f.Pool
	f.storePatience = time.Minute
	kit := f.handler("kit", handler.Options{TimeoutMs: 60_000})
	const n = 1 << 20
	e := f.text(kit, fmt.Sprintf("write %d", n))
	testkit.Holds(t, e.Code == "ok" && bytes.Equal(f.blobs.get("c", e.OutputAddr), bytes.Repeat([]byte("x"), n)), "the run ended with", show(e))
	if runs := f.Stats().Runs["ok"]; blobs.runs != 1 || runs != 1 || blobs.puts != 3 {
		t.Errorf("the first of %d uploads began after %d runs, and there were %d", blobs.puts, blobs.runs, runs)
	}

	blobs.away = 1 << 30
	f.storePatience = 20 * time.Millisecond
	e = f.text(kit, fmt.Sprintf("write %d", n))
	testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	wantEnd(t, f.text(f.handler("kit", handler.Options{TimeoutMs: 500, InlineBytes: 1}), "says and is busy"), "error", "500 ms")
	f.free = func(string) (int64, error) { return disk.ReserveBytes - 1, nil }
	e = f.text(kit, fmt.Sprintf("write %d", n))
	testkit.Holds(t, e.Unget && f.Stats().Returned == 1, "the run ended with", show(e), "want unget")
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
		_, machine := errors.AsType[*machineError](err)
		testkit.Holds(t, machine == c.machine && err != nil && strings.Contains(err.Error(), "guests must leave 268435456"), c.bytes, err)
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
		e := f.text(kit, "write 2000")
		testkit.Holds(t, e.Unget && f.returned["1"] == want*time.Millisecond, show(e), "after a pause of", f.returned["1"], "want", int(want), "ms")
	}
	f.returned["1"] = mostPause
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.giveBack(ended, "1", client.ErrUnavailable)
	testkit.Equal(t, f.returned["1"], mostPause, "the longest pause")
	f.blobs.broken = nil
	e := f.text(kit, "write 2000")
	testkit.Holds(t, e.Code == "ok" && len(f.returned) == 0, show(e), "pauses", f.returned)
	for i := range maxReturned + 10 {
		f.giveBack(ended, fmt.Sprint(i), client.ErrUnavailable)
	}
	n := len(f.returned)
	testkit.Holds(t, n <= maxReturned, n, "jobs are remembered")
}
