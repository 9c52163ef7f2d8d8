package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// tallied is a store whose queues are counted.
type tallied struct {
	*testing.T
	s    *Store
	seq  uint64
	at   int64  // after startAt
	last uint64 // jobs created and claimed in the shared row
}

func newTallied(t *testing.T, rows int) *tallied {
	s := mustOpen(t, Options{})
	s.ObserveQueues(rows, 0)
	return &tallied{T: t, s: s}
}

func (n *tallied) Apply(cmd job.Command) applied.Result {
	n.Helper()
	n.seq++
	result := mustApply(n.T, n.s, n.seq, n.at, cmd)
	mustCommit(n.T, n.s)
	return result
}

// Create creates n jobs in a queue of the client q.
func (n *tallied) Create(typ string, lines int) { n.Helper(); n.Apply(plainCreate("q", typ, lines, 1)) }

// Figures returns the figures at the present time. It checks that no queue has two rows, and that the counters of the
// shared row do not fall.
func (n *tallied) Figures() (of map[string]memory.QueueFigures, others memory.QueueFigures) {
	n.Helper()
	all := n.s.QueueFigures(startAt + n.at)
	of = map[string]memory.QueueFigures{}
	for _, f := range all[:len(all)-1] {
		_, twice := of[f.Type]
		testkit.MustHold(n, !twice, "queue", f.Type, "has two rows")
		of[f.Type] = f
	}
	others = all[len(all)-1]
	testkit.MustHold(n, others.Client == "" && others.Type == "" && others.Created+others.Claimed >= n.last, "others", others, "and they had", n.last)
	n.last = others.Created + others.Claimed
	return of, others
}

func (n *tallied) expect(created ...string) (others memory.QueueFigures) {
	n.Helper()
	of, others := n.Figures()
	got := []string{}
	for typ, f := range of {
		got = append(got, fmt.Sprintf("%s=%d", typ, f.Created))
	}
	got = append(got, fmt.Sprintf("others=%d", others.Created))
	slices.Sort(got)
	slices.Sort(created)
	testkit.MustHold(n, slices.Equal(got, created), "created", got, "want", created)
	return others
}

func TestFirstQueuesGetRows(t *testing.T) {
	n := newTallied(t, 2)
	n.Create("a", 1)
	n.Create("b", 2)
	n.Create("c", 4)
	n.Create("a", 8)
	n.Create("d", 16)
	others := n.expect("a=9", "b=2", "others=20")
	testkit.MustHold(t, others.Pending == 20 && others.PendingSince == -1, others)
	n.at += 2000
	n.Apply(job.Claim{Runner: "r", Max: 100, MaxBytes: 1 << 20, LeaseMs: 60_000, Clients: []string{"q"}, Types: []string{"d"}, Strategy: job.Oldest})
	of, others := n.Figures()
	testkit.MustHold(t, others.Claimed == 16 && others.Active == 16 && others.Pending == 4 && others.Waiting.SumMs == 32_000, others)
	a := of["a"]
	testkit.MustHold(t, a.Pending == 9 && a.PendingSince == startAt && a.Since == startAt, a)
}

// TestClaimIsOneObservation: all jobs of a span are counted at once, in the buckets of their duration.
func TestClaimIsOneObservation(t *testing.T) {
	n := newTallied(t, 1)
	n.Create("a", 1000)
	n.at += 7
	c := n.Apply(plainClaim("r", 1000)).(*applied.Claimed)
	n.at += 3_600_001
	n.Apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	of, _ := n.Figures()
	a := of["a"]
	testkit.Holds(t, a.Created == 1000 && a.Claimed == 1000 && a.Completed == 1000 && a.Waiting.Count() == 1000 &&
		a.Waiting.SumMs == 7000 && a.Waiting.Classic[1] == 1000, a)
	testkit.Holds(t, a.Running.Count() == 1000 && a.Running.SumMs == 3_600_001_000 && a.Running.Classic[11] == 1000, "running", a.Running)
}

func TestIdleRowGoesToAnotherQueue(t *testing.T) {
	n := newTallied(t, 1)
	n.Create("a", 1)
	n.Create("b", 1)
	n.expect("a=1", "others=1")
	n.at += 2 * row.HourMs
	n.Create("b", 1)
	n.expect("b=1", "others=1") // the shared row keeps the counts of b, and does not get the counts of a
	n.Create("a", 1)
	n.expect("b=1", "others=2")
}

// TestBusyQueueTakesARow: a queue takes the row of a different queue if it is more than twice as busy, and keeps it.
func TestBusyQueueTakesARow(t *testing.T) {
	n := newTallied(t, 2)
	for range 5 {
		n.Create("a", 1)
		n.Create("b", 1)
	}
	n.Create("b", 1)
	for range 15 {
		n.Create("c", 1)
	}
	n.expect("a=5", "b=6", "others=15")
	n.Create("c", 1)
	n.expect("b=6", "c=1", "others=15")
	for range 20 {
		n.Create("a", 1)
	}
	n.expect("a=5", "c=1", "others=30") // the row of b, which is now the least busy
}

// TestManyNewQueuesTakeNoRows: a client that creates very many queues takes no row of a queue in use. It may take the
// row of an idle queue, until that is in use again.
func TestManyNewQueuesTakeNoRows(t *testing.T) {
	const rows, flood = 3, 2000
	n := newTallied(t, rows)
	n.Create("real", 1)
	for i := range flood {
		n.Create(fmt.Sprint("flood", i), 1)
	}
	of, others := n.Figures()
	testkit.MustHold(t, of["real"].Created == 1 && len(of) == rows && others.Created == flood-(rows-1), len(of), "rows, others", others)
	// While the real queue is idle, the new queues may take its row. It gets a row back with a few moves, although they
	// continue.
	n.at += 3 * row.HourMs
	for i := range flood {
		n.Create(fmt.Sprint("more", i), 1)
	}
	of, _ = n.Figures()
	testkit.MustHold(t, len(of) == rows && of["real"].Client == "", len(of), "rows, the real one has", of["real"])
	for i := range 4 {
		n.Create("real", 1)
		n.Create(fmt.Sprint("yet more", i), 1)
	}
	of, _ = n.Figures()
	testkit.MustHold(t, of["real"].Created != 0, "the rows are those of", of)
}

// TestRowOfADeletedQueue: the row stays for an hour, and a new queue of the same name gets it.
func TestRowOfADeletedQueue(t *testing.T) {
	n := newTallied(t, 10)
	remove := func(typ string) {
		n.Apply(job.Pause{Client: "q", Type: typ, Paused: true})
		of, _ := n.Figures()
		testkit.MustHold(t, of[typ].Paused, "not paused")
		n.Apply(job.Move{Op: job.Delete, Client: "q", Type: typ})
		testkit.MustEqual(t, n.Apply(job.DeleteQueue{Client: "q", Type: typ}).(*applied.QueueDeleted).Refusal, job.Granted)
	}
	n.Create("a", 1)
	n.Create("b", 1)
	remove("a")
	remove("b")
	n.at += row.HourMs - 1
	n.expect("a=1", "b=1", "others=0")
	n.Create("a", 2)
	n.expect("a=3", "b=1", "others=0")
	of, _ := n.Figures()
	testkit.MustHold(t, of["a"].Pending == 2 && !of["a"].Paused && of["b"].Pending == 0 && of["b"].Deleted == 1 && !of["b"].Paused, of)
	n.at++
	n.expect("a=3", "others=0")
	remove("a")
	n.at += row.HourMs
	n.expect("others=0")
	n.Create("a", 4)
	n.expect("a=4", "others=0")
}

func TestRowsAtAStart(t *testing.T) {
	s := mustOpen(t, Options{})
	n := &tallied{T: t, s: s}
	for i, typ := range strings.Split("abcde", "") {
		n.Create(typ, []int{3, 1, 4, 2, 5}[i])
	}
	testkit.MustHold(t, s.QueueFigures(startAt) == nil, "there are figures without an observer")
	s.ObserveQueues(3, 0)
	testkit.MustEqual(t, n.expect("a=0", "c=0", "e=0", "others=0").Pending, 3)
	of, _ := n.Figures()
	c := of["c"]
	testkit.MustHold(t, c.Pending == 4 && c.PendingSince == startAt, c)
}

func TestObserveQueuesAgain(t *testing.T) {
	n := newTallied(t, 1)
	n.Create("a", 1)
	n.Create("b", 2)
	n.expect("a=1", "others=2")
	n.at++
	n.s.ObserveQueues(1, startAt+5)
	n.last = 0
	n.Create("b", 1)
	others := n.expect("b=1", "others=0") // b has the most unfinished jobs now
	testkit.MustEqual(t, others.Pending, 1)
	testkit.MustEqual(t, others.Since, startAt+5)
}

// TestNativeBounds: each duration is in the bucket whose bounds are around it.
func TestNativeBounds(t *testing.T) {
	for i := 1; i < memory.NativeBuckets; i++ {
		testkit.MustHold(t, memory.NativeBoundsMs[i] >= memory.NativeBoundsMs[i-1], "bound", i, memory.NativeBoundsMs[i-1:i+1])
	}
	var durations []int64
	for ms := int64(0); ms < 1<<37; ms += 1 + ms/50 {
		durations = append(durations, ms)
	}
	durations = append(durations, 62, 63, 125, 126, 250, 251, 500, 501, 1000, 1001, 2000, 2001, 1<<20*1000, 1<<20*1000+1, 1<<27*1000, 1<<27*1000+1, 1<<50)
	for _, ms := range durations {
		var got memory.DurationCounts
		got.Add(ms, 1)
		testkit.Equal(t, got, countsOf([]int64{ms}), ms, "ms")
	}
}

// BenchmarkQueueTallies measures the cost of counting the events of the jobs of queues. Two stores carry out the same
// lifecycles by turns, and only one of them counts. The metrics are the processor times of a lifecycle in each.
func BenchmarkQueueTallies(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			const turn = 100
			var stores [2]*bench
			for i := range stores {
				stores[i] = newBench(b)
			}
			stores[1].s.ObserveQueues(job.DefaultMetricsQueues, startAt)
			c := benchCreate("a", "x", batch)
			var took [2]time.Duration
			for round := 0; b.Loop(); round++ {
				for k := range stores {
					i := (round + k) % 2
					began := matrix.ProcessorTime()
					for range turn {
						stores[i].Apply(c)
						testkit.MustEqual(b, stores[i].finish(batch), batch, "there was no job")
					}
					took[i] += matrix.ProcessorTime() - began
				}
			}
			n := float64(turn * b.N)
			b.ReportMetric(float64(took[0].Nanoseconds())/n, "ns-uncounted")
			b.ReportMetric(float64(took[1].Nanoseconds())/n, "ns-counted")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}

const idleMs = job.MinQueueIdleMs

func queueNames(t *testing.T, s *Store) (names []string) {
	t.Helper()
	docs, _ := testkit.Must2(s.Queues(&job.Scope{}, "", "", "", 1000))(t)
	for _, doc := range docs {
		names = append(names, doc.Client+"/"+doc.Type)
	}
	return names
}

// TestIdleQueuesAreDeleted: a command deletes queues that have been without jobs for the time that it names. It deletes
// a bounded number, starting with the queues that have been idle for the longest time. Queues with jobs and paused
// queues stay.
func TestIdleQueuesAreDeleted(t *testing.T) {
	b, r := memory.SmallBounds, *memory.SmallBounds.Rules
	r.CommandRows = 2
	b.Rules = &r
	s := mustOpen(t, Options{bounds: &b})
	seq := uint64(0)
	apply := func(at int64, cmd job.Command) applied.Result {
		seq++
		result := mustStore(t, s, seq, at, cmd)
		sound(t, s)
		return result
	}
	expect := func(names ...string) {
		t.Helper()
		got := queueNames(t, s)
		testkit.MustHold(t, slices.Equal(got, names), "queues", got, "want", names)
	}
	idle := func(at int64, want int) {
		t.Helper()
		testkit.MustEqual(t, apply(at, job.DeleteIdleQueues{IdleMs: idleMs}).(*applied.IdleQueuesDeleted).Queues, want)
	}
	for _, typ := range []string{"a", "b", "c", "d", "e"} { // they become empty in the opposite order
		apply(0, plainCreate("q", typ, 1, 1))
		testkit.MustEqual(t, s.IdleSince(), 0, "queue", typ, "is idle since")
	}
	for i := 4; i >= 1; i-- {
		apply(int64(10-i), job.Move{Op: job.Delete, Job: jobID(0, uint64(i)+1, 0)})
	}
	apply(7, job.Pause{Client: "q", Type: "d", Paused: true})
	testkit.Equal(t, s.IdleSince(), startAt+6, "idle since")
	idle(5+idleMs, 0)
	expect("q/a", "q/b", "q/c", "q/d", "q/e")
	idle(100+idleMs, 2)
	expect("q/a", "q/b", "q/d")
	idle(100+idleMs, 1)
	expect("q/a", "q/d")
	idle(200+idleMs, 0)
	apply(300+idleMs, job.Pause{Client: "q", Type: "d"})
	idle(299+2*idleMs, 0) // the time starts at the resume
	idle(300+2*idleMs, 1)
	expect("q/a")
	testkit.Equal(t, s.IdleSince(), 0, "idle since")
	// A queue that gets a job in time is no longer idle.
	apply(400+2*idleMs, job.Move{Op: job.Delete, Job: jobID(0, 1, 0)})
	apply(399+3*idleMs, plainCreate("q", "a", 1, 1))
	idle(401+3*idleMs, 0)
	expect("q/a")
}

// TestQueueIsDeletedAtOnce deletes an empty queue that other rows name: lines of a batch that it shares with a second
// queue, results of idempotency keys, a sweep. These rows stay right, the name is free, and a start finds the same
// state.
func TestQueueIsDeletedAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Small: true}
	s := mustOpen(t, o)
	seq := uint64(0)
	apply := func(cmd job.Command) applied.Result {
		seq++
		result := mustStore(t, s, seq, int64(seq), cmd)
		sound(t, s, "after", cmd)
		return result
	}
	deleteQueue := func(client, typ string, want job.Refusal) {
		t.Helper()
		got := apply(job.DeleteQueue{Client: client, Type: typ}).(*applied.QueueDeleted)
		testkit.MustEqual(t, got.Refusal, want, "deleting", client, typ)
	}
	deleteQueue("a", "x", job.QueueNotFound)
	c := plainCreate("a", "x", 50, 5)
	stays := plainGroup("b", "y", 2)
	c.Groups = append(c.Groups, stays)
	c.Payloads = append(c.Payloads, "xxxxx\nxxxxx\n"...)
	c.Unique = []job.UniqueKey{{Line: 0, Key: "k"}, {Line: 50, Key: "k"}}
	c.Once = job.Once{Scope: "create a", Key: "1"}
	made := apply(c).(*applied.Made)
	deleteQueue("a", "x", job.QueueNotEmpty)
	for i := range 49 { // every second line has a different state, so a sweep takes several steps
		if i%2 == 0 {
			priority := 9
			apply(job.Patch{Job: made.Batch.WithLine(i), Priority: &priority})
		}
	}
	swept := apply(job.Move{Op: job.Delete, Client: "a", Type: "x"}).(*applied.Swept)
	testkit.MustHold(t, !swept.Sweep.IsZero(), "one step was enough")
	for s.Totals().Sweeps > 0 {
		apply(job.Tick{})
	}
	apply(job.Pause{Client: "a", Type: "x", Paused: true})
	deleteQueue("a", "x", job.Granted)
	look := func() {
		t.Helper()
		testkit.Fails(s.Queue("a", "x"))(t, job.QueueNotFound)
		doc := testkit.Must(s.Sweep(swept.Sweep))(t)
		testkit.Holds(t, doc.Client == "a" && doc.Type == "x" && doc.Moved == 50, "the sweep", doc)
		again := testkit.Must(s.MadeBefore(&c.Once, startAt+int64(seq)))(t)
		testkit.Holds(t, again.Batch == made.Batch && again.Group.Client == "a" && again.Group.Type == "x", "the create repeated", again)
		for name, f := range map[string]query.Filter{"all": {}, "of b": {Client: "b"}, "after": {After: query.JobPlace{ID: made.Batch}}, "of the type": {Type: "y", Status: job.Pending}} {
			f.Limit, f.Parts = 10, query.Everything
			docs, next := testkit.Must2(s.List(f))(t)
			testkit.Holds(t, len(docs) == 2 && next.IsZero() && docs[0].Client == "b" && docs[0].UniqueKey == "k", "list", name, docs, next)
		}
		docs, _ := testkit.Must2(s.List(query.Filter{Client: "a", Limit: 10}))(t)
		testkit.Equal(t, len(docs), 0, "list of a")
		batch := testkit.Must(s.Batch(made.Batch))(t)
		testkit.Holds(t, batch.Counts.Total() == 2 && batch.Lines == 52, "the batch", batch)
		totals := s.Totals()
		testkit.Holds(t, totals.Queues == 1 && totals.Counts.Total() == 2, "totals", totals)
		sound(t, s)
	}
	look()
	testkit.NoError(t, s.FlushWait())
	testkit.NoError(t, s.Close())
	s = mustOpen(t, o)
	look()

	// The name is free, and a new queue gets it.
	second := apply(plainCreate("a", "x", 1, 5))
	testkit.MustHold(t, second == nil, second)
	doc := testkit.Must(s.Queue("a", "x"))(t)
	testkit.Holds(t, !doc.Paused && doc.CreatedAt == startAt+int64(seq) && doc.Counts.Total() == 1, "the queue made again", doc)
	testkit.Equal(t, s.machine.Live.AllQueues.ByName[row.QueueName{"a", "x"}].Id, 3, "its number")
	testkit.Equal(t, apply(plainClaim("r", 10)).(*applied.Claimed).Jobs(), 3)
	apply(job.Move{Op: job.Delete, Batch: made.Batch})
	deleteQueue("b", "y", job.Granted)
	testkit.Equal(t, fmt.Sprint(queueNames(t, s)), "[a/x]")
}
