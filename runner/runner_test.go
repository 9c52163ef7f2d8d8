package runner

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/webhook"
)

// TestKinds: a runner runs jobs of each kind and the jobs that they create, and ends when it is idle.
func TestKinds(t *testing.T) {
	r := start(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Fprintf(w, "web %s", strings.TrimSpace(string(body)))
	}))
	defer web.Close()
	allow := testkit.Must(webhook.ParseAllow([]string{web.Listener.Addr().String()}))(t)
	s := r.settings(map[string]string{"upper": "tr a-z A-Z; echo; echo 'J: count|x y z'", "count": "wc -w"})
	s.Handlers["upper"].Document.ChainTypes = []string{"count"}
	s.Allow, s.Accept = allow, []string{handler.HTTP, handler.Script, handler.Exec}
	r.put("", "web", handler.Document{Kind: handler.HTTP, URL: web.URL})
	r.put("", "script", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return 'python ' + payload"})
	r.put("", "alias", handler.Document{Kind: handler.Exec, Program: "upper", ChainTypes: []string{"count"}})
	for _, typ := range []string{"upper", "web", "script", "alias"} {
		r.add(typ, "a", "b")
	}
	w := r.run(s)
	r.want("upper", "completed ok 1 A\n", "completed ok 1 B\n")
	r.want("alias", "completed ok 1 A\n", "completed ok 1 B\n")
	r.want("web", "completed ok 1 web a", "completed ok 1 web b")
	r.want("script", "completed ok 1 python a", "completed ok 1 python b")
	r.wantCounts("count", map[string]int{"completed ok 1 3\n": 4})
	got := w.Totals()
	testkit.Holds(t, got.Held == 0 && got.Claimed == 12 && got.Ended["ok"] == 12, got)
}

// TestTrust: a stored handler runs only if the runner accepts its kind and, for kind exec, the configuration has its
// program. The configuration has precedence.
func TestTrust(t *testing.T) {
	r := start(t)
	python := handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return 'stored'"}
	r.put("", "script", python)
	r.put("", "unknown", handler.Document{Kind: handler.Exec, Program: "rm"})
	r.put("", "web", handler.Document{Kind: handler.HTTP, URL: "http://127.0.0.1:1/"})
	r.put("", "own", python)
	r.put("default", "own", python)
	for _, typ := range []string{"script", "unknown", "web", "own", "none"} {
		r.add(typ, "a")
	}
	s := r.settings(map[string]string{"own": "echo local"})
	r.run(s)
	for _, typ := range []string{"script", "unknown", "web", "none"} {
		r.want(typ, "pending  0 ")
	}
	r.want("own", "completed ok 1 local\n")
	s.Accept = []string{handler.Exec, handler.Script}
	r.run(s)
	r.want("unknown", "pending  0 ")
	r.want("script", "completed ok 1 stored")
	s.Accept = []string{handler.HTTP}
	s.Handlers = nil
	r.run(s) // the address is not allowed
	got := r.jobs("web")
	testkit.Holds(t, len(got) == 1 && strings.HasPrefix(got[0], "failed failed 1 ") && strings.Contains(got[0], "127.0.0.1"), got)
}

// TestWrongHandlers: if a handler in the configuration cannot run, the error names it once.
func TestWrongHandlers(t *testing.T) {
	r := &rig{T: t}
	for name, c := range map[string]struct {
		h    Handler
		want string
	}{
		"a program":           {Handler{Document: handler.Document{Kind: handler.Exec, Program: "u"}}, "argv"},
		"a URL":               {Handler{Document: handler.Document{Kind: handler.HTTP, URL: "ftp://a/"}}, "url must be"},
		"a private address":   {Handler{Document: handler.Document{Kind: handler.HTTP, URL: "http://127.0.0.1:8025/mail"}}, "the URL leads to 127.0.0.1:8025, which is a loopback address; to allow it, start the runner with --http-allow 127.0.0.1:8025"},
		"a script":            {Handler{Document: handler.Document{Kind: handler.Script, Lang: handler.Shell}}, "source is missing"},
		"another interpreter": {Handler{Document: handler.Document{Kind: handler.Script, Lang: handler.PHP, Source: "x"}}, "no php on this machine"},
		"a script's access": {Handler{
			Document: handler.Document{Kind: handler.Script, Lang: handler.Shell, Source: "x"},
			Program:  program.Settings{Grants: sandbox.Grants{Access: sandbox.Access{ReadOnly: []string{"/no/such"}}}},
		}, "read_only has a path that is not there"},
		"too many slots": {Handler{
			Document: handler.Document{Kind: handler.Script, Lang: handler.Shell, Source: "x", Options: &handler.Options{Slots: 5}},
		}, "options.slots is 5, and the runner has 4 slots"},
	} {
		s := r.settings(nil)
		s.Handlers["u"], s.Interpreters = &c.h, map[string]string{handler.PHP: "/no/such/php"}
		_, err := New(s)
		text := fmt.Sprint(err)
		testkit.Holds(t, strings.HasPrefix(text, "handler u: "+c.want) && strings.Count(text, "handler u") == 1, name, text)
	}
}

// TestClientsAndVersions: each client's jobs run with its own handler. New versions and deletions take effect within
// seconds, without a restart.
func TestClientsAndVersions(t *testing.T) {
	r := start(t)
	says := func(text string) handler.Document {
		return handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return '" + text + " ' + job.client"}
	}
	add := func(clientName string) string {
		t.Helper()
		j := testkit.Must(r.Create(t.Context(), client.NewJob{Client: clientName, Type: "x", Payload: []byte("p")}))(t)
		return j.ID
	}
	output := func(id string) string {
		t.Helper()
		o := testkit.Must(r.Output(t.Context(), id, time.Minute))(t)
		return string(o.Bytes)
	}
	r.put("", "x", says("all"))
	r.put("b", "x", says("own"))
	s := r.settings(nil)
	s.Accept, s.UntilIdle = []string{handler.Script}, 0
	r.begin(s)
	a, b := add("a"), add("b")
	testkit.Equal(t, output(a)+", "+output(b), "all a, own b")
	r.put("", "x", says("new"))
	r.put("b", "x", says("newer"))
	a, b = add("a"), add("b")
	testkit.Equal(t, output(a)+", "+output(b), "new a, newer b") // a claim names the newest version
	testkit.NoError(t, r.DeleteHandler(t.Context(), "b", "x"))
	testkit.Equal(t, output(add("b")), "new b")
}

// TestNeighbours: a job that ends its process costs the other jobs in its batch no attempt.
func TestNeighbours(t *testing.T) {
	r := start(t)
	r.put("", "x", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "import os\ndef handle(payload, job):\n    if payload == 'poison':\n        os._exit(3)\n    return payload"})
	payloads := slices.Repeat([]string{"good"}, 100)
	payloads[50] = "poison"
	testkit.Must(r.AddLines(t.Context(), []byte(strings.Join(payloads, "\n")), client.AddOptions{Type: "x", Attributes: client.Attributes{
		MaxAttempts: 3, Backoff: &client.Backoff{InitialMs: new(int64)},
	}}))(t)
	s := r.settings(nil)
	s.Accept = []string{handler.Script}
	r.run(s)
	counts := map[string]int{}
	for line, n := range r.counted("x") {
		counts[line[:min(len(line), 16)]] += n
	}
	testkit.Holds(t, counts["completed ok 1 g"] == 99 && (counts["failed error 3 t"]+counts["failed error 3 T"] == 1 || len(counts) == 2), counts)
}

// TestWeights: the runs of two types are in proportion to their weights while both have jobs. On a busy machine a claim
// may arrive late, and its type loses a turn, so this test only distinguishes 3:1 from 1:1. Package slots tests the
// exact shares.
func TestWeights(t *testing.T) {
	r := start(t)
	var mu sync.Mutex
	var order []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		order = append(order, req.Header.Get("Daybook-Type"))
		mu.Unlock()
		time.Sleep(5 * time.Millisecond) // real time: a job that takes a moment
	}))
	defer web.Close()
	allow := testkit.Must(webhook.ParseAllow([]string{web.Listener.Addr().String()}))(t)
	const jobs = 800
	for _, typ := range []string{"a", "b"} {
		r.add(typ, slices.Repeat([]string{"x"}, jobs)...)
	}
	s := r.settings(nil)
	s.Allow, s.Concurrency = allow, 2
	for typ, weight := range map[string]int{"a": 3, "b": 1} {
		s.Handlers[typ] = &Handler{Document: handler.Document{Kind: handler.HTTP, URL: web.URL, Options: &handler.Options{Weight: weight}}}
	}
	r.run(s)
	// Both types have jobs from the time when each has had its first, until a's last one.
	first := max(slices.Index(order, "a"), slices.Index(order, "b"))
	last := 0
	for i, typ := range order {
		if typ == "a" {
			last = i
		}
	}
	a := 0
	for _, typ := range order[first:last] {
		if typ == "a" {
			a++
		}
	}
	if share := float64(a) / float64(last-first); len(order) != 2*jobs || share < 0.6 || share > 0.9 {
		t.Errorf("%d requests; a had %.3f of those between %d and %d, want about 0.75", len(order), share, first, last)
	}
}

// TestDrain: a runner that is stopped reports the running jobs and returns the waiting ones.
func TestDrain(t *testing.T) {
	r := start(t)
	dir := t.TempDir()
	testkit.NoError(t, os.Chmod(dir, 0o777))
	s := r.settings(map[string]string{"x": "touch " + dir + "/$(cat); while [ ! -e " + dir + "/go ]; do sleep 0.02; done; echo done"})
	s.Handlers["x"].Program.ReadWrite = []string{dir}
	s.Concurrency, s.UntilIdle = 2, 0
	r.add("x", "a", "b", "c", "d")
	_, stop := r.begin(s)
	r.until("two jobs run", func() bool { files, err := filepath.Glob(dir + "/?"); return err == nil && len(files) == 2 })
	go func() {
		time.Sleep(100 * time.Millisecond) // real time: the jobs end after the drain has begun
		testkit.Check(t, os.WriteFile(dir+"/go", nil, 0o666))
	}()
	stop()
	r.wantCounts("x", map[string]int{"completed ok 1 done\n": 2, "pending  0 ": 2})
}

// TestServerRestarts: a runner continues after its server restarts, and no job runs twice because of it.
func TestServerRestarts(t *testing.T) {
	r := start(t)
	s := r.settings(map[string]string{"x": "cat"})
	s.UntilIdle = 0
	w, stop := r.begin(s)
	for i := range 3 {
		r.add("x", "1", "2", "3", "4", "5", "6", "7", "8")
		r.until("some are done", func() bool { return w.Totals().Ended["ok"] > int64(8*i) })
		r.server.Kill()
		r.server.Restart()
	}
	r.until("all are done", func() bool { return w.Totals().Held == 0 && len(r.counted("x")) == 8 })
	stop()
	for line := range r.counted("x") {
		testkit.Holds(t, strings.HasPrefix(line, "completed ok "), line)
	}
}

// TestHealth: a runner is healthy while its server answers, and its metrics count.
func TestHealth(t *testing.T) {
	r := start(t)
	s := r.settings(map[string]string{"x": "cat"})
	s.UntilIdle = 0
	w, _ := r.begin(s)
	get := func(path string) (int, string) {
		a := httptest.NewRecorder()
		w.Handler().ServeHTTP(a, httptest.NewRequest(http.MethodGet, path, nil))
		return a.Code, a.Body.String()
	}
	r.until("it is healthy", func() bool { code, _ := get("/healthz"); return code == http.StatusOK })
	r.add("x", "a")
	r.until("the job is done", func() bool { return w.Totals().Ended["ok"] == 1 })
	_, text := get("/metrics")
	for _, line := range []string{
		"daybook_runner_jobs_held 0", "daybook_runner_slots 4", "daybook_runner_handlers 1", "daybook_runner_jobs_claimed_total 1",
		`daybook_runner_jobs_ended_total{code="ok",type="x"} 1`, "daybook_runner_server_reachable 1",
	} {
		testkit.Holds(t, strings.Contains(text, line+"\n"), "the metrics do not have", line)
	}
	r.server.Stop()
	r.until("it is not healthy", func() bool { code, _ := get("/healthz"); return code == http.StatusServiceUnavailable })
	r.server.Restart()
	r.until("it is healthy again", func() bool { code, _ := get("/healthz"); return code == http.StatusOK })
}

// TestUntilIdleWaitsForTheServer: a runner is not idle before its server has answered.
func TestUntilIdleWaitsForTheServer(t *testing.T) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	r := &rig{T: t, Client: client.New("http://"+l.Addr().String(), client.Options{RetryFor: -1})}
	s := r.settings(map[string]string{"x": "cat"})
	s.UntilIdle = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	w := r.new(s)
	testkit.Check(t, w.Run(ctx))
	testkit.Holds(t, ctx.Err() != nil, "it ended although it did not reach the server")
	testkit.Failed(t, w.Healthy(), errUnreachable)
}

// TestSlowJobsAreLeft: a runner does not hold many slow jobs while another runner is free.
func TestSlowJobsAreLeft(t *testing.T) {
	r := start(t)
	const jobs = 60
	r.add("x", slices.Repeat([]string{"a"}, jobs)...)
	r.put("", "x", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "import time\ndef handle(payload, job):\n    time.sleep(0.05)\n    return payload"})
	var ended [2]atomic.Int64
	var both sync.WaitGroup
	for i := range ended {
		s := r.settings(nil)
		s.ID, s.Accept, s.Concurrency = fmt.Sprint("r", i), []string{handler.Script}, 1
		both.Go(func() { ended[i].Store(r.run(s).Totals().Ended["ok"]) })
	}
	both.Wait()
	a, b := ended[0].Load(), ended[1].Load()
	testkit.Holds(t, a+b == jobs && min(a, b) >= jobs/5, "the runners did", a, "and", b, "jobs")
}

// TestPlan: if there are many types, they share feeds.
func TestPlan(t *testing.T) {
	r := &Runner{lanes: map[queue]*lane{}}
	for i := range 200 {
		r.lanes[queue{"", fmt.Sprint("t", i)}] = &lane{}
		r.lanes[queue{"a", fmt.Sprint("t", i)}] = &lane{}
	}
	seen := 0
	feeds := r.plan()
	for _, f := range feeds {
		seen += len(f.types)
		testkit.Holds(t, len(f.types) == len(f.lanes) && len(f.types) <= 2, f.types)
	}
	testkit.Holds(t, seen == 400 && len(feeds) == 200, seen, "types in", len(feeds), "feeds")
}

// TestManyHandlers: if there are many types, they share feeds, and a job of each runs.
func TestManyHandlers(t *testing.T) {
	r := start(t)
	shells := map[string]string{}
	for i := range ownFeeds + 20 {
		shells[fmt.Sprintf("t%03d", i)] = "cat"
	}
	for typ := range shells {
		r.add(typ, typ)
	}
	s := r.settings(shells)
	w := r.run(s)
	got := w.Totals().Ended
	testkit.Equal(t, got["ok"], int64(len(shells)), "ended", got)
}

// TestLongOutputs: for each kind, an output that is too long for the outcome becomes a blob, and GET /jobs/{id}/output
// returns its bytes. If it is longer than output_bytes, the job fails.
func TestLongOutputs(t *testing.T) {
	r := start(t)
	const long = 300_000
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, strings.Repeat("x", long)) }))
	defer web.Close()
	lines := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "200 "+strings.Repeat("x", long)) }))
	defer lines.Close()
	allow := testkit.Must(webhook.ParseAllow([]string{"127.0.0.1"}))(t)
	s := r.settings(map[string]string{"exec": "head -c 300000 /dev/zero | tr '\\0' x", "frames": "read -r p; printf '200 '; head -c 300000 /dev/zero | tr '\\0' x", "failed": "head -c 300000 /dev/zero | tr '\\0' x; exit 3", "long": "head -c 300000 /dev/zero"})
	s.Handlers["frames"].Program.Frames = program.FramesLines
	s.Handlers["failed"].Program.ExitCodes = map[string]string{"3": "failed"}
	s.Handlers["long"].Document.Options = &handler.Options{InlineBytes: 10, OutputBytes: long - 1}
	s.Allow, s.Accept = allow, []string{handler.HTTP, handler.Script}
	r.put("", "web", handler.Document{Kind: handler.HTTP, URL: web.URL})
	r.put("", "batch", handler.Document{Kind: handler.HTTP, URL: lines.URL, Options: &handler.Options{Batch: true}})
	r.put("", "script", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return 'x' * 300000"})
	for _, typ := range []string{"exec", "frames", "failed", "long", "web", "batch", "script"} {
		r.add(typ, "a")
	}
	r.run(s)
	for _, typ := range []string{"exec", "frames", "failed", "web", "batch", "script"} {
		for j, err := range r.Jobs(r.Context(), client.JobsQuery{Type: typ}) {
			testkit.NoError(t, err)
			o, err := r.Output(r.Context(), j.ID, 0)
			if err != nil || string(o.Bytes) != strings.Repeat("x", long) || j.OutputAddr == "" || o.Addr != j.OutputAddr || o.Kind != client.Text || j.OutputAddrKind != client.Text || len(j.Output) > 0 || j.RunAttempts != 1 || (j.Status == "failed") != (typ == "failed") {
				t.Errorf("%s: %v; %d bytes at %q; %s %.100s", typ, err, len(o.Bytes), o.Addr, j.Status, j.Error)
			}
		}
	}
	got := r.jobs("long")
	testkit.Holds(t, len(got) == 1 && strings.HasPrefix(got[0], "failed failed 1 ") && strings.Contains(got[0], "options.output_bytes"), got)
}

// withoutBlobs is a server that keeps no blobs or is unreachable.
type withoutBlobs struct {
	calls atomic.Int64
	err   error
}

func (b *withoutBlobs) Put(context.Context, string, io.Reader) (string, error) {
	b.calls.Add(1)
	return "", b.err
}

// TestLongOutputsWithoutBlobs: if the server keeps no blobs, the runner reports an output of up to 4 MiB with the
// outcome. If it is longer, the job fails at its first attempt.
func TestLongOutputsWithoutBlobs(t *testing.T) {
	r := start(t)
	s := r.settings(map[string]string{"short": "head -c 300000 /dev/zero | tr '\\0' x", "long": "head -c 4194305 /dev/zero"})
	w := r.new(s)
	none := &withoutBlobs{err: client.ErrNoBlobs}
	w.blobs = none
	r.add("short", "a")
	r.add("long", "a")
	testkit.NoError(t, w.Run(r.Context()))
	r.want("short", "completed ok 1 "+strings.Repeat("x", 300_000))
	if got := r.jobs("long"); len(got) != 1 || !strings.HasPrefix(got[0], "failed failed 1 OUTPUT_TOO_LONG: ") || !strings.Contains(got[0], "keeps no blobs") {
		t.Errorf("%.300q", got)
	}
	testkit.Equal(t, none.calls.Load(), 2, "calls")
}

// TestWithin: a stored handler that names a program in the configuration can lower the program's limits but not raise
// them.
func TestWithin(t *testing.T) {
	limits := &handler.Options{TimeoutMs: 1000, MemoryBytes: 32 << 20}
	for _, c := range []struct{ of, want handler.Options }{
		{handler.Options{}, handler.Options{TimeoutMs: 1000, MemoryBytes: 32 << 20}},
		{handler.Options{TimeoutMs: 500, MemoryBytes: 64 << 20, InlineBytes: 9, Weight: 3}, handler.Options{TimeoutMs: 500, MemoryBytes: 32 << 20, InlineBytes: 9, Weight: 3}},
	} {
		testkit.Equal(t, *within(c.of, limits), c.want, "of", c.of)
		testkit.Equal(t, *within(c.of, nil), c.of, "without limits", "of")
	}
}
