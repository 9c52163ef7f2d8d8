package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// The benchmarks apply commands to a store on the disk of the test's directory, as the applier does, with a commit
// after every few commands. They use neither the journal nor HTTP. BenchmarkStore has the matrix; each of the other
// benchmarks measures a special case.

// bench applies commands to a store.
type bench struct {
	b   testing.TB
	s   *Store
	seq uint64
	at  int64

	passed uint64 // bytes of changes that commits have passed to Pebble
}

// benchCreate returns a create of n lines of 100 bytes that hardly compress.
func benchCreate(client, typ string, n int) *job.Create { return benchCreateOf(client, typ, n, 100) }

// benchCreateOf is benchCreate with payloads of a given size.
func benchCreateOf(client, typ string, n, size int) *job.Create {
	c := &job.Create{Groups: []job.Group{plainGroup(client, typ, n)}, Frame: job.LineFrame, Longest: size}
	random := rand.New(rand.NewPCG(1, 1))
	payload := make([]byte, c.Longest)
	for range n {
		for i := range payload {
			payload[i] = byte('!' + random.IntN(94))
		}
		c.Payloads = c.Frame.Append(c.Payloads, payload)
	}
	return c
}

func newBench(b testing.TB) *bench {
	s := testkit.Must(Open(b.TempDir(), Options{Journal: testJournal, FS: vfs.Default}))(b)
	b.Cleanup(func() { testkit.Check(b, s.Close()) })
	return &bench{b: b, s: s, at: startAt}
}

func (n *bench) Apply(cmd job.Command) applied.Result {
	result, _ := n.timed(cmd)
	if _, claim := cmd.(job.Claim); !claim { // a claim is timed without the commit
		n.commitFull()
	}
	return result
}

// timed applies a command without a commit, and returns how long that took.
func (n *bench) timed(cmd job.Command) (applied.Result, time.Duration) {
	n.seq++
	n.at++
	began := time.Now()
	result := testkit.Must(n.s.Apply(n.seq, n.at, cmd))(n.b)
	return result, time.Since(began)
}

// commitFull commits if a megabyte of changes is pending.
func (n *bench) commitFull() {
	if n.s.machine.O.Bytes() >= 1<<20 {
		n.commit()
	}
}

func (n *bench) commit() {
	n.passed += uint64(n.s.machine.O.Bytes())
	testkit.NoError(n.b, n.s.Commit())
	n.s.TakeReadied()
}

// finish claims up to max jobs and completes them, and returns their number.
func (n *bench) finish(max int) int {
	c := n.Apply(plainClaim("r1", max)).(*applied.Claimed)
	if len(c.Runs) > 0 {
		n.Apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	}
	return c.Jobs()
}

// claimTimes is how long Apply took for each claim.
type claimTimes []time.Duration

func (times claimTimes) report(b *testing.B) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns/claim")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns/claim")
	b.ReportMetric(float64(times[len(times)-1].Nanoseconds()), "max-ns/claim")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStrategies claims single jobs by each strategy: from ten or a hundred thousand queues of one job each, and
// from one queue of as many batches.
func BenchmarkStrategies(b *testing.B) {
	const jobs = 100_000
	for _, queues := range []int{1, 10, jobs} {
		for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
			b.Run(fmt.Sprintf("queues=%d/%v", queues, strategy), func(b *testing.B) {
				n := newBench(b)
				create := func(i int) *job.Create {
					return benchCreate(fmt.Sprintf("c%d", i%queues/10), fmt.Sprintf("t%d", i%queues%10), 1)
				}
				for i := range jobs {
					n.Apply(create(i))
				}
				n.commit()
				claim := plainClaim("r1", 1)
				claim.Strategy = strategy
				began := time.Now()
				n.Apply(claim) // builds the structures that the strategy needs
				b.ReportMetric(float64(time.Since(began).Nanoseconds()), "first-ns/claim")
				var times claimTimes
				for i := 0; b.Loop(); i++ {
					began := time.Now()
					c := n.Apply(claim).(*applied.Claimed)
					times = append(times, time.Since(began))
					testkit.MustEqual(b, c.Jobs(), 1, "a claim")
					n.Apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
					n.Apply(create(i))
				}
				times.report(b)
			})
		}
	}
}

// BenchmarkSweep cancels, redrives and deletes a million jobs, in batches of a thousand or of one, while jobs of
// another queue are claimed. p99 and max are the time of a claim and of the tick before it.
func BenchmarkSweep(b *testing.B) {
	const jobs = 1_000_000
	for _, lines := range []int{1000, 1} {
		for _, move := range []job.Move{
			{}, // no sweep, for comparison
			{Op: job.Cancel, Client: "a", Type: "x"},
			{Op: job.Redrive, Client: "a", Type: "x", Status: job.Cancelled},
			{Op: job.Delete, Client: "a", Type: "x"},
		} {
			b.Run(fmt.Sprintf("lines=%d/%v", lines, move.Op), func(b *testing.B) {
				n := newBench(b)
				c, other := benchCreate("a", "x", lines), benchCreate("b", "y", 1000)
				for range jobs / lines {
					n.Apply(c)
				}
				if move.Op == job.Redrive {
					n.Apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"})
					for n.commit(); n.s.Totals().Sweeps > 0; n.commit() {
						n.Apply(job.Tick{})
					}
				}
				claim := plainClaim("r1", 100)
				claim.Clients = []string{"b"}
				var times claimTimes
				steps, swept := 0, time.Duration(0)
				for b.Loop() {
					if move.Op != 0 {
						n.Apply(move)
					}
					for n.commit(); n.s.Totals().Sweeps > 0 || move.Op == 0 && steps < 3000; n.commit() {
						if steps%10 == 0 {
							n.Apply(other)
						}
						began := time.Now()
						if move.Op != 0 {
							n.Apply(job.Tick{})
						}
						steps++
						swept += time.Since(began)
						got := n.Apply(claim).(*applied.Claimed)
						times = append(times, time.Since(began))
						n.Apply(job.Complete{Claim: got.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
					}
				}
				b.ReportMetric(swept.Seconds(), "s-in-ticks")
				b.ReportMetric(float64(steps), "ticks")
				if len(times) > 0 {
					times.report(b)
				}
			})
		}
	}
}

// BenchmarkCompletionsTogether completes single jobs of 64 claims of as many runners: each by a separate command, or
// all by one command. The difference is the most that joining completions could save.
func BenchmarkCompletionsTogether(b *testing.B) {
	const runners = 64
	for _, together := range []bool{false, true} {
		b.Run(fmt.Sprintf("together=%v", together), func(b *testing.B) {
			n := newBench(b)
			c := benchCreate("a", "x", 1000)
			var spent time.Duration
			jobs := 0
			for left := 0; b.Loop(); left -= runners {
				if left < runners {
					n.Apply(c)
					left += 1000
				}
				var own []job.Command
				all := job.Complete{}
				for r := range runners {
					got := n.Apply(plainClaim(fmt.Sprintf("runner-%d", r), 1)).(*applied.Claimed)
					outcome := job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}
					own = append(own, job.Complete{Claim: got.Claim, All: &outcome})
					named := outcome
					named.ID = job.NewID(got.Handouts[0].B.At, got.Runs[0].Batch, int(got.Runs[0].First))
					all.Outcomes = append(all.Outcomes, named)
				}
				n.commit()
				if together {
					own = []job.Command{all}
				}
				before := matrix.ProcessorTime()
				for _, cmd := range own {
					fields, body := cmd.Encode()
					decoded := testkit.Must(job.Decode(cmd.Verb(), fields, body))(b)
					n.Apply(decoded)
				}
				n.commit()
				spent += matrix.ProcessorTime() - before
				jobs += runners
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(jobs), "cpu-ns/completion")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkStart opens a store with 100,000 ready queues.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	open := func() *Store { return testkit.Must(Open(dir, Options{Journal: testJournal, FS: vfs.Default}))(b) }
	n := &bench{b: b, s: open(), at: startAt}
	for i := range 100 {
		c := benchCreate("a", "x", 1000)
		c.Groups = nil
		for j := range 1000 {
			c.Groups = append(c.Groups, plainGroup(fmt.Sprintf("client%d", i), fmt.Sprintf("type%d", j), 1))
		}
		n.Apply(c)
		n.commit()
	}
	testkit.NoError(b, n.s.FlushWait())
	testkit.NoError(b, n.s.Close())
	for b.Loop() {
		testkit.NoError(b, open().Close())
	}
}

// BenchmarkRunEnds completes claims of 100 jobs one by one within a command, which makes a span of each, with and
// without an observer of the ends of runs.
func BenchmarkRunEnds(b *testing.B) {
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprintf("observed=%v", observed), func(b *testing.B) {
			n := newBench(b)
			if observed {
				n.s.ObserveRunEnds()
			}
			c := benchCreate("a", "x", 1000)
			b.ReportAllocs()
			ended := 0
			for left := 0; b.Loop(); left -= 100 {
				if left < 100 {
					b.StopTimer()
					n.Apply(c)
					left += 1000
					b.StartTimer()
				}
				got := n.Apply(plainClaim("r", 100)).(*applied.Claimed)
				cmd := job.Complete{Claim: got.Claim}
				for line := range 100 {
					cmd.Outcomes = append(cmd.Outcomes, job.Outcome{ID: job.NewID(got.Handouts[0].B.At, got.Runs[0].Batch, int(got.Runs[0].First)+line), Code: job.OK, ExitCode: 200, DelayMs: -1})
				}
				n.Apply(cmd)
				n.commit()
				for _, e := range n.s.TakeRunEnds() {
					ended += e.Jobs
				}
			}
			if observed && ended != 100*b.N {
				b.Fatalf("%d runs ended, not %d", ended, 100*b.N)
			}
		})
	}
}

// The work of a command must not grow with the rest of the store. These benchmarks measure it beside 100, 10,000 and
// 100,000 runners or spans. They report the median, because an occasional commit or flush is not the command's work.

// BenchmarkBesideRunners lets one runner claim a job, tickle everything that it holds, and complete the job, while many
// others hold one job each.
func BenchmarkBesideRunners(b *testing.B) {
	for _, runners := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("runners=%d", runners), func(b *testing.B) {
			n := newBench(b)
			n.Apply(plainCreate("a", "x", runners, 1))
			for i := range runners {
				n.Apply(plainClaim(fmt.Sprintf("runner%d", i), 1))
			}
			n.commit()
			n.Apply(plainCreate("a", "x", min(b.N+100_000, job.MaxLines), 1))
			n.commit()
			medians(b, n, func() []job.Command {
				claimed := n.Apply(plainClaim("r", 1)).(*applied.Claimed)
				return []job.Command{
					job.Tickle{Runner: "r", Progress: -1},
					job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}},
				}
			})
		})
	}
}

// BenchmarkBesideSpans claims and completes single jobs of a queue with many jobs, each of which is a span.
func BenchmarkBesideSpans(b *testing.B) {
	for _, spans := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("spans=%d", spans), func(b *testing.B) {
			n := newBench(b)
			n.Apply(plainCreate("a", "x", 2*spans, 1))
			batch := job.NewID(n.at, n.seq, 0)
			higher := 9
			for line := 0; line < 2*spans; line += 2 {
				n.Apply(job.Patch{Job: batch.WithLine(line), Priority: &higher})
			}
			n.commit()
			medians(b, n, func() []job.Command {
				claimed := n.Apply(plainClaim("r", 1)).(*applied.Claimed)
				id := job.NewID(batch.At(), claimed.Runs[0].Batch, int(claimed.Runs[0].First))
				return []job.Command{ // the job is returned, and precedes all other jobs of its priority
					job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: id, Code: job.Unget, DelayMs: -1}}},
				}
			})
		})
	}
}

// medians measures cycles. A cycle is prepare, which makes a claim, and then the commands that prepare returns.
func medians(b *testing.B, n *bench, prepare func() []job.Command) {
	var claims, rest []time.Duration
	for b.Loop() {
		began := time.Now()
		commands := prepare()
		claims = append(claims, time.Since(began))
		began = time.Now()
		for _, cmd := range commands {
			n.Apply(cmd)
		}
		rest = append(rest, time.Since(began)/time.Duration(len(commands)))
		if len(claims)%50 == 0 {
			n.commit()
		}
	}
	slices.Sort(claims)
	slices.Sort(rest)
	b.ReportMetric(float64(claims[len(claims)/2].Nanoseconds())/1000, "µs/claim")
	b.ReportMetric(float64(rest[len(rest)/2].Nanoseconds())/1000, "µs/other")
}
