package corruption

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// work carries out every kind of command that a journal can hold. wake sets the clock right.
func (f *fixture) work(r *running, cut bool, wake func()) error {
	ctx := context.Background()
	claim := job.Claim{Runner: "r1", Max: 3, MaxBytes: job.MaxClaimBytes, Types: []string{"resize"}}
	outcome := func(id job.ID, code job.Code) job.Outcome {
		return job.Outcome{ID: id, Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
	}
	several := &job.Create{Frame: job.LenFrame}
	for _, client := range []string{"acme", "other"} {
		g := group
		g.Lines, g.Client, g.Priority = 1, client, 9
		several.Groups = append(several.Groups, g)
	}
	emptied := 0                                      // index in f.jobs
	for _, client := range []string{"gone", "idle"} { // queues that are empty soon
		g := group
		g.Lines, g.Client, g.Type, g.RetentionMs = 1, client, "empty", 0
		several.Groups = append(several.Groups, g)
	}
	soon := group
	soon.Lines, soon.Type, soon.RunAt = 1, "later", r.Now()+20
	full := group
	full.Lines, full.Type, full.ExpiresAt, full.TimeoutMs = 4, "moved", job.MaxTimeMs, job.MaxTimeoutMs
	full.Meta, full.Traceparent = "colour=red", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	first := 0 // index in f.jobs
	move := func(op job.Op, line int) func() error {
		return func() error {
			_, _, err := r.Move(ctx, job.Move{Op: op, Job: f.jobs[first+line]})
			return err
		}
	}
	// These jobs are in so many groups that a cancel or redrive of all of them is a sweep, which ticks continue.
	scattered := &job.Create{Frame: job.LineFrame}
	for i := range 6 {
		g := group
		g.Lines, g.Type, g.Priority = 1, "swept", i
		scattered.Groups = append(scattered.Groups, g)
	}
	sweep := func(op job.Op) func() error {
		return func() error {
			answer, _, err := r.MoveAll(ctx, job.Move{Op: op, Client: group.Client, Type: "swept"})
			if err == nil && answer.Sweep.IsZero() {
				err = fmt.Errorf("%v of a queue must be a sweep, and was done in one command: %+v", op, answer)
			}
			return errors.Join(err, r.settle())
		}
	}
	number := func(slot int, n uint64) job.Once {
		return job.Once{Session: f.sessions[0], Slot: slot, Number: n, Digest: job.Digest{byte(slot), byte(n)}}
	}
	openSession := func() error {
		s, _, err := r.OpenSession(ctx, job.OpenSession{Runner: "r1"})
		f.sessions = append(f.sessions, s.ID)
		return err
	}
	var claimed applied.Claimed
	var docs []job.Job
	steps := []func() error{
		openSession,
		func() error { return f.create(r, job.LineFrame, "one", "two", "three", "four", "five", "six") },
		func() error { return f.create(r, job.LenFrame, "with\nnewline", "", "\n#:end crc=00000000\n") },
		func() error {
			g := group
			g.Lines = 2
			return f.post(r, &job.Create{Frame: job.NoFrame, Groups: []job.Group{g}, Once: number(0, 1)}, "", "")
		},
		func() error {
			emptied = len(f.jobs) + 2
			return f.post(r, several, "first group", "second group", "g", "i")
		},
		func() error {
			return f.post(r, &job.Create{Frame: job.LineFrame, Groups: []job.Group{soon}}, strings.Repeat("later ", 60))
		},
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err },
		func() error {
			_, _, err := r.Tickle(ctx, job.Tickle{Claim: claimed.Claim, Progress: -1})
			return err
		},
		func() error {
			_, _, err := r.Tickle(ctx, job.Tickle{IDs: []job.ID{docs[0].ID}, Step: "half", Progress: 500_000})
			return err
		},
		func() error { _, _, err := r.Tickle(ctx, job.Tickle{Runner: "r1", Progress: -1}); return err },
		func() error {
			ok, failed := outcome(docs[0].ID, job.OK), outcome(docs[1].ID, job.Fail)
			ok.OutputKind, ok.Output, ok.OutputAddr, ok.OutputAddrKind = job.Text, []byte("out\nput"), "sha256-o", job.Bytes
			failed.Error = "no such thing"
			_, _, err := r.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{ok, failed, outcome(docs[2].ID, job.Error)}})
			return err
		},
		func() error { return f.createChain(r) },
		func() error { return f.completeChain(r, true) },
		func() error { return f.createBatches(r) },
		func() error {
			g := group
			g.Lines, g.Type = 2, lostType
			f.lost = len(f.jobs)
			return f.post(r, &job.Create{Frame: job.LineFrame, Groups: []job.Group{g}}, "lost twice", "lost once")
		},
		func() error { return f.loseRunner(r, "lost", 2) },
		func() error { return wait(r, "later", 1) }, // this takes a tick
		func() error { return r.FlushWait() },
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err },
		func() error {
			_, _, err := r.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 201, DelayMs: -1}, Once: number(3, 1)})
			return err
		},
		openSession,
		func() error { return putDocuments(ctx, r, "acme", "resize", 2) },
		func() error { return putDocuments(ctx, r, "", "gone", 1) },
		func() error {
			for kind := range job.DocumentKinds {
				if _, _, err := r.DeleteDocument(ctx, job.DeleteDocument{Kind: kind, Name: "gone", By: "anna"}); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			for i := range 2 {
				if _, _, err := r.Move(ctx, job.Move{Op: job.Delete, Job: f.jobs[emptied+i]}); err != nil {
					return err
				}
			}
			deleted, _, err := r.DeleteQueue(ctx, job.DeleteQueue{Client: "gone", Type: "empty"})
			if err == nil && deleted.Refusal != job.Granted {
				err = deleted.Refusal
			}
			return err
		},
		func() error { // nothing is active, so a start appends no grace
			wake()
			if _, err := r.AcceptTime(ctx); err != nil {
				return err
			}
			return waitIdle(r, "idle", "empty")
		},
		func() error {
			_, _, err := r.Pause(ctx, job.Pause{Client: "other", Type: "resize", Paused: true})
			return err
		},
		func() error {
			first = len(f.jobs)
			return f.post(r, &job.Create{Frame: job.LineFrame, Groups: []job.Group{full}, Unique: []job.UniqueKey{{Line: 1, Key: "order 7"}},
				Once: job.Once{Scope: "create acme", Key: "k"}}, "to be cancelled", "to be patched", "to be deleted", "to be swept")
		},
		move(job.Cancel, 0), move(job.Redrive, 0), move(job.Cancel, 0),
		func() error {
			priority, runAt := 7, int64(job.MaxTimeMs)
			_, _, err := r.Patch(ctx, job.Patch{Job: f.jobs[first+1], Priority: &priority, RunAt: &runAt})
			return err
		},
		move(job.Run, 1), move(job.Delete, 2),
		func() error {
			f.jobs = append(f.jobs[:first+2], f.jobs[first+3:]...)
			_, _, err := r.MoveAll(ctx, job.Move{Op: job.Cancel, Client: full.Client, Type: full.Type, Status: job.Pending})
			return err
		},
		func() error { return f.post(r, scattered, strings.Fields(strings.Repeat("s ", scattered.Lines()))...) },
		sweep(job.Cancel), sweep(job.Redrive),
		func() error { _, _, err := r.Switch(ctx, job.Switch{Stopped: true}); return err },
		func() error { _, _, err := r.Switch(ctx, job.Switch{}); return err },
		func() error { return r.FlushWait() },
		func() error {
			// The cut follows the flush.
			if err := await("the journal is cut", func() (bool, error) { return !cut || r.Stats().Journal.First > 1, nil }); err != nil {
				return err
			}
			_, _, err := r.Pause(ctx, job.Pause{Client: "other", Type: "resize"})
			return err
		},
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err },
		func() error {
			_, _, err := r.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome(docs[0].ID, job.Unget)}})
			return err
		},
		func() error { return f.completeChain(r, false) }, // after the last flush
		func() error { return f.changeBatches(r) },
		func() error { _, err := r.EndSession(ctx, job.EndSession{Session: f.sessions[1]}); return err },
		func() (err error) { // held until the end
			claim.Once = number(3, 2)
			claimed, docs, _, err = r.Claim(ctx, claim, 0)
			return err
		},
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// chainType is the type of the jobs of chains.
const chainType = "chain"

// createChain creates a job that two jobs follow one after the other, and a job that none follows.
func (f *fixture) createChain(r *running) error {
	next := group
	next.Client, next.Type, next.Kind = "", chainType, job.Nothing
	last, err := job.NewFollowOn(&next, 0)
	if err != nil {
		return err
	}
	next.OnComplete = last
	followed, plain := group, group
	followed.Lines, followed.Type, followed.Meta = 1, chainType, "colour=blue"
	if followed.OnComplete, err = job.NewFollowOn(&next, 0); err != nil {
		return err
	}
	plain.Lines, plain.Type = 1, chainType
	f.chain = len(f.jobs)
	return f.post(r, &job.Create{Frame: job.LineFrame, Groups: []job.Group{followed, plain}}, "followed", "plain")
}

// completeChain completes the jobs of chains, each with an output. With then, each outcome also creates two jobs, so
// their batch has pages.
func (f *fixture) completeChain(r *running, then bool) error {
	ctx := context.Background()
	claimed, docs, _, err := r.Claim(ctx, job.Claim{Runner: "r1", Max: 2, MaxBytes: job.MaxClaimBytes, Types: []string{chainType}}, 0)
	if err != nil {
		return err
	}
	if len(docs) != 2 {
		return fmt.Errorf("%d jobs of chains are handed out", len(docs))
	}
	c := job.Complete{Claim: claimed.Claim}
	created := 0
	for i := range docs {
		o := job.Outcome{ID: docs[i].ID, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: fmt.Appendf(nil, "output %d", i)}}
		if docs[i].OnComplete != "" {
			created++
		}
		if then {
			g := group
			g.Client, g.Lines, g.Type, g.Priority = "", 2, chainType, 0
			o.Then = &job.Create{Frame: job.LenFrame, Groups: []job.Group{g}, Unique: []job.UniqueKey{{Line: 1, Key: fmt.Sprint("link ", i)}}}
			for line := range g.Lines {
				payload := fmt.Appendf(nil, "then %d of %d %s", line, i, strings.Repeat("#:end crc=00000000\n", 5))
				o.Then.Payloads = o.Then.Frame.Append(o.Then.Payloads, payload)
				o.Then.Longest = max(o.Then.Longest, len(payload))
			}
			created += g.Lines
		}
		c.Outcomes = append(c.Outcomes, o)
	}
	_, receipt, err := r.Complete(ctx, c)
	for line := range created {
		f.jobs = append(f.jobs, job.NewID(receipt.At, receipt.Seq, line))
	}
	return err
}

// filledType is the type of the jobs of batches with attributes.
const filledType = "filled"

// The indexes in batches of the batches with attributes, by their state after changeBatches:
const (
	completedBatch = iota
	failedBatch    // by cancel_rest
	closedBatch    // in progress, of two parts
	resumedBatch   // in progress
	cancelledBatch
	pausedBatch // without jobs
)

// createBatches creates all batches with attributes except the last, and ends two of them.
func (f *fixture) createBatches(r *running) error {
	meta, err := job.NewBatchMeta(map[string]job.MetaValue{"user": {Integer: 7, IsInteger: true}})
	if err != nil {
		return err
	}
	add := func(s job.Submission, payloads ...string) error {
		at := len(f.jobs)
		if err := f.fill(r, &job.Create{Submission: &s}, payloads...); err != nil {
			return err
		}
		f.batches = append(f.batches, f.jobs[at])
		return nil
	}
	err = errors.Join(
		add(job.Submission{Name: "nightly", Meta: meta, Metadata: []byte("about\x00it"), ChunkSize: 5}, "f1"),
		add(job.Submission{Name: "nightly", OnFailure: job.CancelRest, Open: true}, "f2", "f3", "f4"),
	)
	if err != nil {
		return err
	}
	err = f.fill(r, &job.Create{Into: f.batches[failedBatch]}, "f5")
	out := job.Result{OutputKind: job.Text, Output: []byte("out")}
	for _, o := range []job.Outcome{{Code: job.OK, Result: out}, {Code: job.OK, Result: out}, {Code: job.Fail, Error: "bad"}} {
		if err == nil {
			err = f.completeFilled(r, &o)
		}
	}
	return errors.Join(err,
		add(job.Submission{Name: "next", Meta: meta, Open: true}, "f6"),
		add(job.Submission{Paused: true, Metadata: []byte("paused")}, "f7", "f8"),
		add(job.Submission{Open: true}, "f9"),
	)
}

func (f *fixture) fill(r *running, c *job.Create, payloads ...string) error {
	g := group
	g.Type, g.Lines, c.Frame = filledType, len(payloads), job.LineFrame
	c.Groups = []job.Group{g}
	return f.post(r, c, payloads...)
}

// completeFilled ends a run of the next job of these batches.
func (f *fixture) completeFilled(r *running, o *job.Outcome) error {
	claimed, docs, _, err := r.Claim(context.Background(), job.Claim{Runner: "r1", Max: 1, MaxBytes: job.MaxClaimBytes, Types: []string{filledType}}, 0)
	if err != nil {
		return err
	}
	if len(docs) != 1 {
		return fmt.Errorf("%d jobs of batches with attributes are handed out", len(docs))
	}
	o.ID, o.ExitCode, o.DelayMs = docs[0].ID, o.Code.DefaultExitCode(), -1
	_, _, err = r.Complete(context.Background(), job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{*o}})
	return err
}

// changeBatches adds to a batch and closes it, resumes a batch, cancels a batch, and creates a batch without jobs.
func (f *fixture) changeBatches(r *running) error {
	ctx := context.Background()
	err := f.fill(r, &job.Create{Into: f.batches[closedBatch]}, "f10")
	for _, c := range []job.ChangeBatch{{Op: job.CloseBatch, Batch: f.batches[closedBatch]}, {Op: job.ResumeBatch, Batch: f.batches[resumedBatch]}} {
		if err == nil {
			var changed applied.BatchChanged
			if changed, _, err = r.ChangeBatch(ctx, c); err == nil && changed.Refusal != job.Granted {
				err = changed.Refusal
			}
		}
	}
	if err == nil {
		_, _, err = r.MoveAll(ctx, job.Move{Op: job.Cancel, Batch: f.batches[cancelledBatch]})
	}
	if err != nil {
		return err
	}
	g := group
	g.Type = filledType
	_, receipt, err := r.Create(ctx, &job.Create{Groups: []job.Group{g}, Submission: &job.Submission{Name: "none", Paused: true}})
	if err != nil {
		return err
	}
	f.batches = append(f.batches, job.NewID(receipt.At, receipt.Seq, 0))
	if err := r.CatchUp(ctx, 0); err != nil {
		return err
	}
	want := []job.BatchStatus{completedBatch: job.BatchCompleted, failedBatch: job.BatchFailed, closedBatch: job.BatchInProgress, resumedBatch: job.BatchInProgress,
		cancelledBatch: job.BatchCancelled, pausedBatch: job.BatchPaused}
	for i, id := range f.batches {
		if doc, err := r.Queries().Batch(id); err != nil || doc.Status != want[i] {
			return fmt.Errorf("batch %d is %+v, and must be %v: %w", i, doc, want[i], err)
		}
	}
	return nil
}

// lostType is the type of the jobs that lost runners held.
const lostType = "lost"

// loseRunner lets a runner claim the first n jobs that lost runners held, and waits until the server has declared it lost
// and returned them. The runner sends its only heartbeat after its claim, so the loss covers the claim.
func (f *fixture) loseRunner(r *running, runner string, n int) error {
	ctx := context.Background()
	_, docs, _, err := r.Claim(ctx, job.Claim{Runner: runner, Max: n, MaxBytes: job.MaxClaimBytes, Types: []string{lostType}}, 0)
	if err != nil {
		return err
	}
	if len(docs) != n || docs[0].ID != f.jobs[f.lost] {
		return fmt.Errorf("%d jobs are handed out to a runner that is lost later", len(docs))
	}
	if _, _, err := r.Heartbeat(ctx, runner, registry.Info{Instance: "of " + runner}, false); err != nil {
		return err
	}
	return await(runner+" is declared lost", func() (bool, error) {
		if err := r.CatchUp(ctx, 0); err != nil {
			return false, err
		}
		doc, err := r.Queries().Job(docs[n-1].ID)
		return doc.Status != job.Active, err
	})
}

// queue returns the document of a queue, after everything is synced.
func (r *running) queue(client, typ string) (document.Queue, error) {
	if err := r.CatchUp(context.Background(), 0); err != nil {
		return document.Queue{}, err
	}
	return r.Queries().Queue(client, typ)
}

// wait waits until a queue of acme has n pending jobs.
func wait(r *running, typ string, n int64) error {
	return await(fmt.Sprintf("queue %s has %d pending jobs", typ, n), func() (bool, error) {
		q, err := r.queue("acme", typ)
		return err == nil && q.Counts[job.Pending] == n, err
	})
}

// waitIdle waits until a queue is deleted because it is idle.
func waitIdle(r *running, client, typ string) error {
	return await("the idle queue "+client+"/"+typ+" is deleted", func() (bool, error) {
		_, err := r.queue(client, typ)
		if errors.Is(err, job.QueueNotFound) {
			return true, nil
		}
		return false, err
	})
}

// putDocuments stores versions of a named document of each kind.
func putDocuments(ctx context.Context, r *running, client, name string, versions int) error {
	for kind := range job.DocumentKinds {
		for i := range versions {
			p := model.SomeDocument(kind, client, name, i)
			p.By = "anna"
			if _, _, err := r.PutDocument(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}
