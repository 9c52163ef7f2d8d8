package store

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// chainRig applies commands, and reads the jobs of a queue.
type chainRig struct {
	*testing.T
	s   *Store
	seq uint64
}

func newChainRig(t *testing.T) *chainRig {
	return &chainRig{T: t, s: mustOpen(t, Options{Journal: testJournal})}
}

func (r *chainRig) Apply(cmd job.Command) applied.Result {
	r.Helper()
	r.seq++
	result := mustApply(r.T, r.s, r.seq, int64(r.seq), cmd)
	mustCommit(r.T, r.s)
	return result
}

// Jobs returns the jobs that claims of a type hand out.
func (r *chainRig) Jobs(typ string) (docs []job.Job) {
	r.Helper()
	c := plainClaim("r", job.MaxClaimJobs)
	c.Types = []string{typ}
	for {
		claimed := testkit.Must(documents(r.s.HandedOut(r.Apply(c).(*applied.Claimed))))(r)
		if len(claimed) == 0 {
			return docs
		}
		docs = append(docs, claimed...)
	}
}

func followOnOf(t *testing.T, g job.Group, delayMs int64) job.FollowOn {
	t.Helper()
	g.Kind, g.Lines = job.Nothing, 0
	return testkit.Must(job.NewFollowOn(&g, delayMs))(t)
}

func ok(id job.ID) job.Outcome {
	return job.Outcome{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1}
}

// oneChained is a job that an outcome creates.
func oneChained(client, typ, payload string) *job.Create {
	g := plainGroup(client, typ, 1)
	return &job.Create{Groups: []job.Group{g}, Frame: job.LenFrame, Longest: len(payload), Payloads: job.LenFrame.Append(nil, []byte(payload))}
}

// TestFollowOns: the output of each completed job is the payload of the next job, which inherits the attributes that
// its create did not set. A failed job has no next job.
func TestFollowOns(t *testing.T) {
	r := newChainRig(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	last := plainGroup("", "last", 0)
	next := plainGroup("", "next", 0)
	next.OnComplete = followOnOf(t, last, 0)
	next.Client = ""
	c := plainCreate("a", "first", 3, 1)
	c.Groups[0].Meta, c.Groups[0].Traceparent, c.Groups[0].OnComplete = "k=v", trace, followOnOf(t, next, 0)
	r.Apply(c)
	first := r.Jobs("first")
	text, address, failed := ok(first[0].ID), ok(first[1].ID), ok(first[2].ID)
	text.OutputKind, text.Output = job.JSON, []byte(`{"a":1}`)
	address.OutputAddr = "s3://out"
	failed.Code, failed.ExitCode = job.Fail, 400
	r.Apply(job.Complete{Claim: first[0].Claim, Outcomes: []job.Outcome{text, address, failed}})
	got := r.Jobs("next")
	var seen []string
	for _, j := range got {
		seen = append(seen, fmt.Sprintf("%s %s %q %s %s %d %v", j.Client, j.Kind, j.Payload, j.Meta, j.Traceparent, j.Hops, j.Batch.IsZero()))
	}
	want := []string{`a json "{\"a\":1}" k=v ` + trace + ` 1 true`, `a text "s3://out" k=v ` + trace + ` 1 true`}
	testkit.EqualSlices(t, seen, want, "the next jobs")
	if len(got) == 0 {
		return
	}
	r.Apply(job.Complete{Claim: got[0].Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte("x")}}})
	if got := r.Jobs("last"); len(got) != 2 || string(got[1].Payload) != "x" || got[1].Hops != 2 || got[1].OnComplete != "" {
		t.Errorf("the last jobs are %+v", got)
	}
}

// TestRepeatedOutcomesCreateNothing: an outcome that is repeated, or refused, creates no jobs.
func TestRepeatedOutcomesCreateNothing(t *testing.T) {
	r := newChainRig(t)
	r.Apply(plainCreate("a", "x", 1, 1))
	held := r.Jobs("x")[0]
	o := ok(held.ID)
	o.Then = oneChained("", "y", "payload")
	strange := job.Complete{Claim: job.NewID(1, 1<<20, 0), Outcomes: []job.Outcome{o}}
	cmd := job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{o, o}}
	for _, cmd := range []job.Complete{strange, cmd, cmd, strange} {
		r.Apply(cmd)
	}
	got := r.Jobs("y")
	testkit.Holds(t, len(got) == 1 && string(got[0].Payload) == "payload" && got[0].Client == "a", "the outcome has created", got)
}

// TestHops: a chain in which each job creates the next ends after MaxHops. Follow-on jobs of a created job count too.
func TestHops(t *testing.T) {
	r := newChainRig(t)
	r.Apply(plainCreate("a", "x", 1, 1))
	end := func(then *job.Create) job.Refusal {
		held := r.Jobs("x")
		testkit.MustEqual(t, len(held), 1)
		o := ok(held[0].ID)
		o.Then = then
		refusal := r.Apply(job.Complete{Claim: held[0].Claim, Outcomes: []job.Outcome{o}}).(*applied.Ended).Results[0].Refusal
		if refusal != job.Granted {
			o.Code, o.ExitCode, o.Then = job.Unget, 0, nil
			r.Apply(job.Complete{Claim: held[0].Claim, Outcomes: []job.Outcome{o}})
		}
		return refusal
	}
	for hop := range job.MaxHops - 1 {
		testkit.MustEqual(t, end(oneChained("", "x", "p")), job.Granted, "hop", hop)
	}
	followed := oneChained("", "x", "p")
	followed.Groups[0].OnComplete = followOnOf(t, plainGroup("", "x", 0), 0)
	testkit.Equal(t, end(followed), job.TooManyHops, "a job with a next one beyond the last hop")
	testkit.Equal(t, end(oneChained("", "x", "p")), job.Granted, "the last hop")
	testkit.Equal(t, end(oneChained("", "x", "p")), job.TooManyHops, "one hop too many")
	testkit.Equal(t, end(nil), job.Granted, "the end of the chain")
}

// TestChainAtTheLimits: a command creates as many jobs as it may, with unique keys, from jobs that are not kept.
func TestChainAtTheLimits(t *testing.T) {
	r := newChainRig(t)
	c := plainCreate("a", "x", 1000, 1)
	c.Groups[0].RetentionMs, c.Groups[0].OnComplete = 0, followOnOf(t, plainGroup("b", "after", 0), 5)
	r.Apply(c)
	held := r.Jobs("x")
	cmd := job.Complete{Claim: held[0].Claim}
	for line := range held {
		o := ok(held[line].ID)
		o.OutputKind, o.Output = job.Text, []byte(fmt.Sprint(line))
		o.Then = oneChained("c", "then", fmt.Sprint("then ", line))
		o.Then.Unique = []job.UniqueKey{{Line: 0, Key: fmt.Sprint(line % 500)}}
		cmd.Outcomes = append(cmd.Outcomes, o)
	}
	fields, body := cmd.Encode()
	decoded := testkit.Must(job.Decode(cmd.Verb(), fields, body))(t)
	r.Apply(decoded)
	got := r.Jobs("then")
	testkit.Holds(t, len(got) == 500 && string(got[499].Payload) == "then 499", len(got), "jobs of outcomes")
	testkit.Equal(t, len(r.Jobs("after")), 0)
	r.seq += 10
	for range 10 { // a tick moves a bounded number of jobs
		r.Apply(job.Tick{})
	}
	got = r.Jobs("after")
	testkit.Holds(t, len(got) == 1000 && string(got[999].Payload) == "999", len(got), "next jobs")
}
