package sim

import (
	"errors"
	"strings"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// fixture is a journal with a few commands, and the honest answers to them.
type fixture struct {
	*reference
	a       *account
	seq     uint64
	answers map[string]*answer // by a name
}

// newFixture posts a batch of two jobs.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &world{account: newAccount()}
	r := testkit.Must(openReference(w))(t)
	t.Cleanup(func() { testkit.Check(t, r.s.Close()) })
	testkit.NoError(t, r.adopt("0197f1c0-1111-7abc-8def-000000000001"))
	f := &fixture{reference: r, a: w.account, answers: map[string]*answer{}}
	b := &batch{tag: "batch-1", payloads: []string{"batch-1/0/x", "batch-1/1/y"}}
	b.create = job.Create{Frame: job.LineFrame, Payloads: []byte("batch-1/0/x\nbatch-1/1/y\n"), Longest: 11, Groups: []job.Group{
		{Lines: 2, Client: "c", Type: "t", Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 2, LeaseMs: 1000, RetentionMs: 10_000}},
	}}
	b.groups = []*job.Group{&b.create.Groups[0], &b.create.Groups[0]}
	f.a.batches[b.tag] = b
	at := f.apply(t, nil, &b.create)
	testkit.NoError(t, f.a.journaledBatch(&journal.Record{Seq: at.Seq, At: at.At}, &job.Actor{}, &b.create, job.NewID(at.At, at.Seq, 0)))
	testkit.NoError(t, f.a.created(b, applied.Made{}, at, stored))
	return f
}

// apply adds a command of a key, or of nobody, to the journal.
func (f *fixture) apply(t *testing.T, by *job.Key, cmd job.Command) ingest.Receipt {
	t.Helper()
	f.seq++
	r := journal.Record{Verb: cmd.Verb(), Seq: f.seq, At: 1000 + 10*int64(f.seq)}
	r.Fields, r.Body = cmd.Encode()
	r.Fields = job.AppendActor(by.By(), r.Fields)
	testkit.NoError(t, f.reference.apply(&r))
	return ingest.Receipt{Seq: r.Seq, At: r.At}
}

// answer adds a command to the journal, and records its answer.
func (f *fixture) answer(t *testing.T, name string, by *job.Key, cmd job.Command) applied.Result {
	t.Helper()
	at := f.apply(t, by, cmd)
	var docs []job.Job
	result := f.commands[at.Seq].result
	if c, is := result.(*applied.Claimed); is {
		docs = testkit.Must(runs.Documents(testkit.Must(f.s.HandedOut(c))(t)))(t)
	}
	f.a.answer(by, at, cmd, result, docs...)
	last := &f.a.answers[len(f.a.answers)-1]
	f.answers[name] = last
	return result
}

// tenantOf returns a key for a client, which has its name.
func tenantOf(client string) *job.Key {
	return &job.Key{Actor: job.Actor{Name: client, Scope: job.Scope{Clients: []string{client}}}, RunnerPrefix: client + "-"}
}

// TestAnswers: each altered answer is found, and the honest ones are accepted.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, want string // in the error; "": the answers are accepted
		alter      func(f *fixture)
	}{
		{"honest", "", func(*fixture) {}},
		{"an acknowledged command is lost", "the journal ends at", func(f *fixture) { f.answers["pause"].receipt.Seq = 99 }},
		{"another command is in its place", "is claim", func(f *fixture) { f.answers["complete"].receipt = f.answers["claim"].receipt }},
		{"an acknowledged create is lost", "is not in the journal", func(f *fixture) { f.a.batches["batch-1"].journalSeq = 0 }},
		{"another job is handed out", "the journal leads to", func(f *fixture) {
			f.answers["claim"].result = &applied.Claimed{Claim: f.answers["claim"].docs[0].Claim, Seq: 2, Runs: []applied.Run{{Batch: 1, First: 1, Last: 1}}}
		}},
		{"the document of another job is handed out", "did not hand out", func(f *fixture) { f.answers["claim"].docs[0].ID = job.NewID(1, 1, 7) }},
		{"an attempt is not counted", "RunAttempts 0", func(f *fixture) { f.answers["claim"].docs[0].RunAttempts = 0 }},
		{"another payload is handed out", "batch-1/0/z", func(f *fixture) { f.answers["claim"].docs[0].Payload = []byte("batch-1/0/z") }},
		{"a lease is longer than promised", "DeadlineAt", func(f *fixture) { f.answers["claim"].docs[0].DeadlineAt++ }},
		{"a tickle holds fewer jobs", "Held:0", func(f *fixture) { f.answers["tickle"].result = &applied.Tickled{} }},
		{"an outcome is refused", "Refusal:", func(f *fixture) {
			f.answers["complete"].result = &applied.Ended{Results: []applied.JobResult{{ID: f.answers["claim"].docs[0].ID, Refusal: job.ClaimLost}}}
		}},
		{"an outcome leads to another status", "the journal leads to", func(f *fixture) {
			f.answers["complete"].result = &applied.Ended{Results: []applied.JobResult{{ID: f.answers["claim"].docs[0].ID, Status: job.Failed}}}
		}},
		{"a repeated outcome has another answer", "the journal leads to", func(f *fixture) {
			f.answers["complete again"].result = &applied.Ended{Replayed: true, Seq: f.answers["complete"].receipt.Seq, Results: []applied.JobResult{{ID: f.answers["claim"].docs[0].ID, Status: job.Failed}}}
		}},
		{"a cancelled job is answered as pending", "the journal leads to", func(f *fixture) { f.answers["cancel"].result = &applied.Moved{Status: job.Pending} }},
		{"a pause is refused", "the journal leads to", func(f *fixture) { f.answers["pause"].result = &applied.Paused{Refusal: job.QueueNotFound} }},
		{"a handler has another version", "the journal leads to", func(f *fixture) {
			put := *f.answers["handler"].result.(*applied.DocumentChanged)
			put.Document.Version++
			f.answers["handler"].result = &put
		}},
		{"a record has lost its actor", "has the actor", func(f *fixture) { f.answers["cancel"].by = tenantOf("c") }},
		{"a record has another actor", "has the actor", func(f *fixture) { f.answers["tenant"].by = tenantOf("d") }},
		{"a record has the actor with another scope", "has the actor", func(f *fixture) {
			other := *f.answers["tenant"].by
			other.Types = []string{"t"}
			f.answers["tenant"].by = &other
		}},
		{"a tenant moves the job of others", "is not of e", func(f *fixture) {
			f.answers["tenant"].result = &applied.Moved{Status: job.Cancelled}
		}},
		{"a tenant ends the job of others", "is not of e", func(f *fixture) {
			f.answers["tenant"].cmd, f.answers["tenant"].result = job.Complete{}, &applied.Ended{Results: []applied.JobResult{{ID: job.NewID(1010, 1, 0), Status: job.Completed}}}
			f.commands[f.answers["tenant"].receipt.Seq].verb = "complete"
		}},
		{"a tenant holds the job of others", "is not of e", func(f *fixture) {
			f.answers["tenant"].cmd, f.answers["tenant"].result = job.Tickle{IDs: []job.ID{job.NewID(1010, 1, 0)}}, &applied.Tickled{Held: 1}
			f.commands[f.answers["tenant"].receipt.Seq].verb = "tickle"
		}},
		{"a tenant gets the job of others", "for which the key e is not", func(f *fixture) { f.answers["tenant"].docs = []job.Job{{Client: "c", Type: "t"}} }},
		{"a tenant gets the payload of others", "it has the payload of batch-1", func(f *fixture) {
			f.answers["tenant"].docs = []job.Job{{Client: "e", Type: "t", Payload: []byte("batch-1/0/x")}}
		}},
		{"a stream sends jobs to a silent runner", "proved silent at 3", func(f *fixture) {
			f.a.silent(3, []string{"r"})
			f.a.kept(push{"r", 4, 2})
		}},
		{"a stream sends jobs to a runner that it heard of again", "", func(f *fixture) {
			f.a.silent(3, []string{"r"})
			f.a.kept(push{"r", 5, 3})
			f.a.kept(push{"other", 6, 2})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.a.answers = make([]answer, 0, 20) // f.answers points into it
			claimed := f.answer(t, "claim", nil, job.Claim{Runner: "r", Max: 1, MaxBytes: job.MaxClaimBytes}).(*applied.Claimed)
			id := job.NewID(1010, 1, 0)
			f.answer(t, "tickle", nil, job.Tickle{Claim: claimed.Claim, Progress: -1})
			complete := job.Complete{Claim: claimed.Claim, Once: job.Once{Scope: "claim r", Key: "1"}, Outcomes: []job.Outcome{{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1}}}
			f.answer(t, "complete", nil, complete)
			f.answer(t, "complete again", nil, complete)
			f.answer(t, "cancel", nil, job.Move{Op: job.Cancel, Job: id.WithLine(1)})
			f.answer(t, "pause", nil, job.Pause{Client: "c", Type: "t", Paused: true})
			f.answer(t, "handler", nil, job.PutDocument{Kind: job.HandlerDocument, Client: "c", Name: "t", Summary: "exec", Document: []byte("{}")})
			f.answer(t, "tenant", tenantOf("e"), job.Move{Op: job.Cancel, Job: id.WithLine(1)})
			tt.alter(f)
			err := f.checkAccount()
			testkit.Holds(t, (err == nil) == (tt.want == "") && (err == nil || strings.Contains(err.Error(), tt.want)), err, "want", tt.want)
		})
	}
}

// TestRepetitionsUnderAKey: a request that is repeated under its idempotency key always gets the same answer.
func TestRepetitionsUnderAKey(t *testing.T) {
	f := newFixture(t)
	b := f.a.batches["batch-1"]
	testkit.Check(t, f.a.created(b, applied.Made{}, ingest.Receipt{Seq: 1, At: 1010}, stored), "the same answer again")
	testkit.Failed(t, f.a.created(b, applied.Made{}, ingest.Receipt{Seq: 2, At: 1020}, stored))
	c := job.Claim{Runner: "r", Max: 1, Once: job.Once{Scope: "claim r", Key: "1"}}
	claim := func(seq uint64) error {
		doc := job.Job{ID: b.id, Claim: job.NewID(1500, seq, 0), Runner: "r", Status: job.Active}
		return f.a.claimed(nil, ingest.Receipt{Seq: seq, At: 1500}, c, applied.Claimed{Claim: doc.Claim}, []job.Job{doc})
	}
	testkit.Check(t, errors.Join(claim(10), claim(10)), "the same claim again")
	testkit.Holds(t, claim(11) != nil, "a claim that was carried out twice is not found")
}
