package wasi

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/semaphore"

	"github.com/daybookq/daybook/internal/testkit"
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
