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
		if _, refusal := sp.Cancel(s.now); refusal != job.Granted {
			return &Moved{Refusal: refusal}
		}
		s.cancel(b, sp, line, line)
		return &Moved{Status: job.Cancelled}
	case job.Redrive:
		if _, refusal := sp.Redrive(s.now); refusal != job.Granted {
			return &Moved{Refusal: refusal}
		}
		if s.deleting(b, line) {
			return &Moved{Refusal: job.NotFound}
		}
		if s.redrive(b, line, line) > 0 {
			return &Moved{Refusal: job.KeyHeld}
		}
	case job.Run:
		next, refusal := sp.RunNow(s.now)
		if refusal != job.Granted {
			return &Moved{Refusal: refusal}
		}
		if next != sp.State {
			s.move(b, sp, line, line, next, started)
		}
	case job.Delete:
		s.delete(b, sp, line, line)
		return &Moved{Status: sp.Status}
	}
	return &Moved{Status: job.Pending}
}

// cancel ends lines of sp that have not ended. The runner of active lines is notified when it next reports something.
func (s *Store) cancel(b *batch, sp span, first, last uint32) {
	next, refusal := sp.Cancel(s.now)
	if refusal != job.Granted || next == sp.State {
		return
	}
	if sp.Status == job.Active {
		c := s.claim(sp.Claim)
		s.remember(b, first, last, &sp.State, job.Attempt{At: s.now.At, Runner: c.runner, Error: cancelledText, Why: job.Asked})
		s.notice(c)
	}
	s.move(b, sp, first, last, next, cancelled)
	s.retire(b, b.group(first), first, last, next.Status)
}

// cancelledText is the error that the history shows for a run that was cancelled.
const cancelledText = "it was cancelled"

// redrive makes ended lines pending, and returns how many of them it left because another job has their unique key by now.
func (s *Store) redrive(b *batch, first, last uint32) (skipped int64) {
	again := func(first, last uint32) {
		s.each(b.seq, first, last, func(sp span, first, last uint32) {
			if next, refusal := sp.Redrive(s.now); refusal == job.Granted {
				s.move(b, sp, first, last, next, redriven)
			}
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

// delete removes lines of sp in whatever status they are.
func (s *Store) delete(b *batch, sp span, first, last uint32) {
	s.forgetJobs(b, sp, first, last, deleted)
}

// patch changes attributes of a waiting job.
func (s *Store) patch(p job.Patch) *Moved {
	b, sp := s.find(p.Job)
	line := uint32(p.Job.Line())
	if b == nil || s.deleting(b, line) {
		return &Moved{Refusal: job.NotFound}
	}
	next, refusal := sp.Patch(&b.group(line).Attributes, &p, s.now)
	if refusal != job.Granted {
		return &Moved{Refusal: refusal}
	}
	if next != sp.State {
		s.move(b, sp, line, line, next, patched)
	}
	return &Moved{Status: s.takeBack(b, line, line, &next)}
}
