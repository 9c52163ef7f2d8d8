package wasi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job/digest"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

// Defaults of the options.
const (
	DefaultTimeoutMs   = 120_000
	DefaultMemoryBytes = 256 << 20
)

// errNoBinary is returned for a job without a binary_addr if its handler lacks a binary, too. The job goes back to its
// queue.
var errNoBinary = errors.New("the job has no binary_addr, and the handler has no binary")

// Handler is a handler of kind wasi.
type Handler struct {
	// Binary is the address of a blob of Client, or of a shared blob if Client is "". File names a file of this machine
	// instead. If both are "", only jobs with a binary_addr can run.
	Client, Binary, File string
	// Permissions are the permissions that the handler requires. A guest gets them only if it is the handler's own
	// binary; a job may name another binary, which gets none.
	Permissions []string
	Extensions  []string // extensions that this runner must have
	Options     handler.Options
	// Local marks a handler from the runner's configuration. Settings.MemoryBytes and Settings.Timeout do not lower its
	// options.
	Local bool
}

// executor runs the jobs of one handler.
type executor struct {
	Handler
	pool *Pool
	file string // SHA-256 of File, in hex

	timeout                  time.Duration
	inlineBytes, memoryBytes int64
	// timeoutOf and memoryOf name the source of the limits, for errors. lowered is set if this runner allows less memory
	// than the handler's options; another runner may allow it.
	timeoutOf, memoryOf string
	lowered             bool

	mu       sync.Mutex
	prepared map[preparedKey]*prepared
}

// ErrNotGranted reports that a handler requires a permission or an extension that the runner does not grant.
var ErrNotGranted = errors.New("the runner does not grant it")

// Check returns nil if this runner can run a handler, or the reason why it cannot. It does not read the module.
func (p *Pool) Check(h *Handler) error {
	if err := checkPermissions(h.Permissions); err != nil {
		return err
	}
	if permission := missing(h.Permissions, p.settings.Grants); permission != "" {
		return fmt.Errorf("it requires the permission %s: %w; start the runner with --wasi-grant %[1]s", permission, ErrNotGranted)
	}
	for _, name := range h.Extensions {
		if p.extensions[name] == "" {
			return fmt.Errorf("it requires the extension %s, which this runner does not have: %w; name its directory with --wasi-extensions", name, ErrNotGranted)
		}
	}
	if h.Binary != "" {
		if _, err := digest.Parse(h.Binary); err != nil {
			return fmt.Errorf("binary: %w", err)
		}
	}
	return nil
}

// Executor returns the executor of a handler. It returns an error if the handler is invalid, or if it requires something
// that this runner does not grant. The error does not name the handler.
func (p *Pool) Executor(h Handler) (task.Executor, error) {
	if err := p.Check(&h); err != nil {
		return nil, err
	}
	x := &executor{
		Handler: h, pool: p, prepared: map[preparedKey]*prepared{}, timeoutOf: "options.timeout_ms", memoryOf: "options.memory_bytes",
		timeout:     time.Duration(cmp.Or(h.Options.TimeoutMs, DefaultTimeoutMs)) * time.Millisecond,
		inlineBytes: cmp.Or(h.Options.InlineBytes, handler.DefaultInlineBytes),
		memoryBytes: min(cmp.Or(h.Options.MemoryBytes, DefaultMemoryBytes), MaxMemoryBytes),
	}
	if most := p.settings.Timeout; !h.Local && x.timeout > most {
		x.timeout, x.timeoutOf = most, "the time-out that this runner allows"
	}
	if most := p.settings.MemoryBytes; !h.Local && x.memoryBytes > most {
		x.memoryBytes, x.memoryOf, x.lowered = most, "this runner", true
	}
	if h.File != "" {
		var err error
		if x.file, err = p.load(h.File); err != nil {
			return nil, fmt.Errorf("binary: %w", err)
		}
	}
	return x, nil
}

// Run runs tasks one after the other. It keeps one process for all of them.
func (x *executor) Run(tasks []*task.Task) {
	var c *child
	defer func() {
		if c != nil {
			x.pool.release(c)
		}
	}()
	for _, t := range tasks {
		c = x.runOne(t, c)
	}
}

// runOne runs a task in process c, or in a new process if c is nil. It returns the process for the next task.
func (x *executor) runOne(t *task.Task, c *child) *child {
	if t.Context.Err() != nil {
		t.End(task.Unget()) // not started yet, and nobody waits for it
		return c
	}
	ctx, stop := task.WhileWanted([]*task.Task{t})
	defer stop()
	for again := false; ; again = true {
		p, err := x.prepare(ctx, t.Job)
		if err != nil {
			end := x.refused(t, err)
			if final, ok := errors.AsType[*refusal](err); ok && t.Context.Err() == nil {
				end = cannot(t, final.text)
			}
			t.End(end)
			return c
		}
		if p.empty {
			x.endEmpty(ctx, t)
			return c
		}
		var end task.End
		var damaged bool
		c, end, damaged = x.runIn(ctx, t, c, p)
		if !damaged || again {
			if !end.Unget {
				x.pool.reported(t.Job.ID)
			}
			t.End(end)
			return c
		}
		x.forget(p)
	}
}

// runIn runs a task in a process. damaged reports that the process could not load a module, because the cache has a
// damaged one.
func (x *executor) runIn(ctx context.Context, t *task.Task, c *child, p *prepared) (_ *child, end task.End, damaged bool) {
	in, err := x.pool.openInput(ctx, t.Job)
	if err != nil {
		return c, x.refused(t, err), false
	}
	defer in.close()
	if c != nil && !c.usable() {
		x.pool.release(c)
		c = nil
	}
	if c == nil {
		if c, err = x.pool.acquire(ctx, classOf(x.memoryBytes)); err != nil {
			return nil, x.refused(t, err), false
		}
	}
	r := &call{
		spec: p.spec, input: in, timeout: x.timeout, allowed: p.allowed, requests: x.pool.requests,
		output: newOutput(ctx, x.pool, t.Job, x.inlineBytes),
	}
	defer r.output.close()
	began := time.Now()
	result, err := c.do(t, r)
	x.pool.counters.run(endName(&result, err), time.Since(began))
	if err == nil && result.End == guest.Lack {
		err = &machineError{errors.New(result.Text)}
		c.kill(err) // the state of the process is unknown now
	}
	end, damaged = x.outcome(t, r, &result, err)
	return c, end, damaged
}

// Close does nothing: the pool owns the processes.
func (x *executor) Close() {}
