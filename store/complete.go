package store

import "github.com/daybookq/daybook/job"

// complete carries out a completion, unless it repeats one.
func (s *Store) complete(cmd job.Complete) *Ended {
	if !cmd.Once.Given() {
		return s.endRuns(cmd)
	}
	again, before := s.past().ended(&cmd)
	if again != nil {
		return again
	}
	result := s.endRuns(cmd)
	s.rememberOnce(&cmd.Once, before.with(result.part(s.seq, s.now)))
	return result
}

func (s *Store) endRuns(cmd job.Complete) *Ended {
	result := &Ended{}
	c := s.claimByID(cmd.Claim) // before the exceptions, which may end the last line that names it
	for i := range cmd.Outcomes {
		o := &cmd.Outcomes[i]
		result.Results = append(result.Results, s.endOne(&cmd, o))
	}
	if cmd.All != nil {
		result.All, result.Refusal = s.endAll(c, &cmd)
	}
	return result
}

func (s *Store) endOne(cmd *job.Complete, o *job.Outcome) JobResult {
	b, sp := s.find(o.ID)
	if b == nil {
		return JobResult{ID: o.ID, Refusal: job.NotFound}
	}
	if refusal := s.admit(&sp, cmd.Claim, cmd.Runner); refusal != job.Granted {
		// A repeated request, whose first answer was lost, gets the same answer again.
		if c := s.claimByID(cmd.Claim); refusal == job.ClaimLost && c != nil && sp.claim == c.seq {
			if cmd.Runner != "" && c.runner != cmd.Runner {
				refusal = job.RunnerDiffers
			} else if refusal = job.OutcomeDiffers; o.Same(sp.code, int(sp.exitCode)) {
				return JobResult{ID: o.ID, Status: sp.status}
			}
		}
		return JobResult{ID: o.ID, Refusal: refusal}
	}
	line := uint32(o.ID.Line())
	return JobResult{ID: o.ID, Status: s.end(b, sp, line, line, o)}
}

// endAll gives an outcome to all that a claim still holds, and counts the lines that have it.
func (s *Store) endAll(c *claim, cmd *job.Complete) (n int, refusal job.Refusal) {
	if c == nil {
		return 0, job.ClaimLost
	}
	if cmd.Runner != "" && c.runner != cmd.Runner {
		return 0, job.RunnerDiffers
	}
	cancelled := false
	for _, r := range c.runs {
		s.eachIfThere(r, func(b *batch, sp span, first, last uint32) {
			switch {
			case sp.claim != c.seq:
			case sp.status == job.Cancelled:
				cancelled = true
			case sp.status == job.Active:
				s.end(b, sp, first, last, cmd.All)
				n += int(last-first) + 1
			case cmd.All.Same(sp.code, int(sp.exitCode)):
				n += int(last-first) + 1
			}
		})
	}
	excepted := map[job.ID]bool{}
	for i := range cmd.Outcomes { // an exception is not counted, even when its outcome is the same
		id := cmd.Outcomes[i].ID
		b, sp := s.find(id)
		if b != nil && !excepted[id] && c.handedOut(b.seq, uint32(id.Line())) && sp.claim == c.seq && cmd.All.Same(sp.code, int(sp.exitCode)) {
			n--
		}
		excepted[id] = true
	}
	if n == 0 && len(cmd.Outcomes) == 0 {
		if cancelled {
			return 0, job.WasCancelled
		}
		return 0, job.ClaimLost
	}
	return n, job.Granted
}

func (c *claim) handedOut(seq uint64, line uint32) bool {
	for _, r := range c.runs {
		if r.Batch == seq && r.First <= line && line <= r.Last {
			return true
		}
	}
	return false
}

// end ends the run of active lines first … last of sp and returns where they went.
func (s *Store) end(b *batch, sp span, first, last uint32, o *job.Outcome) job.Status {
	g := b.group(first)
	next := state{kept: sp.kept, code: o.Code, exitCode: uint16(o.ExitCode), attempts: sp.attempts, claim: sp.claim, updatedAt: s.now}
	to, counts := o.Code.Next(int(sp.attempts), sp.maxAttemptsIn(g))
	if !counts {
		next.attempts--
	}
	switch {
	case o.Code == job.Damaged:
		next.class, next.at = back, job.MaxTimeMs // somebody runs it, once the store has been mended
	case to == job.Deferred:
		delay := o.DelayMs
		if delay < 0 {
			delay = g.backoff.Delay(int(sp.attempts), mix(s.seed, s.seq, b.seq, first))
		}
		if next.class, next.at = back, s.now+delay; delay == 0 {
			to, next.at = job.Pending, 0
		}
	}
	if to.Terminal() {
		next.at, next.why = s.now, job.Told
	}
	next.status = to
	if o.Code != job.OK && o.Code != job.Unget && o.Code != job.Damaged {
		s.remember(b, first, last, &sp.state, job.Attempt{At: s.now, Runner: s.claim(sp.claim).runner, Code: o.Code, ExitCode: o.ExitCode,
			Error: o.Error, Why: job.Told})
	}
	if !o.Result.Empty() {
		value := encodeResult(sp.claim, &o.Result)
		for line := first; line <= last; line++ {
			s.setDetail(b, line, resultDetail, value)
		}
	}
	s.move(b, sp, first, last, next, ended)
	s.retire(b, g, first, last, to)
	return s.overtaken(b, first, last, to)
}

// retire purges lines at once that became terminal and are not to be kept.
func (s *Store) retire(b *batch, g *group, first, last uint32, to job.Status) {
	if to.Terminal() && g.retentionMs == 0 {
		s.each(b.seq, first, last, func(sp span, first, last uint32) { s.purge(b, sp, first, last) })
	}
}

// remember adds an attempt, in a row of its own, to the history of each line, which was in state st. Lines that were claimed no more often
// than attempts are kept have nothing to forget.
func (s *Store) remember(b *batch, first, last uint32, st *state, a job.Attempt) {
	value := encodeAttempt(&a)
	for line := first; line <= last; line++ {
		s.o.set(historyKey(b.seq, line, s.seq), value)
		if st.attempts > job.MaxHistory || st.redrives > 0 {
			s.forget(b, line)
		}
	}
	b.details = true
	s.touch(&b.dirty, b)
}

// forget drops the oldest attempts of a line beyond those that are kept.
func (s *Store) forget(b *batch, line uint32) {
	var keys []string
	prefix := detailKey(b.seq, line, historyDetail)
	s.o.scan(prefix, after(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		return true
	})
	for _, key := range keys[:max(0, len(keys)-job.MaxHistory)] {
		s.o.del(key)
	}
}

func (s *Store) setDetail(b *batch, line uint32, kind byte, value []byte) {
	s.o.set(detailKey(b.seq, line, kind), value)
	b.details = true
	s.touch(&b.dirty, b)
}
