package script

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// bed is a pool for tests, with the lines that its scripts printed.
type bed struct {
	*Pool
	t testing.TB

	mu    sync.Mutex
	lines []Line
}

var theSandbox = sync.OnceValues(func() (*sandbox.Sandbox, error) { return sandbox.New(sandbox.Auto) })

// newBed returns a pool. At the end of the test, it closes the pool and checks that nothing is left of it.
func newBed(t testing.TB, change ...func(*Settings)) *bed {
	t.Helper()
	box := testkit.Must(theSandbox())(t)
	b := &bed{t: t}
	s := Settings{Sandbox: box, Dir: t.TempDir(), MaxContexts: 4, Log: func(l Line) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, l)
	}}
	for _, c := range change {
		c(&s)
	}
	b.Pool = testkit.Must(NewPool(s))(t)
	t.Cleanup(func() {
		testkit.Check(t, b.Close())
		if s := b.contexts.State(); s.Places != 0 || len(s.Busy) != 0 || len(s.Idle) != 0 {
			t.Errorf("after Close: %d places, %d busy and %d idle contexts", s.Places, len(s.Busy), len(s.Idle))
		}
		_, err := os.Stat(b.child.dir)
		testkit.Holds(t, os.IsNotExist(err), "after Close: the directory of scripts", err)
		if t.Failed() {
			for _, l := range b.logged() {
				t.Logf("log: %+v", l)
			}
		}
	})
	return b
}

func (b *bed) logged() []Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

// executor returns a handler's executor, or skips the test if the machine lacks the language.
func (b *bed) executor(id string, d handler.Document) task.Executor {
	b.t.Helper()
	return b.local(id, d, nil)
}

// local returns the executor of a handler in the runner's configuration with the grants g.
func (b *bed) local(id string, d handler.Document, g *sandbox.Grants) task.Executor {
	b.t.Helper()
	d.Kind = handler.Script
	need(b.t, b.Pool, d.Lang)
	return testkit.Must(b.Executor(Handler{ID: id, Local: g, Type: "work", Document: d}))(b.t)
}

// need skips a test if the machine lacks a language.
func need(t testing.TB, p *Pool, lang string) {
	t.Helper()
	if _, err := p.interpreters[lang](); err != nil {
		t.Skipf("%v; `scripts/tools` installs it", err)
	}
}

func text(payload string) *client.Job {
	return &client.Job{Payload: []byte(payload), Kind: client.Text}
}

func texts(payloads ...string) (jobs []*client.Job) {
	for _, p := range payloads {
		jobs = append(jobs, text(p))
	}
	return jobs
}

// run runs jobs of the client acme as one batch, and returns their ends.
func run(x task.Executor, jobs ...*client.Job) []task.End {
	return runWith(context.Background(), x, jobs...)
}

func runWith(ctx context.Context, x task.Executor, jobs ...*client.Job) []task.End {
	ends := make([]task.End, len(jobs))
	tasks := make([]*task.Task, len(jobs))
	for n, j := range jobs {
		if j.ID == "" {
			j.ID = fmt.Sprintf("job-%d", n)
		}
		if j.Client == "" {
			j.Client = "acme"
		}
		j.Type = "work"
		tasks[n] = task.New(ctx, j, func(e task.End) { ends[n] = e })
	}
	x.Run(tasks)
	for n, t := range tasks {
		if !t.Ended() {
			ends[n] = task.Error("THE TASK WAS NOT ENDED")
		}
	}
	return ends
}

// show formats an end as a short text: "ok text:HELLO", "retry:later after 1500", "unget", or "unable:why" if the
// handler cannot run.
func show(e task.End) string {
	if e.Unable != "" {
		return "unable:" + e.Unable
	}
	if e.Unget {
		return "unget"
	}
	s := e.Code
	if e.OutputKind != client.None {
		s += fmt.Sprintf(" %s:%s", e.OutputKind, e.Output)
	}
	if e.Error != "" {
		s += ":" + e.Error
	}
	if e.DelayMs != nil {
		s += fmt.Sprintf(" after %d", *e.DelayMs)
	}
	for _, j := range e.Then {
		s += fmt.Sprintf(" then %s|%s", j.Type, j.Payload)
	}
	return s
}

func shown(ends []task.End) (all []string) {
	for _, e := range ends {
		all = append(all, show(e))
	}
	return all
}

// matches reports whether an end matches a case. Text after "…" must occur in the error.
func matches(got, want string) bool {
	before, part, ok := strings.Cut(want, "…")
	if !ok {
		return got == want
	}
	return strings.HasPrefix(got, before) && strings.Contains(got[len(before):], part)
}
