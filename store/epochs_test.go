package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// TestSeqsBeyondTheBitsOfAnID uses jobs, batches, claims and sweeps by their ids when seqs need more bits than an id
// has, and around the command at which the low bits begin again at 0, within one millisecond and across two.
func TestSeqsBeyondTheBitsOfAnID(t *testing.T) {
	const turn = uint64(1) << 40
	for _, apart := range []int64{0, 1} {
		for _, begin := range []uint64{turn - 13, turn - 4, turn - 3, turn - 2, turn - 1, turn, turn + 5, 2*turn - 2, 3*turn + 5} {
			t.Run(fmt.Sprintf("from %d, %d ms apart", begin, apart), func(t *testing.T) {
				s := mustOpen(t, Options{Small: true})
				seq, at := begin-1, int64(0)
				apply := func(cmd job.Command) applied.Result {
					seq, at = seq+1, at+apart
					result := mustApply(t, s, seq, at, cmd)
					mustCommit(t, s)
					return result
				}
				var jobs []job.ID
				create := func(n int) job.ID {
					apply(plainCreate("a", "x", n, 5))
					batch := job.NewID(startAt+at, seq, 0)
					for line := range n {
						jobs = append(jobs, batch.WithLine(line))
					}
					return batch
				}
				is := func(id job.ID, want job.Status) {
					t.Helper()
					doc := testkit.Must(s.Job(id))(t)
					testkit.MustHold(t, doc.ID == id && doc.Status == want, "job", id, "is", doc.Status, "want", want)
				}
				first := create(4)
				once := plainClaim("r", 3)
				once.Once = job.Once{Scope: "s", Key: "k"}
				c := apply(once).(*applied.Claimed)
				testkit.MustEqual(t, c.Jobs(), 3)
				testkit.MustEqual(t, c.Seq, seq)
				testkit.MustEqual(t, apply(job.Tickle{Claim: c.Claim, Progress: -1}).(*applied.Tickled).Held, 3, "tickle of the claim")
				tickled := apply(job.Tickle{IDs: []job.ID{first}, Claim: c.Claim, Step: "half way", Progress: 5}).(*applied.Tickled)
				testkit.MustEqual(t, tickled.Held, 1, "tickle of a job:", tickled)
				doc := testkit.Must(s.Job(first))(t)
				testkit.MustHold(t, doc.Step == "half way" && doc.Progress == 5 && doc.Claim == c.Claim, doc)
				second := create(2)
				outcome := job.Outcome{ID: first, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputAddr: "there"}}
				for range 2 { // the request, then the repeat
					ended := apply(job.Complete{Claim: c.Claim, Outcomes: []job.Outcome{outcome}}).(*applied.Ended)
					testkit.MustEqual(t, ended.Results[0].Refusal, job.Granted, "complete")
				}
				testkit.MustEqual(t, testkit.Must(s.Job(first))(t).OutputAddr, "there")
				again := testkit.Must(s.ClaimedBefore(&once.Once, startAt+at))(t)
				testkit.MustHold(t, again.Claim == c.Claim && again.Seq == c.Seq, "the claim repeated", again)
				testkit.MustEqual(t, len(testkit.Must(documents(s.Held(again)))(t)), 2)
				claimed, held := testkit.Must2(s.ClaimDocument(c.Claim, query.Everything))(t)
				testkit.MustHold(t, claimed.Held == 2 && len(held) == 2, "claim document", claimed, len(held), "jobs")
				list, _ := testkit.Must2(s.List(query.Filter{Claim: c.Claim, Limit: 10}))(t)
				testkit.MustEqual(t, len(list), 3, "jobs of the claim")
				testkit.MustEqual(t, apply(job.Move{Op: job.Cancel, Job: first.WithLine(1)}).(*applied.Moved).Refusal, job.Granted)
				is(first.WithLine(1), job.Cancelled)
				ended := apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}).(*applied.Ended)
				testkit.MustEqual(t, ended.All, 1, "unget of the claim:", ended)
				testkit.MustEqual(t, apply(job.Move{Op: job.Cancel, Batch: second}).(*applied.Swept).Moved, 2, "cancel of a batch")
				batch := testkit.Must(s.Batch(second))(t)
				testkit.MustHold(t, batch.ID == second && batch.Counts[job.Cancelled] == 2, "batch", batch)

				// Lists continue after each id, whether or not its batch still exists.
				lists := func() {
					t.Helper()
					var all []job.ID
					for f := (query.Filter{Limit: 2}); ; {
						docs, next := testkit.Must2(s.List(f))(t)
						for i := range docs {
							all = append(all, docs[i].ID)
						}
						if f.After = next; next.IsZero() {
							break
						}
					}
					want := slices.DeleteFunc(slices.Clone(jobs), func(id job.ID) bool { _, err := s.Job(id); return err != nil })
					testkit.MustHold(t, slices.Equal(all, want), "listed", all, "want", want)
					for _, id := range jobs {
						docs, _, err := s.List(query.Filter{After: id, Limit: 1})
						at := slices.IndexFunc(want, func(other job.ID) bool { return slices.Index(jobs, other) > slices.Index(jobs, id) })
						testkit.NoError(t, err)
						testkit.MustHold(t, (at < 0) == (len(docs) == 0) && (at < 0 || docs[0].ID == want[at]), "after", id, docs)
					}
				}
				create(1)
				lists()
				for _, id := range []job.ID{second, second.WithLine(1)} {
					testkit.MustEqual(t, apply(job.Move{Op: job.Delete, Job: id}).(*applied.Moved).Refusal, job.Granted)
				}
				lists()

				// A sweep that continues has an id, too.
				for range 10 {
					create(1)
				}
				swept := apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"}).(*applied.Swept)
				if doc, err := s.Sweep(swept.Sweep); swept.Sweep.IsZero() || err != nil || doc.ID != swept.Sweep {
					t.Fatalf("sweep %+v: %+v, %v", swept, doc, err)
				}
				other := job.NewID(swept.Sweep.At()+1, seq, 0)
				testkit.Fails(s.Sweep(other))(t, job.SweepNotFound) // sweep of another time
				sound(t, s)
			})
		}
	}
}

// TestALookupTriesOneSeqOrTwo: a look-up tries two seqs only if the id has the time at which an epoch began.
func TestALookupTriesOneSeqOrTwo(t *testing.T) {
	epochs := []row.Epoch{{1, 100}, {2, 200}, {5, 300}}
	for _, test := range []struct {
		at   int64
		low  uint64
		want []uint64
	}{
		{99, 7, []uint64{7}},
		{100, 7, []uint64{1<<40 + 7, 7}},
		{100, 1<<40 - 1, []uint64{1<<40 - 1, 2<<40 - 1}},
		{101, 7, []uint64{1<<40 + 7}},
		{199, 7, []uint64{1<<40 + 7}},
		{200, 7, []uint64{2<<40 + 7, 1<<40 + 7}},
		{300, 1 << 39, []uint64{2<<40 + 1<<39, 5<<40 + 1<<39}},
		{400, 7, []uint64{5<<40 + 7}},
	} {
		got := memory.SeqsIn(epochs, job.NewID(test.at, test.low, 3))
		testkit.EqualSlices(t, got.All(), test.want, "at", test.at, "low bits", test.low)
	}
}
