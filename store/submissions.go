package store

import "github.com/daybookq/daybook/job"

// settleSubmissions ends the submissions whose jobs have ended, and deletes the submissions that are not kept any
// longer.
func (a *applying) settleSubmissions() {
	for len(a.counted) > 0 {
		last := len(a.counted) - 1
		s := a.counted[last]
		a.counted = a.counted[:last]
		s.counted = false
		switch {
		case s.gone:
		case s.status.Ended():
			a.forgetIfDue(s)
		case s.had(job.Failed) > 0 && s.OnFailure == job.CancelRest:
			a.endSubmission(s, job.BatchFailed)
		case !s.open && s.unfinished() == 0 && (s.status != job.BatchPaused || s.jobs() > 0):
			a.endSubmission(s, job.BatchStatusOf(s.had(job.Failed), s.jobs()-s.had(job.Completed)-s.had(job.Failed)))
		}
	}
}

// setBatchStatus changes the status of a submission.
func (a *applying) setBatchStatus(s *submission, status job.BatchStatus) {
	a.o.Delete(batchStatusKey(s.status, s.seq))
	a.countStatus(s, s.status, status)
	s.status = status
	a.o.Set(batchStatusKey(s.status, s.seq), nil)
	a.touchSubmission(s)
	a.ends.ended(batchEnd(s.seq))
}

// endSubmission gives a submission its final status, and cancels its unfinished jobs.
func (a *applying) endSubmission(s *submission, status job.BatchStatus) {
	a.setBatchStatus(s, status)
	s.open, s.endedAt = false, a.now.At
	a.batchEnds.add(s)
	a.setTimer(timerKey(s.endedAt+s.retentionMs, batchTimer, s.seq, 0, 0))
	if s.unfinished() > 0 {
		a.beginRest(s)
	}
}

// beginRest begins to look at all jobs of a submission, and takes as much of the first step as the command has room
// for.
func (a *applying) beginRest(s *submission) {
	if s.rest != 0 {
		a.deleteTimer(timerKey(s.restAt, restTimer, s.seq, 0, 0))
	}
	s.rest = 1
	before := a.o.Writes()
	a.stepSubmission(s, a.restRows)
	a.restRows -= min(a.restRows, a.o.Writes()-before)
	a.continueRest(s, a.now.At)
}

// continueRest sets a timer for a tick that looks at the remaining jobs.
func (a *applying) continueRest(s *submission, at int64) {
	if s.restAt = 0; s.rest != 0 && !s.gone {
		s.restAt = at
		a.setTimer(timerKey(at, restTimer, s.seq, 0, 0))
	}
	a.touchSubmission(s)
}

// resumeRest takes the next step of a submission whose timer is first, and returns about how many rows that wrote. It
// moves the timer after everything that is due, so that leases and retention are handled in between.
func (a *applying) resumeRest(seq uint64, rows int) int {
	a.deleteTimer(a.timers.First(&a.o))
	s, before := a.submission(seq), a.o.Writes()
	a.stepSubmission(s, rows)
	a.continueRest(s, a.due)
	return a.o.Writes() - before + tickSpanRows
}

// stepSubmission looks at jobs of a submission until it has written rows rows, or looked at as many spans, or has seen
// all jobs.
func (a *applying) stepSubmission(s *submission, rows int) {
	for end := a.o.Writes() + rows; s.rest != 0 && a.o.Writes() < end; end-- {
		of, ok := readPart(&a.o, s.seq, s.rest-1)
		if !ok {
			s.rest = 0
			return
		}
		line := uint32(max(s.rest-1, of.base) - of.base)
		sp := a.spanAt(of.seq, line)
		p := a.part(a.batch(of.seq), sp, line, sp.last)
		s.rest = of.base + int64(p.last) + 2
		end += a.besideRows
		switch {
		case p.in.Status == job.Purged:
		case s.deleting:
			a.purge(p, reasonDeleted)
		case s.status.Ended():
			a.cancel(p)
		case p.in.Held():
			a.move(p, p.in.LetGo(&p.group().Attributes, a.now), reasonStarted)
		}
		end -= a.besideRows
	}
}

// forgetIfDue deletes an ended submission if it is not kept any longer and has no parts.
func (a *applying) forgetIfDue(s *submission) {
	if s.parts > 0 || !s.due && !s.deleting {
		return
	}
	if s.rest != 0 {
		a.deleteTimer(timerKey(s.restAt, restTimer, s.seq, 0, 0))
		s.rest, s.restAt = 0, 0
	}
	if !s.due {
		a.deleteTimer(timerKey(s.endedAt+s.retentionMs, batchTimer, s.seq, 0, 0))
	}
	for _, key := range s.indexes() {
		a.o.Delete(key)
	}
	a.o.Delete(batchStatusKey(s.status, s.seq))
	a.countStatus(s, s.status, 0)
	a.o.Delete(seqKey(submissionTable, s.seq))
	a.o.Delete(seqKey(submissionStateTable, s.seq))
	if s.metadataBytes > 0 {
		a.o.Delete(seqKey(batchMetadataTable, s.seq))
	}
	s.gone = true
	a.submissions.Delete(s.seq)
	a.ends.ended(batchEnd(s.seq))
}

// retire records that a submission need not be kept any longer.
func (a *applying) retire(t timer) {
	a.deleteTimer(t.key)
	s := a.submission(t.a)
	s.due = true
	a.touchSubmission(s)
}

// endPart cancels lines of an ended submission, or deletes them with the submission.
func (a *applying) endPart(p part) {
	if a.submissionOf(p.b).deleting {
		a.purge(p, reasonDeleted)
	} else {
		a.cancel(p)
	}
}

// changeBatch closes or resumes a batch. A standalone batch is always closed, and never paused.
func (a *applying) changeBatch(cmd job.ChangeBatch) *BatchChanged {
	s := a.submissionByID(cmd.Batch)
	if s == nil {
		b := a.batchOf(cmd.Batch)
		if b == nil || !b.isBatch(cmd.Batch) {
			return &BatchChanged{Refusal: job.BatchNotFound}
		}
		status := b.summary().Status
		if cmd.Op == job.ResumeBatch && status.Ended() {
			return &BatchChanged{Refusal: job.BatchEnded}
		}
		return &BatchChanged{Status: status}
	}
	switch {
	case cmd.Op == job.CloseBatch && s.open:
		s.open = false
		a.touchSubmission(s)
		a.settleSubmissions()
	case cmd.Op == job.CloseBatch && s.status.Ended(): // it is already closed
	case cmd.Op == job.ResumeBatch && s.status.Ended():
		return &BatchChanged{Refusal: job.BatchEnded}
	case cmd.Op == job.ResumeBatch && s.status == job.BatchPaused:
		a.setBatchStatus(s, job.BatchInProgress)
		a.beginRest(s)
		a.settleSubmissions()
	}
	return &BatchChanged{Status: s.status}
}

// endByRequest cancels or deletes a whole submission.
func (a *applying) endByRequest(s *submission, op job.Op) *Swept {
	switch {
	case op == job.Cancel && s.status == job.BatchCancelled:
		return &Swept{Status: s.status, More: s.rest != 0}
	case op == job.Cancel && s.status.Ended():
		return &Swept{Refusal: job.BatchEnded}
	}
	had := s.unfinished()
	if op == job.Delete {
		had = s.counts.Total()
		s.deleting = true
	}
	if s.status.Ended() {
		a.beginRest(s)
	} else {
		a.endSubmission(s, job.BatchCancelled)
		if s.deleting && s.rest == 0 && s.parts > 0 { // its jobs have ended, but still exist
			a.beginRest(s)
		}
	}
	left := s.unfinished()
	if op == job.Delete {
		left = s.counts.Total()
	}
	more := s.rest != 0
	a.settleSubmissions()
	return &Swept{Status: s.status, Moved: had - left, More: more}
}
