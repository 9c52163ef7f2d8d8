package store

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// cost is the cost of a command or a query. The tests count it, because times say little on a busy machine.
type cost struct {
	looks     int    // rows read, in the overlay or the database
	reads     int    // looks that had to ask the database
	iterators int    // opened iterators
	steps     int    // entries that iterators read inside Pebble
	writes    int    // rows set or deleted
	bytes     uint64 // of memory that the whole process allocated during the command
}

// costOf returns the cost of do. It waits until Pebble writes nothing in the background, since that allocates, too.
func (s *Store) costOf(t testing.TB, do func()) cost {
	t.Helper()
	testkit.Eventually(t, "Pebble writes nothing in the background", func() bool {
		m := s.db.Pebble().Metrics()
		return m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work, writes := s.machine.O.Work(), s.machine.O.Writes()
	do()
	now := s.machine.O.Work()
	runtime.ReadMemStats(&after)
	return cost{now.Looks - work.Looks, now.Reads - work.Reads, now.Iterators - work.Iterators, now.Steps - work.Steps, s.machine.O.Writes() - writes, after.TotalAlloc - before.TotalAlloc}
}

// boundedBytes is how much memory one command may allocate, apart from its results and its stored rows.
const boundedBytes = 16 << 20

// boundedRows is how many rows one command may look at, and boundedWrites how many it may write.
const boundedRows, boundedWrites = 10_000, 9_000

// bounded is a command and a backlog that the command has to search.
type bounded struct {
	name string
	*backlog
	do job.Command
	// jobs is the least number of jobs that a claim must hand out, so that a claim that stops early is still useful.
	jobs int
}

// backlog is a store that several commands are tried on. Each command finds it as fill has made it.
type backlog struct {
	name string
	n    int // about a hundredth of the maximum
	fill func(f *feeder, n int)
	dir  string // of the store, once it is filled
	seq  uint64
}

// Open returns a copy of the filled store with empty caches.
func (b *backlog) Open(t *testing.T) *feeder {
	t.Helper()
	if b.dir == "" {
		b.dir = t.TempDir()
		s := testkit.Must(Open(b.dir, Options{Journal: testJournal}))(t)
		f := &feeder{t: t, s: s}
		b.fill(f, b.n)
		mustCommit(t, s)
		testkit.NoError(t, s.FlushWait())
		testkit.NoError(t, s.Close())
		b.seq = f.seq
	}
	dir := t.TempDir()
	testkit.NoError(t, os.CopyFS(dir, os.DirFS(b.dir)))
	s := testkit.Must(Open(dir, Options{}))(t)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return &feeder{t, s, b.seq}
}

// testBounded applies commands to stores with a backlog each, and compares their costs with the bounds, which do not
// depend on the backlog. It applies each command twice, because the second may meet leftovers of the first.
func testBounded(t *testing.T, table []bounded) {
	t.Helper()
	checked := map[*backlog]bool{}
	for _, c := range table {
		first := !checked[c.backlog]
		if first { // its directory must live until the last command
			checked[c.backlog] = true
			c.Open(t)
		}
		t.Run(c.backlog.name+"/"+c.name, func(t *testing.T) {
			f := c.Open(t)
			for range 2 {
				var result applied.Result
				got := f.s.costOf(t, func() { result = f.Apply(c.do) })
				testkit.Holds(t, got.looks <= boundedRows && got.writes <= boundedWrites && got.bytes <= boundedBytes, got)
				claimed, ok := result.(*applied.Claimed)
				testkit.Holds(t, !ok || claimed.Jobs() >= c.jobs, "a claim got", claimed.Jobs(), "jobs, want", c.jobs, "at least")
				mustCommit(t, f.s)
			}
			if first {
				sound(t, f.s)
			}
		})
	}
}

// fillPairs makes a job in each of n queues of a hundred types, which change may change.
func fillPairs(change func(g *job.Group, i int)) func(f *feeder, n int) {
	return func(f *feeder, n int) {
		for i := 0; i < n; i += 100 {
			create := &job.Create{Frame: job.NoFrame}
			for k := range 100 {
				g := plainGroup(fmt.Sprintf("client%d", i/100), fmt.Sprintf("type%d", k), 1)
				g.Kind = job.Nothing
				if change != nil {
					change(&g, i+k)
				}
				create.Groups = append(create.Groups, g)
			}
			f.Apply(create)
			if i%1000 == 0 {
				mustCommit(f.t, f.s)
			}
		}
	}
}

// fillSpans makes n spans of one job, alternating between a hundred queues.
func fillSpans(f *feeder, n int) {
	for i := range n {
		f.Apply(&job.Create{Frame: job.NoFrame, Groups: []job.Group{func() job.Group {
			g := plainGroup(fmt.Sprintf("client%d", i%10), fmt.Sprintf("type%d", i/10%10), 1)
			g.Kind = job.Nothing
			return g
		}()}})
		if i%1000 == 0 {
			mustCommit(f.t, f.s)
		}
	}
}

// fillEnded makes n spans of one job, in ended batches most of whose jobs ticks have yet to cancel.
func fillEnded(f *feeder, n int) {
	var ids []job.ID
	for range n / 1000 {
		create := &job.Create{Frame: job.NoFrame, Submission: &job.Submission{}}
		for k := range 1000 {
			g := plainGroup(fmt.Sprintf("client%d", k%10), "type1", 1)
			g.Kind, g.Meta = job.Nothing, job.Meta(fmt.Sprintf("n=%d", k))
			create.Groups = append(create.Groups, g)
		}
		f.Apply(create)
		ids = append(ids, jobID(int64(f.seq), f.seq, 0))
	}
	for _, id := range ids {
		f.Apply(job.Move{Op: job.Cancel, Batch: id})
	}
	left := f.s.machine.Counts[job.Pending]
	testkit.MustHold(f.t, left >= int64(n)/2, left, "jobs are left")
}

// TestClaimsAreBounded: the cost of a claim of any strategy is bounded, whatever the claim names and whatever waits.
func TestClaimsAreBounded(t *testing.T) {
	var table []bounded
	var clients, types []string
	for i := range job.MaxClaimNames {
		clients, types = append(clients, fmt.Sprintf("client%d", i)), append(types, fmt.Sprintf("type%d", i))
	}
	pairs := func(name string, change func(g *job.Group, i int)) *backlog {
		return &backlog{name: name, n: 10_000, fill: fillPairs(change)}
	}
	queues := pairs("queues", nil)
	priorities := pairs("priorities", func(g *job.Group, i int) { g.Priority = i % (job.MaxPriority + 1) })
	leases := pairs("leases", func(g *job.Group, i int) { g.LeaseMs = int64(1000 * (1 + i%7)) })
	expired := pairs("expired", func(g *job.Group, i int) { g.ExpiresAt = startAt + 1 })
	ended := &backlog{name: "ended batches", n: 10_000, fill: fillEnded}
	spans := &backlog{name: "spans", n: 10_000, fill: fillSpans}
	for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
		claim := job.Claim{Runner: "r", Max: job.MaxClaimJobs, MaxBytes: job.MaxClaimBytes, Strategy: strategy}
		ofClients, ofTypes, ofBoth := claim, claim, claim
		ofClients.Clients, ofTypes.Types, ofBoth.Clients, ofBoth.Types = clients, types, clients, types
		for names, claim := range map[string]job.Claim{"all": claim, "clients": ofClients, "types": ofTypes, "pairs": ofBoth} {
			add := func(b *backlog, jobs int) {
				table = append(table, bounded{fmt.Sprintf("%v/%s", strategy, names), b, claim, jobs})
			}
			few := 75 // of the rows that a claim may write, a job takes about four, and its queue counts as 50
			if names == "types" && strategy == job.Fair {
				few = 40 // clients, each of which has a hundred queues that may have the next job
			}
			add(queues, few)
			add(spans, few)
			if names == "all" || names == "pairs" {
				add(priorities, few/10)
				add(leases, 1)
				add(expired, 0)
				add(ended, 0)
			}
		}
	}
	testBounded(t, table)
}

// TestClaimAnswersAreBounded: a claim's answer, a repeat of the claim with its key, and the claim's document show only
// the newest attempt of each job and the beginning of its error. They read no more than that, however long the
// histories are.
func TestClaimAnswersAreBounded(t *testing.T) {
	s := mustOpen(t, Options{})
	const jobs, runs = 100, 6
	c := plainCreate("a", "x", jobs, 5)
	c.Groups[0].MaxAttempts = 100
	mustApply(t, s, 1, 0, c)
	seq := uint64(1)
	apply := func(cmd job.Command) applied.Result { seq++; return mustApply(t, s, seq, int64(seq), cmd) }
	for range runs {
		claimed := apply(plainClaim("r", jobs)).(*applied.Claimed)
		var outcomes []job.Outcome
		for line := range jobs {
			outcomes = append(outcomes, job.Outcome{
				ID: jobID(0, 1, line), Code: job.Error, ExitCode: 500, DelayMs: 0, Error: strings.Repeat("ü", job.MaxErrorBytes/2),
				Result: job.Result{OutputKind: job.Text, Output: []byte(strings.Repeat("o", 20_000))},
			})
		}
		apply(job.Complete{Claim: claimed.Claim, Outcomes: outcomes})
		mustCommit(t, s)
	}
	claim := plainClaim("r", jobs)
	claim.Once = job.Once{Scope: "claim r", Key: "k"}
	claimed := apply(claim).(*applied.Claimed)
	mustCommit(t, s)
	for _, way := range []struct {
		name string
		read func() ([]job.Job, error)
	}{
		{"handed out", func() ([]job.Job, error) { return documents(s.HandedOut(claimed)) }},
		{"repeated", func() ([]job.Job, error) {
			again, err := s.ClaimedBefore(&claim.Once, startAt+int64(seq))
			if err != nil {
				return nil, err
			}
			return documents(s.Held(again))
		}},
		{"read", func() ([]job.Job, error) {
			_, docs, err := s.ClaimDocument(claimed.Claim, query.Everything)
			return docs, err
		}},
	} {
		var docs []job.Job
		var err error
		used := uint64(math.MaxUint64) // the best of several runs: a read that fills Pebble's cache also allocates its blocks
		for range 3 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			docs, err = way.read()
			runtime.ReadMemStats(&after)
			used = min(used, after.TotalAlloc-before.TotalAlloc)
		}
		testkit.NoError(t, err)
		testkit.MustEqual(t, len(docs), jobs, way.name, "jobs")
		for i := range docs {
			if doc := &docs[i]; len(doc.Attempts) != 1 || len(doc.Error) != query.MaxHandedError || doc.Error != doc.Attempts[0].Error || doc.Output != nil ||
				doc.RunAttempts != runs+1 || string(doc.Payload) != "xxxxx" {
				t.Fatalf("%s: job %v has %d attempts, %d bytes of error, %d of output", way.name, doc.ID, len(doc.Attempts), len(doc.Error), len(doc.Output))
			}
		}
		testkit.Holds(t, used <= 4<<20 || testkit.Race, way.name, used, "bytes of memory were used for", jobs, "jobs")
	}
	doc := testkit.Must(s.Job(jobID(0, 1, 0)))(t)
	testkit.Holds(t, len(doc.Attempts) == runs && len(doc.Error) == job.MaxErrorBytes, "the job's own document has", len(doc.Attempts), "attempts")
}

// TestNoticesAreBounded: a tickle of everything that a runner holds names a bounded number of cancelled jobs, and reads
// a bounded number of spans to find them.
func TestNoticesAreBounded(t *testing.T) {
	const claims, lines = 30, 300
	for _, test := range []struct {
		name       string
		cancelled  int // jobs of each claim
		least, top int // bounds for the reported jobs
	}{
		{"many cancelled jobs", lines / 2, machine.MaxNotices, machine.MaxNotices},
		{"few cancelled jobs among many spans", 1, machine.NoticeSpans / lines, machine.NoticeSpans/lines + 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := mustOpen(t, Options{})
			seq := uint64(0)
			apply := func(cmd job.Command) applied.Result { seq++; return mustApply(t, s, seq, 0, cmd) }
			for range claims {
				apply(plainCreate("a", "x", lines, 1))
				batch := job.NewID(startAt, seq, 0)
				claimed := apply(plainClaim("r", lines)).(*applied.Claimed)
				testkit.MustEqual(t, claimed.Jobs(), lines)
				var ended []job.Outcome
				for line := range lines {
					switch {
					case line%2 == 0: // so that each line is a span
					case line < 2*test.cancelled:
						apply(job.Move{Op: job.Cancel, Job: batch.WithLine(line)})
					default:
						ended = append(ended, job.Outcome{ID: batch.WithLine(line), Code: job.OK, ExitCode: 200, DelayMs: -1})
					}
				}
				if len(ended) > 0 {
					apply(job.Complete{Claim: claimed.Claim, Outcomes: ended})
				}
			}
			tickled := apply(job.Tickle{Runner: "r", Progress: -1}).(*applied.Tickled)
			n := len(tickled.Lost)
			testkit.Holds(t, tickled.Held == claims*lines/2 && n >= test.least && n <= test.top, "held", tickled.Held, "lost", n)
			for _, l := range tickled.Lost {
				testkit.MustEqual(t, l.Refusal, job.WasCancelled)
			}
		})
	}
}

// TestSweepsListIsBounded: the list of sweeps has all running sweeps and the newest ended ones, however many have
// ended.
func TestSweepsListIsBounded(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	under := &row.Sweep{Sweep: job.Sweep{Op: job.Cancel, Now: job.Now{Seq: 1, At: startAt}}, QueueID: 1}
	s.machine.Live.Running = append(s.machine.Live.Running, under)
	put := func(w *row.Sweep) {
		s.machine.O.Set(row.SeqKey(row.SweepTable, w.Seq), w.Encode())
		s.machine.SetTimer(row.TimerKey(startAt+job.SweepLifeMs, row.SweepTimer, w.Seq, 0, 0))
	}
	put(under)
	const ended = job.MaxPage + 500
	for seq := uint64(2); seq < 2+ended; seq++ {
		put(&row.Sweep{Sweep: job.Sweep{Op: job.Cancel, Now: job.Now{Seq: seq, At: startAt}}, QueueID: 1, FinishedAt: startAt})
	}
	mustStore(t, s, 2+ended, 0, job.Mark{})
	docs := testkit.Must(s.Sweeps())(t)
	testkit.MustEqual(t, len(docs), job.MaxPage)
	if first, second, last := docs[0], docs[1], docs[len(docs)-1]; first.ID != under.Id() || second.ID != jobID(0, ended+3-job.MaxPage, 0) || last.ID != jobID(0, 1+ended, 0) {
		t.Errorf("the list begins with %v, %v and ends with %v", first.ID, second.ID, last.ID)
	}
}
