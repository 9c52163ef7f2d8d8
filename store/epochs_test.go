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
					if doc, err := s.Job(id); err != nil || doc.ID != id || doc.Status != want {
						t.Fatalf("job %v is %v, %v; want %v", id, doc.Status, err, want)
					}
				}
				first := create(4)
				once := plainClaim("r", 3)
				once.Once = job.Once{Scope: "s", Key: "k"}
				c := apply(once).(*applied.Claimed)
				testkit.MustEqual(t, c.Jobs(), 3)
				testkit.MustEqual(t, c.Seq, seq)
				testkit.MustEqual(t, apply(job.Tickle{Claim: c.Claim, Progress: -1}).(*applied.Tickled).Held, 3, "tickle of the claim")
				if tickled := apply(job.Tickle{IDs: []job.ID{first}, Claim: c.Claim, Step: "half way", Progress: 5}).(*applied.Tickled); tickled.Held != 1 {
					t.Fatalf("tickle of a job: %+v", tickled)
				}
				if doc, err := s.Job(first); err != nil || doc.Step != "half way" || doc.Progress != 5 || doc.Claim != c.Claim {
					t.Fatalf("%+v, %v", doc, err)
				}
				second := create(2)
				outcome := job.Outcome{ID: first, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputAddr: "there"}}
				for range 2 { // the request, then the repeat
					if ended := apply(job.Complete{Claim: c.Claim, Outcomes: []job.Outcome{outcome}}).(*applied.Ended); ended.Results[0].Refusal != job.Granted {
						t.Fatalf("complete: %v", ended.Results[0].Refusal)
					}
				}
				testkit.MustEqual(t, testkit.Must(s.Job(first))(t).OutputAddr, "there")
				again, err := s.ClaimedBefore(&once.Once, startAt+at)
				if err != nil || again.Claim != c.Claim || again.Seq != c.Seq {
					t.Fatalf("the claim repeated: %+v, %v", again, err)
				}
				testkit.MustEqual(t, len(testkit.Must(documents(s.Held(again)))(t)), 2)
				if doc, held, err := s.ClaimDocument(c.Claim, query.Everything); err != nil || doc.Held != 2 || len(held) != 2 {
					t.Fatalf("claim document: %+v, %d jobs, %v", doc, len(held), err)
				}
				if list, _, err := s.List(query.Filter{Claim: c.Claim, Limit: 10}); err != nil || len(list) != 3 {
					t.Fatalf("jobs of the claim: %+v, %v", list, err)
				}
				testkit.MustEqual(t, apply(job.Move{Op: job.Cancel, Job: first.WithLine(1)}).(*applied.Moved).Refusal, job.Granted)
				is(first.WithLine(1), job.Cancelled)
				if ended := apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}).(*applied.Ended); ended.All != 1 {
					t.Fatalf("unget of the claim: %+v", ended)
				}
				testkit.MustEqual(t, apply(job.Move{Op: job.Cancel, Batch: second}).(*applied.Swept).Moved, 2, "cancel of a batch")
				if doc, err := s.Batch(second); err != nil || doc.ID != second || doc.Counts[job.Cancelled] != 2 {
					t.Fatalf("batch: %+v, %v", doc, err)
				}

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
					if !slices.Equal(all, want) {
						t.Fatalf("listed %v, want %v", all, want)
					}
					for _, id := range jobs {
						docs, _, err := s.List(query.Filter{After: id, Limit: 1})
						at := slices.IndexFunc(want, func(other job.ID) bool { return slices.Index(jobs, other) > slices.Index(jobs, id) })
						if err != nil || (at < 0) != (len(docs) == 0) || at >= 0 && docs[0].ID != want[at] {
							t.Fatalf("after %v: %+v, %v", id, docs, err)
						}
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
