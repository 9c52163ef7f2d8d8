package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

// unfinished returns a job that has not ended.
func (s *server) unfinished() (doc job.Job) {
	a := s.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tag := range a.tags() {
		for line := range a.batches[tag].payloads {
			doc, err := s.engine.Queries().Job(a.batches[tag].id.WithLine(line))
			if err == nil && !doc.Status.Terminal() {
				return doc
			}
		}
	}
	return doc
}

// finish completes all jobs while nothing fails any more. Everything that was acknowledged must end.
func (s *server) finish() error {
	ctx := context.Background()
	a := s.w.account
	for _, client := range []string{"acme", "default"} { // tenants pause nothing
		for _, typ := range []string{"resize", "mail", movedType, filledType, briefType} {
			answer, receipt, err := s.engine.Pause(ctx, job.Pause{Client: client, Type: typ})
			if err != nil {
				return fmt.Errorf("resume: %w", err)
			}
			a.answered(nil, receipt, job.Pause{Client: client, Type: typ}, &answer)
		}
	}
	if answer, receipt, err := s.engine.Switch(ctx, job.Switch{}); err != nil {
		return fmt.Errorf("start: %w", err)
	} else {
		a.answered(nil, receipt, job.Switch{}, &answer)
	}
	if err := errors.Join(s.runSetAside(ctx), s.completeSubmissions(ctx)); err != nil {
		return err
	}
	// Leases, backoffs and run_at are a few seconds. If no job can be claimed for a minute of journal time, the jobs will
	// never end.
	idle, turn := 0, 0
	for idle < 240 {
		counts := s.engine.Queries().Totals().Counts
		if counts[job.Deferred]+counts[job.Pending]+counts[job.Active] == 0 {
			break
		}
		c := job.Claim{Runner: "finisher", Max: 100, MaxBytes: job.MaxClaimBytes, Types: []string{"resize", "mail", briefType}}
		if turn++; turn%2 == 0 {
			c.Types = []string{movedType, filledType}
		}
		claimed, docs, receipt, err := s.claim(ctx, c, 500*time.Millisecond)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if err := a.claimed(nil, receipt, c, claimed, docs); err != nil {
			return err
		}
		if len(docs) == 0 {
			idle++
			continue
		}
		idle = 0
		end := job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}
		answer, receipt, err := s.engine.Complete(ctx, end)
		if err != nil {
			return fmt.Errorf("complete: %w", err)
		}
		if err := a.completed(nil, receipt, end, answer); err != nil {
			return err
		}
	}
	if counts := s.engine.Queries().Totals().Counts; counts[job.Deferred]+counts[job.Pending]+counts[job.Active] > 0 {
		return fmt.Errorf("some jobs cannot be claimed: %v, such as %+v; journal time %d, %+v", counts, s.unfinished(), s.engine.Now(), s.engine.Stats())
	}
	if err := s.deleteQueues(ctx); err != nil {
		return err
	}
	return errors.Join(s.verify(), s.allEnded())
}

// allEnded checks that all batches with attributes have ended.
func (s *server) allEnded() error {
	for _, of := range s.w.reference.m.Submissions {
		if !of.Ended() {
			return fmt.Errorf("batch %v has not ended, and must have by now: %+v", of.ID, of.Document())
		}
	}
	return nil
}

// completeSubmissions closes all batches with attributes, and resumes those that are paused.
func (s *server) completeSubmissions(ctx context.Context) error {
	for _, of := range s.w.account.submissions {
		if of.id().IsZero() {
			continue
		}
		for _, op := range []job.BatchOp{job.ResumeBatch, job.CloseBatch} {
			c := job.ChangeBatch{Op: op, Batch: of.id()}
			answer, receipt, err := s.engine.ChangeBatch(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Verb(), err)
			}
			s.w.account.answered(nil, receipt, c, &answer)
			if err := s.w.account.ended(of, answer.Status, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// runSetAside runs all jobs that were set aside as damaged.
func (s *server) runSetAside(ctx context.Context) error {
	if err := s.engine.CatchUp(ctx, 0); err != nil {
		return fmt.Errorf("list deferred jobs: %w", err)
	}
	for f := (query.Filter{Status: job.Deferred, Limit: 1000, Parts: query.Details}); ; {
		docs, next, err := s.engine.Queries().List(f)
		if err != nil {
			return fmt.Errorf("list deferred jobs: %w", err)
		}
		for i := range docs {
			if docs[i].Code != job.Damaged {
				continue
			}
			m := job.Move{Op: job.Run, Job: docs[i].ID}
			moved, receipt, err := s.engine.Move(ctx, m)
			if err != nil {
				return fmt.Errorf("run: %w", err)
			}
			s.w.account.answered(nil, receipt, m, &moved)
		}
		if f.After = next; next.IsZero() {
			return nil
		}
	}
}

// deleteQueues deletes the queues whose jobs have all been purged.
func (s *server) deleteQueues(ctx context.Context) error {
	time.Sleep(10 * time.Second) // ten times their retention
	for _, client := range []string{"acme", "default"} {
		d := job.DeleteQueue{Client: client, Type: briefType}
		answer, receipt, err := s.engine.DeleteQueue(ctx, d)
		if err != nil {
			return fmt.Errorf("delete queue: %w", err)
		}
		if answer.Refusal != job.Granted && answer.Refusal != job.QueueNotFound {
			return fmt.Errorf("queue %s/%s cannot be deleted, although all of its jobs should be purged by now: %w", client, briefType, answer.Refusal)
		}
		s.w.account.answered(nil, receipt, d, &answer)
	}
	return nil
}
