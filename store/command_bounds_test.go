package store

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
)

// The tests here try every command in stores with a very large number of one thing: a hundredth of the maximum, or more
// than one command may look at. The rows that a command reads and writes, and the bytes that it allocates, must stay
// below constants, so that they do not depend on the backlog. Each start repeats the commands of the journal, so a
// command that takes too much stops the server for good.

// A command may read requestRows rows, and write requestWrites: about sixteen and twelve for each of the thousand things that a
// request may name. Work on things that no request named is left to ticks, which do less of it at a time.
const requestRows, requestWrites = 16_000, 12_000

// crowd is a store with a very large number of one thing, and the ids that commands name in it.
type crowd struct {
	*feeder
	client, typ, runner string
	jobs                []job.ID // job.MaxTickleIDs of them, if there are as many
	batch, claim        job.ID
	session             job.ID
	verbs               map[string]bool
	later               int64 // how much time has passed
}

// crowds make stores with very large numbers of one thing.
var crowds = []struct {
	thing string
	fill  func(c *crowd)
}{
	{"lines of a batch", func(c *crowd) {
		for range 20 {
			create := plainCreate("a", "x", 4000, 3)
			c.create(create)
		}
	}},
	{"lines of a batch in other states", func(c *crowd) {
		create := plainCreate("a", "x", 9000, 1)
		c.Apply(create)
		for range 9 {
			claimed := c.Apply(plainClaim("r", 1000)).(*applied.Claimed)
			end := job.Complete{Claim: claimed.Claim}
			for line := 0; line < claimed.Jobs(); line += 2 {
				end.Outcomes = append(end.Outcomes, job.Outcome{ID: jobID(1, 1, int(claimed.Runs[0].First)+line), Code: job.Unget, DelayMs: -1})
			}
			c.Apply(end)
			mustCommit(c.t, c.s)
		}
		c.named(create)
		c.batch = jobID(1, 1, 0)
	}},
	{"batches", func(c *crowd) {
		for range 3000 {
			create := plainCreate("a", "x", 1, 3)
			c.create(create)
		}
	}},
	{"queues", func(c *crowd) {
		fillPairs(nil)(c.feeder, 10_000)
		c.client, c.typ = "client1", "type1"
		for i := range 1000 {
			c.jobs = append(c.jobs, jobID(int64(1+i/100), uint64(1+i/100), i%100))
		}
	}},
	{"empty queues", func(c *crowd) {
		fillPairs(func(g *job.Group, i int) { g.RetentionMs = 0 })(c.feeder, 3000)
		for c.s.machine.Counts[job.Pending] > 0 {
			c.Apply(job.Complete{Claim: c.Apply(plainClaim("r", 1000)).(*applied.Claimed).Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
		}
	}},
	// The groups are purged one by one, starting at the end of their page.
	{"groups", func(c *crowd) {
		for range 8 {
			create := &job.Create{Frame: job.LineFrame, Longest: 1}
			for k := range job.MaxGroups {
				g := plainGroup("a", "x", 1)
				g.RetentionMs += int64(job.MaxGroups - k)
				g.Priority = k % 2
				create.Groups = append(create.Groups, g)
				create.Payloads = create.Frame.Append(create.Payloads, []byte("p"))
			}
			c.create(create)
			mustCommit(c.t, c.s)
		}
	}},
	// Only the last line of each batch is not purged. The other lines made no jobs, because an existing job has their
	// unique key.
	{"last lines of batches", func(c *crowd) {
		held := plainCreate("held", "x", 1, 3)
		held.Unique = []job.UniqueKey{{Line: 0, Key: "k"}}
		c.Apply(held)
		for i := range 600 {
			groups, create := 60, &job.Create{Frame: job.LineFrame, Longest: 1}
			if i%9 == 0 { // their groups have pages
				groups = 400
			}
			for k := range groups {
				g := plainGroup("held", "x", 1)
				if k < groups-1 {
					create.Unique = append(create.Unique, job.UniqueKey{Line: k, Key: "k"})
				} else if g.Client = "a"; i%2 == 0 {
					g.RetentionMs = 0
				}
				create.Groups = append(create.Groups, g)
				create.Payloads = create.Frame.Append(create.Payloads, []byte("p"))
			}
			c.Apply(create)
			c.batch = jobID(int64(c.seq), c.seq, 0)
			c.jobs = append(c.jobs, jobID(int64(c.seq), c.seq, groups-1))
			mustCommit(c.t, c.s)
		}
	}},
	{"values of meta", func(c *crowd) {
		fillValues(c.feeder, 4000)
		c.jobs = nil
		for k := range 1000 {
			c.jobs = append(c.jobs, jobID(2, 2, k))
		}
	}},
	{"unique keys", func(c *crowd) {
		for i := range 40 {
			create := plainCreate("a", "x", job.MaxUniqueKeys, 3)
			for line := range job.MaxUniqueKeys {
				create.Unique = append(create.Unique, job.UniqueKey{Line: line, Key: fmt.Sprintf("%d of %d", line, i)})
			}
			c.create(create)
			if i%2 == 0 { // other jobs have its keys when it is redriven
				c.Apply(job.Move{Op: job.Cancel, Batch: c.batch})
				c.Apply(create)
			}
			mustCommit(c.t, c.s)
		}
	}},
	{"idempotency keys", func(c *crowd) {
		for i := range 3000 {
			create := plainCreate("a", "x", 1, 3)
			create.Once = job.Once{Scope: fmt.Sprintf("create %d", i), Key: fmt.Sprintf("earlier %d", i)}
			c.create(create)
		}
	}},
	{"sessions", func(c *crowd) {
		for range 2000 {
			c.session = c.Apply(job.OpenSession{}).(*applied.SessionOpened).Session.ID
			create := plainCreate("a", "x", 1, 3)
			create.Once = job.Once{Session: c.session, Number: 1}
			c.create(create)
		}
		for slot := range job.MaxSlots {
			create := plainCreate("a", "x", 1, 3)
			create.Once = job.Once{Session: c.session, Slot: slot, Number: 2}
			c.Apply(create)
		}
	}},
	{"runners", func(c *crowd) { c.claims(func(i int) string { return fmt.Sprintf("r%d", i) }) }},
	{"claims of a runner", func(c *crowd) { c.claims(func(int) string { return "r1" }) }},
	{"large claims of a runner", func(c *crowd) {
		for i := range 40 {
			create := plainCreate("a", "x", job.MaxClaimJobs, 1)
			create.Groups[0].RetentionMs = int64(i % 2 * 1000)
			c.create(create)
			c.claim = c.Apply(plainClaim("r1", job.MaxClaimJobs)).(*applied.Claimed).Claim
		}
		c.runner = "r1"
	}},
	{"leases of single jobs", func(c *crowd) {
		for range 4 {
			create := plainCreate("a", "x", job.MaxClaimJobs, 1)
			c.create(create)
			c.claim = c.Apply(plainClaim("r1", job.MaxClaimJobs)).(*applied.Claimed).Claim
			for i := range 10 {
				c.Apply(job.Tickle{IDs: c.jobs[len(c.jobs)-1000+i*100:][:99], Claim: c.claim, Progress: -1, LeaseMs: 2000})
			}
		}
		c.runner = "r1"
	}},
	{"submissions", func(c *crowd) {
		for i := range 2500 {
			create := plainCreate("a", "x", 1, 3)
			create.Submission = &job.Submission{Name: fmt.Sprintf("n%d", i), Meta: job.BatchMeta(fmt.Sprintf("user:%d", i)), Metadata: []byte("{}")}
			if i%2 == 0 {
				create.Submission.OnFailure = job.CancelRest
			}
			c.create(create)
		}
	}},
	{"parts of a paused submission", func(c *crowd) {
		create := plainCreate("a", "x", 1, 3)
		create.Submission = &job.Submission{Open: true, Paused: true, OnFailure: job.CancelRest}
		c.create(create)
		batch := c.batch
		for range 2500 {
			create := plainCreate("a", "x", 1, 3)
			create.Into = batch
			c.create(create)
		}
		c.batch = batch
	}},
	{"times", func(c *crowd) {
		for i := range 3000 {
			create := plainCreate("a", "x", 1, 3)
			g := &create.Groups[0]
			switch i % 4 {
			case 0:
				g.RunAt = startAt + 20_000
			case 1:
				g.ExpiresAt, g.RetentionMs = startAt+20_000, 0
			case 2:
				g.TimeoutMs = job.MinTimeoutMs
			case 3:
				g.RunAt, g.ExpiresAt = startAt+job.MaxDelayMs/2, startAt+20_000
			}
			c.create(create)
		}
	}},
	{"attempts and steps", func(c *crowd) {
		create := plainCreate("a", "x", 1000, 3)
		create.Groups[0].MaxAttempts, create.Groups[0].Backoff.MaxMs, create.Groups[0].RetentionMs = job.MaxAttempts, 0, 0
		c.create(create)
		for range job.MaxSteps + 1 {
			claimed := c.Apply(plainClaim("r", 1000)).(*applied.Claimed)
			c.Apply(job.Tickle{IDs: c.jobs, Claim: claimed.Claim, Progress: -1, Step: fmt.Sprint(c.seq)})
			c.Apply(job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.Retry, ExitCode: 100, Error: "e"}})
			c.Apply(job.Tick{Rows: job.MaxTickRows})
			mustCommit(c.t, c.s)
		}
	}},
	{"named documents", func(c *crowd) {
		for kind := range job.DocumentKinds {
			put := func(client, name string, n int) {
				p := model.SomeDocument(kind, client, name, n)
				testkit.MustEqual(c.t, c.Apply(p).(*applied.DocumentChanged).Refusal, job.Granted)
				if client == "c" {
					c.Apply(job.DeleteDocument{Kind: kind, Client: p.Client, Name: p.Name})
				}
			}
			for i := range 2000 {
				put("b", fmt.Sprintf("n%d", i), 0)
			}
			for i := range job.MaxDeletedDocuments + 10 {
				put("c", fmt.Sprintf("n%d", i), 0) // and deletes it
			}
			for i := range 2 * job.MaxDocumentVersions {
				put("a", "x", i)
			}
		}
	}},
	{"sweeps", func(c *crowd) {
		for i := range job.MaxSweeps {
			for range 130 {
				create := plainCreate("a", fmt.Sprintf("x%d", i), 1, 3)
				c.create(create)
			}
			c.Apply(job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("x%d", i)})
		}
		c.typ = "x99"
	}},
}

// create creates jobs, and records the first of them and the batch.
func (c *crowd) create(create *job.Create) { c.Apply(create); c.named(create) }

// named records the first jobs and the batch of a create.
func (c *crowd) named(create *job.Create) {
	c.batch = jobID(int64(c.seq), c.seq, 0)
	if c.jobs == nil || len(c.jobs) < job.MaxTickleIDs {
		for line := 0; line < create.Lines() && len(c.jobs) < job.MaxTickleIDs; line++ {
			c.jobs = append(c.jobs, jobID(int64(c.seq), c.seq, line))
		}
	}
}

// claims makes a claim of one job for each of many runners.
func (c *crowd) claims(runner func(i int) string) {
	for i := range 2500 {
		create := plainCreate("a", "x", 1, 3)
		c.create(create)
		c.runner = runner(i)
		c.claim = c.Apply(plainClaim(c.runner, 1)).(*applied.Claimed).Claim
	}
}

// do applies a command, and compares its cost with the bounds.
func (c *crowd) do(cmd job.Command) (result applied.Result) {
	c.t.Helper()
	c.verbs[cmd.Verb()] = true
	got := c.s.costOf(c.t, func() {
		result = c.Apply(cmd)
		c.s.machine.FlushDirty() // as a commit would first
	})
	testkit.Holds(c.t, got.looks <= requestRows && got.writes <= requestWrites && got.bytes <= boundedBytes, cmd.Verb(), got)
	mustCommit(c.t, c.s)
	return result
}

// pass lets time pass, and applies ticks that do the due work.
func (c *crowd) pass(ms int64, rows int) {
	c.t.Helper()
	c.seq += uint64(ms)
	for ticks := 0; ; ticks++ {
		if due := c.s.NextDue(); due == 0 || due > startAt+int64(c.seq) {
			return
		}
		c.do(job.Tick{Rows: rows})
		testkit.MustHold(c.t, ticks <= 20_000, "ticks come to no end")
	}
}

// All applies every command.
func (c *crowd) All() {
	for _, cmd := range []job.Command{job.Mark{}, job.SetLevel{Level: job.Level}, job.SetHistory{Bytes: job.MinHistoryBytes, AgeMs: job.MinHistoryMs, Before: 1 << 60}} {
		c.do(cmd)
	}
	// Creates.
	groups := &job.Create{Frame: job.NoFrame}
	keyed := plainCreate(c.client, c.typ, job.MaxUniqueKeys, 3)
	keyed.Once = job.Once{Scope: "create a", Key: "all of them"}
	for i := range job.MaxGroups {
		g := plainGroup(c.client, c.typ, 1)
		g.Kind, g.Meta = job.Nothing, job.Meta(fmt.Sprintf("user=new%d", i))
		groups.Groups = append(groups.Groups, g)
		keyed.Unique = append(keyed.Unique, job.UniqueKey{Line: i, Key: fmt.Sprintf("%d of %d", i, i%40)})
	}
	long := plainCreate(c.client, c.typ, 2, job.MaxPayloadBytes-10)
	joined := plainCreate(c.client, c.typ, 10, 3)
	joined.Joined = true
	open := plainCreate(c.client, c.typ, 1, 3)
	open.Submission = &job.Submission{Name: "n", Open: true, Paused: true, Metadata: make([]byte, job.MaxBatchMetadataBytes)}
	for _, create := range []*job.Create{plainCreate(c.client, c.typ, 4000, 3), groups, keyed, keyed, long, joined, open} {
		c.do(create)
	}
	submission := jobID(int64(c.seq), c.seq, 0)
	for _, into := range []job.ID{submission, c.batch} {
		part := plainCreate(c.client, c.typ, 3, 3)
		part.Into = into
		c.do(part)
	}
	// Operations on one job.
	zero, priority := int64(0), 7
	for _, id := range append(slices.Clone(c.jobs[:min(3, len(c.jobs))]), submission) {
		c.do(job.Patch{Job: id, Priority: &priority})
		c.do(job.Patch{Job: id, RunAt: &zero})
		for _, op := range []job.Op{job.Run, job.Cancel, job.Redrive} {
			c.do(job.Move{Op: op, Job: id})
		}
	}
	// Claims, and the commands of runners about them.
	once := job.Once{Scope: "claim r", Key: "one"}
	clients, types := []string{c.client}, []string{c.typ}
	for i := range job.MaxClaimNames - 1 {
		clients, types = append(clients, fmt.Sprintf("client%d", i)), append(types, fmt.Sprintf("type%d", i))
	}
	for i, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair, mustDistinct("user", job.Oldest)} {
		claim := plainClaim("all", job.MaxClaimJobs)
		claim.Strategy, claim.Announced, claim.Begins = strategy, strategy == job.Fair, 500
		if i%2 == 0 {
			claim.Clients, claim.Types = clients, types
		}
		claimed := c.do(claim).(*applied.Claimed)
		c.do(job.Tickle{Claim: claimed.Claim, Progress: -1})
		c.do(job.Tickle{Runner: "all", Progress: -1, LeaseMs: 5000})
		var ids []job.ID
		for _, r := range claimed.Runs {
			for line := r.First; line <= r.Last && c.s.machine.Batch(r.Batch) != nil; line++ {
				ids = append(ids, job.NewID(c.s.machine.Batch(r.Batch).At, r.Batch, int(line)))
			}
		}
		c.do(job.Tickle{IDs: append(ids[:0:0], ids[:len(ids)/2]...), Claim: claimed.Claim, Runner: "all", Progress: 1, Step: "step"})
		end := job.Complete{Claim: claimed.Claim, Runner: "all"}
		for i, code := range []job.Code{job.OK, job.Fail, job.Retry, job.Error, job.Unget} {
			for k := range len(ids) / 6 {
				o := job.Outcome{ID: ids[i*(len(ids)/6)+k], Code: code, ExitCode: []int{200, 400, 100, 500, 0}[i], DelayMs: -1, Error: "why"}
				if code == job.OK && k < job.MaxChainedAtOnce/job.MaxChained {
					o.Then = plainCreate("", c.typ, job.MaxChained, 3)
					o.Then.Frame, o.Then.Payloads = job.LenFrame, nil
					for range job.MaxChained {
						o.Then.Payloads = job.LenFrame.Append(o.Then.Payloads, []byte("xxx"))
					}
				}
				end.Outcomes = append(end.Outcomes, o)
			}
		}
		c.do(end)
		c.do(job.Complete{Claim: claimed.Claim, Once: once, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: make([]byte, job.MaxForAllBytes/4)}}})
		once.Key += "+"
	}
	c.do(job.Tickle{IDs: c.jobs, Progress: -1})
	c.do(job.Tickle{Claim: c.claim, Progress: -1})
	c.do(job.Tickle{Runner: c.runner, Progress: -1})
	c.do(job.Grace{})
	unclaimed := job.Complete{Unclaimed: true}
	for i, id := range c.jobs {
		unclaimed.Outcomes = append(unclaimed.Outcomes, job.Outcome{ID: id, Code: []job.Code{job.OK, job.Error}[i%2], ExitCode: []int{200, 500}[i%2], DelayMs: -1})
	}
	c.do(unclaimed)
	c.do(job.Claim{Runner: "keyed", Max: 1000, MaxBytes: job.MaxClaimBytes, Once: job.Once{Scope: "claim keyed", Key: "1"}})
	c.do(job.Claim{Runner: "keyed", Max: 1000, MaxBytes: job.MaxClaimBytes, Once: job.Once{Scope: "claim keyed", Key: "1"}})
	for _, runner := range []string{"keyed", c.runner} {
		for lost := (&applied.RunnerLost{More: true}); lost.More; {
			lost = c.do(job.LoseRunner{Runner: runner, Through: c.seq}).(*applied.RunnerLost)
		}
	}
	// Queues, the switch, sessions, documents.
	for _, cmd := range []job.Command{
		job.Pause{Client: c.client, Type: c.typ, Paused: true}, job.Pause{Client: c.client, Type: c.typ}, job.Switch{Stopped: true}, job.Switch{},
		job.PutDocument{Kind: job.HandlerDocument, Client: "a", Name: "x", Document: make([]byte, job.MaxHandlerBytes)},
		job.DeleteDocument{Kind: job.HandlerDocument, Client: "a", Name: "x"},
		job.PutDocument{Kind: job.FilesetDocument, Client: "a", Name: "x"}, job.DeleteDocument{Kind: job.FilesetDocument, Client: "a", Name: "x"},
		job.OpenSession{}, job.EndSession{Session: c.session},
		job.ChangeBatch{Op: job.ResumeBatch, Batch: submission}, job.ChangeBatch{Op: job.CloseBatch, Batch: submission},
		job.ChangeBatch{Op: job.ResumeBatch, Batch: c.batch}, job.ChangeBatch{Op: job.CloseBatch, Batch: c.batch},
	} {
		c.do(cmd)
	}
	// Nodes of a cluster.
	for i := range job.MaxMembers {
		m := job.Member{ID: uint64(i + 1), Node: fmt.Sprint("node", i), Address: fmt.Sprintf("%0*d", job.MaxAddressBytes, i), Role: job.Voter}
		c.do(job.SetMember{Member: m})
		c.do(job.Announce{Node: m.Node, Origin: 1, Start: 1, Level: 1})
	}
	// Leases end, retries are due.
	c.do(plainClaim("gone", job.MaxClaimJobs))
	c.do(plainClaim("gone", job.MaxClaimJobs))
	c.pass(2*job.MaxLeaseMs, 0)
	// Sweeps.
	for _, op := range []job.Op{job.Cancel, job.Redrive} {
		c.do(job.Move{Op: op, Batch: submission})
		c.do(job.Move{Op: op, Batch: c.batch})
		c.do(job.Move{Op: op, Client: c.client, Type: c.typ})
		c.pass(1, 0)
	}
	c.do(job.Move{Op: job.Cancel, Client: c.client, Type: c.typ})
	if len(c.jobs) > 0 {
		c.do(job.Move{Op: job.Delete, Job: c.jobs[0]})
	}
	c.do(job.Move{Op: job.Delete, Batch: c.batch})
	c.do(job.DeleteQueue{Client: c.client, Type: c.typ})
	c.pass(1, 0)
	// Half of the remaining jobs are deleted, and the retention of the other half ends.
	if c.later = 2 * job.DefaultRetentionMs; c.seq%2 == 0 {
		c.do(job.Move{Op: job.Delete, Client: c.client, Type: c.typ})
	}
	c.pass(c.later, 0)
	for n := -1; n != 0; {
		n = c.do(job.DeleteIdleQueues{IdleMs: job.MinQueueIdleMs}).(*applied.IdleQueuesDeleted).Queues
	}
}

// TestEveryCommandIsBounded: the reads, writes and allocations of a command have bounds that do not depend on the
// number of jobs, batches, queues, groups, values, keys, sessions, runners, claims, submissions or times.
func TestEveryCommandIsBounded(t *testing.T) {
	verbs := map[string]bool{}
	for _, thing := range crowds {
		t.Run(thing.thing, func(t *testing.T) {
			c := &crowd{client: "a", typ: "x", runner: "r", verbs: verbs}
			c.feeder = inStore(t, Options{Journal: testJournal}, func(f *feeder) { c.feeder = f; thing.fill(c) })
			c.All()
			sound(t, c.s)
		})
	}
	testkit.EqualSlices(t, slices.Sorted(maps.Keys(verbs)), knownVerbs(t), "the commands tried")
}

// knownVerbs returns the verbs that job.Decode reads, in order.
func knownVerbs(t *testing.T) (verbs []string) {
	t.Helper()
	file := testkit.Must(parser.ParseFile(token.NewFileSet(), "../job/command.go", nil, 0))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		if of, ok := n.(*ast.SwitchStmt); ok {
			if tag, ok := of.Tag.(*ast.Ident); !ok || tag.Name != "verb" {
				return true
			}
			for _, clause := range of.Body.List {
				for _, value := range clause.(*ast.CaseClause).List {
					verb := testkit.Must(strconv.Unquote(value.(*ast.BasicLit).Value))(t)
					verbs = append(verbs, verb)
				}
			}
		}
		return true
	})
	slices.Sort(verbs)
	return verbs
}
