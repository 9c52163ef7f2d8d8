package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/container"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/script"
	"github.com/daybookq/daybook/runner/slots"
	"github.com/daybookq/daybook/runner/wasi"
	"github.com/daybookq/daybook/runner/webhook"
)

// Settings are the configuration of a runner. Client and Log are required.
type Settings struct {
	Client *client.Client
	Log    *slog.Logger
	ID     string // of the runner; a name: letters, digits and . _ : -
	// Takeover makes this process hold the id even if another one does, which then ends.
	Takeover bool
	Labels   map[string]string // of the runner, for people
	Version  string            // of the program

	// Handlers are those of the configuration, by name. They have precedence over those that the server stores.
	Handlers map[string]*Handler
	// Accept lists the kinds of stored handlers that the runner runs.
	Accept []string
	// Types and Clients restrict the jobs that the runner claims. Empty means all that it has handlers of.
	Types, Clients []string
	Strategy       client.Strategy // which jobs to claim first; "" means client.Oldest

	Concurrency  int // slots; at least 1
	DrainTimeout time.Duration
	// UntilIdle ends the runner when no job was handed out, and none ran, for that long. 0 means never.
	UntilIdle time.Duration

	Sandbox      sandbox.Mode
	Allow        *webhook.Allow    // addresses for handlers of kind http
	Interpreters map[string]string // of scripts, by language
	// Containers are used if a handler is of kind container. What the server does for containers is set by New.
	Containers container.Settings
	UserAgent  string
	// WASIGrants are the permissions of guests of kind wasi, and WASIExtensions the directory of modules that they can import.
	WASIGrants     []string
	WASIExtensions string
	// WASI are limits of guests. 0 is the default.
	WASI WASILimits
	// Cache is the directory in which the runner keeps what it can fetch or make again, "" for one in the user's cache.
	Cache string
	// ScriptOutput gets the lines that scripts print, if it is not nil.
	ScriptOutput func(script.Line)
}

// WASILimits are limits of handlers of kind wasi that the server stores, and of binaries that jobs name.
type WASILimits struct {
	MemoryBytes int64         // the most that a guest gets
	Timeout     time.Duration // the longest
	CacheBytes  int64         // of the cache of modules, about
}

// Handler is a handler of the configuration.
type Handler struct {
	// Types are the types of the jobs that it runs. nil means its name. An empty list means none: stored handlers of kind
	// exec can name it.
	Types    *[]string
	Document handler.Document
	Program  program.Settings // of kind exec; of kind script, only its Grants; of kind container, only its ExitCodes
	Binary   string           // of kind wasi: the file of the module, or "" for the blob that the document names
	// Images are those that jobs of a handler of kind container may run. nil means those of Settings.Containers.
	Images *container.Images
}

func (h *Handler) types(name string) []string {
	if h.Types == nil {
		return []string{name}
	}
	return *h.Types
}

// Runner claims jobs and runs them. Run may be called once.
type Runner struct {
	Settings
	pace     pace
	kinds    kinds
	slots    *slots.Allocator
	counters counters
	failures failures
	moved    movedFiles
	blobs    runlog.Blobs

	// The patience of putOutput, which tests change.
	outputPatience, outputPause time.Duration

	reportTimeout time.Duration // 0 means the constant; tests shrink it

	working sync.WaitGroup // workers of feeds
	closing sync.WaitGroup // lanes that end
	soon    chan struct{}  // capacity 1: refresh now
	// typesChanged, with capacity 1, has an element if a heartbeat shall send new types.
	typesChanged chan struct{}
	// heldBytes is how many bytes of payloads the lanes hold.
	heldBytes atomic.Int64

	mu       sync.Mutex
	runs     context.Context // ends when the runs that are under way must end; renewed by endAll
	endRuns  context.CancelCauseFunc
	lanes    map[queue]*lane
	feeds    map[string]*feed
	versions map[string]version // that were read from the server, by id
	own      map[string]bool    // types of which some clients have handlers of their own
	shared   map[string]bool    // types that have a stored handler for all clients
	stopped  bool

	sayMu sync.Mutex
	said  map[string]bool
}

// pace is how often a runner does what nobody asks it for. Tests have a faster one.
type pace struct {
	refresh        time.Duration // how often it asks the server for its handlers
	heartbeatAgain time.Duration // how soon a heartbeat that failed is sent again
	types          time.Duration // how soon the server is notified of changed types; it bounds how often that happens
	rest           time.Duration // of a lane, at first: see rest.go
}

var usualPace = pace{refresh: refreshPatience, heartbeatAgain: time.Second, types: 500 * time.Millisecond, rest: firstRest}

// New checks the settings, and finds out what this machine can do.
func New(s Settings) (*Runner, error) {
	r := &Runner{
		Settings: s, lanes: map[queue]*lane{}, feeds: map[string]*feed{}, versions: map[string]version{}, said: map[string]bool{}, soon: make(chan struct{}, 1),
		typesChanged: make(chan struct{}, 1), pace: usualPace, blobs: blobs{s.Client}, outputPatience: outputPatience, outputPause: runlog.FirstPause,
	}
	r.runs, r.endRuns = context.WithCancelCause(context.Background())
	var err error
	if r.slots, err = slots.New(s.Concurrency); err != nil {
		return nil, err
	}
	box, err := sandbox.New(s.Sandbox)
	if err != nil {
		return nil, err
	}
	pool, err := script.NewPool(script.Settings{Sandbox: box, MaxContexts: max(s.Concurrency, 1), Interpreters: s.Interpreters, Log: s.ScriptOutput})
	if err != nil {
		return nil, err
	}
	r.kinds = kinds{sandbox: box, scripts: pool, web: webhook.Settings{Allow: s.Allow, UserAgent: s.UserAgent}, accept: s.Accept, programs: s.Handlers,
		logs: &runlog.Keeper{Blobs: blobs{s.Client}, Logs: logs{s.Client}, Log: s.Log}}
	fail := func(err error) (*Runner, error) {
		_ = r.kinds.close() // the first error counts
		return nil, err
	}
	if slices.Contains(r.kindsRun(), handler.WASI) {
		dir := s.Cache
		if dir != "" {
			dir = filepath.Join(dir, "wasi")
		}
		r.kinds.guests, err = wasi.NewPool(wasi.Settings{
			Sandbox: box, Blobs: blobs{s.Client}, Dir: dir, MaxProcesses: max(s.Concurrency, 1), Grants: s.WASIGrants, Extensions: s.WASIExtensions,
			MemoryBytes: s.WASI.MemoryBytes, Timeout: s.WASI.Timeout, CacheBytes: s.WASI.CacheBytes,
			Allow: s.Allow, UserAgent: s.UserAgent, Log: s.Log,
		})
		if err != nil {
			return fail(err)
		}
		if text := r.kinds.guests.Exposed(); text != "" && s.Sandbox == sandbox.Require {
			return fail(fmt.Errorf("%w: %s", sandbox.ErrMissing, text))
		}
	}
	if text := pool.Exposed(); text != "" && s.Sandbox == sandbox.Require && slices.Contains(r.kindsRun(), handler.Script) {
		return fail(fmt.Errorf("%w: %s", sandbox.ErrMissing, text))
	}
	if slices.Contains(r.kindsRun(), handler.Container) {
		if r.kinds.containers, err = container.New(context.Background(), containerSettings(&s, &r.moved)); err != nil {
			return fail(err)
		}
	}
	for name, h := range s.Handlers { // so that a mistake is found now
		if err := r.kinds.try(name, h, s.Concurrency); err != nil {
			return fail(fmt.Errorf("handler %s: %w", name, err))
		}
	}
	return r, nil
}

// Missing returns what this machine cannot do, as sentences.
func (r *Runner) Missing() []string {
	missing := slices.Clone(r.kinds.sandbox.Missing())
	if slices.Contains(r.kindsRun(), handler.Script) {
		var langs []string // New has found those of the configuration
		if slices.Contains(r.Accept, handler.Script) {
			langs = handler.Langs
		}
		missing = append(missing, r.kinds.scripts.Missing(langs)...)
	}
	if r.kinds.containers != nil {
		missing = append(missing, r.kinds.containers.Missing()...)
	}
	if r.kinds.guests != nil {
		if text := r.kinds.guests.Exposed(); text != "" {
			missing = append(missing, text)
		}
	}
	return missing
}

// Run runs jobs until ctx ends, or the runner has been idle for UntilIdle. Then it drains: it claims no more, waits for
// the runs up to DrainTimeout, ends the others, and reports their outcomes. The error is client.ErrRunnerTaken or
// client.ErrRunnerReplaced if another process holds the id of the runner, and client.ErrUnfinished if runs have not ended two
// minutes after DrainTimeout.
func (r *Runner) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	beat := &heartbeat{r: r, instance: client.NewKey(), takeover: r.Takeover}
	every, err := beat.register(ctx)
	if err != nil {
		if errors.Is(err, client.ErrRunnerTaken) || errors.Is(err, client.ErrBadRequest) {
			return errors.Join(err, r.kinds.close())
		}
		return r.kinds.close() // stopped before the server was reached
	}
	beating, stopBeats := context.WithCancel(context.Background()) // until the last job is reported
	var beats sync.WaitGroup
	beats.Go(func() { beat.keep(beating, every, end) })
	r.follow(ctx, func() { end(nil) })

	r.mu.Lock()
	r.stopped = true
	for _, f := range r.feeds {
		f.stop()
	}
	for _, l := range r.lanes {
		l.giveBack()
	}
	r.mu.Unlock()
	late := time.AfterFunc(r.DrainTimeout, func() { r.endAll(client.ErrDraining) })
	defer late.Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.working.Wait()
		r.mu.Lock()
		for q, l := range r.lanes {
			delete(r.lanes, q)
			r.closeLane(l)
		}
		r.mu.Unlock()
		r.closing.Wait()
	}()
	over := time.NewTimer(r.DrainTimeout + cmp.Or(r.reportTimeout, reportTimeout))
	defer over.Stop()
	select {
	case <-drained:
	case <-over.C:
		stopBeats() // without a goodbye, since jobs still run
		return r.unfinished()
	}
	stopBeats()
	beats.Wait()
	if err = context.Cause(ctx); errors.Is(err, client.ErrRunnerReplaced) || errors.Is(err, client.ErrRunnerTaken) {
		return errors.Join(err, r.kinds.close())
	}
	beat.goodbye()
	return r.kinds.close()
}

// reportTimeout is how long after DrainTimeout a runner waits for runs that it has ended, and for their reports.
const reportTimeout = 2 * time.Minute

// unfinished returns the error of a runner that ends although runs have not: a program that the kernel cannot end, for
// example. The process must end now, so that nobody tickles these jobs.
func (r *Runner) unfinished() error {
	return fmt.Errorf("%w within %v: %d runs", client.ErrUnfinished, r.DrainTimeout+cmp.Or(r.reportTimeout, reportTimeout), r.Totals().Held)
}

// follow keeps the lanes up to date until ctx ends. It calls end when the runner has been idle for long enough.
func (r *Runner) follow(ctx context.Context, end func()) {
	idleSince := time.Time{} // zero: the server has not been reached since
	next := time.NewTimer(0)
	defer next.Stop()
	due := time.Now()
	refreshIn := func(d time.Duration) {
		due = time.Now().Add(d)
		next.Reset(d)
	}
	asked := false // the server has answered since the runner became idle
	look := time.NewTicker(idleLook)
	defer look.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-r.soon:
			if time.Until(due) > time.Second {
				refreshIn(time.Second)
			}
			continue
		case <-look.C:
			if r.UntilIdle <= 0 || idleSince.IsZero() {
				continue
			}
			if since, idle := r.counters.idleSince(); !idle {
				idleSince, asked = time.Now(), false
			} else if since.After(idleSince) {
				idleSince, asked = since, false
			}
			if time.Since(idleSince) < r.UntilIdle {
				continue
			}
			if !asked { // the server may be down, and nothing is handed out then
				asked = true
				refreshIn(0)
				continue
			}
			end()
			continue
		case <-next.C:
		}
		asking, answered := context.WithTimeout(ctx, refreshPatience)
		err := r.refresh(asking)
		answered()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			idleSince, asked = time.Time{}, false
			r.counters.unreachable(err)
			r.Log.Warn("cannot read the handlers of the server; trying again", "after", r.pace.refresh, "error", err)
		default:
			r.counters.reached()
			if idleSince.IsZero() {
				idleSince = time.Now()
			}
		}
		refreshIn(r.pace.refresh)
	}
}

// idleLook is how often the runner looks whether it is idle.
const idleLook = 50 * time.Millisecond

// refreshSoon has the runner ask for handlers soon.
func (r *Runner) refreshSoon() {
	select {
	case r.soon <- struct{}{}:
	default:
	}
}

// errUnreachable is why a runner is not healthy.
var errUnreachable = errors.New("the server cannot be reached")
