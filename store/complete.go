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
	s.rememberOnce(&cmd.Once, before.with(result.part(s.now.Seq, s.now.At)))
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
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	holder := s.holder(&sp, &fence)
	if refusal := fence.Admits(&sp.State, holder); refusal != job.Granted {
		if refusal = fence.Repeats(&sp.State, holder, o, refusal); refusal == job.Granted {
			return JobResult{ID: o.ID, Status: sp.Status}
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
			case sp.Claim != c.seq:
			case sp.Status == job.Cancelled:
				cancelled = true
			case sp.Status == job.Active:
				s.end(b, sp, first, last, cmd.All)
				n += int(last-first) + 1
			case cmd.All.Same(sp.Code, int(sp.ExitCode)):
				n += int(last-first) + 1
			}
		})
	}
	excepted := map[job.ID]bool{}
	for i := range cmd.Outcomes { // an exception is not counted, even when its outcome is the same
		id := cmd.Outcomes[i].ID
		b, sp := s.find(id)
		if b != nil && !excepted[id] && c.handedOut(b.seq, uint32(id.Line())) && sp.Claim == c.seq && cmd.All.Same(sp.Code, int(sp.ExitCode)) {
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

// end ends the run of active lines first … last of sp and returns where they went.
func (s *Store) end(b *batch, sp span, first, last uint32, o *job.Outcome) job.Status {
	g := b.group(first)
	next := sp.End(&g.Attributes, o, s.now, mix(s.seed, s.now.Seq, b.seq, first))
	if o.Code.Remembered() {
		s.remember(b, first, last, &sp.State, job.Attempt{At: s.now.At, Runner: s.claim(sp.Claim).runner, Code: o.Code, ExitCode: o.ExitCode,
			Error: o.Error, Why: job.Told})
	}
	if !o.Result.Empty() {
		value := encodeResult(sp.Claim, &o.Result)
		for line := first; line <= last; line++ {
			s.setDetail(b, line, resultDetail, value)
		}
	}
	s.move(b, sp, first, last, next, ended)
	s.retire(b, g, first, last, next.Status)
	return s.takeBack(b, first, last, &next)
}

// retire purges lines at once that became terminal and are not to be kept.
func (s *Store) retire(b *batch, g *group, first, last uint32, to job.Status) {
	if to.Terminal() && g.RetentionMs == 0 {
		s.each(b.seq, first, last, func(sp span, first, last uint32) { s.purge(b, sp, first, last) })
	}
}

// remember adds an attempt, in a row of its own, to the history of each line, which was in state st. Lines that were claimed no more often
// than attempts are kept have nothing to forget.
func (s *Store) remember(b *batch, first, last uint32, st *job.State, a job.Attempt) {
	value := encodeAttempt(&a)
	for line := first; line <= last; line++ {
		s.o.set(historyKey(b.seq, line, s.now.Seq), value)
		if st.Attempts > job.MaxHistory || st.Redrives > 0 {
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
