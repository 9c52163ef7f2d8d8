package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// filledType is the only type of jobs in batches with attributes. Operators move them, as they do jobs of movedType.
const filledType = "filled"

// submission is a batch with attributes, as its producers remember it.
type submission struct {
	create *batch   // the create that made it
	parts  []*batch // creates that add jobs, in the order in which they were posted
	// The first end that was seen, in an answer or a document; 0: none. Its time may be unknown (0).
	ended   job.BatchStatus
	endedAt int64
}

// id returns the id of the batch, or zero if it is not known yet.
func (s *submission) id() job.ID { return s.create.first }

// fill makes batches with attributes, adds jobs to them, closes, resumes, ends and reads them, until the life ends.
func (s *server) fill(id int) {
	u := s.user(id)
	for u.rest(150 * time.Millisecond) {
		of := u.anySubmission()
		switch n := u.random.IntN(60); {
		case of == nil || n < 20:
			u.post(u.newSubmission())
		case n < 35:
			if !of.create.create.Submission.Open && u.random.IntN(3) > 0 {
				continue // most parts are for batches that were open once
			}
			u.post(u.part(of))
		case n < 41:
			u.changeBatch(of, job.CloseBatch)
		case n < 46:
			u.changeBatch(of, job.ResumeBatch)
		case n < 47:
			u.endSubmission(of, pick(u.random, job.Cancel, job.Cancel, job.Delete))
		default:
			u.readSubmission(of)
		}
	}
}

// anySubmission returns a submission whose id is known, usually one of the newest, or nil.
func (u *user) anySubmission() *submission {
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	var known []*submission
	for _, of := range a.submissions {
		if !of.id().IsZero() {
			known = append(known, of)
		}
	}
	if len(known) > 6 && u.random.IntN(6) > 0 {
		known = known[len(known)-6:]
	}
	if len(known) == 0 {
		return nil
	}
	return known[u.random.IntN(len(known))]
}

// filling makes a random create for a batch with attributes.
func (u *user) filling() *batch {
	b := u.unkeyed()
	u.makeMovable(b)
	b.create.Unique = nil
	b.create.Groups = b.create.Groups[:pick(u.random, 1, 1, len(b.create.Groups))]
	for i := range b.create.Groups {
		g := &b.create.Groups[i]
		if u.random.IntN(3) > 0 {
			g.ExpiresAt = 0
		}
		if u.random.IntN(2) == 0 {
			g.MaxAttempts = 1
		}
		g.Type, g.Lines = filledType, 1+u.random.IntN(pick(u.random, 1, 1, 3, 3, 20, 60))
	}
	if u.random.IntN(4) == 0 { // so many that no command can look at all of them
		g := b.create.Groups[0]
		b.create.Groups = nil
		for range 10 + u.random.IntN(60) {
			g.Lines, g.Priority = 1, pick(u.random, 7, 8, 9)
			b.create.Groups = append(b.create.Groups, g)
		}
	}
	if u.random.IntN(3) == 0 {
		b.create.Once = job.Once{Scope: "create", Key: b.tag}
	}
	return b
}

// newSubmission makes a create of a batch with attributes. Its name is its tag.
func (u *user) newSubmission() *batch {
	b := u.filling()
	c := &b.create
	if u.random.IntN(5) == 0 {
		c.Groups = c.Groups[:1]
		c.Groups[0].Lines, c.Frame = 0, job.NoFrame
	}
	c.Submission = &job.Submission{
		Name: b.tag, OnFailure: pick(u.random, job.Continue, job.CancelRest), ChunkSize: int64(u.random.IntN(3)),
		Open: u.random.IntN(2) == 0, Paused: u.random.IntN(4) == 0,
	}
	if u.random.IntN(2) == 0 {
		c.Submission.Metadata = []byte(u.text())
	}
	if u.random.IntN(2) == 0 {
		meta, err := job.NewBatchMeta(map[string]job.MetaValue{"user": {Text: b.tag}})
		if err != nil {
			panic(err)
		}
		c.Submission.Meta = meta
	}
	u.addPayloads(b)
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	b.of = &submission{create: b}
	a.submissions = append(a.submissions, b.of)
	return b
}

// part makes a create that adds jobs to a batch, whether or not the batch is open.
func (u *user) part(of *submission) *batch {
	b := u.filling()
	u.addPayloads(b)
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	b.create.Into, b.of = of.id(), of
	of.parts = append(of.parts, b)
	return b
}

// changeBatch closes or resumes a batch.
func (u *user) changeBatch(of *submission, op job.BatchOp) {
	c := job.ChangeBatch{Op: op, Batch: of.id()}
	answer, receipt, err := send(u, u.s.engine.ChangeBatch, c)
	u.unexpected(c.Verb(), err)
	u.s.log("%s %v: %v, %+v, %v", c.Verb(), c.Batch, receipt, answer, err)
	if err == nil {
		u.w.account.answered(u.key, receipt, c, &answer)
		u.violated(u.w.account.ended(of, answer.Status, 0))
	}
}

// endSubmission cancels or deletes a whole batch.
func (u *user) endSubmission(of *submission, op job.Op) {
	m := job.Move{Op: op, Batch: of.id()}
	answer, receipt, err := send(u, u.s.engine.MoveAll, m)
	u.unexpected(m.Verb(), err)
	u.s.log("%s of the whole batch %v: %v, %+v, %v", m.Verb(), m.Batch, receipt, answer, err)
	if err == nil {
		u.w.account.answered(u.key, receipt, m, &answer)
		u.violated(u.w.account.ended(of, answer.Status, 0))
	}
}

// readSubmission reads the document of a batch. If the batch has ended, this must be the end that was seen first.
func (u *user) readSubmission(of *submission) {
	var doc document.Batch
	err := u.request(func(ctx context.Context) (err error) {
		if err = u.s.engine.CatchUp(ctx, 0); err == nil {
			doc, err = u.s.engine.Queries().Batch(of.id())
		}
		return err
	})
	if errors.Is(err, job.BatchNotFound) {
		return // it is no longer kept, or lost: verify checks which
	}
	u.unexpected("read a batch", err)
	if err != nil {
		return
	}
	if !doc.Status.Ended() && of.ended != 0 {
		err = fmt.Errorf("batch %v was %v since %d, and reads as %+v", of.id(), of.ended, of.endedAt, doc)
	}
	u.violated(errors.Join(err, u.w.account.ended(of, doc.Status, doc.EndedAt)))
}

func (u *user) violated(err error) {
	if err != nil {
		u.w.violation(err)
	}
}

// isFilled reports whether a job belongs to a batch with attributes.
func (a *account) isFilled(id job.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.batchOf(id)
	return b != nil && b.of != nil
}

// ended records the status of a batch in an answer; see sawEnd.
func (a *account) ended(of *submission, status job.BatchStatus, at int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sawEnd(of, status, at)
}

// sawEnd records that a batch has ended, if the status says so. An earlier answer cannot show another end. The caller
// holds a.mu.
func (a *account) sawEnd(of *submission, status job.BatchStatus, at int64) error {
	if !status.Ended() {
		return nil
	}
	if of.ended != 0 && (of.ended != status || at != 0 && of.endedAt != 0 && of.endedAt != at) {
		return fmt.Errorf("batch %v was %v since %d, and now is %v since %d", of.id(), of.ended, of.endedAt, status, at)
	}
	if of.ended == 0 {
		a.figures.sawEnd(of, status)
	}
	of.ended = status
	of.endedAt = max(of.endedAt, at)
	return nil
}
