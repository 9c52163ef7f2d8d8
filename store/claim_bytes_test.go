package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// fillLargeAttributes makes n jobs with 4 KB of meta each, in batches of a thousand groups with alternating priorities,
// so that consecutive jobs in line are in different pages of groups.
func fillLargeAttributes(f *feeder, n int) {
	value := strings.Repeat("v", 250)
	for made := 0; made < n; made += job.MaxGroups {
		create := &job.Create{Frame: job.NoFrame}
		for k := range job.MaxGroups {
			g := plainGroup("a", "x", 1)
			g.Kind, g.Priority = job.Nothing, k%10
			pairs := []string{fmt.Sprintf("k=%d", k)}
			for entry := 10; entry < 25; entry++ {
				pairs = append(pairs, fmt.Sprintf("k%d=%s", entry, value))
			}
			g.Meta = job.Meta(strings.Join(pairs, ","))
			create.Groups = append(create.Groups, g)
		}
		f.Apply(create)
		mustCommit(f.t, f.s)
	}
}

// TestClaimReadsFewBytes: a claim of jobs with much meta ends when it has read as many bytes of it as a claim may. The
// next claim continues. Each hands out the same number of jobs with empty and with full caches.
func TestClaimReadsFewBytes(t *testing.T) {
	const jobs = 3000
	b := &backlog{n: jobs, fill: fillLargeAttributes}
	b.Open(t) // its directory must live until the last claim
	for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair, mustDistinct("k10", job.Newest), mustDistinct("none", job.Oldest)} {
		t.Run(fmt.Sprint(strategy), func(t *testing.T) {
			cached, cold := b.Open(t), b.Open(t)
			for range 3 {
				claim := plainClaim("r", job.MaxClaimJobs)
				claim.Strategy = strategy
				var claimed *applied.Claimed
				got := cold.s.costOf(func() { claimed = cold.Apply(claim).(*applied.Claimed) })
				mustCommit(t, cold.s)
				rules := &cold.s.machine.Rules
				read := 0 // a page for each job
				for i := range claimed.Handouts {
					read += claimed.Handouts[i].G.Texts() + rules.GroupPageBytes
				}
				if n := claimed.Jobs(); n < 100 || read > 2<<20+10_000 || got.bytes > boundedBytes {
					t.Errorf("a claim of %d jobs read %d bytes of attributes, and allocated %d bytes", n, read, got.bytes)
				}
				for i := range jobs { // all groups are cached, as far as there is room
					batch := cached.s.machine.Batch(uint64(1 + i/job.MaxGroups))
					cached.s.machine.Group(batch, uint32(i%job.MaxGroups))
				}
				testkit.Equal(t, fmt.Sprint(cached.Apply(claim).(*applied.Claimed).Runs), fmt.Sprint(claimed.Runs), "with cached groups")
				mustCommit(t, cached.s)
			}
		})
	}
}

// TestClaimOfManyQueues: a claim takes jobs from some hundreds of queues at most, because a queue costs it far more
// than a job. A claim that alternates between few queues gets all the jobs that it requests.
func TestClaimOfManyQueues(t *testing.T) {
	for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
		t.Run(strategy.String(), func(t *testing.T) {
			for _, c := range []struct{ queues, least, most int }{{1000, 75, 80}, {2, job.MaxClaimJobs, job.MaxClaimJobs}} {
				s, create := mustOpen(t, Options{}), &job.Create{Frame: job.NoFrame}
				for i := range job.MaxClaimJobs {
					g := plainGroup(fmt.Sprint("client", i%c.queues), "type", 1)
					g.Kind = job.Nothing
					create.Groups = append(create.Groups, g)
				}
				mustApply(t, s, 1, 0, create)
				claim := plainClaim("r", job.MaxClaimJobs)
				claim.Strategy = strategy
				if n := mustApply(t, s, 2, 0, claim).(*applied.Claimed).Jobs(); n < c.least || n > c.most {
					t.Errorf("of %d queues with single jobs, a claim got %d jobs, and should get %d to %d", c.queues, n, c.least, c.most)
				}
			}
		})
	}
}

// TestRandomOfManyQueues: if each queue has one job, a random claim reads hardly more than a claim of the oldest jobs.
func TestRandomOfManyQueues(t *testing.T) {
	b := &backlog{n: 10_000, fill: fillPairs(nil)}
	claim := plainClaim("r", job.MaxClaimJobs)
	claim.Strategy = job.Random
	f := b.Open(t)
	var claimed *applied.Claimed
	got := f.s.costOf(func() { claimed = f.Apply(claim).(*applied.Claimed) })
	mustCommit(t, f.s)
	if n := claimed.Jobs(); n < 75 || got.iterators > n/10 {
		t.Errorf("a claim of %d jobs took %+v", n, got)
	}
}
