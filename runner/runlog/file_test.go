package runlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestLogFile: logs of all lengths around the bound, written in random parts, are compared with the expected text.
func TestLogFile(t *testing.T) {
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 1))
	for _, most := range []int64{10, 101, 4096} {
		for _, size := range []int64{0, 1, most - 1, most, most + 1, most + most/2, 3*most + 7, 20 * most} {
			kept := testkit.Must(createFile(t.TempDir()))(t)
			l := &file{most: most, f: kept}
			all := make([]byte, size)
			for i := range all {
				all[i] = byte('a' + chance.IntN(26))
			}
			for rest := all; len(rest) > 0; {
				n := 1 + chance.IntN(min(len(rest), int(most)*3))
				got, err := l.Write(rest[:n])
				testkit.MustHold(t, got == n && err == nil, got, err)
				rest = rest[n:]
			}
			reader := testkit.Must(l.read())(t)
			got := testkit.Must(io.ReadAll(reader))(t)
			// The log can be read again, from any position.
			from := chance.Int64N(int64(len(got)) + 1)
			testkit.Must(reader.Seek(from, io.SeekStart))(t)
			if again, err := io.ReadAll(iotest.OneByteReader(reader)); err != nil || !bytes.Equal(again, got[from:]) {
				t.Errorf("seed %d, %d bytes in %d, from %d: %q, want %q, %v", seed, size, most, from, again, got[from:], err)
			}
			want := string(all)
			if size > most {
				want = string(all[:most/2]) + fmt.Sprintf("\n[%d bytes are left out here]\n", size-most) + string(all[size-(most-most/2):])
			}
			testkit.Holds(t, string(got) == want && l.bytes() == size, "seed", seed, size, "bytes in", most, string(got), "want", want)
			info, err := l.f.Stat()
			testkit.Holds(t, err == nil && info.Size() <= most, "the file has", info.Size(), "bytes", err)
			end := l.end()
			testkit.Holds(t, strings.HasSuffix(string(all), end) && len(end) >= int(min(size, errorBytes)), "the end is", end)
			testkit.Check(t, l.f.Close())
		}
	}
}

// TestLogOnFullDisk: a log that cannot be written loses its text, but does not stop the run.
func TestLogOnFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no /dev/full: %v", err)
	}
	l := &file{most: 100, f: full}
	defer l.f.Close()
	n, err := l.Write([]byte("text"))
	testkit.Holds(t, n == 4 && err == nil, n, err)
	_, err = l.read()
	testkit.Holds(t, err != nil && l.end() == "text", err, "the end is", l.end())
}

// sentParts records the parts that a live log sends.
type sentParts struct {
	mu      sync.Mutex
	offsets []int64
	text    bytes.Buffer
	err     error
	calls   int
}

func (p *sentParts) Append(_ context.Context, _, _ string, offset int64, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls++; p.err != nil {
		return p.err
	}
	p.offsets = append(p.offsets, offset)
	p.text.Write(b)
	return nil
}

// TestLive: text that is printed faster than it can be sent is left out, and the offsets show it. After an error,
// sending pauses.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &sentParts{}
		l := newLive(to, "job", "claim")
		ended := make(chan struct{})
		go func() { defer close(ended); l.run(t.Context()) }()
		l.add(0, []byte("first"))
		synctest.Wait()
		l.add(5, bytes.Repeat([]byte("x"), liveBytes))
		l.add(5+liveBytes, []byte("last"))
		l.end()
		<-ended
		testkit.Holds(t, len(to.offsets) == 2 && to.offsets[0] == 0 && to.offsets[1] == 5+4 && to.text.Len() == 5+liveBytes &&
			strings.HasSuffix(to.text.String(), "xlast"), "the offsets are", to.offsets, "and", to.text.Len(), "bytes")

		to = &sentParts{err: errors.New("no")}
		l = newLive(to, "job", "claim")
		ctx, cancel := context.WithCancel(t.Context())
		ended = make(chan struct{})
		go func() { defer close(ended); l.run(ctx) }()
		for i := range 100 {
			l.add(int64(i), []byte("x"))
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		<-ended
		testkit.Holds(t, to.calls >= 1 && to.calls <= 2, to.calls, "calls in 10 seconds")
	})
}

// puts stores blobs for tests. While errs has errors, it reads a few bytes and fails.
type puts struct {
	errs  []error
	calls int
	text  string
}

func (p *puts) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	p.calls++
	if len(p.errs) > 0 {
		err := p.errs[0]
		p.errs = p.errs[1:]
		io.CopyN(io.Discard, r, 5)
		return "", err
	}
	text, err := io.ReadAll(r)
	p.text = string(text)
	return "sha256:x", err
}

// TestKeep: when the server is reachable again, the whole log is stored. Other errors, and the time-out, lose the log.
func TestKeep(t *testing.T) {
	away := fmt.Errorf("the test: %w", client.ErrUnavailable)
	var always []error
	for range 1000 {
		always = append(always, away)
	}
	for name, tt := range map[string]struct {
		printed string
		errs    []error
		address string
		calls   int
		took    time.Duration // at least
	}{
		"at once":         {"some text", nil, "sha256:x", 1, 0},
		"nothing":         {"", nil, "", 0, 0},
		"away":            {"some text", []error{away, &client.Error{Status: 503}, fmt.Errorf("x: %w", client.ErrUnknown)}, "sha256:x", 4, 7 * time.Second},
		"refused":         {"some text", []error{&client.Error{Status: 507, Code: "disk_full"}}, "", 1, 0},
		"away and broken": {"some text", []error{away, errors.New("broken")}, "", 2, time.Second},
		"away for long":   {"some text", always, "", 0, keepTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				blobs := &puts{errs: tt.errs}
				k := &Keeper{Blobs: blobs}
				l := testkit.Must(k.Begin(t.Context(), &client.Job{ID: "job"}, MinBytes, dir))(t)
				testkit.Must(io.WriteString(l, tt.printed))(t)
				began := time.Now()
				got := l.Keep(t.Context())
				testkit.Holds(t, got == tt.address && (blobs.calls == tt.calls || tt.calls <= 0), "the address is", got, "after", blobs.calls, "calls")
				took := time.Since(began)
				testkit.Holds(t, took >= tt.took && took <= tt.took+maxPause, "it took", took)
				want := int64(0)
				if tt.address != "" {
					want = int64(len(tt.printed))
					testkit.Equal(t, blobs.text, tt.printed, "was stored")
				}
				testkit.Check(t, errors.Join(l.Close(), l.Close()))
				printed, kept := k.Bytes()
				testkit.Holds(t, printed == int64(len(tt.printed)) && kept == want, printed, "bytes were printed", kept, "kept")
				testkit.Equal(t, len(testkit.Must(os.ReadDir(dir))(t)), 0, "are left")
			})
		})
	}
}

// TestKeepWithoutServer: a log that is neither sent nor stored still has a Tail.
func TestKeepWithoutServer(t *testing.T) {
	k := &Keeper{}
	l := testkit.Must(k.Begin(t.Context(), &client.Job{}, MinBytes, t.TempDir()))(t)
	defer l.Close()
	l.Write(bytes.Repeat([]byte("line\n"), 100_000))
	if tail := l.Tail(); l.Keep(t.Context()) != "" || !strings.HasSuffix(tail, "line\nline") || len(tail) > errorBytes || l.Bytes() != 500_000 {
		t.Errorf("%d bytes, a tail of %d", l.Bytes(), len(tail))
	}
	testkit.Fails(k.Begin(t.Context(), &client.Job{}, MinBytes, "/dev/null/none"))(t)
}
