package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
)

// guest stores a guest from package wasi's tests as a client's blob, and returns its address.
func (r *rig) guest(of, name string) string {
	r.Helper()
	text := testkit.Must(os.ReadFile(filepath.Join("wasi", "testdata", name+".wasm")))(r.T)
	return r.blob(of, string(text))
}

func (r *rig) blob(of, text string) string {
	r.Helper()
	b := testkit.Must(r.Blobs(of).Put(r.Context(), strings.NewReader(text)))(r.T)
	return b.Address
}

// accepting returns the settings of a runner that accepts guests.
func (r *rig) accepting() Settings {
	s := r.settings(nil)
	s.Accept, s.Cache = []string{handler.WASI}, r.TempDir()
	return s
}

func (r *rig) create(n client.NewJob) *client.Job {
	r.Helper()
	j := testkit.Must(r.Create(r.Context(), n))(r.T)
	return j
}

// runOnce returns attributes for a job that, after an error, does not run again before the test ends.
func runOnce() client.Attributes {
	hour := time.Hour.Milliseconds()
	return client.Attributes{Backoff: &client.Backoff{InitialMs: &hour, MaxMs: &hour}}
}

// TestGuests: the runner runs handlers of kind wasi, stored ones and ones in the configuration.
func TestGuests(t *testing.T) {
	r := start(t)
	r.put("", "tiny", handler.Document{Kind: handler.WASI, Binary: r.guest("", "tiny")})
	r.put("acme", "tiny", handler.Document{Kind: handler.WASI, Binary: r.guest("acme", "kit")})
	r.put("", "proc", handler.Document{Kind: handler.WASI, Binary: r.guest("", "kit"), RequiredPermissions: []string{"proc:read:*"}})
	r.add("tiny", "a", "b")
	r.create(client.NewJob{Client: "acme", Type: "tiny", Kind: client.Text, Payload: []byte("echo\nown")})
	r.create(client.NewJob{Type: "proc", Kind: client.Text, Payload: []byte("exit 3"), Attributes: runOnce()})
	r.create(client.NewJob{Type: "file", Kind: client.Text, Payload: []byte("echo\nfile")})
	s := r.accepting()
	s.Handlers["file"] = &Handler{Document: handler.Document{Kind: handler.WASI, Binary: strings.Repeat("0", 64)}, Binary: filepath.Join("wasi", "testdata", "kit.wasm")}
	r.run(s)
	r.wantCounts("tiny", map[string]int{"completed ok 1 A": 1, "completed ok 1 B": 1, "completed ok 1 own": 1})
	r.want("proc", "pending  0 ") // not granted
	r.want("file", "completed ok 1 file")
	s.WASIGrants = []string{"proc:read:*"}
	r.run(s)
	for j, err := range r.Jobs(t.Context(), client.JobsQuery{Type: "proc"}) {
		testkit.Holds(t, err == nil && j.RunAttempts == 1 && j.Code == "error" && len(j.Attempts) == 1 &&
			strings.Contains(j.Attempts[0].Error, "Goodbye"), j, err)
	}
}

// TestGuestLimits: the runner limits stored handlers and jobs without a handler, but not the handlers in its
// configuration.
func TestGuestLimits(t *testing.T) {
	r := start(t)
	options := &handler.Options{TimeoutMs: 60_000, MemoryBytes: 4 << 30}
	kit := r.guest("", "kit")
	r.put("", "stored", handler.Document{Kind: handler.WASI, Binary: kit, Options: options})
	once := client.Attributes{MaxAttempts: 1}
	r.create(client.NewJob{Type: "stored", Kind: client.Text, Payload: []byte("asleep"), Attributes: once})
	r.create(client.NewJob{BinaryAddr: kit, InputAddr: r.blob("", "asleep"), Attributes: once})
	r.create(client.NewJob{Type: "file", Kind: client.Text, Payload: []byte("hog"), Attributes: once})
	s := r.accepting()
	s.WASI = WASILimits{Timeout: 300 * time.Millisecond, MemoryBytes: 16 << 20}
	s.Handlers["file"] = &Handler{
		Document: handler.Document{Kind: handler.WASI, Binary: strings.Repeat("0", 64), Options: &handler.Options{TimeoutMs: 60_000, MemoryBytes: 64 << 20}},
		Binary:   filepath.Join("wasi", "testdata", "kit.wasm"),
	}
	r.run(s)
	for _, typ := range []string{"stored", job.DefaultName} {
		for j, err := range r.Jobs(t.Context(), client.JobsQuery{Type: typ}) {
			testkit.Holds(t, err == nil && j.Status == "failed" && strings.Contains(j.Error, "the time-out that this runner allows, 300 ms"), j, err)
		}
	}
	for j, err := range r.Jobs(t.Context(), client.JobsQuery{Type: "file"}) {
		testkit.Holds(t, err == nil && j.Code == "ok" && string(j.Output) >= "40", j, err) // MiB
	}
	s.WASI.MemoryBytes = 1
	testkit.Fails(New(s))(t, "the most memory of a WASI guest must be")
}

// TestBinaryAddr: a job that names its own binary runs without a handler. Other jobs of the type stay untouched.
func TestBinaryAddr(t *testing.T) {
	r := start(t)
	kit := r.guest("", "kit")
	j := r.create(client.NewJob{BinaryAddr: kit, InputAddr: r.blob("", "echo\nhello")})
	own := r.create(client.NewJob{Client: "acme", BinaryAddr: r.guest("acme", "tiny"), InputAddr: r.blob("acme", "hello")})
	foreign := r.create(client.NewJob{BinaryAddr: strings.Repeat("0", 40)})
	none := r.create(client.NewJob{Kind: client.Text, Payload: []byte("nothing to run")})
	other := r.create(client.NewJob{Type: "other", BinaryAddr: kit, Attributes: runOnce()})
	var log lockedBuffer
	s := r.accepting()
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.run(s)
	for _, c := range []struct {
		job          *client.Job
		of, want     string
		attempts     int
		output, addr bool
	}{
		{j, "", "completed", 1, true, true}, {own, "acme", "completed", 1, true, true}, {foreign, "", "failed", 1, false, false},
		{none, "", "pending", 0, false, false}, {other, "", "pending", 0, false, false},
	} {
		got, err := r.Job(t.Context(), c.job.ID)
		if err != nil || got.Status != c.want || got.RunAttempts != c.attempts || (got.OutputAddr != "") != c.addr || (len(got.Output) > 0) != c.output {
			t.Errorf("%+v, %v, want %s after %d attempts", got, err, c.want, c.attempts)
			continue
		}
		if c.addr {
			b := testkit.Must(r.Blobs(c.of).Open(t.Context(), got.OutputAddr))(t)
			text, err := io.ReadAll(b)
			b.Close()
			testkit.Holds(t, err == nil && bytes.Equal(text, got.Output) && strings.EqualFold(string(text), "hello"), "the blob is",
				string(text), "and the output", string(got.Output), err)
		}
	}
	testkit.Equal(t, strings.Count(log.String(), "neither a handler nor a binary_addr"), 1, "lines about the job without a binary", log.String())
	// A runner without a handler for a type in --types gets an implicit one. A stored handler of the type removes it.
	s.Types, s.UntilIdle, s.Log = []string{"other", job.DefaultName}, idleTime, r.settings(nil).Log
	r.put("", job.DefaultName, handler.Document{Kind: handler.Exec, Program: "none"})
	r.run(s)
	if got, err := r.Job(t.Context(), other.ID); err != nil || len(got.Attempts) != 1 {
		t.Errorf("%+v, %v", got, err) // the guest ran, without a command
	}
	got := testkit.Must(r.Job(t.Context(), none.ID))(t)
	testkit.Holds(t, got.Status == "pending" && got.RunAttempts == 0, got)
}

// TestGuestMetrics: the metrics of guests count runs.
func TestGuestMetrics(t *testing.T) {
	r := start(t)
	s := r.accepting()
	s.UntilIdle = 0
	w, _ := r.begin(s)
	tiny := r.guest("", "tiny")
	r.create(client.NewJob{BinaryAddr: tiny, InputAddr: r.blob("", "x")})
	get := func() string {
		a := httptest.NewRecorder()
		w.Handler().ServeHTTP(a, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return a.Body.String()
	}
	r.until("the job is done", func() bool { return w.Totals().Ended["ok"] == 1 })
	r.until("its process is idle", func() bool { return strings.Contains(get(), "daybook_runner_guest_processes{state=\"idle\"} 1\n") })
	text := get()
	for _, line := range []string{
		`daybook_runner_guest_runs_total{end="ok"} 1`, `daybook_runner_guest_runs_total{end="trap"} 0`, `daybook_runner_guest_kills_total{reason="timeout"} 0`,
		`daybook_runner_guest_compilations_total{end="ok"} 1`, `daybook_runner_guest_processes{state="busy"} 0`, "daybook_runner_guest_requests 0",
	} {
		testkit.Holds(t, strings.Contains(text, line+"\n"), "the metrics do not have", line)
	}
	for _, name := range []string{"daybook_runner_guest_seconds_total", "daybook_runner_guest_compile_seconds_total", "daybook_runner_guest_cache_bytes"} {
		testkit.Holds(t, strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+" 0\n"), name, "is missing or 0")
	}
}

// TestManyGuests: in a queue with jobs with and without binaries, all jobs that can run do.
func TestManyGuests(t *testing.T) {
	r := start(t)
	tiny := r.guest("", "tiny")
	input := r.blob("", "x")
	var want []string
	for i := range 20 {
		if i%10 == 0 {
			r.create(client.NewJob{Kind: client.Text, Payload: []byte("nothing to run")})
		}
		want = append(want, r.create(client.NewJob{BinaryAddr: tiny, InputAddr: input}).ID)
	}
	s := r.accepting()
	s.UntilIdle = 0
	_, stop := r.begin(s)
	r.until("all jobs with a binary have completed", func() bool {
		done := 0
		for j, err := range r.Jobs(context.Background(), client.JobsQuery{Type: job.DefaultName}) {
			testkit.NoError(t, err)
			if j.Status == "completed" && slices.Contains(want, j.ID) {
				done++
			}
		}
		return done == len(want)
	})
	stop()
	r.wantCounts(job.DefaultName, map[string]int{"completed ok 1 X": 20, "pending  0 ": 2})
}

// TestRest: rests become longer up to a bound, and are short again after work.
func TestRest(t *testing.T) {
	var r rest
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		got := r.begin(firstRest)
		testkit.Holds(t, got == want && r.now() && r.begin(firstRest) == 0, "a rest of", got, "want", want)
		r.until = time.Time{}
	}
	r.last = mostRest - 1
	testkit.Equal(t, r.begin(firstRest), mostRest, "a rest of")
	r.until = time.Time{}
	r.worked()
	testkit.Equal(t, r.begin(firstRest), firstRest, "a rest of")
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	held bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprint(&b.held)
}
