package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// TestRunEndsOfRandomCommands: an observer gets the end of each run exactly once: in the command whose effects say that
// its job is no longer active, or that a run of a waiting job has ended. A store with an observer has the same keys and
// values as a store without one.
func TestRunEndsOfRandomCommands(t *testing.T) {
	outcomes, batchEnds := map[string]int{}, map[job.BatchStatus]int{}
	for seed := uint64(1); seed <= seedsOr(*sameSeedsFlag, 60, 12); seed++ {
		g := newGenerator(seed)
		g.length *= 3
		live := playLive(t, seed, g)
		if ends := live.s.TakeRunEnds(); len(ends) > 0 {
			t.Errorf("seed %d: without an observer there are %d ends", seed, len(ends))
		}
		options := otherCaches(g.options, rand.New(rand.NewPCG(seed, 1)))
		options.FS = vfs.NewMem()
		observed := &player{options: options}
		observed.s = testkit.Must(Open("store", options))(t)
		observed.s.ObserveRunEnds()
		observed.s.ObserveBatchEnds()
		ended := map[job.ID]bool{}
		for _, st := range live.log {
			testkit.Must(observed.s.Apply(st.seq, st.at, st.cmd))(t)
			ends, batches := slices.Clone(observed.s.TakeRunEnds()), observed.s.TakeBatchEnds()
			testkit.NoError(t, observed.s.Commit())
			for _, e := range batches {
				if ended[e.ID] {
					t.Fatalf("seed %d: %v: batch %v ends again", seed, st, e.ID)
				}
				ended[e.ID] = true
				doc, err := observed.s.Batch(e.ID)
				if errors.Is(err, job.BatchNotFound) { // it ended when it was deleted
					continue
				}
				if err != nil || doc.Status != e.Status || doc.EndedAt != e.EndedAt || doc.CreatedAt != e.CreatedAt || doc.Submission.Client != e.Client || doc.Submission.Type != e.Type || e.EndedAt != st.at {
					t.Fatalf("seed %d: %v: %+v, and the batch is %+v (%v)", seed, st, e, doc, err)
				}
				batchEnds[e.Status]++
			}
			if got, want := linesOfEnds(ends), linesOfEndedRuns(observed.s.Effects()); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v\nruns that ended: %v\nlines whose runs have ended: %v", seed, st, got, want)
			}
			for _, e := range ends {
				outcomes[e.Outcome] += e.Jobs
				own := e.Claim == job.NewID(e.EndedAt, st.seq, 0) // the run began in this command, which no runner sent
				if own {
					outcomes["unclaimed"] += e.Jobs
				}
				if e.Attempt < 1 || own != (e.Runner == "") || own && e.StartedAt != e.EndedAt || e.Client == "" || e.Type == "" || e.StartedAt < startAt || e.EndedAt < e.StartedAt || e.Claim.IsZero() || e.Status == job.Active {
					t.Fatalf("seed %d: %v: %+v", seed, st, e)
				}
			}
		}
		for status := job.BatchCompleted; int(status) < job.NumBatchStatus; status++ {
			docs, _ := testkit.Must2(observed.s.Batches(query.BatchFilter{Status: status, Limit: job.MaxPage}))(t)
			for i := range docs {
				if docs[i].Submission != nil && !ended[docs[i].ID] {
					t.Fatalf("seed %d: nobody heard of the end of batch %+v", seed, docs[i])
				}
			}
		}
		if err := sameStores(live.s, observed.s); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		testkit.Check(t, live.s.Close())
		testkit.Check(t, observed.s.Close())
	}
	for _, outcome := range []string{"ok", "failed", "retry", "error", "unget", "unclaimed", job.RunAbandoned, job.RunCancelled, job.RunDeleted} {
		if outcomes[outcome] == 0 {
			t.Errorf("no run ended as %s; there were %v", outcome, outcomes)
		}
	}
	for status := job.BatchCompleted; int(status) < job.NumBatchStatus; status++ {
		if batchEnds[status] == 0 {
			t.Errorf("no batch ended as %v; there were %v", status, batchEnds)
		}
	}
}

func linesOfEnds(ends []job.RunEnd) (lines []string) {
	for _, e := range ends {
		for i := range e.Jobs {
			id := e.First.WithLine(e.First.Line() + i)
			lines = append(lines, fmt.Sprintf("%d/%d to %v", id.LowSeq(), id.Line(), e.Status))
		}
	}
	return lines
}

func linesOfEndedRuns(effects []row.Effect) (lines []string) {
	for _, e := range effects {
		for line := e.Run.First; (e.From == job.Active && e.To != job.Active || e.Reason == job.ReasonEnded) && line <= e.Run.Last; line++ {
			lines = append(lines, fmt.Sprintf("%d/%d to %v", job.NewID(0, e.Run.Batch, 0).LowSeq(), line, e.To))
		}
	}
	return lines
}

func TestBriefError(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{strings.Repeat("x", job.MaxRunEndError), strings.Repeat("x", job.MaxRunEndError)},
		{strings.Repeat("x", job.MaxRunEndError+1), strings.Repeat("x", job.MaxRunEndError)},
		{strings.Repeat("x", job.MaxRunEndError-1) + "ü", strings.Repeat("x", job.MaxRunEndError-1)},
	} {
		testkit.Equal(t, memory.BriefError(c.text), c.want, len(c.text), "bytes become")
	}
}
