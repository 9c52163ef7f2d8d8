package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

// feed is a worker.Worker that claims the jobs of some lanes. If there are few lanes, each has a separate feed, so that
// one lane's jobs do not wait for another's. If there are many, several types share a feed, because each feed has a
// connection.
type feed struct {
	clients, types []string
	lanes          []*lane
	strategy       client.Strategy
	stop           context.CancelFunc
	strays         atomic.Int64 // jobs of other lanes, or of none
}

const (
	ownFeeds     = 256 // with more lanes, types share feeds
	typesPerFeed = 100 // how many types a claim may name
)

// key identifies the jobs that a feed claims.
func (f *feed) key() string {
	return strings.Join([]string{strings.Join(f.clients, ","), strings.Join(f.types, ","), string(f.strategy)}, " ")
}

// plan divides the lanes, except those that rest, among feeds.
func (r *Runner) plan() (feeds []*feed) {
	queues := slices.SortedFunc(maps.Keys(r.lanes), func(a, b queue) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
	})
	each := 1
	if len(queues) > ownFeeds {
		each = min((len(queues)+ownFeeds-1)/ownFeeds, typesPerFeed)
	}
	for _, q := range queues {
		if r.lanes[q].rest.now() {
			continue
		}
		clients := r.Clients
		if q.client != "" {
			clients = []string{q.client}
		}
		var last *feed
		if n := len(feeds); n > 0 {
			last = feeds[n-1]
		}
		if last == nil || len(last.types) == each || !slices.Equal(last.clients, clients) {
			last = &feed{clients: clients, strategy: r.Strategy}
			feeds = append(feeds, last)
		}
		if q.client == "" && r.own[q.typ] && last.strategy == "" {
			last.strategy = client.Fair // jobs of clients with their own handler must not hold up other clients' jobs
		}
		last.types, last.lanes = append(last.types, q.typ), append(last.lanes, r.lanes[q])
	}
	return feeds
}

// updateFeeds starts and stops feeds so that they claim for the current lanes. The runs of a stopped feed continue.
// r.mu is held.
func (r *Runner) updateFeeds() {
	if r.stopped {
		return
	}
	wanted := map[string]bool{}
	for _, f := range r.plan() {
		wanted[f.key()] = true
		if r.feeds[f.key()] == nil {
			r.feeds[f.key()] = f
			r.startFeed(f)
		}
	}
	for key, f := range r.feeds {
		if !wanted[key] {
			delete(r.feeds, key)
			f.stop()
		}
	}
}

// startFeed starts a feed's worker. r.mu is held.
func (r *Runner) startFeed(f *feed) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	capacity := 0
	for _, l := range f.lanes {
		capacity += l.capacity()
	}
	w := worker.Worker{
		Client: r.Client, RunnerID: r.ID, Clients: f.clients, Types: f.types, Strategy: f.strategy,
		Concurrency: min(capacity, mostHeld) + mostStrays, Room: func() int { return r.roomOf(f) },
		DrainTimeout: forEver, // Runner.Run ends the runs
		Take:         func(runs []*worker.Run) { r.dispatch(f, runs) },
		BeginLater:   true, // jobs wait in lanes before they begin
		OnEvent:      r.counters.event, Logger: r.Log,
	}
	r.working.Go(func() {
		for pause := time.Second; ; pause = min(2*pause, time.Minute) {
			err := w.Run(ctx)
			if err == nil || ctx.Err() != nil {
				if err != nil {
					r.Log.Error("outcomes were not reported", "types", f.types, "error", err)
				}
				return
			}
			if errors.Is(err, client.ErrForbidden) && !r.outOfScope(f, err) {
				r.refuse(err)
				return
			}
			r.Log.Error("the runner cannot claim; will try again", "types", f.types, "after", pause, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
}

// outOfScope reports whether a key cannot claim for a feed only because it is for other clients or types, while it may serve
// the runner's other feeds: whoever stores handlers at the server does not know the keys of the runners.
func (r *Runner) outOfScope(f *feed, err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Code == "out_of_scope" && len(r.Clients) == 0 && !slices.ContainsFunc(f.lanes, func(l *lane) bool {
		return l.local || slices.Contains(r.Types, l.typ)
	})
}

// roomOf returns how many jobs a feed may hold now. Strays do not count against its lanes' room.
func (r *Runner) roomOf(f *feed) int {
	n := int(min(f.strays.Load(), mostStrays))
	for _, l := range f.lanes {
		n += l.room()
	}
	return n
}

// forEver is longer than any run.
const forEver = 100 * 365 * 24 * time.Hour

// say logs a warning once.
func (r *Runner) say(key, text string, args ...any) {
	r.sayMu.Lock()
	defer r.sayMu.Unlock()
	if len(r.said) >= maxSaid {
		clear(r.said)
	}
	if key = fmt.Sprint(key, " ", text); r.said[key] {
		return
	}
	r.said[key] = true
	r.Log.Warn(text, args...)
}

// maxSaid bounds the warnings that say remembers.
const maxSaid = 10_000
