package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestClaimsPassNoGaps: a claim does not pass the rows of thousands of jobs that were removed from the middle of their
// line, because they expired in order, were taken by Newest while older jobs waited, or were cancelled.
func TestClaimsPassNoGaps(t *testing.T) {
	const dead, few, many = 6000, 8, 700
	create := func(f *feeder, n int, change func(g *job.Group)) {
		for n > 0 {
			c := &job.Create{Frame: job.NoFrame}
			for range min(n, job.MaxGroups) {
				g := plainGroup("a", "x", 1)
				if g.Kind = job.Nothing; change != nil {
					change(&g)
				}
				c.Groups = append(c.Groups, g)
			}
			n -= len(c.Groups)
			f.Apply(c)
			mustCommit(f.t, f.s)
		}
	}
	expiring := func(g *job.Group) { g.ExpiresAt, g.RetentionMs = startAt+1_000_000, 0 }
	for name, remove := range map[string]func(f *feeder){
		"expired": func(f *feeder) {
			create(f, dead, expiring)
			create(f, many, nil)
			f.seq += 1_100_000
		},
		"taken from the end": func(f *feeder) {
			for range dead / 50 {
				create(f, 50, nil)
				claim := plainClaim("r", 50)
				claim.Strategy = job.Newest
				f.Apply(claim)
				mustCommit(f.t, f.s)
			}
			create(f, many, nil)
		},
		"cancelled": func(f *feeder) {
			begun := f.seq + 1
			create(f, dead, nil)
			ended := f.seq
			create(f, many, nil)
			for seq := begun; seq <= ended; seq++ {
				f.Apply(job.Move{Op: job.Cancel, Batch: jobID(int64(seq), seq, 0)})
				for len(f.s.machine.Running) > 0 {
					f.Apply(job.Tick{})
					mustCommit(f.t, f.s)
				}
			}
		},
	} {
		for _, first := range []int{0, 1, few} {
			t.Run(name, func(t *testing.T) {
				s := mustOpen(t, Options{Journal: testJournal})
				f := &feeder{t: t, s: s}
				create(f, first, nil)
				remove(f)
				mustCommit(t, s)
				for s.NextDue() != 0 && s.NextDue() <= startAt+int64(f.seq) {
					got := s.costOf(func() { f.Apply(job.Tick{}) })
					if got.steps > 2000 {
						t.Errorf("a tick takes %d steps", got.steps)
					}
					mustCommit(t, s)
				}
				testkit.MustEqual(t, s.machine.Counts[job.Pending], int64(first)+many)
				for range first + 20 {
					got := s.costOf(func() {
						testkit.MustEqual(t, f.Apply(plainClaim("r", 1)).(*applied.Claimed).Jobs(), 1)
					})
					if got.steps > 1000 {
						t.Errorf("a claim takes %d steps", got.steps)
					}
					mustCommit(t, s)
				}
			})
		}
	}
}
