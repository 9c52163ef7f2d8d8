package store

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/proof/model/compare"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

func (p *player) check() error {
	var problems []error
	_, err := p.s.Check(func(problem string) bool {
		problems = append(problems, errors.New("check: "+problem))
		return len(problems) < 10
	})
	return errors.Join(append(problems, err, checkDistinct(p.s))...)
}

// compare commits, and compares everything that a user can see.
func (p *player) compare() (err error) {
	defer lsm.Catch(&err)
	if err := p.commit(); err != nil {
		return err
	}
	if err := p.compareHandedOut(); err != nil {
		return err
	}
	return errors.Join(compare.All(p.s.Queries, p.m), p.compareTallies(), p.compareRows(), p.replay.compare(p.s))
}

// compareRows compares the numbers of some rows with the model.
func (p *player) compareRows() error {
	rows := func(table byte) (n int) {
		p.s.machine.O.Scan(string([]byte{table}), string([]byte{table + 1}), func(string, []byte) bool { n++; return true })
		return n
	}
	if got := rows(row.BatchTable); got != len(p.m.Batches) {
		return fmt.Errorf("%d batches, the model has %d", got, len(p.m.Batches))
	}
	var statuses row.StatusCounts
	queues := map[model.Name]bool{}
	for _, s := range p.m.Submissions {
		statuses[s.Status]++
		queues[model.Name{s.Client, s.Type}] = true
	}
	if got := p.s.machine.BatchStatuses; got != statuses {
		return fmt.Errorf("batches by status %v, the model has %v", got, statuses)
	}
	if got := rows(row.StatusCountsTable); got != len(queues) {
		return fmt.Errorf("%d queues count their batches, and %d have some", got, len(queues))
	}
	return nil
}

// HandedOut is a claim's result, and the documents that the model had at the time of the claim.
type handedOut struct {
	claimed *applied.Claimed
	want    map[job.ID]job.Job
}

// compareHandedOut reads the jobs that claims have handed out since the last comparison. It expects the jobs in their
// state at the claim, without jobs that were purged since.
func (p *player) compareHandedOut() error {
	for _, h := range p.handed {
		handed, err := p.s.HandedOut(h.claimed)
		if err != nil {
			return fmt.Errorf("handed out by %v: %w", h.claimed.Claim, err)
		}
		for i := range handed[:max(len(handed)-1, 0)] {
			if next := &handed[i+1]; next.Frame == handed[i].Frame && handed[i].Follows(&next.First) {
				return fmt.Errorf("handed out by %v: the runs of %v and %v are one", h.claimed.Claim, handed[i].First.ID, next.First.ID)
			}
		}
		docs, err := documents(handed, nil)
		if err != nil {
			return fmt.Errorf("handed out by %v: %w", h.claimed.Claim, err)
		}
		for _, doc := range docs {
			want, ok := h.want[doc.ID]
			if !ok {
				return fmt.Errorf("%v handed out %v, which it did not", h.claimed.Claim, doc.ID)
			}
			if _, err := p.s.Job(doc.ID); errors.Is(err, job.NotFound) { // its unique key was deleted too
				want.UniqueKey = doc.UniqueKey
			}
			// Later reports of the same run may already show.
			doc.Attempts, want.Attempts, doc.Error, want.Error = nil, nil, "", ""
			want.Steps = nil
			doc.Result, want.Result, doc.Step, want.Step, doc.Progress, want.Progress = job.Result{}, job.Result{}, "", "", 0, 0
			if err := compare.Job(doc, want); err != nil {
				return fmt.Errorf("job %v handed out by %v: %w", doc.ID, h.claimed.Claim, err)
			}
			delete(h.want, doc.ID)
		}
		for id := range h.want {
			if _, err := p.s.Job(id); !errors.Is(err, job.NotFound) {
				return fmt.Errorf("%v did not hand out %v, which is there: %v", h.claimed.Claim, id, err)
			}
		}
	}
	p.handed = nil
	return nil
}

// levelsOf returns the keys of a strategy in the order of the levels of its index.
func levelsOf(s *Store, strategy job.Strategy) (keys []string) {
	for _, x := range s.machine.Distinct.List {
		if x.Strategy == strategy {
			for _, key := range x.Levels {
				keys = append(keys, x.Keys[key])
			}
			return keys
		}
	}
	return strategy.DistinctKeys()
}

// uncountedOf returns the keys of a strategy without an index whose active jobs no index counts.
func uncountedOf(s *Store, strategy job.Strategy) (keys []string) {
	list := s.machine.Distinct.List
	if slices.ContainsFunc(list, func(x *memory.DistinctIndex) bool { return x.Strategy == strategy }) {
		return nil
	}
	for _, key := range strategy.DistinctKeys() {
		if !slices.ContainsFunc(list, func(x *memory.DistinctIndex) bool { return slices.Contains(x.Keys, key) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

func mustDistinct(key string, underlying job.Strategy) job.Strategy {
	s, err := job.PreferDistinct(key, underlying)
	if err != nil {
		panic(err)
	}
	return s
}

// newModel returns the model of an empty store.
func newModel(s *Store) *model.Model { return model.New(s.Journal(), boundsOf(&s.machine.Rules)) }

func boundsOf(r *row.Rules) model.Bounds {
	b := model.Bounds{CommandRows: r.CommandRows, Sessions: r.Sessions, DocumentVersions: r.DocumentVersions, DeletedDocuments: r.DeletedDocuments}
	for kind, of := range r.Documents {
		b.Documents[kind] = model.DocumentBounds(of)
	}
	return b
}

// TestModelBounds: the model has the bounds of the store.
func TestModelBounds(t *testing.T) {
	testkit.Equal(t, boundsOf(&row.FirstRules), model.Standard, "the bounds")
	testkit.Equal(t, boundsOf(memory.SmallBounds.Rules), model.Small, "the small bounds")
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
