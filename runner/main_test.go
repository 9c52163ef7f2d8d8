package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/sandbox"
)

// idleTime is how long runners in tests wait for another job. On a busy machine, the server may hand one out late.
const idleTime = 2 * time.Second

// rig is a server and its runners.
type rig struct {
	*testing.T
	server *daybooktest.Server
	*client.Client
}

func start(t *testing.T, args ...string) *rig {
	s := daybooktest.Start(t, args...)
	return &rig{t, s, s.Client}
}

// settings returns the settings of a runner with a handler of kind exec for each type. The runner ends when it is idle.
func (r *rig) settings(shells map[string]string) Settings {
	s := Settings{
		Client: r.Client, ID: "r", Handlers: map[string]*Handler{}, Concurrency: 4, DrainTimeout: 10 * time.Second, UntilIdle: idleTime,
		Sandbox: sandbox.Auto, Log: slog.New(slog.NewTextHandler(testWriter{r.T}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for typ, shell := range shells {
		s.Handlers[typ] = shellHandler(shell)
	}
	return s
}

// testWriter writes lines to a test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}

func shellHandler(shell string) *Handler {
	return &Handler{Document: handler.Document{Kind: handler.Exec, Program: "shell"}, Program: program.Settings{Shell: shell}}
}

// run runs a runner until it ends.
func (r *rig) run(s Settings) *Runner {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	w := r.new(s)
	testkit.Check(r.T, w.Run(ctx))
	testkit.MustHold(r.T, ctx.Err() == nil, "the runner did not become idle")
	r.wantEmpty(w)
	return w
}

// wantEmpty checks that a runner that has ended holds no jobs.
func (r *rig) wantEmpty(w *Runner) {
	r.Helper()
	testkit.Equal(r.T, w.heldBytes.Load(), 0, "the runner has ended and holds bytes of payloads")
	for _, f := range w.feeds {
		testkit.Equal(r.T, f.strays.Load(), 0, "the feed of", f.types, "has ended and holds strays")
	}
}

func (r *rig) new(s Settings) *Runner {
	r.Helper()
	w := testkit.Must(New(s))(r.T)
	return w
}

// begin runs a runner until stop is called.
func (r *rig) begin(s Settings) (w *Runner, stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w = r.new(s)
	w.pace = pace{refresh: 200 * time.Millisecond, heartbeatAgain: 50 * time.Millisecond, types: 20 * time.Millisecond, rest: 100 * time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		testkit.Check(r.T, <-ended)
		r.wantEmpty(w)
	})
	r.Cleanup(stop)
	return w, stop
}

func (r *rig) until(what string, holds func() bool) { r.Helper(); testkit.Eventually(r.T, what, holds) }

func (r *rig) add(typ string, payloads ...string) {
	r.Helper()
	testkit.Must(r.AddLines(r.Context(), []byte(strings.Join(payloads, "\n")+"\n"), client.AddOptions{Type: typ}))(r.T)
}

func (r *rig) put(clientName, typ string, d handler.Document) client.StoredHandler {
	r.Helper()
	h := testkit.Must(r.PutHandler(r.Context(), clientName, typ, d))(r.T)
	return h
}

// jobs returns a line for each job: type, status, code, run attempts, output, error.
func (r *rig) jobs(typ string) (lines []string) {
	r.Helper()
	for j, err := range r.Jobs(r.Context(), client.JobsQuery{Type: typ}) {
		testkit.NoError(r.T, err)
		lines = append(lines, fmt.Sprintf("%s %s %d %s%s", j.Status, j.Code, j.RunAttempts, j.Output, j.Error))
	}
	return lines
}

func (r *rig) want(typ string, want ...string) {
	r.Helper()
	testkit.EqualSlices(r.T, r.jobs(typ), want, "the jobs of", typ)
}

// counted returns how many jobs of a type have each line of jobs.
func (r *rig) counted(typ string) map[string]int {
	counts := map[string]int{}
	for _, line := range r.jobs(typ) {
		counts[line]++
	}
	return counts
}

func (r *rig) wantCounts(typ string, want map[string]int) {
	r.Helper()
	got := r.counted(typ)
	testkit.Holds(r.T, maps.Equal(got, want), "the jobs of", typ, "are", got, "want", want)
}
