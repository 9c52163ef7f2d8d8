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
	"github.com/daybookq/daybook/client/worker"
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
	ID     string // the runner's name: letters, digits and . _ : -
	// Takeover takes the id over from another process that holds it. That process then ends.
	Takeover bool
	Labels   map[string]string // shown to people; the runner ignores them
	Version  string            // the program's version

	// Handlers are the handlers in the configuration, by name. They have precedence over handlers that the server
	// stores.
	Handlers map[string]*Handler
	// Accept lists the kinds of stored handlers that the runner runs.
	Accept []string
	// Types and Clients restrict the jobs that the runner claims. Empty means all jobs for which it has a handler.
	Types, Clients []string
	Strategy       client.Strategy // which jobs to claim first; "" means client.Oldest

	Concurrency  int // slots; at least 1
	DrainTimeout time.Duration
	// UntilIdle ends the runner after it has been idle for that long: the server handed out no job, and none ran. 0
	// means never.
	UntilIdle time.Duration

	Sandbox      sandbox.Mode
	Allow        *webhook.Allow    // addresses for handlers of kind http
	Interpreters map[string]string // of scripts, by language
	// Containers are used if a handler is of kind container. New sets the fields that connect them to the server.
	Containers container.Settings
	UserAgent  string
	// WASIGrants are the permissions of guests of kind wasi. WASIExtensions is the directory of modules that guests can
	// import.
	WASIGrants     []string
	WASIExtensions string
	// WASI limits guests. Zero fields mean the defaults.
	WASI WASILimits
	// Cache is a directory for files that the runner can fetch or build again. "" means a directory in the user's
	// cache.
	Cache string
	// ScriptOutput gets the lines that scripts print, if it is not nil.
	ScriptOutput func(script.Line)
}

// WASILimits limit the stored handlers of kind wasi, and the binaries that jobs name.
type WASILimits struct {
	MemoryBytes int64         // most memory of a guest
	Timeout     time.Duration // longest time-out
	CacheBytes  int64         // approximate size of the cache of modules
}

// Handler is a handler in the configuration.
type Handler struct {
	// Types are the types of the jobs that the handler runs. nil means its name. Empty means none: then only stored
	// handlers of kind exec use it, by its name.
	Types    *[]string
	Document handler.Document
	Program  program.Settings // of kind exec; of kind script, only its Grants; of kind container, only its ExitCodes
	Binary   string           // of kind wasi: the file of the module, or "" for the blob that the document names
	// Images are the images that jobs of a handler of kind container may run. nil means the images of
	// Settings.Containers.
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

	// putOutput's time-out and first pause, which tests change.
	outputPatience, outputPause time.Duration

	reportTimeout time.Duration // 0 means the constant; tests shrink it

	end context.CancelCauseFunc // makes Run claim no more; Run sets it

	working sync.WaitGroup // workers of feeds
	closing sync.WaitGroup // lanes that are being closed
	soon    chan struct{}  // capacity 1: refresh now
	// beat, with capacity 1, has an element if a heartbeat is needed soon: the types have changed, or the key was refused.
	beat chan struct{}
	// heldBytes counts the bytes of the payloads that the lanes hold.
	heldBytes atomic.Int64

	mu       sync.Mutex
	runs     context.Context // ends when all running runs must end; endAll replaces it
	endRuns  context.CancelCauseFunc
	lanes    map[queue]*lane
	feeds    map[string]*feed
	versions map[string]version // read from the server, by id
	own      map[string]bool    // types for which some client has its own handler
	shared   map[string]bool    // types with a stored handler for all clients
	stopped  bool
	refused  error // why the server refuses the key

	sayMu sync.Mutex
	said  map[string]bool
}

// pace has the times of a runner's regular work. Tests use shorter ones.
type pace struct {
	refresh        time.Duration // how often it reads the server's handlers
	heartbeatAgain time.Duration // how soon it repeats a heartbeat that failed
	types          time.Duration // how long it waits before it reports changed types; this bounds the rate of reports
	rest           time.Duration // a lane's first rest: see lane_rest.go
}

var usualPace = pace{refresh: refreshPatience, heartbeatAgain: time.Second, types: 500 * time.Millisecond, rest: firstRest}

// New checks the settings, and finds out what this machine supports. It returns an error if a handler in the
// configuration cannot run here, or if Sandbox is sandbox.Require and something that the sandbox needs is missing.
func New(s Settings) (*Runner, error) {
	r := &Runner{
		Settings: s, lanes: map[queue]*lane{}, feeds: map[string]*feed{}, versions: map[string]version{}, said: map[string]bool{}, soon: make(chan struct{}, 1),
		beat: make(chan struct{}, 1), pace: usualPace, blobs: blobs{s.Client}, outputPatience: outputPatience, outputPause: runlog.FirstPause,
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
			Sandbox: box, Blobs: outputBlobs{blobs{s.Client}}, Dir: dir, MaxProcesses: max(s.Concurrency, 1), Grants: s.WASIGrants, Extensions: s.WASIExtensions,
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
	for name, h := range s.Handlers { // report mistakes now, not at the first job
		if err := r.kinds.try(name, h, s.Concurrency); err != nil {
			return fail(fmt.Errorf("handler %s: %w", name, err))
		}
	}
	return r, nil
}

// Missing returns the features that this machine lacks, as sentences.
func (r *Runner) Missing() []string {
	missing := slices.Clone(r.kinds.sandbox.Missing())
	if slices.Contains(r.kindsRun(), handler.Script) {
		var langs []string // New has checked the languages of the configuration
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

// Run runs jobs until ctx ends or the runner has been idle for UntilIdle. Then it drains: it stops claiming, waits up
// to DrainTimeout for its runs, cancels the runs that remain, and reports all outcomes. It returns
// client.ErrRunnerTaken or client.ErrRunnerReplaced if another process holds the runner's id, client.ErrForbidden if the server
// refuses the key, and worker.ErrUnfinished if some runs have not ended two minutes after DrainTimeout.
func (r *Runner) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end = end
	beat := &heartbeat{r: r, instance: client.NewKey(), takeover: r.Takeover}
	every, err := beat.register(ctx)
	if err != nil {
		if errors.Is(err, client.ErrRunnerTaken) || errors.Is(err, client.ErrBadRequest) || errors.Is(err, client.ErrForbidden) {
			return errors.Join(err, r.kinds.close())
		}
		return r.kinds.close() // ctx ended before the server answered
	}
	beating, stopBeats := context.WithCancel(context.Background()) // until the last outcome is reported
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
	refused := r.refused
	r.mu.Unlock()
	if e, ok := errors.AsType[*client.Error](refused); ok && e.WrongKey() { // runs may have begun since refuse ended all
		r.endAll(refused)
	}
	late := time.AfterFunc(r.DrainTimeout, func() { r.endAll(worker.ErrDraining) })
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
		stopBeats() // without a goodbye, because jobs still run
		return r.unfinished()
	}
	stopBeats()
	beats.Wait()
	if err = context.Cause(ctx); errors.Is(err, client.ErrRunnerReplaced) || errors.Is(err, client.ErrRunnerTaken) {
		return errors.Join(err, r.kinds.close())
	}
	r.mu.Lock()
	refused = r.refused
	r.mu.Unlock()
	if refused != nil {
		return errors.Join(refused, r.kinds.close())
	}
	beat.goodbye()
	return r.kinds.close()
}

// reportTimeout is how long after DrainTimeout a runner waits for the runs that it has cancelled and for their reports.
const reportTimeout = 2 * time.Minute

// unfinished returns the error of a runner that stops while runs still run, for example because the kernel cannot end a
// program. The process must exit now, so that nobody tickles these jobs.
func (r *Runner) unfinished() error {
	return fmt.Errorf("%w within %v: %d runs", worker.ErrUnfinished, r.DrainTimeout+cmp.Or(r.reportTimeout, reportTimeout), r.Totals().Held)
}

// follow keeps the lanes up to date until ctx ends. It calls end when the runner has been idle for UntilIdle.
func (r *Runner) follow(ctx context.Context, end func()) {
	idleSince := time.Time{} // zero: the server has not answered yet, or not since a failure
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
			if !asked { // a server that is down hands out nothing either, so check that it answers
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
			if errors.Is(err, client.ErrForbidden) {
				r.beatSoon() // its answer decides
			}
		default:
			r.counters.reached()
			if idleSince.IsZero() {
				idleSince = time.Now()
			}
		}
		refreshIn(r.pace.refresh)
	}
}

// idleLook is how often the runner checks whether it is idle.
const idleLook = 50 * time.Millisecond

// refreshSoon makes the runner read the server's handlers soon.
func (r *Runner) refreshSoon() {
	select {
	case r.soon <- struct{}{}:
	default:
	}
}

// errUnreachable is the reason that a runner is not healthy.
var errUnreachable = errors.New("the server cannot be reached")
