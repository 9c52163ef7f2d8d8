package store

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// modelTally counts the events of the jobs of a queue, and has each duration in milliseconds.
type modelTally struct {
	memory.QueueTally // without its durations
	waiting, running  []int64
}

// tally returns the counts of the queue of a job.
func (m *model) tally(j *modelJob) *modelTally {
	t := m.tallies[j.queue.name]
	if t == nil {
		t = &modelTally{}
		if m.tallies == nil {
			m.tallies = map[row.QueueName]*modelTally{}
		}
		m.tallies[j.queue.name] = t
	}
	return t
}

func (t *modelTally) countClaimed(waited int64) {
	t.Claimed++
	t.waiting = append(t.waiting, waited)
}

// Ended counts the end of a run. again says that the job has attempts left.
func (t *modelTally) Ended(code job.Code, again bool, ran int64) {
	switch {
	case code == job.Unget || code == job.Damaged:
		t.Returned++
		return
	case code == job.Lost:
		t.Abandoned++
		if !again {
			t.Failed++
		}
		return
	case code == job.OK:
		t.Completed++
	case code == job.Fail || !again:
		t.Failed++
	default:
		t.Retried++
	}
	t.running = append(t.running, ran)
}

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
	p.m.tallies, p.observes = nil, true
}

// compareTallies compares the store's counts of each queue with the model. Deleted queues keep their counts.
func (p *player) compareTallies() error {
	if !p.observes {
		return nil
	}
	all := p.s.QueueFigures(0)
	for i := range all[:len(all)-1] {
		got := &all[i]
		name := row.QueueName{got.Client, got.Type}
		want := modelTally{}
		if t := p.m.tallies[name]; t != nil {
			want = *t
		}
		want.Waiting, want.Running = countsOf(want.waiting), countsOf(want.running)
		if got.QueueTally != want.QueueTally {
			return fmt.Errorf("tally of %v\n\t%+v, the model has\n\t%+v", name, got.QueueTally, want.QueueTally)
		}
		counts := map[job.Status]int64{}
		for _, j := range p.m.allJobs(func(j *modelJob) bool { return j.queue.name == name }) {
			counts[j.status]++
		}
		if got.Deferred != counts[job.Deferred] || got.Pending != counts[job.Pending] || got.Active != counts[job.Active] {
			return fmt.Errorf("figures of %v\n\t%+v, the model has\n\t%v", name, got, counts)
		}
		q := p.m.queues[name]
		if since := p.m.oldestPending(name); got.PendingSince != since || got.Paused != (q != nil && q.paused) {
			return fmt.Errorf("figures of %v: pending since %d, paused %v; the model has %d, %+v", name, got.PendingSince, got.Paused, since, q)
		}
	}
	for name := range p.m.tallies {
		if !slices.ContainsFunc(all, func(f memory.QueueFigures) bool { return row.QueueName{f.Client, f.Type} == name }) {
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

// oldestPending looks at the first job of each lane, and returns when the oldest of these jobs became pending.
func (m *model) oldestPending(name row.QueueName) (since int64) {
	first := map[row.LaneID]*modelJob{}
	for _, j := range m.allJobs(func(j *modelJob) bool { return j.queue.name == name && j.status == job.Pending }) {
		lane := row.LaneID{uint32(j.attr.Priority), job.Fresh}
		if j.cameBack {
			lane.Class = job.Returned
		}
		if f := first[lane]; f == nil || lane.Class == job.Fresh && cmp.Compare(j.order, f.order) < 0 {
			first[lane] = j
		}
	}
	for _, j := range first {
		if since == 0 || j.movedAt < since {
			since = j.movedAt
		}
	}
	return since
}
