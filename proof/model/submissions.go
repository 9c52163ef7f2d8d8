package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// Submission is a batch with attributes.
type Submission struct {
	ID           job.ID
	seq          uint64
	at           int64
	Client, Type string
	RetentionMs  int64
	job.Submission
	Status   job.BatchStatus
	IsOpen   bool
	Deleting bool
	Lines    int64
	queues   []*Queue   // of all jobs that it ever had
	Parts    []*Batch   // that are not purged
	purged   job.Counts // jobs that are purged, by their last status
	holes    int64      // lines that made no job
	failed   job.ID
	endedAt  int64
}

func (s *Submission) Ended() bool { return s != nil && s.Status.Ended() }

func (s *Submission) eachJob(visit func(j *Job)) {
	for _, b := range s.Parts {
		for _, j := range b.Lines {
			if j.Status != job.Purged {
				visit(j)
			}
		}
	}
}

func (s *Submission) Counts() (counts job.Counts) {
	s.eachJob(func(j *Job) { counts[j.Status]++ })
	for _, n := range s.purged {
		counts[job.Purged] += n
	}
	counts[job.Purged] += s.holes
	return counts
}

// rest returns the jobs that a step over the submission has yet to move.
func (s *Submission) rest() (jobs []*Job) {
	s.eachJob(func(j *Job) {
		if s.Deleting || s.Ended() && j.Unfinished() || !s.Ended() && s.Status != job.BatchPaused && j.heldBack && j.Status == job.Deferred && j.runAt == job.MaxTimeMs {
			jobs = append(jobs, j)
		}
	})
	return jobs
}

func (m *Model) Submission(id job.ID) *Submission {
	for _, s := range m.Submissions {
		if s.ID == id && !s.Deleting {
			return s
		}
	}
	return nil
}

// submissionOf returns the submission that a create makes or adds jobs to, or nil.
func (m *Model) submissionOf(c *job.Create) (*Submission, job.Refusal) {
	if !c.Into.IsZero() {
		s := m.submissionInScope(c.Into)
		switch {
		case s == nil:
			return nil, job.BatchNotFound
		case s.Ended():
			return nil, job.BatchEnded
		case !s.IsOpen:
			return nil, job.BatchClosed
		}
		s.Lines += int64(c.Lines())
		return s, job.Granted
	}
	if c.Submission == nil {
		return nil, job.Granted
	}
	g := &c.Groups[0]
	s := &Submission{
		ID: job.NewID(m.At, m.Seq, 0), seq: m.Seq, at: m.At, Client: g.Client, Type: g.Type, RetentionMs: g.RetentionMs, Submission: *c.Submission,
		Status: job.BatchInProgress, IsOpen: c.Submission.Open, Lines: int64(c.Lines()),
	}
	if c.Submission.Paused {
		s.Status = job.BatchPaused
	}
	m.Submissions = append(m.Submissions, s)
	return s, job.Granted
}

func (m *Model) noteFailed(j *Job) {
	if j.Status != job.Failed {
		return
	}
	if failed := m.failedOf(j.Batch); failed.IsZero() {
		*failed = j.ID
	}
}

func (m *Model) noteRedriven(j *Job) {
	for _, failed := range []*job.ID{&j.Batch.failed, m.failedOf(j.Batch)} {
		if j.Status == job.Failed && *failed == j.ID {
			*failed = job.ID{}
		}
	}
}

func (m *Model) failedOf(b *Batch) *job.ID {
	if b.Submission != nil {
		return &b.Submission.failed
	}
	return &b.failed
}

func (m *Model) notePurged(j *Job) {
	if of := j.Batch.Submission; of != nil {
		of.purged[j.last]++
	} else if !j.Batch.Joined {
		j.Batch.lost[j.last]++
	}
}

// unfinishedBatches returns the batches with unfinished jobs.
func (m *Model) unfinishedBatches() map[*Batch]bool {
	unfinished := map[*Batch]bool{}
	for _, b := range m.Batches {
		if slices.ContainsFunc(b.Lines, (*Job).Unfinished) {
			unfinished[b] = true
		}
	}
	return unfinished
}

// noteBatchEnds records when the last job of a standalone batch has ended.
func (m *Model) noteBatchEnds(before map[*Batch]bool) {
	now := m.unfinishedBatches()
	for _, b := range m.Batches {
		if now[b] {
			b.endedAt = 0
		} else if before[b] {
			b.endedAt = m.At
		}
	}
}

// settleStatuses gives submissions their final status if their jobs have ended, or if one failed.
func (m *Model) settleStatuses() {
	for _, s := range m.Submissions {
		if s.Ended() {
			continue
		}
		counts := s.Counts()
		failed := counts[job.Failed] + s.purged[job.Failed]
		completed := counts[job.Completed] + s.purged[job.Completed]
		unfinished := counts[job.Deferred] + counts[job.Pending] + counts[job.Active]
		jobs := s.Lines - s.holes
		switch {
		case failed > 0 && s.OnFailure == job.CancelRest:
			m.endSubmission(s, job.BatchFailed)
		case s.IsOpen || unfinished > 0 || s.Status == job.BatchPaused && jobs == 0:
		case failed > 0:
			m.endSubmission(s, job.BatchFailed)
		case completed < jobs:
			m.endSubmission(s, job.BatchCancelled)
		default:
			m.endSubmission(s, job.BatchCompleted)
		}
	}
}

func (m *Model) endSubmission(s *Submission, status job.BatchStatus) {
	s.Status, s.endedAt, s.IsOpen = status, m.At, false
}

// settle ends submissions and the jobs that moves name. If moves is nil, it ends all of their jobs.
func (m *Model) settle(moves []Move) {
	m.settleStatuses()
	if moves == nil {
		for _, s := range m.Submissions {
			for _, j := range s.rest() {
				m.takeRest(j)
			}
		}
		return
	}
	for _, e := range moves {
		if j := m.Jobs[e.ID]; j != nil && m.restMoves(e) {
			m.takeRest(j)
		}
	}
}

// restMoves reports whether a move is the work of a step over a submission, on a job that the step has yet to move.
func (m *Model) restMoves(e Move) bool {
	j := m.Jobs[e.ID]
	if j == nil || j.Batch.Submission == nil || !slices.Contains(j.Batch.Submission.rest(), j) {
		return false
	}
	switch s := j.Batch.Submission; {
	case s.Deleting:
		return e.Why == job.ReasonDeleted
	case s.Ended():
		return e.Why == job.ReasonCancelled
	}
	return e.Why == job.ReasonStarted
}

func (m *Model) takeRest(j *Job) {
	if j.Batch.Submission.Ended() {
		m.endRest(j)
	} else {
		m.letGo(j)
	}
}

// endRest cancels a job whose submission has ended, or deletes it with its submission.
func (m *Model) endRest(j *Job) {
	if j.Batch.Submission.Deleting {
		j.code = job.NoCode
		m.purge(j)
	} else {
		m.cancel(j)
	}
}

// letGo gives a job of a batch that was resumed the status of a new job.
func (m *Model) letGo(j *Job) {
	if j.heldBack = false; j.Attr.RunAt > m.At {
		j.runAt, j.movedAt = j.Attr.RunAt, m.At
		return
	}
	m.makePending(j)
}

func (m *Model) changeBatch(cmd job.ChangeBatch) applied.Result {
	s := m.submissionInScope(cmd.Batch)
	if b := m.batchInScope(cmd.Batch); s == nil && b != nil {
		if status := m.BatchDocument(b).Status; cmd.Op == job.CloseBatch || !status.Ended() {
			return &applied.BatchChanged{Status: status}
		}
		return &applied.BatchChanged{Refusal: job.BatchEnded}
	}
	switch {
	case s == nil:
		return &applied.BatchChanged{Refusal: job.BatchNotFound}
	case cmd.Op == job.CloseBatch:
		s.IsOpen = false
	case s.Ended():
		return &applied.BatchChanged{Refusal: job.BatchEnded}
	case s.Status == job.BatchPaused:
		s.Status = job.BatchInProgress
	}
	m.settleStatuses()
	return &applied.BatchChanged{Status: s.Status}
}

// endByRequest cancels or deletes a submission. moves say which jobs the command itself moved.
func (m *Model) endByRequest(s *Submission, op job.Op, moves []Move) applied.Result {
	switch {
	case op == job.Cancel && s.Status == job.BatchCancelled:
		return &applied.Swept{Status: s.Status}
	case op == job.Cancel && s.Ended():
		return &applied.Swept{Refusal: job.BatchEnded}
	}
	if s.Deleting = op == job.Delete; !s.Ended() {
		m.endSubmission(s, job.BatchCancelled)
	}
	had := len(s.rest())
	m.settle(moves)
	return &applied.Swept{Status: s.Status, Moved: int64(had - len(s.rest()))}
}

// Forget deletes the batches with attributes that a store need not keep.
func (m *Model) Forget() {
	m.Submissions = slices.DeleteFunc(m.Submissions, m.mayForget)
}

func (m *Model) mayForget(s *Submission) bool {
	return s.Ended() && len(s.Parts) == 0 && (s.Deleting || s.endedAt+s.RetentionMs <= m.At)
}

// forgetSubmissions deletes the batches with attributes that a store has deleted. Only a tick could delete one that must
// be kept.
func (m *Model) forgetSubmissions(has func(id job.ID) bool, tick bool) (err error) {
	m.Submissions = slices.DeleteFunc(m.Submissions, func(s *Submission) bool {
		may := m.mayForget(s)
		if s.Deleting { // nobody can read it
			return may
		}
		if !may && !tick {
			return false
		}
		there := has(s.ID)
		if !there && !may {
			err = errors.Join(err, fmt.Errorf("batch %v is gone, and must be kept: %+v", s.ID, s))
		}
		return !there
	})
	return err
}

func (s *Submission) Document() document.Batch {
	counts := s.Counts()
	doc := document.Batch{
		ID: s.ID, CreatedAt: s.at, Lines: s.Lines, Counts: counts, Status: s.Status, Jobs: s.Lines - s.holes, EndedAt: s.endedAt, Failed: s.failed,
	}
	doc.Ended = doc.Jobs - counts[job.Deferred] - counts[job.Pending] - counts[job.Active]
	if !slices.ContainsFunc(s.Parts, func(b *Batch) bool { return b.ID == s.failed.WithLine(0) }) {
		doc.Failed = job.ID{}
	}
	return doc
}

// Results returns the jobs of a batch that have ended before the first one that has not, in the order of their lines, and
// the id of that one.
func (s *Submission) Results() (ended []*Job, wait job.ID) {
	for _, b := range s.Parts {
		for _, j := range b.Lines {
			if j.Unfinished() {
				return ended, j.ID
			}
			if j.Status != job.Purged {
				ended = append(ended, j)
			}
		}
	}
	return ended, wait
}
