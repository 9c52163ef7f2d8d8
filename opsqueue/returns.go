package opsqueue

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// Nodes is the engine of a node of a cluster. *ingest.Engine implements it.
type Nodes interface {
	Returner
	Leads() bool
	Processes() map[uint64]bool
}

// Returns returns the chunks of processes of a cluster that cannot look after them any more. Every node runs one, also
// without a listener, because any node may lead. It acts while its node leads:
//
//   - A process has ended if the state knows a newer one of its node, or if its node was removed. A process can claim
//     nothing after that. Its consumers first have time to reconnect to the next listener, and to report.
//   - A process is away if the leader has heard nothing of its node for 30 seconds.
//
// A return does not count as a failure of the chunk, as after the restart of a single server. The start of a node returns
// nothing, because it says nothing about the other processes.
type Returns struct {
	engine Nodes
	state  Queries
	wait   time.Duration // how long consumers of a process that has ended may take to reconnect
	log    *slog.Logger

	settled map[uint64]bool      // the processes when nothing was left to return; nil: look again
	ended   map[string]time.Time // when an instance that has ended was seen first
}

// lookEvery is the time between two looks at the processes.
const lookEvery = time.Second

// NewReturns returns the Returns of a node.
func NewReturns(engine Nodes, state Queries, c Config) *Returns {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Returns{engine: engine, state: state, wait: c.returnWait(), log: c.Log}
}

// Run looks for chunks to return until ctx is done.
func (r *Returns) Run(ctx context.Context) {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case now := <-ticks.C:
			if err := r.look(ctx, now); err != nil && ctx.Err() == nil {
				r.log.Warn("chunks that ended processes hold cannot be returned; trying again", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// look returns the chunks that are due now. While the processes are the same as when nothing was left, it reads no runners:
// a process that has ended makes no more claims. One that is away may.
func (r *Returns) look(ctx context.Context, now time.Time) error {
	if !r.engine.Leads() {
		r.settled, r.ended = nil, nil
		return nil
	}
	processes := r.engine.Processes()
	if r.settled != nil && maps.Equal(processes, r.settled) {
		return nil
	}
	r.settled = nil
	ended := map[string]time.Time{}
	waiting := false
	h := holders{r.engine, r.state, r.log, func(instance string) bool {
		origin, err := strconv.ParseUint(instance, 16, 64)
		if err != nil || instance != instanceOf(origin) { // a runner of Daybook's API with the same prefix
			return false
		}
		if away, runs := r.engine.Processes()[origin]; runs {
			return away
		}
		since, known := r.ended[instance]
		if !known {
			since = now
		}
		ended[instance] = since
		waits := now.Sub(since) < r.wait
		waiting = waiting || waits
		return !waits
	}, math.MaxInt64}
	returned, err := h.returnAll(ctx)
	if err != nil { // the runners after the error were not seen
		maps.Copy(ended, r.ended)
	}
	r.ended = ended
	if away := slices.Contains(slices.Collect(maps.Values(processes)), true); err == nil && returned == 0 && !waiting && !away {
		r.settled = processes
		r.log.Debug("no process that has ended holds chunks", "processes", len(processes))
	}
	return err
}

// instanceOf returns the instance of the server in a process of a cluster.
func instanceOf(origin uint64) string { return fmt.Sprintf("%016x", origin) }

// ReturnAll returns the chunks that connections to earlier servers hold, before a single server becomes a node of a cluster.
// Consumers can report them as before.
func ReturnAll(ctx context.Context, engine Returner, state Queries, log *slog.Logger) error {
	h := holders{engine, state, log, func(string) bool { return true }, math.MaxInt64}
	_, err := h.returnAll(ctx)
	return err
}
