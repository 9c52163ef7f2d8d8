package store

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/internal/memory"
)

// countsOf sorts durations into the buckets of histograms, by their definition.
func countsOf(durations []int64) (d memory.DurationCounts) {
	for _, ms := range durations {
		d.SumMs += uint64(ms)
		i := slices.IndexFunc(memory.DurationBoundsMs[:], func(bound int64) bool { return ms <= bound })
		if i < 0 {
			i = len(memory.DurationBoundsMs)
		}
		d.Classic[i]++
		if ms == 0 {
			d.Zero++
			continue
		}
		key := int(math.Ceil(math.Log2(float64(ms)/1000) * 8))
		d.Native[min(key-memory.FirstNative, len(d.Native)-1)]++
	}
	return d
}

// observeQueues begins to count, by the model too.
func (p *player) observeQueues() {
	p.s.ObserveQueues(1000, 0)
	p.m.Tallies, p.observes = map[model.Name]*model.Tally{}, true
}

// compareTallies compares the store's counts of each queue with the model. Deleted queues keep their counts.
func (p *player) compareTallies() error {
	if !p.observes {
		return nil
	}
	all := p.s.QueueFigures(0)
	for i := range all[:len(all)-1] {
		got := &all[i]
		name := model.Name{got.Client, got.Type}
		t := p.m.Tallies[name]
		if t == nil {
			t = &model.Tally{}
		}
		want := memory.QueueTally{
			Created: t.Created, Claimed: t.Claimed, Completed: t.Completed, Failed: t.Failed, Retried: t.Retried, Returned: t.Returned, Abandoned: t.Abandoned,
			Cancelled: t.Cancelled, Expired: t.Expired, Deleted: t.Deleted, Redriven: t.Redriven, Waiting: countsOf(t.Waiting), Running: countsOf(t.Running),
		}
		if got.QueueTally != want {
			return fmt.Errorf("tally of %v\n\t%+v, the model has\n\t%+v", name, got.QueueTally, want)
		}
		counts := map[job.Status]int64{}
		for _, j := range p.m.AllJobs(func(j *model.Job) bool { return j.Queue.Name == name }) {
			counts[j.Status]++
		}
		if got.Deferred != counts[job.Deferred] || got.Pending != counts[job.Pending] || got.Active != counts[job.Active] {
			return fmt.Errorf("figures of %v\n\t%+v, the model has\n\t%v", name, got, counts)
		}
		q := p.m.Queues[name]
		if since := p.m.OldestPending(name); got.PendingSince != since || got.Paused != (q != nil && q.Paused) {
			return fmt.Errorf("figures of %v: pending since %d, paused %v; the model has %d, %+v", name, got.PendingSince, got.Paused, since, q)
		}
	}
	for name := range p.m.Tallies {
		if !slices.ContainsFunc(all, func(f memory.QueueFigures) bool { return model.Name{f.Client, f.Type} == name }) {
			return fmt.Errorf("no figures of %v", name)
		}
	}
	others := all[len(all)-1]
	others.Since, others.Floors = 0, nil
	if !reflect.DeepEqual(others, memory.QueueFigures{PendingSince: -1}) {
		return fmt.Errorf("figures of no other queue: %+v", others)
	}
	return nil
}
