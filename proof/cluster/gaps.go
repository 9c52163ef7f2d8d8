package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// gaps are the times without service around the loss of a leader.
type gaps struct {
	kills    []time.Duration // SIGKILL
	graceful []time.Duration // SIGTERM, or a transfer
	cuts     []time.Duration // the leader is cut off
}

// probeEvery is the time between two creates that probe one node. It bounds how exact a gap is.
const probeEvery = 20 * time.Millisecond

// mostProbes bounds the creates that wait for an answer, at one node.
const mostProbes = 100

// probes create jobs at several nodes, each time a new one, whether or not the ones before are answered. So the first
// success after an election does not wait for a request that was sent to the old leader.
type probes struct {
	mu        sync.Mutex
	successes []success
}

type success struct{ began, ended time.Time }

// service returns the longest time without a create that succeeded at a node, except at the one that event takes from the
// cluster. It begins when event begins, and ends with the first create that began after event and succeeded.
func (t *trial) service(lost *rig.Node, event func() error) (gap time.Duration, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	p := &probes{}
	for i, n := range t.Others(lost) {
		all.Go(func() { p.run(ctx, t, n, fmt.Sprintf("%s-gap%d-%d", t.name, t.l.now(), i)) })
	}
	after := func(what string, begin time.Time) (end time.Time, err error) {
		return end, t.Await(what, func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, s := range p.successes {
				if s.began.After(begin) && (end.IsZero() || s.ended.Before(end)) {
					end = s.ended
				}
			}
			if end.IsZero() {
				return fmt.Errorf("no create succeeds at another node than %s", lost.Name)
			}
			return nil
		})
	}
	if _, err := after("there is service before a fault", time.Now()); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := event(); err != nil {
		return 0, err
	}
	end, err := after("there is service after a fault", time.Now())
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortFunc(p.successes, func(a, b success) int { return a.ended.Compare(b.ended) })
	last := begin
	for _, s := range p.successes {
		if s.ended.After(begin) && !s.ended.After(end) {
			gap, last = max(gap, s.ended.Sub(last)), s.ended
		}
	}
	return gap, nil
}

// run probes a node until ctx is done.
func (p *probes) run(ctx context.Context, t *trial, n *rig.Node, name string) {
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, mostProbes)
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			defer func() { <-room }()
			tag := fmt.Sprint(name, "-", i)
			t.l.ask(false, tag)
			began := time.Now()
			// The answers of the last probes still count, so the request does not end with ctx.
			try, cancel := context.WithTimeout(context.WithoutCancel(ctx), rig.NoService)
			defer cancel()
			j, err := n.Client.Create(try, newJob(workedType, tag, 0, false))
			if err != nil {
				t.l.answer(err, nil, tag)
				return
			}
			t.l.answer(nil, []string{j.ID}, tag)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.successes = append(p.successes, success{began, time.Now()})
		})
		rig.Pause(ctx, probeEvery)
	}
}

// summary returns the median and the longest of some times, for the report.
func summary(times []time.Duration) string {
	if len(times) == 0 {
		return "0 | |"
	}
	times = slices.Sorted(slices.Values(times))
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%d | %v | %v", len(times), round(times[(len(times)-1)/2]), round(times[len(times)-1]))
}
