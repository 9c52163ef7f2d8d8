package runner

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/sandbox"
)

// once are the attributes of jobs that may run only once.
var once = client.Attributes{MaxAttempts: 1}

// TestDrainCostsNoAttempt: a run that a stopping runner ends costs the job no attempt.
func TestDrainCostsNoAttempt(t *testing.T) {
	r := start(t)
	s := r.settings(map[string]string{"x": "sleep 60"})
	s.UntilIdle, s.DrainTimeout = 0, 100*time.Millisecond
	testkit.Must(r.AddLines(t.Context(), []byte("a\n"), client.AddOptions{Type: "x", Attributes: once}))(t)
	w, stop := r.begin(s)
	r.until("the job runs", func() bool { return w.Totals().Held == 1 })
	time.Sleep(200 * time.Millisecond) // real time: a job that runs longer than the drain
	stop()
	r.want("x", "pending  0 ")
}

// TestUnfinishedRun: a runner stops even if a run never ends.
func TestUnfinishedRun(t *testing.T) {
	r := start(t)
	s := r.settings(map[string]string{"x": "true"})
	s.UntilIdle, s.DrainTimeout = 0, time.Millisecond
	r.add("x", "a")
	w := r.new(s)
	w.reportTimeout = time.Millisecond
	w.working.Add(1) // as if a worker had a run that cannot be ended
	defer w.working.Done()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r.until("the runner knows that it is registered", func() bool { return w.Totals().Ended["ok"] == 1 })
	stop()
	testkit.Failed(t, <-ended, worker.ErrUnfinished)
}

// TestHangingJob: a job that hangs until its timeout_ms costs the jobs that were claimed with it no attempt.
func TestHangingJob(t *testing.T) {
	r := start(t)
	r.put("", "x", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "import time\ndef handle(payload, job):\n    if payload == 'hang':\n        time.sleep(60)\n    return payload"})
	payloads := slices.Repeat([]string{"a"}, 200)
	payloads[20] = "hang"
	attributes := once
	attributes.TimeoutMs = 8000
	testkit.Must(r.AddLines(t.Context(), []byte(strings.Join(payloads, "\n")), client.AddOptions{Type: "x", Attributes: attributes}))(t)
	s := r.settings(nil)
	s.Accept, s.UntilIdle = []string{handler.Script}, 3*time.Second
	r.run(s)
	counts := map[string]int{}
	for line, n := range r.counted("x") {
		counts[line[:6]] += n
	}
	testkit.Holds(t, counts["comple"] == 199 && counts["failed"] == 1, counts)
}

// TestStrays: a client's jobs whose handler the runner does not run hold up other clients' jobs only for a moment.
func TestStrays(t *testing.T) {
	r := start(t)
	r.put("", "x", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return payload"})
	r.put("bad", "x", handler.Document{Kind: handler.HTTP, URL: "http://127.0.0.1:1/"})
	testkit.Must(r.AddLines(t.Context(), []byte(strings.Repeat("a\n", 2000)), client.AddOptions{Client: "bad", Type: "x"}))(t)
	j := testkit.Must(r.Create(t.Context(), client.NewJob{Client: "good", Type: "x", Payload: []byte("p")}))(t)
	s := r.settings(nil)
	s.Accept, s.UntilIdle = []string{handler.Script}, 0
	r.begin(s)
	o := testkit.Must(r.Output(t.Context(), j.ID, time.Minute))(t)
	testkit.Holds(t, string(o.Bytes) == "p", o)
}

// TestSharedContexts: a stored handler and a handler in the configuration do not share contexts, even with the same
// eid.
func TestSharedContexts(t *testing.T) {
	r := start(t)
	const source = "def handle(payload, job):\n    return str(globals().get('secret', __builtins__.get('secret') if isinstance(__builtins__, dict) else getattr(__builtins__, 'secret', None)))"
	r.put("", "stored", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: source, EID: "e"})
	s := r.settings(nil)
	s.Accept = []string{handler.Script}
	s.Handlers["own"] = &Handler{Document: handler.Document{Kind: handler.Script, Lang: handler.Python, Source: source, Before: "secret = 'red'", EID: "e"}}
	r.add("own", "a")
	r.run(s)
	r.add("stored", "a")
	r.add("own", "a")
	r.run(s)
	r.want("own", "completed ok 1 red", "completed ok 1 red")
	r.want("stored", "completed ok 1 None")
}

// TestGrantsAreLocal: a stored script does not get the grants of a script in the configuration, even with the same eid.
// Two scripts in the configuration each get their own grants.
func TestGrantsAreLocal(t *testing.T) {
	r := start(t)
	d := handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "import os\ndef handle(payload, job):\n    return os.environ.get('COLOUR', 'none')", EID: "e"}
	r.put("", "stored", d)
	r.put("default", "of-client", d)
	s := r.settings(nil)
	s.Accept = []string{handler.Script}
	for _, colour := range []string{"red", "blue"} {
		s.Handlers[colour] = &Handler{Document: d, Program: program.Settings{Grants: sandbox.Grants{Env: map[string]string{"COLOUR": colour}}}}
	}
	for _, typ := range []string{"red", "blue", "stored", "of-client", "red"} {
		r.add(typ, "a")
	}
	r.run(s)
	r.want("red", "completed ok 1 red", "completed ok 1 red")
	r.want("blue", "completed ok 1 blue")
	r.want("stored", "completed ok 1 none")
	r.want("of-client", "completed ok 1 none")
}

// TestLostWhileItWaits: a job that is cancelled while it waits for slots soon makes room, and does not count as a job
// that has waited too long.
func TestLostWhileItWaits(t *testing.T) {
	r := start(t)
	lease := client.Attributes{LeaseMs: 6000}
	testkit.Must(r.AddLines(t.Context(), []byte("a\nb\n"), client.AddOptions{Type: "x", Attributes: lease}))(t)
	s := r.settings(map[string]string{"x": "sleep 60"})
	s.Concurrency, s.UntilIdle, s.DrainTimeout = 1, 0, time.Millisecond
	w, stop := r.begin(s)
	waits := func() (id string, noneAhead bool) {
		w.mu.Lock()
		l := w.lanes[queue{"", "x"}]
		w.mu.Unlock()
		if l == nil {
			return "", false
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.waiting) > 0 {
			id = l.waiting[0].Job.ID
		}
		return id, !l.noneAhead.IsZero()
	}
	id := ""
	r.until("one job runs and one waits", func() bool { id, _ = waits(); return id != "" && w.Totals().Claimed == 2 })
	testkit.Must(r.Cancel(t.Context(), id))(t)
	r.until("no job waits", func() bool { id, _ := waits(); return id == "" })
	_, noneAhead := waits()
	testkit.Holds(t, !noneAhead, "the lane holds no jobs in advance any more")
	r.until("the job is lost", func() bool { return w.Totals().Ended["lost"] == 1 })
	stop()
}

// TestFailuresInTheLog: if runs of a type end badly, the runner logs one a second, with the number of runs that it left
// out.
func TestFailuresInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		var f failures
		fail := func(typ, id, reason string) {
			f.log(log, &client.Job{Type: typ, Client: "c", ID: id}, &client.Outcome{Code: "error", Error: reason})
		}
		for i := range 5 {
			fail("a", fmt.Sprint(i), "broken\n")
			fail("b", fmt.Sprint(i), strings.Repeat("x", 2*maxLogged))
		}
		time.Sleep(logEvery)
		fail("a", "5", "again")
		want := `level=WARN msg="a run ended badly" type=a client=c job_id=0 code=error error=broken not_logged=0
level=WARN msg="a run ended badly" type=b client=c job_id=0 code=error error=` + strings.Repeat("x", maxLogged) + `… not_logged=0
level=WARN msg="a run ended badly" type=a client=c job_id=5 code=error error=again not_logged=4
`
		testkit.Equal(t, text.String(), want)
		for i := range 3 * maxTypes {
			fail(fmt.Sprint("type ", i), "0", "x")
		}
		n := len(f.types)
		testkit.Holds(t, n <= maxTypes, n, "types are remembered")
	})
}

// TestHandlerThatCannotRun: if a handler cannot be loaded, its jobs go back to their queue without an attempt, less and
// less often. They run as soon as the handler has a version that can be loaded. Other handlers keep working.
func TestHandlerThatCannotRun(t *testing.T) {
	r := start(t)
	r.put("", "bad", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "return payload"})
	r.put("", "good", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return payload"})
	r.add("bad", "a", "b", "c")
	s := r.settings(nil)
	s.Accept, s.UntilIdle = []string{handler.Script}, 0
	w, stop := r.begin(s)
	last := func() time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		l := w.lanes[queue{"", "bad"}]
		if l == nil {
			return 0
		}
		l.rest.mu.Lock()
		defer l.rest.mu.Unlock()
		return l.rest.last
	}
	r.until("the lane has rested three times", func() bool { return last() >= 4*w.pace.rest })
	n := w.Totals().Ended["returned"]
	testkit.Holds(t, n >= 3 && n <= 30, "jobs were returned", n, "times")
	r.add("good", "d")
	r.until("another handler runs", func() bool { return slices.Equal(r.jobs("good"), []string{"completed ok 1 d"}) })
	for _, line := range r.jobs("bad") {
		testkit.Holds(t, strings.HasSuffix(line, " 0 ") || strings.HasPrefix(line, "active"), "a job has used up an attempt", line)
	}
	r.put("", "bad", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return payload"})
	r.until("the jobs have ended", func() bool {
		return slices.Equal(r.jobs("bad"), []string{"completed ok 1 a", "completed ok 1 b", "completed ok 1 c"})
	})
	stop()
}
