package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/script/protocol"
	"github.com/daybookq/daybook/runner/task"
)

// Defaults of options.
const (
	DefaultTimeoutMs = 120_000
	DefaultIdleMs    = 60_000
)

// Handler is a handler of kind script.
type Handler struct {
	ID     string // of this version
	Client string // "" for all clients
	Type   string
	// Local has the grants of a handler in the runner's configuration. It is nil for a stored handler, which gets none.
	Local    *sandbox.Grants
	Document handler.Document
}

// executor runs the jobs of one handler.
type executor struct {
	Handler
	pool        *Pool
	interpreter *interpreter
	grants      sandbox.Grants // zero for a stored handler
	grantsKey   string         // equal only for equal grants

	timeout, idle            time.Duration
	memoryBytes              int64
	inlineBytes, outputBytes int64 // bounds of outputs, see handler.Options
	maxRuns                  int
	lineLimit                int // bound of a message from the host
}

// Executor returns a handler's executor. If the handler is invalid or this machine cannot run it, the error says why,
// without naming the handler.
func (p *Pool) Executor(h Handler) (task.Executor, error) {
	if err := h.Document.Check(); err != nil {
		return nil, err
	}
	if h.Document.Kind != handler.Script {
		return nil, fmt.Errorf("kind is %s, not %s", h.Document.Kind, handler.Script)
	}
	var grants sandbox.Grants
	if h.Local != nil {
		grants = *h.Local
	}
	if key, problem := grants.Check(); key != "" {
		return nil, &handler.FieldError{Field: key, Text: key + " " + problem}
	}
	i, err := p.interpreters[h.Document.Lang]()
	if err != nil {
		return nil, err
	}
	var o handler.Options
	if h.Document.Options != nil {
		o = *h.Document.Options
	}
	x := &executor{
		Handler: h, pool: p, interpreter: i, grants: grants, grantsKey: fmt.Sprintf("%#v", grants),
		timeout:     time.Duration(cmp.Or(o.TimeoutMs, DefaultTimeoutMs)) * time.Millisecond,
		idle:        time.Duration(cmp.Or(o.IdleMs, DefaultIdleMs)) * time.Millisecond,
		memoryBytes: o.MemoryBytes, maxRuns: o.MaxRuns,
	}
	x.inlineBytes, x.outputBytes = o.Outputs()
	// A character of an output is at most six bytes of JSON. The rest is for prints, an error and the names of fields.
	x.lineLimit = 6*int(x.outputBytes) + 1<<20
	return x, nil
}

// Run runs tasks in contexts of their clients, one client after another.
func (x *executor) Run(tasks []*task.Task) {
	for len(tasks) > 0 {
		client := tasks[0].Job.Client
		others := slices.DeleteFunc(slices.Clone(tasks), func(t *task.Task) bool { return t.Job.Client == client })
		if len(others) > 0 {
			tasks = slices.DeleteFunc(slices.Clone(tasks), func(t *task.Task) bool { return t.Job.Client != client })
		}
		x.runClient(client, tasks)
		tasks = others
	}
}

// runClient runs tasks of one client.
func (x *executor) runClient(client string, tasks []*task.Task) {
	alone := false // the next job must run alone in a new context: see errUsed
	for {
		tasks = sendable(tasks)
		if len(tasks) == 0 {
			return
		}
		who := failing{client, x.ID}
		if text, ok := x.pool.failures.last(who); ok {
			endAll(tasks, task.CannotRun(text))
			return
		}
		some := tasks
		if alone {
			some = tasks[:1]
		} else if x.maxRuns > 0 {
			some = tasks[:min(len(tasks), x.maxRuns)]
		}
		ran, err := x.runBatch(client, some, alone)
		if alone = errors.Is(err, errUsed); alone {
			tasks = slices.DeleteFunc(slices.Clone(tasks), (*task.Task).Ended)
			continue
		}
		tasks = tasks[ran:]
		switch {
		case errors.Is(err, errStopped):
			endAll(tasks, task.Unget())
			return
		case err != nil:
			x.pool.failures.add(who, err.Error())
			endAll(tasks, task.CannotRun(err.Error()))
			return
		}
		x.pool.failures.clear(who)
	}
}

// sendable ends the tasks that cannot run, and returns the remaining ones.
func sendable(tasks []*task.Task) []*task.Task {
	refused := func(t *task.Task) bool {
		if t.Context.Err() != nil {
			t.End(task.Unget()) // it has not begun, and nobody waits for it
			return true
		}
		if err := protocol.CheckJob(t.Job); err != nil {
			t.End(task.Failed(err.Error()))
			return true
		}
		return false
	}
	if !slices.ContainsFunc(tasks, refused) {
		return tasks
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(t *task.Task) bool { return t.Ended() || refused(t) })
}

func endAll(tasks []*task.Task, end task.End) {
	for _, t := range tasks {
		t.End(end)
	}
}

// runBatch runs as many tasks as one context may, and returns their number. fresh requires a new context. The error
// says why the handler could not be started, or is errUsed.
func (x *executor) runBatch(client string, tasks []*task.Task, fresh bool) (ran int, err error) {
	k := key{lang: x.Document.Lang, client: client, group: x.ID, owner: owner{x.Local != nil, x.Client}, grants: x.grantsKey}
	if x.Document.EID != "" {
		k.group, k.shared = x.Document.EID, true
	}
	wanted := func() (context.Context, func()) { return task.WhileWanted(tasks) }
	h, err := x.pool.acquire(wanted, k, x, fresh)
	if err != nil {
		return 0, err
	}
	var keep time.Duration
	defer func() { x.pool.release(h, keep) }()
	h.memoryBytes.Store(x.memoryBytes)
	defer h.memoryBytes.Store(0)

	used := h.used()
	number, known := h.loaded[x.ID]
	if !known {
		ctx, stop := wanted()
		number, err = h.load(ctx, x)
		stopped := ctx.Err() != nil
		stop()
		switch {
		case err != nil && stopped:
			return 0, errStopped
		case err != nil && used: // other handlers' leftovers or declarations may be the cause
			return 0, fmt.Errorf("%w: %w", errUsed, err)
		case err != nil:
			return 0, err
		}
	}
	if x.maxRuns > 0 {
		tasks = tasks[:min(len(tasks), max(1, x.maxRuns-h.runs))]
	}
	b := batch{executor: x, host: h, tasks: tasks, used: used}
	err = b.run(number)
	if err == nil && (x.maxRuns == 0 || h.runs < x.maxRuns) && len(h.loaded) < maxHandlers &&
		(x.memoryBytes == 0 || residentBytes(h.child.process.Pid()) <= x.memoryBytes) {
		keep = x.idle
	}
	if errors.Is(err, errBefore) || errors.Is(err, errUsed) {
		return len(tasks), err
	}
	return len(tasks), nil
}

// Close ends the contexts that no other handler uses.
func (x *executor) Close() { x.pool.forget(x.ID) }
