package store

import "github.com/daybookq/daybook/job"

// moveOne applies an operation to one job.
func (s *Store) moveOne(m job.Move) *Moved {
	b, sp := s.find(m.Job)
	if b == nil {
		return &Moved{Refusal: job.NotFound}
	}
	line := uint32(m.Job.Line())
	switch m.Op {
	case job.Cancel:
		switch {
		case sp.status == job.Cancelled:
			return &Moved{Status: job.Cancelled}
		case sp.status.Terminal():
			return &Moved{Refusal: job.HasEnded}
		}
		s.cancel(b, sp, line, line)
		return &Moved{Status: job.Cancelled}
	case job.Redrive:
		switch {
		case !sp.status.Terminal():
			return &Moved{Refusal: job.HasNotEnded}
		case s.doomed(b, line):
			return &Moved{Refusal: job.NotFound}
		}
		if s.redrive(b, line, line) > 0 {
			return &Moved{Refusal: job.KeyHeld}
		}
	case job.Run:
		switch {
		case sp.status == job.Active:
			return &Moved{Refusal: job.IsActive}
		case sp.status.Terminal():
			return &Moved{Refusal: job.HasEnded}
		case sp.status == job.Deferred:
			s.wait(b, sp, line, sp.state, 0, started)
		}
	case job.Delete:
		s.delete(b, sp, line, line)
		return &Moved{Status: sp.status}
	}
	return &Moved{Status: job.Pending}
}

// cancel ends lines of sp that have not ended. Those that are active lose their claim, whose runner is told when it next tells something.
func (s *Store) cancel(b *batch, sp span, first, last uint32) {
	next := state{kept: sp.kept, status: job.Cancelled, why: job.Asked, attempts: sp.attempts, updatedAt: s.now, at: s.now}
	if sp.status == job.Active {
		c := s.claim(sp.claim)
		next.claim = sp.claim
		s.remember(b, first, last, &sp.state, job.Attempt{At: s.now, Runner: c.runner, Error: cancelledText, Why: job.Asked})
		s.notice(c)
	}
	s.move(b, sp, first, last, next, cancelled)
	s.retire(b, b.group(first), first, last, job.Cancelled)
}

// cancelledText is the error that the history shows for a run that was cancelled.
const cancelledText = "it was cancelled"

// redrive makes ended lines pending as if they were new, and returns how many of them it left because another job has their unique
// key by now.
func (s *Store) redrive(b *batch, first, last uint32) (skipped int64) {
	again := func(first, last uint32) {
		s.each(b.seq, first, last, func(sp span, first, last uint32) {
			next := state{kept: sp.kept, status: job.Pending, class: fresh, order: s.seq, updatedAt: s.now}
			next.redrives++
			s.move(b, sp, first, last, next, redriven)
		})
	}
	held := s.takeKeysAgain(b, first, last)
	for _, line := range held {
		if first < line {
			again(first, line-1)
		}
		first = line + 1
	}
	if first <= last {
		again(first, last)
	}
	return int64(len(held))
}

// delete forgets lines of sp, whatever they are.
func (s *Store) delete(b *batch, sp span, first, last uint32) {
	s.forgetJobs(b, sp, first, last, deleted)
}

// wait gives a waiting line of sp another state in which it waits for runAt, or for a claim when that has come.
func (s *Store) wait(b *batch, sp span, line uint32, next state, runAt int64, why reason) {
	if next.code == job.Damaged && runAt != sp.at { // somebody lets a job that was set aside run
		next.code = job.NoCode
	}
	next.updatedAt, next.order = s.now, 0
	if next.status, next.at = job.Deferred, runAt; runAt <= s.now {
		if next.status, next.at = job.Pending, 0; next.class == fresh {
			next.order = s.seq
		}
		if sp.status == job.Pending {
			next.order = sp.order // it keeps its place
		}
	}
	if next != sp.state {
		s.move(b, sp, line, line, next, why)
	}
}

// patch changes attributes of a waiting job.
func (s *Store) patch(p job.Patch) *Moved {
	b, sp := s.find(p.Job)
	line := uint32(p.Job.Line())
	switch {
	case b == nil, s.doomed(b, line):
		return &Moved{Refusal: job.NotFound}
	case sp.status == job.Active:
		return &Moved{Refusal: job.IsActive}
	case sp.status.Terminal():
		return &Moved{Refusal: job.HasEnded}
	case p.MaxAttempts != nil && *p.MaxAttempts <= int(sp.attempts):
		return &Moved{Refusal: job.AttemptsUsed}
	}
	g := b.group(line)
	next, runAt := sp.state, sp.at
	if p.Priority != nil {
		if next.priority = 0; uint32(*p.Priority) != g.priority {
			next.priority = uint32(*p.Priority) + 1
		}
	}
	if p.MaxAttempts != nil {
		if next.maxAttempts = 0; *p.MaxAttempts != g.maxAttempts {
			next.maxAttempts = uint32(*p.MaxAttempts)
		}
	}
	if p.RunAt != nil {
		runAt = *p.RunAt
	}
	s.wait(b, sp, line, next, runAt, patched)
	return &Moved{Status: s.overtaken(b, line, line, s.spanAt(b.seq, line).status)}
}
