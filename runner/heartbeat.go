package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/daybookq/daybook/client"
)

const (
	// usualHeartbeat is the time between two heartbeats until the server sets it.
	usualHeartbeat = 15 * time.Second
	// firstPatience bounds the first heartbeat, so that the log soon shows that the server does not answer.
	firstPatience = 3 * time.Second
	// sayAgain is how often the log repeats that the server does not answer.
	sayAgain = time.Minute
	// listBytes bounds the names in a heartbeat: all its texts together may have 4 KiB.
	listBytes = 1 << 10
	maxListed = 100
)

// errDropped ends the runs of a runner that the server has declared lost. The server has already returned its jobs.
var errDropped = fmt.Errorf("%w: its jobs went back to their queues", client.ErrRunnerLost)

// heartbeat keeps the runner registered with the server.
type heartbeat struct {
	r        *Runner
	instance string
	takeover bool
	usage    usage
}

// register sends heartbeats until the server answers one. It returns an error if another process holds the runner's id
// or the server refuses the request or the key, and if ctx ends.
func (h *heartbeat) register(ctx context.Context) (every time.Duration, err error) {
	var said time.Time
	for ctx.Err() == nil {
		every, err := h.send(ctx, firstPatience)
		switch {
		case err == nil:
			h.takeover = false // a process that takes the id over later keeps it
			return every, nil
		case errors.Is(err, client.ErrRunnerTaken), errors.Is(err, client.ErrBadRequest), errors.Is(err, client.ErrForbidden):
			return 0, fmt.Errorf("runner %s: %w", h.r.ID, err)
		case errors.Is(err, client.ErrRunnerLost), errors.Is(err, client.ErrRunnerReplaced): // this concerns an earlier instance
			h.instance = client.NewKey()
			continue
		case ctx.Err() == nil && time.Since(said) >= sayAgain:
			said = time.Now()
			h.r.counters.unreachable(err)
			h.r.Log.Warn("the runner is not registered and runs no jobs; trying again", "error", err)
		}
		sleep(ctx, h.r.pace.heartbeatAgain)
	}
	return 0, context.Cause(ctx)
}

// keep sends heartbeats until ctx ends. It calls end if another process has taken the runner's id over, and refuse if the server
// refuses the key twice: when the first one was sent, the file of the key may have been about to be replaced.
func (h *heartbeat) keep(ctx context.Context, every time.Duration, end func(error)) {
	away := false    // the server does not answer
	refused := false // the server has refused the key
	for wait := every; h.wait(ctx, wait); {
		next, err := h.send(ctx, usualHeartbeat)
		switch {
		case err == nil:
			every, wait, refused = next, next, false
			if away {
				away = false
				h.r.Log.Info("the server answers again")
			}
			h.r.counters.reached()
		case ctx.Err() != nil:
		case errors.Is(err, client.ErrRunnerReplaced), errors.Is(err, client.ErrRunnerTaken):
			end(fmt.Errorf("runner %s: %w", h.r.ID, err))
			return
		case errors.Is(err, client.ErrRunnerLost):
			h.r.Log.Error("the server has declared this runner lost, and returned its jobs; their runs end here, and it goes on as a new one", "runner_id", h.r.ID)
			h.r.endAll(errDropped)
			h.instance, wait = client.NewKey(), 0
		case errors.Is(err, client.ErrForbidden) && refused:
			h.r.refuse(fmt.Errorf("runner %s: %w", h.r.ID, err))
			return
		default:
			refused = errors.Is(err, client.ErrForbidden)
			if !away {
				away = true
				h.r.Log.Warn("a heartbeat failed; the runner goes on and tries again", "error", err)
			}
			h.r.counters.unreachable(err)
			wait = min(h.r.pace.heartbeatAgain, every)
		}
	}
}

// wait waits until the next heartbeat is due: after d, or soon after beatSoon was called. It returns false
// if ctx has ended.
func (h *heartbeat) wait(ctx context.Context, d time.Duration) bool {
	due := time.Now().Add(d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-h.r.beat:
		return sleep(ctx, min(h.r.pace.types, time.Until(due)))
	}
	return ctx.Err() == nil
}

// send sends a heartbeat, and waits at most patience for the answer. It returns the time until the next heartbeat.
func (h *heartbeat) send(ctx context.Context, patience time.Duration) (every time.Duration, err error) {
	r := h.r
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	host, _ := os.Hostname() // optional: the id is enough
	info := client.RunnerInfo{
		ID: r.ID, Instance: h.instance, Name: host, Addresses: addresses(), Kinds: r.kindsRun(), Types: r.typesRun(), Clients: listed(r.Clients),
		Slots: int64(r.Concurrency), Labels: r.Labels, Version: r.Version, Takeover: h.takeover,
		Stats: client.RunnerStats{CPU: h.usage.cores(), Memory: memory(), Running: int64(r.Totals().Held)},
	}
	if every, err = r.Client.Heartbeat(ctx, info); every <= 0 {
		every = usualHeartbeat
	}
	return every, err
}

// goodbye reports that the runner has ended, so that the server does not declare it lost.
func (h *heartbeat) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.r.Client.Goodbye(ctx, h.r.ID, h.instance); err != nil && !errors.Is(err, client.ErrNotFound) {
		h.r.Log.Warn("the server does not know that the runner has ended, and will declare it lost", "error", err)
	}
}

// refuse ends the runner because the server refuses its key: it claims no more, and Run returns err. If the key is wrong, and
// does not only lack a role, the server has returned the runner's jobs and accepts no report, so all runs end at once.
func (r *Runner) refuse(err error) {
	r.mu.Lock()
	first := r.refused == nil
	if first {
		r.refused = err
	}
	r.mu.Unlock()
	if !first {
		return
	}
	r.Log.Error("the server refuses the key of this runner, which ends", "runner_id", r.ID, "error", err)
	r.end(err)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.WrongKey() {
		r.endAll(err)
	}
}

// endAll ends all running runs.
func (r *Runner) endAll(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endRuns(cause)
	r.runs, r.endRuns = context.WithCancelCause(context.Background())
}

// kindsRun returns the kinds of the handlers that the runner runs.
func (r *Runner) kindsRun() []string {
	kinds := slices.Clone(r.Accept)
	for _, h := range r.Handlers {
		kinds = append(kinds, h.Document.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// typesRun returns the types whose jobs the runner claims, as many as fit into a heartbeat.
func (r *Runner) typesRun() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return listed(r.types())
}

// types returns the types whose jobs the runner claims, sorted. r.mu is held.
func (r *Runner) types() []string {
	types := map[string]bool{}
	for q := range r.lanes {
		types[q.typ] = true
	}
	return slices.Sorted(maps.Keys(types))
}

// listed returns the first names of a list, as many as fit into a heartbeat.
func listed(names []string) []string {
	bytes := 0
	for i, name := range names {
		if bytes += len(name); bytes > listBytes || i == maxListed {
			return names[:i]
		}
	}
	return names
}

// addresses returns the addresses at which other machines may reach this one.
func addresses() (list []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // only people read them
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(list) < 8 {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// usage measures the processor time of the runner and of the child processes that it has waited for.
type usage struct {
	at   time.Time
	used time.Duration
}

// cores returns the average number of cores used since the last call.
func (u *usage) cores() float64 {
	now, used := time.Now(), processorTime()
	before := *u
	*u = usage{now, used}
	if before.at.IsZero() || !now.After(before.at) {
		return 0
	}
	return max(float64(used-before.used)/float64(now.Sub(before.at)), 0)
}

// memory returns the runner's memory in bytes.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cmp.Or(residentBytes(), int64(m.Sys-m.HeapReleased))
}

// sleep waits for d. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}
