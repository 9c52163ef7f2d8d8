package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestRandomIsUniform claims single random jobs from queues of very different sizes and shapes. No job may be chosen
// much more often than another.
func TestRandomIsUniform(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 40, 3))
	mustApply(t, s, 2, 0, plainCreate("a", "y", 1, 3))
	for i := range 19 { // as many batches
		mustApply(t, s, uint64(3+i), 0, plainCreate("b", "x", 1, 3))
	}
	low := plainCreate("c", "x", 40, 3)
	low.Groups[0].Priority = 0
	mustApply(t, s, 22, 0, low)
	seq := uint64(100)
	// Some jobs were returned, and are in the other lane.
	back := mustApply(t, s, seq, 0, plainClaim("r", 30)).(*applied.Claimed)
	seq++
	mustApply(t, s, seq, 0, job.Complete{Claim: back.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
	const draws, jobs = 12_000, 60
	for _, choice := range []job.Claim{{}, {Clients: []string{"b", "a", "b"}}, {Types: []string{"y", "x"}}, {Clients: []string{"a", "b"}, Types: []string{"x", "y"}}} {
		counts := map[job.ID]int{}
		for range draws {
			choice.Runner, choice.Max, choice.MaxBytes, choice.Strategy = "r", 1, job.MaxClaimBytes, job.Random
			seq++
			c := mustApply(t, s, seq, 0, choice).(*applied.Claimed)
			testkit.MustHold(t, c.Jobs() == 1 && c.Runs[0].Batch != 22, "drew", c.Runs)
			counts[job.NewID(startAt, c.Runs[0].Batch, int(c.Runs[0].First))]++
			seq++
			mustApply(t, s, seq, 0, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
		}
		testkit.MustEqual(t, len(counts), jobs, choice, "jobs came up")
		// The sum of squared deviations is chi-squared with 59 degrees of freedom, so it exceeds 111.1 once in 50,000
		// times. The draws are the same in each run.
		chi := 0.0
		for _, n := range counts {
			d := float64(n) - draws/jobs
			chi += d * d / (draws / jobs)
		}
		testkit.Holds(t, chi <= 111, choice, "chi-squared", chi, counts)
	}
	mustCommit(t, s)
}

// TestFairServesClientsInTurn: a client with many jobs does not delay others, and the next claim continues after the
// client that was served last.
func TestFairServesClientsInTurn(t *testing.T) {
	s := mustOpen(t, Options{})
	clients := map[uint64]string{1: "a", 2: "b", 3: "c"}
	mustApply(t, s, 1, 0, plainCreate("a", "x", 9, 3))
	mustApply(t, s, 2, 0, plainCreate("b", "x", 2, 3))
	mustApply(t, s, 3, 0, plainCreate("c", "y", 3, 3))
	seq := uint64(3)
	take := func(max int, types ...string) string {
		seq++
		claim := plainClaim("r", max)
		claim.Strategy, claim.Types = job.Fair, types
		served := map[string]int{}
		for _, r := range mustApply(t, s, seq, 0, claim).(*applied.Claimed).Runs {
			served[clients[r.Batch]] += r.Lines()
		}
		return strings.TrimPrefix(fmt.Sprint(served), "map")
	}
	for i, test := range []struct {
		max   int
		types []string
		want  string
	}{
		{1, nil, "[a:1]"}, {1, nil, "[b:1]"}, {1, nil, "[c:1]"}, {1, nil, "[a:1]"},
		{2, nil, "[b:1 c:1]"},
		{2, []string{"x"}, "[a:2]"}, // b has no jobs left
		{3, nil, "[a:2 c:1]"},       // it was c's turn
		{9, nil, "[a:3]"},
		{1, nil, "[]"},
	} {
		testkit.Equal(t, take(test.max, test.types...), test.want, "claim", i, "of", test.max)
	}
	// Jobs of the highest priority are handed out first, whichever client's turn it is.
	high := plainCreate("b", "x", 1, 3)
	high.Groups[0].Priority = 9
	mustApply(t, s, 50, 0, plainCreate("c", "x", 1, 3))
	mustApply(t, s, 51, 0, high)
	clients[50], clients[51] = "c", "b"
	seq = 60
	testkit.Equal(t, take(1), "[b:1]", "with a high priority")
	mustCommit(t, s)
}

// TestClaimIsBounded: a claim over many small spans ends when it has written as many rows as a command may. The next
// claim continues.
func TestClaimIsBounded(t *testing.T) {
	bounds, fewer := memory.StandardBounds, row.Levels[0].Rules
	fewer.ClaimRows = 1000
	bounds.Rules = &fewer
	s := mustOpen(t, Options{bounds: &bounds})
	const jobs = 1000
	for i := range jobs {
		mustApply(t, s, uint64(1+i), 0, plainCreate("a", "x", 1, 3))
	}
	got, claims := 0, 0
	for seq := uint64(jobs + 1); got < jobs; seq++ {
		before := s.machine.O.Writes()
		c := mustApply(t, s, seq, 0, plainClaim("r", jobs)).(*applied.Claimed)
		rows := s.machine.O.Writes() - before
		testkit.MustHold(t, rows <= s.machine.Rules.ClaimRows+100, "a claim of", c.Jobs(), "jobs wrote", rows, "rows")
		testkit.MustHold(t, c.Jobs() != 0, "a claim found nothing")
		got += c.Jobs()
		claims++
	}
	testkit.Holds(t, claims >= 2, claims, "claims took all")
	mustCommit(t, s)
}

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
				got := cold.s.costOf(t, func() { claimed = cold.Apply(claim).(*applied.Claimed) })
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
	got := f.s.costOf(t, func() { claimed = f.Apply(claim).(*applied.Claimed) })
	mustCommit(t, f.s)
	n := claimed.Jobs()
	testkit.Holds(t, n >= 75 && got.iterators <= n/10, "a claim of", n, "jobs took", got)
}

// documents returns the documents of the jobs that a claim handed out or holds.
func documents(list []runs.Run, err error) ([]job.Job, error) {
	if err != nil {
		return nil, err
	}
	return runs.Documents(list)
}

// TestHandedOutPayloads: wherever in the pages of a batch a claim begins and ends, its runs have the payloads of its
// jobs as they were posted, whether or not their lengths differ.
func TestHandedOutPayloads(t *testing.T) {
	const lines = 3000
	for _, frame := range []job.Frame{job.LineFrame, job.LenFrame} {
		for _, longest := range []int{0, 1, 9, 10, 150} {
			for _, even := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v/%d/%v", frame, longest, even), func(t *testing.T) {
					random := rand.New(rand.NewPCG(1, uint64(longest)))
					s := mustOpen(t, Options{})
					s.machine.Rules.PageBytes = 20_000
					payloads, body := make([][]byte, lines), []byte(nil)
					for i := range payloads {
						size := longest
						if !even && i > 0 {
							size = random.IntN(longest + 1)
						}
						payloads[i] = []byte(strings.Repeat(string(rune('a'+i%26)), size))
						body = frame.Append(body, payloads[i])
					}
					attributes := job.Attributes{Kind: job.Text, MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}
					mustApply(t, s, 1, 0, &job.Create{Frame: frame, Longest: longest, Payloads: body, Groups: []job.Group{{Lines: lines, Client: "a", Type: "x", Attributes: attributes}}})
					seq := uint64(1)
					for at := 0; at < lines; {
						seq++
						result := testkit.Must(s.Apply(seq, startAt, job.Claim{Runner: "r", Max: 1 + random.IntN(700), MaxBytes: job.MaxClaimBytes}))(t)
						mustCommit(t, s)
						claimed := result.(*applied.Claimed)
						handed, err := s.HandedOut(claimed)
						testkit.MustHold(t, err == nil && len(handed) == 1 && handed[0].N == claimed.Jobs() && handed[0].First.ID.Line() == at,
							"claim of", claimed.Jobs(), "jobs from", at, "on", len(handed), "runs", err)
						var want []byte
						for i := range handed[0].N {
							want = frame.Append(want, payloads[at+i])
						}
						got := bytes.Join(handed[0].Parts, nil)
						testkit.MustHold(t, bytes.Equal(got, want), "lines from", at, "on have", len(got), "bytes, want", len(want))
						at += handed[0].N
					}
				})
			}
		}
	}
}

// TestHandedOutRuns: consecutive jobs share a run if they have everything but the payload in common.
func TestHandedOutRuns(t *testing.T) {
	s := mustOpen(t, Options{})
	plain := job.Attributes{Kind: job.Text, MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}
	other := plain
	other.TimeoutMs = 5000
	mustApply(t, s, 1, 0, &job.Create{
		Frame: job.LineFrame, Longest: 1, Payloads: []byte("a\nb\nc\nd\ne\nf\n"),
		Groups: []job.Group{{Lines: 2, Client: "a", Type: "x", Attributes: plain}, {Lines: 4, Client: "a", Type: "x", Attributes: other}},
		Unique: []job.UniqueKey{{Line: 3, Key: "k"}},
	})
	mustApply(t, s, 2, 0, &job.Create{Frame: job.NoFrame, Groups: []job.Group{{Lines: 3, Client: "a", Type: "x", Attributes: job.Attributes{MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}}}})
	mustApply(t, s, 3, 0, job.Claim{Runner: "r", Max: 1, MaxBytes: 100})
	mustApply(t, s, 4, 0, job.Complete{Outcomes: []job.Outcome{{ID: jobID(0, 1, 0), Code: job.Error, ExitCode: 500, Error: "broken", DelayMs: 0}}})
	mustApply(t, s, 5, 0, job.Tick{})
	result := testkit.Must(s.Apply(6, startAt, job.Claim{Runner: "r", Max: 100, MaxBytes: 100}))(t)
	mustCommit(t, s)
	handed := testkit.Must(s.HandedOut(result.(*applied.Claimed)))(t)
	var got []string
	for i := range handed {
		r := &handed[i]
		got = append(got, fmt.Sprintf("%d+%d %q key=%s error=%s timeout=%d", r.First.ID.Line(), r.N, bytes.Join(r.Parts, nil), r.First.UniqueKey, r.First.Error, r.First.TimeoutMs))
	}
	want := []string{
		`0+1 "a\n" key= error=broken timeout=0`, `1+1 "b\n" key= error= timeout=0`, `2+1 "c\n" key= error= timeout=5000`,
		`3+1 "d\n" key=k error= timeout=5000`, `4+2 "e\nf\n" key= error= timeout=5000`, `0+3 "" key= error= timeout=0`,
	}
	testkit.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// TestBackoffSpreads: jobs whose runs ended in one command do not run again together. Each waits for its own backoff,
// even when the backoff has grown to its maximum.
func TestBackoffSpreads(t *testing.T) {
	for name, b := range map[string]job.Backoff{
		"initial": {InitialMs: 10_000, FactorMilli: 2000, MaxMs: 3_600_000},
		"at most": {InitialMs: 10_000, FactorMilli: 2000, MaxMs: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCompleting(t)
			const jobs = 500
			first := c.Create(jobs, func(c *job.Create) { c.Groups[0].Backoff = b })
			claim := c.Apply(plainClaim("r", jobs)).(*applied.Claimed)
			ended := c.Apply(job.Complete{Claim: claim.Claim, All: &job.Outcome{Code: job.Error, ExitCode: 500, DelayMs: -1}}).(*applied.Ended)
			testkit.MustEqual(t, ended.All, jobs, ended)
			mustCommit(t, c.s)
			shortest, longest := b.InitialMs*3/4, min(b.InitialMs*5/4, b.MaxMs)
			times, tenths := map[int64]bool{}, [10]int{}
			for line := range jobs {
				doc := testkit.Must(c.s.Job(first.WithLine(line)))(t)
				testkit.MustEqual(t, doc.Status, job.Deferred)
				delay := doc.RunAt - startAt
				testkit.MustHold(t, delay >= shortest && delay <= longest, "job", line, "waits for", delay, "ms, not", shortest, "to", longest)
				times[delay] = true
				tenths[min(9, (delay-shortest)*10/(longest-shortest))]++
			}
			testkit.Holds(t, len(times) >= jobs*4/5, jobs, "jobs have", len(times), "different delays")
			for i, n := range tenths {
				testkit.Holds(t, n >= jobs/10/2 && n <= jobs/10*2, n, "of", jobs, "jobs wait for the tenth", i, "of the range", tenths)
			}
			sound(t, c.s)
		})
	}
}
