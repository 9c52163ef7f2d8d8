package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// settleSubmissions ends the submissions whose jobs have ended, and deletes the submissions that are not kept any
// longer.
func (a *Applying) settleSubmissions() {
	for len(a.counted) > 0 {
		last := len(a.counted) - 1
		s := a.counted[last]
		a.counted = a.counted[:last]
		s.Counted = false
		switch {
		case s.Gone:
		case s.Status.Ended():
			a.forgetIfDue(s)
		case s.Had(job.Failed) > 0 && s.OnFailure == job.CancelRest:
			a.endSubmission(s, job.BatchFailed)
		case !s.StillOpen && s.Unfinished() == 0 && (s.Status != job.BatchPaused || s.Jobs() > 0):
			a.endSubmission(s, job.BatchStatusOf(s.Had(job.Failed), s.Jobs()-s.Had(job.Completed)-s.Had(job.Failed)))
		}
	}
}

// setBatchStatus changes the status of a submission.
func (a *Applying) setBatchStatus(s *row.Submission, status job.BatchStatus) {
	a.O.Delete(row.BatchStatusKey(s.Status, s.Seq))
	a.countStatus(s, s.Status, status)
	s.Status = status
	a.O.Set(row.BatchStatusKey(s.Status, s.Seq), nil)
	a.touchSubmission(s)
	a.Ends.Ended(BatchEnd(s.Seq))
}

// endSubmission gives a submission its final status, and cancels its unfinished jobs.
func (a *Applying) endSubmission(s *row.Submission, status job.BatchStatus) {
	a.setBatchStatus(s, status)
	s.StillOpen, s.EndedAt = false, a.Now.At
	a.BatchEnds.Add(s)
	a.SetTimer(row.TimerKey(s.EndedAt+s.RetentionMs, row.BatchTimer, s.Seq, 0, 0))
	if s.Unfinished() > 0 {
		a.beginRest(s)
	}
}

// beginRest begins to look at all jobs of a submission, and takes as much of the first step as the command has room
// for.
func (a *Applying) beginRest(s *row.Submission) {
	if s.Rest != 0 {
		a.DeleteTimer(row.TimerKey(s.RestAt, row.RestTimer, s.Seq, 0, 0))
	}
	s.Rest = 1
	before := a.O.Writes()
	a.stepSubmission(s, a.RestRows)
	a.RestRows -= min(a.RestRows, a.O.Writes()-before)
	a.continueRest(s, a.Now.At)
}

// continueRest sets a timer for a tick that looks at the remaining jobs.
func (a *Applying) continueRest(s *row.Submission, at int64) {
	if s.RestAt = 0; s.Rest != 0 && !s.Gone {
		s.RestAt = at
		a.SetTimer(row.TimerKey(at, row.RestTimer, s.Seq, 0, 0))
	}
	a.touchSubmission(s)
}

// resumeRest takes the next step of a submission whose timer is first, and returns about how many rows that wrote. It
// moves the timer after everything that is due, so that leases and retention are handled in between.
func (a *Applying) resumeRest(seq uint64, rows int) int {
	a.DeleteTimer(a.timers.First(&a.O))
	s, before := a.Submission(seq), a.O.Writes()
	a.stepSubmission(s, rows)
	a.continueRest(s, a.Due)
	return a.O.Writes() - before + row.TickSpanRows
}

// stepSubmission looks at jobs of a submission until it has written rows rows, or looked at as many spans, or has seen
// all jobs.
func (a *Applying) stepSubmission(s *row.Submission, rows int) {
	for end := a.O.Writes() + rows; s.Rest != 0 && a.O.Writes() < end; end-- {
		of, ok := row.ReadPart(&a.O, s.Seq, s.Rest-1)
		if !ok {
			s.Rest = 0
			return
		}
		line := uint32(max(s.Rest-1, of.Base) - of.Base)
		sp := a.spanAt(of.Seq, line)
		p := a.part(a.Batch(of.Seq), sp, line, sp.Last)
		s.Rest = of.Base + int64(p.Last) + 2
		end += a.BesideRows
		switch {
		case p.In.Status == job.Purged:
		case s.Deleting:
			a.purge(p, job.ReasonDeleted)
		case s.Status.Ended():
			a.cancel(p)
		case p.In.Held():
			a.move(p, p.In.LetGo(&p.Group().Attributes, a.Now), job.ReasonStarted)
		}
		end -= a.BesideRows
	}
}

// forgetIfDue deletes an ended submission if it is not kept any longer and has no parts.
func (a *Applying) forgetIfDue(s *row.Submission) {
	if s.Parts > 0 || !s.Due && !s.Deleting {
		return
	}
	if s.Rest != 0 {
		a.DeleteTimer(row.TimerKey(s.RestAt, row.RestTimer, s.Seq, 0, 0))
		s.Rest, s.RestAt = 0, 0
	}
	if !s.Due {
		a.DeleteTimer(row.TimerKey(s.EndedAt+s.RetentionMs, row.BatchTimer, s.Seq, 0, 0))
	}
	for _, key := range s.Indexes() {
		a.O.Delete(key)
	}
	a.O.Delete(row.BatchStatusKey(s.Status, s.Seq))
	a.countStatus(s, s.Status, 0)
	a.O.Delete(row.SeqKey(row.SubmissionTable, s.Seq))
	a.O.Delete(row.SeqKey(row.SubmissionStateTable, s.Seq))
	if s.MetadataBytes > 0 {
		a.O.Delete(row.SeqKey(row.BatchMetadataTable, s.Seq))
	}
	s.Gone = true
	a.Submissions.Delete(s.Seq)
	a.Ends.Ended(BatchEnd(s.Seq))
}

// retire records that a submission need not be kept any longer.
func (a *Applying) retire(t row.Timer) {
	a.DeleteTimer(t.Key)
	s := a.Submission(t.A)
	s.Due = true
	a.touchSubmission(s)
}

// endPart cancels lines of an ended submission, or deletes them with the submission.
func (a *Applying) endPart(p row.Part) {
	if a.submissionOf(p.B).Deleting {
		a.purge(p, job.ReasonDeleted)
	} else {
		a.cancel(p)
	}
}

// changeBatch closes or resumes a batch. A standalone batch is always closed, and never paused.
func (a *Applying) changeBatch(cmd job.ChangeBatch) *applied.BatchChanged {
	s := a.submissionInScope(cmd.Batch)
	if s == nil {
		b := a.batchInScope(cmd.Batch)
		if b == nil {
			return &applied.BatchChanged{Refusal: job.BatchNotFound}
		}
		status := b.Summary().Status
		if cmd.Op == job.ResumeBatch && status.Ended() {
			return &applied.BatchChanged{Refusal: job.BatchEnded}
		}
		return &applied.BatchChanged{Status: status}
	}
	switch {
	case cmd.Op == job.CloseBatch && s.StillOpen:
		s.StillOpen = false
		a.touchSubmission(s)
		a.settleSubmissions()
	case cmd.Op == job.CloseBatch && s.Status.Ended(): // it is already closed
	case cmd.Op == job.ResumeBatch && s.Status.Ended():
		return &applied.BatchChanged{Refusal: job.BatchEnded}
	case cmd.Op == job.ResumeBatch && s.Status == job.BatchPaused:
		a.setBatchStatus(s, job.BatchInProgress)
		a.beginRest(s)
		a.settleSubmissions()
	}
	return &applied.BatchChanged{Status: s.Status}
}

// endByRequest cancels or deletes a whole submission.
func (a *Applying) endByRequest(s *row.Submission, op job.Op) *applied.Swept {
	switch {
	case op == job.Cancel && s.Status == job.BatchCancelled:
		return &applied.Swept{Status: s.Status, More: s.Rest != 0}
	case op == job.Cancel && s.Status.Ended():
		return &applied.Swept{Refusal: job.BatchEnded}
	}
	had := s.Unfinished()
	if op == job.Delete {
		had = s.Counts.Total()
		s.Deleting = true
	}
	if s.Status.Ended() {
		a.beginRest(s)
	} else {
		a.endSubmission(s, job.BatchCancelled)
		if s.Deleting && s.Rest == 0 && s.Parts > 0 { // its jobs have ended, but still exist
			a.beginRest(s)
		}
	}
	left := s.Unfinished()
	if op == job.Delete {
		left = s.Counts.Total()
	}
	more := s.Rest != 0
	a.settleSubmissions()
	return &applied.Swept{Status: s.Status, Moved: had - left, More: more}
}
