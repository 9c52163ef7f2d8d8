package onlost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
)

// rig is a running hook with its log.
type rig struct {
	*Hook
	stop func()
	mu   sync.Mutex
	log  strings.Builder
}

func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *rig) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// until waits until the log contains a text the given number of times.
func (r *rig) until(t *testing.T, text string, times int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the log has %q %d times", text, times), func() bool { return strings.Count(r.logged(), text) >= times })
}

func start(t *testing.T, target string) *rig {
	t.Helper()
	r := &rig{}
	r.Hook = testkit.Must(New(target, slog.New(slog.NewTextHandler(r, nil))))(t)
	r.firstPause = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

func lost(id string) registry.Runner {
	return registry.Runner{ID: id, State: registry.Dead, End: registry.Lost, Since: 7, Info: registry.Info{Instance: "i", Labels: map[string]string{"instance-id": "i-1"}}}
}

// wantDocument checks that a text is the document of a lost runner.
func wantDocument(t *testing.T, text []byte, id string) {
	t.Helper()
	var doc struct {
		RunnerID string            `json:"runner_id"`
		State    string            `json:"state"`
		End      string            `json:"end"`
		Instance string            `json:"instance"`
		Labels   map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.RunnerID != id || doc.State != "DEAD" || doc.End != "lost" || doc.Instance != "i" || doc.Labels["instance-id"] != "i-1" {
		t.Errorf("document %q: %+v, %v", text, doc, err)
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OUT", dir)
	r := start(t, `cat > "$OUT/$DAYBOOK_RUNNER_ID"; echo done`)
	for _, id := range []string{"r1", "r2"} {
		r.Lost(lost(id))
	}
	r.until(t, "on-lost: done", 2)
	for _, id := range []string{"r1", "r2"} {
		text := testkit.Must(os.ReadFile(filepath.Join(dir, id)))(t)
		wantDocument(t, text, id)
	}
	testkit.Equal(t, r.Failures(), 0, "failures")
}

// TestCommandFails: a failed try is repeated, a runner is given up after the last try, and then the next runner is
// handled.
func TestCommandFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OUT", dir)
	r := start(t, `echo x >> "$OUT/$DAYBOOK_RUNNER_ID"; echo "no luck" >&2; test "$DAYBOOK_RUNNER_ID" = good -a $(wc -l < "$OUT/good" ) = 2`)
	r.Lost(lost("bad"))
	r.Lost(lost("good"))
	r.until(t, "on-lost: done", 1)
	for id, want := range map[string]int{"bad": tries, "good": 2} {
		text := testkit.Must(os.ReadFile(filepath.Join(dir, id)))(t)
		testkit.Equal(t, strings.Count(string(text), "x"), want, id, "tries", text)
	}
	if log := r.logged(); r.Failures() != 1 || strings.Count(log, "trying again") != tries || !strings.Contains(log, "no luck") {
		t.Errorf("%d failures:\n%s", r.Failures(), log)
	}
}

// TestCommandHangs: a command that takes too long is killed together with its children. When the hook ends, it also kills
// a running command, and gives up the waiting runners.
func TestCommandHangs(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OUT", dir)
	r := start(t, `sleep 600 & echo $! >> "$OUT/children"; wait`)
	r.tryTime = 200 * time.Millisecond // read when a runner is handled
	r.Lost(lost("r1"))
	r.until(t, "given up", 1)
	testkit.Contains(t, r.logged(), "it took longer than 200ms")
	slow := start(t, `sleep 600 & echo $! >> "$OUT/children"; wait`)
	slow.Lost(lost("r2"))
	slow.Lost(lost("r3"))
	children := func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "children"))
		testkit.MustHold(t, err == nil || os.IsNotExist(err), err)
		return strings.Fields(string(text))
	}
	testkit.Eventually(t, "all children run", func() bool { return len(children()) > tries })
	slow.stop()
	testkit.Equal(t, slow.Failures(), 2, "failures after the stop")
	for _, child := range children() {
		pid := testkit.Must(strconv.Atoi(child))(t)
		testkit.Eventually(t, "the child has ended", func() bool { return !runs(pid) })
	}
}

// runs reports whether a process exists and is not a zombie that still has to be waited for.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestRequest(t *testing.T) {
	var refused atomic.Int64
	bodies := make(chan []byte, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := testkit.Must(io.ReadAll(req.Body))(t)
		testkit.Holds(t, req.Method == http.MethodPost && req.Header.Get("Content-Type") == "application/json", req.Method, req.Header)
		switch {
		case req.URL.Path == "/elsewhere":
			t.Error("the redirect was followed")
		case strings.Contains(string(body), "refused"):
			refused.Add(1)
			http.Error(w, "no such instance", http.StatusBadGateway)
		case strings.Contains(string(body), "redirected"):
			http.Redirect(w, req, "/elsewhere", http.StatusFound)
		default:
			bodies <- body
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	r := start(t, server.URL+"/lost")
	r.Lost(lost("refused"))
	r.Lost(lost("redirected"))
	r.Lost(lost("r1"))
	wantDocument(t, <-bodies, "r1")
	r.until(t, "on-lost: done", 1)
	if n := r.Failures(); n != 2 || refused.Load() != tries || !strings.Contains(r.logged(), "no such instance") {
		t.Errorf("%d failures, %d tries:\n%s", n, refused.Load(), r.logged())
	}
}

// TestQueueIsBounded: runners past the bound are given up, and Lost never blocks.
func TestQueueIsBounded(t *testing.T) {
	h := testkit.Must(New("true", slog.New(slog.DiscardHandler)))(t)
	for range maxWaiting + 3 {
		h.Lost(lost("r"))
	}
	testkit.Equal(t, h.Failures(), 3, "failures")
}

func TestTargets(t *testing.T) {
	for target, want := range map[string]bool{"": false, "  ": false, "http://": false, "https://%zz/": false, "HTTP://host/x": true, "true": true, "ftp://is/a command": true} {
		_, err := New(target, slog.New(slog.DiscardHandler))
		testkit.Equal(t, err == nil, want, target, err)
	}
}
