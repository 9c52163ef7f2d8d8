package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/client"
)

// This file has the steps of an errand about batches with attributes. It creates an open batch of two jobs, adds two
// more, and ends it in one of four ways. The ended batch must not change until the next errand of this kind, nor at the
// end. The steps need no random numbers.

// ownBatch is the batch of this errand.
type ownBatch struct {
	batches    int // batches so far
	batch      string
	batchJobs  []string // in the order of lines
	batchClaim string
	ends       batchEnd // its state after its end; without a status: there is no ended batch
}

// batchEnd is the part of a batch that must not change after its end.
type batchEnd struct {
	status, failed string
	endedAt        int64
	results        []string
}

// The ways in which these batches end.
const (
	batchCompletes = iota // all jobs complete, and then it is closed
	batchFails            // one job fails, the other jobs complete, and then it is closed
	batchStops            // cancel_rest: one job fails, which ends it and cancels two
	batchCancelled        // a request cancels it after two jobs have completed
	batchWays
)

func (e *errands) batchType() string { return e.name + "-batch" }

func (e *errands) batchWay() int { return e.batches % batchWays }

// batchStatus returns the status with which the batch ends.
func (e *errands) batchStatus() string {
	return []string{batchCompletes: "completed", batchFails: "failed", batchStops: "failed", batchCancelled: "cancelled"}[e.batchWay()]
}

func (e *errands) batchSteps() []step {
	return []step{
		e.readEndedBatch(), e.deleteBatch(), e.createBatch(), e.readOpenBatch(2), e.resumeBatch(), e.addToBatch(), e.readOpenBatch(4),
		e.claimOfBatch(2), e.completeOfBatch(true), e.endBatch(), e.readEndedBatch(), e.addToEndedBatch(),
	}
}

func (e *errands) batchJob(line int) client.NewJob {
	j := client.TextJob(e.batchType(), fmt.Sprintf("line %d of %d", line, e.batches))
	j.LeaseMs = ownLeaseMs
	return j
}

func (e *errands) batchMetadata() []byte { return fmt.Appendf(nil, "about %d \x00\xff", e.batches) }

// createBatch creates an open batch of two jobs, twice with the same key. Every other batch is paused.
func (e *errands) createBatch() step {
	return step{"create a batch", func(ctx context.Context) error {
		if e.batch == "" {
			e.batches++
		}
		b := client.NewBatch{
			Name: fmt.Sprint(e.name, " ", e.batches), Meta: map[string]any{"errand": e.batches}, Metadata: e.batchMetadata(), OnFailure: client.Continue,
			Open: true, Paused: e.batches/batchWays%2 == 0, Key: fmt.Sprintf("%s batch %d", e.name, e.batches),
		}
		if e.batchWay() == batchStops {
			b.OnFailure = client.CancelRest
		}
		e.batch = "under way"
		first, err := e.c.CreateBatch(ctx, b, []client.NewJob{e.batchJob(0), e.batchJob(1)})
		if err != nil {
			return err
		}
		again, err := e.c.CreateBatch(ctx, b, []client.NewJob{e.batchJob(0), e.batchJob(1)})
		if err != nil {
			return err
		}
		if first.BatchID != again.BatchID || first.Count != 2 || first.FirstID != first.BatchID || again.LastID != first.LastID {
			return impossiblef("the create of a batch was answered with %+v, and its repeat with %+v", first, again)
		}
		e.batch, e.batchJobs, e.ends = first.BatchID, []string{first.FirstID, first.LastID}, batchEnd{}
		return nil
	}}
}

// addToBatch adds two jobs, twice with the same key.
func (e *errands) addToBatch() step {
	return step{"add to a batch", func(ctx context.Context) error {
		o := client.CreateOptions{Key: fmt.Sprintf("%s part %d", e.name, e.batches)}
		jobs := []client.NewJob{e.batchJob(2), e.batchJob(3)}
		first, err := e.c.AddToBatch(ctx, e.batch, jobs, o)
		if err != nil {
			return err
		}
		again, err := e.c.AddToBatch(ctx, e.batch, jobs, o)
		if err != nil {
			return err
		}
		if first.BatchID != e.batch || first.Count != 2 || again.FirstID != first.FirstID || again.LastID != first.LastID || slices.Contains(e.batchJobs, first.FirstID) {
			return impossiblef("an addition to batch %s was answered with %+v, and its repeat with %+v", e.batch, first, again)
		}
		e.batchJobs = append(e.batchJobs, first.FirstID, first.LastID)
		return nil
	}}
}

// readOpenBatch reads the batch, none of whose jobs has ended.
func (e *errands) readOpenBatch(jobs int64) step {
	return step{"read an open batch", func(ctx context.Context) error {
		doc, err := e.c.Batch(ctx, e.batch)
		if err != nil {
			return e.notLost(err)
		}
		status := "in_progress"
		if jobs == 2 && e.batches/batchWays%2 == 0 {
			status = "paused"
		}
		if doc.Status != status || !doc.Open || doc.Count != jobs || doc.Counts["pending"]+doc.Counts["deferred"] != jobs || doc.Name != fmt.Sprint(e.name, " ", e.batches) {
			return impossiblef("batch %s must be %s and open, with %d jobs that wait: %+v", e.batch, status, jobs, doc)
		}
		metadata, err := e.c.BatchMetadata(ctx, e.batch)
		if err == nil && !bytes.Equal(metadata, e.batchMetadata()) {
			err = impossiblef("batch %s has the metadata %q", e.batch, metadata)
		}
		return err
	}}
}

func (e *errands) notLost(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return impossiblef("batch %s is lost", e.batch)
	}
	return err
}

// resumeBatch checks that it can claim nothing while the batch is paused, and resumes the batch.
func (e *errands) resumeBatch() step {
	resumed := false // or an earlier try has resumed it
	return step{"resume a batch", func(ctx context.Context) error {
		if e.batches/batchWays%2 != 0 {
			return nil
		}
		if !resumed {
			got, err := e.c.Claim(ctx, client.ClaimRequest{RunnerID: e.name, Types: []string{e.batchType()}})
			if err != nil || got != nil {
				return impossibleUnless(err, "batch %s is paused, and the claim %+v hands out its jobs", e.batch, got)
			}
			resumed = true
		}
		doc, err := e.c.ResumeBatch(ctx, e.batch)
		if err == nil && doc.Status != "in_progress" {
			err = impossiblef("batch %s is resumed, and is %+v", e.batch, doc)
		}
		return err
	}}
}

// impossibleUnless returns err, or an impossible error if err is nil.
func impossibleUnless(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return impossiblef(format, args...)
}

// claimOfBatch claims n jobs of the batch, and must get all of them.
func (e *errands) claimOfBatch(n int) step {
	return e.underNumber("claim jobs of a batch", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		got, err := c.Claim(ctx, client.ClaimRequest{RunnerID: e.name, Types: []string{e.batchType()}, Max: n})
		if err != nil {
			return "", err
		}
		from := 0
		if got != nil && len(got.Jobs) > 0 {
			from = max(0, slices.Index(e.batchJobs, got.Jobs[0].ID))
		}
		if got == nil || len(got.Jobs) != n {
			return "", impossiblef("claim of %d jobs of batch %s: %+v", n, e.batch, got)
		}
		for i, j := range got.Jobs {
			if j.ID != e.batchJobs[from+i] || j.BatchID != e.batch || string(j.Payload) != string(e.batchJob(from+i).Payload) || j.Meta["errand"] != fmt.Sprint(e.batches) {
				return "", impossiblef("the claim of jobs of batch %s, which are %s, hands out %+v", e.batch, e.batchJobs, *j)
			}
		}
		e.batchClaim = got.ID
		return got.ID, nil
	}, nil)
}

// completeOfBatch ends the two jobs of the claim. With first, one of them fails if the batch is to fail.
func (e *errands) completeOfBatch(first bool) step {
	return e.underNumber("complete jobs of a batch", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		ids := e.batchJobs[:2]
		if !first {
			ids = e.batchJobs[2:]
		}
		var outcomes []client.JobOutcome
		want := []string{"completed", "completed"}
		for _, id := range ids {
			outcomes = append(outcomes, client.JobOutcome{JobID: id, Outcome: client.TextOutput("of " + id)})
		}
		if way := e.batchWay(); first && (way == batchFails || way == batchStops) {
			outcomes[1].Outcome, want[1] = client.Outcome{Code: "failed", Error: "of " + ids[1]}, "failed"
		}
		results, err := c.CompleteMany(ctx, e.batchClaim, outcomes)
		if err != nil {
			return "", err
		}
		if len(results) != 2 || results[0].Status != want[0] || results[1].Status != want[1] {
			return "", impossiblef("the outcomes of two jobs of batch %s were answered with %+v", e.batch, results)
		}
		return fmt.Sprint(want), nil
	}, nil)
}

// endBatch ends the batch in its way, and reads its end.
func (e *errands) endBatch() step {
	return step{"end a batch", func(ctx context.Context) error {
		next := []step{e.stillOpen(), e.claimOfBatch(2), e.completeOfBatch(false), e.stillOpen(), e.closeBatch()}
		switch e.batchWay() {
		case batchStops:
			next = nil
		case batchCancelled:
			next = []step{e.stillOpen(), e.cancelBatch()}
		}
		next = append(next, e.claimNothingOfBatch(), e.batchEnds())
		e.todo = append([]step{e.todo[0]}, append(next, e.todo[1:]...)...)
		return nil
	}}
}

// stillOpen reads the batch, which must not have ended before it is closed.
func (e *errands) stillOpen() step {
	return step{"read a batch that is open", func(ctx context.Context) error {
		doc, err := e.c.Batch(ctx, e.batch)
		if err == nil && (doc.Status != "in_progress" || !doc.Open || doc.EndedAt != 0) {
			err = impossiblef("batch %s is open, and reads as %+v", e.batch, doc)
		}
		return e.notLost(err)
	}}
}

func (e *errands) closeBatch() step {
	return step{"close a batch", func(ctx context.Context) error {
		doc, err := e.c.CloseBatch(ctx, e.batch)
		if err == nil && (doc.Status != e.batchStatus() || doc.Open) {
			err = impossiblef("batch %s, which must be %s, is closed as %+v", e.batch, e.batchStatus(), doc)
		}
		return err
	}}
}

func (e *errands) cancelBatch() step {
	return step{"cancel a batch", func(ctx context.Context) error {
		_, err := e.c.CancelBatch(ctx, e.batch, "")
		return err
	}}
}

// claimNothingOfBatch claims from the queue of the ended batch, and must get no job.
func (e *errands) claimNothingOfBatch() step {
	return step{"claim from a batch that has ended", func(ctx context.Context) error {
		got, err := e.c.Claim(ctx, client.ClaimRequest{RunnerID: e.name, Types: []string{e.batchType()}})
		if err == nil && got != nil {
			err = impossiblef("batch %s has ended, and the claim %+v hands out %+v", e.batch, *got, *got.Jobs[0])
		}
		return err
	}}
}

// batchEnds waits until all jobs of the batch have ended, and records its end.
func (e *errands) batchEnds() step {
	return step{"read the end of a batch", func(ctx context.Context) error {
		end, err := e.endOfBatch(ctx, true)
		if err != nil {
			return err
		}
		second := []string{batchCompletes: "completed", batchFails: "failed", batchStops: "failed", batchCancelled: "completed"}[e.batchWay()]
		rest := []string{batchCompletes: "completed", batchFails: "completed", batchStops: "cancelled", batchCancelled: "cancelled"}[e.batchWay()]
		want := batchEnd{status: e.batchStatus(), endedAt: end.endedAt}
		for line, status := range []string{"completed", second, rest, rest} {
			id, text := e.batchJobs[line], ""
			if status != "cancelled" {
				text = "of " + e.batchJobs[line]
			}
			if status == "failed" {
				want.failed = id
			}
			want.results = append(want.results, fmt.Sprintf("%d %s %s %s", line, id, status, text))
		}
		if end.endedAt == 0 || !end.is(want) {
			return impossiblef("batch %s must have ended as %+v, and has as %+v", e.batch, want, end)
		}
		e.ends = end
		return nil
	}}
}

// endOfBatch reads the document and the results of the batch.
func (e *errands) endOfBatch(ctx context.Context, follow bool) (end batchEnd, err error) {
	bounded, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	for r, err := range e.c.Results(bounded, e.batch, client.ResultsQuery{Follow: follow}) {
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			return end, undecided("the results of batch %s have not ended after %v: %q", e.batch, e.patience, end.results)
		}
		if err != nil {
			return end, e.notLost(err)
		}
		end.results = append(end.results, fmt.Sprintf("%d %s %s %s%s", r.Line, r.JobID, r.Status, r.Output, r.Error))
	}
	doc, err := e.c.Batch(ctx, e.batch)
	if err != nil {
		return end, e.notLost(err)
	}
	end.status, end.failed, end.endedAt = doc.Status, doc.FailedJobID, doc.EndedAt
	return end, nil
}

func (b batchEnd) is(other batchEnd) bool {
	return b.status == other.status && b.failed == other.failed && b.endedAt == other.endedAt && slices.Equal(b.results, other.results)
}

// readEndedBatch reads the ended batch, which must not have changed since.
func (e *errands) readEndedBatch() step {
	return step{"read a batch that has ended", func(ctx context.Context) error {
		if e.ends.status == "" {
			return nil
		}
		end, err := e.endOfBatch(ctx, false)
		if err == nil && !end.is(e.ends) {
			err = impossiblef("batch %s had ended as %+v, and now is %+v", e.batch, e.ends, end)
		}
		return err
	}}
}

// addToEndedBatch adds a job to the ended batch, and resumes it. The server must refuse both.
func (e *errands) addToEndedBatch() step {
	return step{"add to a batch that has ended", func(ctx context.Context) error {
		added, err := e.c.AddToBatch(ctx, e.batch, []client.NewJob{e.batchJob(4)}, client.CreateOptions{})
		if err == nil || !refusedWith(err, "batch_ended") {
			return impossibleUnless(err, "batch %s has ended, and %+v was added", e.batch, added)
		}
		doc, err := e.c.ResumeBatch(ctx, e.batch)
		if err == nil || !refusedWith(err, "batch_ended") {
			return impossibleUnless(err, "batch %s has ended, and was resumed as %+v", e.batch, doc)
		}
		return nil
	}}
}

func refusedWith(err error, code string) bool {
	var refused *client.Error
	return errors.As(err, &refused) && strings.HasPrefix(refused.Code, code)
}

// deleteBatch deletes the ended batch, with its jobs.
func (e *errands) deleteBatch() step {
	deleted := false // and the step may be repeated, since the read after the delete may get no answer
	s := e.removes("delete a batch", func(ctx context.Context) error {
		_, err := e.once.DeleteBatch(ctx, e.batch, "")
		return err
	}, func() bool { return deleted }, func() { deleted = true })
	return step{s.what, func(ctx context.Context) error {
		if e.batch == "" {
			return nil
		}
		if err := s.do(ctx); err != nil {
			return err
		}
		if doc, err := e.c.Batch(ctx, e.batch); !errors.Is(err, client.ErrNotFound) {
			return impossibleUnless(err, "batch %s was deleted, and reads as %+v", e.batch, doc)
		}
		e.batch, e.ends = "", batchEnd{}
		return nil
	}}
}
