package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

func (s *Store) tickle(t job.Tickle) *Tickled {
	switch {
	case len(t.IDs) > 0:
		return s.tickleJobs(t)
	case !t.Claim.IsZero():
		return s.tickleClaim(t)
	}
	lost := s.notices(t.Runner)
	r := s.runner(t.Runner)
	if r.held == 0 {
		return &Tickled{Refusal: job.ClaimLost, Lost: lost}
	}
	// What it holds is not touched: its timer rows look here when they come up.
	r.tickledAt = s.now.At
	r.promise.Extend(t.LeaseMs, s.now)
	s.touch(&r.dirty, r)
	return &Tickled{Held: r.held, Lost: lost}
}

func (s *Store) tickleClaim(t job.Tickle) *Tickled {
	c := s.claimByID(t.Claim)
	switch {
	case c == nil:
		return &Tickled{Refusal: job.ClaimLost}
	case t.Runner != "" && c.runner != t.Runner:
		return &Tickled{Refusal: job.RunnerDiffers}
	}
	result := &Tickled{Held: c.held}
	if c.held < c.lines() {
		for _, r := range c.runs {
			s.eachIfThere(r, func(b *batch, sp span, first, last uint32) {
				refusal := job.ClaimLost
				if sp.Claim == c.seq {
					refusal = job.WasCancelled
				}
				if sp.Status == job.Purged || sp.Claim == c.seq && sp.Status != job.Cancelled {
					return // gone, or held, or ended by this very claim
				}
				result.Lost = appendLost(result.Lost, b, first, last, refusal)
			})
		}
	}
	if c.held == 0 {
		if result.Refusal = job.ClaimLost; slices.ContainsFunc(result.Lost, func(l JobResult) bool { return l.Refusal == job.WasCancelled }) {
			result.Refusal = job.WasCancelled
		}
		return result
	}
	s.renew(c, t.LeaseMs)
	return result
}

func (s *Store) tickleJobs(t job.Tickle) *Tickled {
	result, fence := &Tickled{}, job.Fence{Claim: t.Claim, Runner: t.Runner}
	type line struct {
		b    *batch
		line uint32
	}
	var order []*claim // in which they were first named
	named := map[*claim]map[job.ID]line{}
	for _, id := range t.IDs {
		b, sp := s.find(id)
		refusal := job.NotFound
		if b != nil {
			refusal = fence.Admits(&sp.State, s.holder(&sp, &fence))
		}
		if refusal != job.Granted {
			result.Lost = append(result.Lost, JobResult{ID: id, Refusal: refusal})
			continue
		}
		c := s.claim(sp.Claim)
		if named[c] == nil {
			named[c] = map[job.ID]line{}
			order = append(order, c)
		}
		if _, repeated := named[c][id]; repeated {
			continue
		}
		named[c][id] = line{b, uint32(id.Line())}
		result.Held++
		if t.Step != "" || t.Progress >= 0 {
			s.progress(b, c, uint32(id.Line()), t.Step, t.Progress)
		}
	}
	for _, c := range order {
		lines := named[c]
		if len(lines) == c.held { // all that it holds
			s.renew(c, t.LeaseMs)
			continue
		}
		for _, id := range t.IDs {
			if l, ok := lines[id]; ok {
				s.renewLine(c, l.b.seq, l.line, t.LeaseMs)
			}
		}
	}
	return result
}

// progress keeps what was told, and what was told before under the same claim.
func (s *Store) progress(b *batch, c *claim, line uint32, step string, progress int64) {
	if b.details {
		if value := s.o.get(detailKey(b.seq, line, progressDetail)); value != nil {
			if seq, oldStep, oldProgress := decodeProgress(value); seq == c.seq {
				if step == "" {
					step = oldStep
				}
				if progress < 0 {
					progress = oldProgress
				}
			}
		}
	}
	s.setDetail(b, line, progressDetail, encodeProgress(c.seq, step, progress))
}

func appendLost(lost []JobResult, b *batch, first, last uint32, refusal job.Refusal) []JobResult {
	for line := first; line <= last; line++ {
		lost = append(lost, JobResult{ID: job.NewID(b.at, b.seq, int(line)), Refusal: refusal})
	}
	return lost
}

// notice has the next tickles of all that a runner holds tell it that something of this claim was cancelled.
func (s *Store) notice(c *claim) {
	if c.cancelledAt == 0 {
		s.o.set(holdKey(noticeTable, c.runner, c.seq), nil)
	}
	c.cancelledAt = s.now.At
	s.touch(&c.dirty, c)
}

// unnotice ends that.
func (s *Store) unnotice(c *claim) {
	if c.cancelledAt != 0 {
		s.o.del(holdKey(noticeTable, c.runner, c.seq))
		c.cancelledAt = 0
		s.touch(&c.dirty, c)
	}
}

// maxNotices bounds the claims that one tickle looks at, and the jobs that it reports as cancelled.
const maxNotices = 1000

// noticeSpans bounds the spans that one tickle looks at for them. A runner whose claims have more hears of the rest when it completes them.
const noticeSpans = 4000

// noticeMs is how long that goes on: most tickles come much more often, so that an answer may get lost.
const noticeMs = hourMs

// notices returns what of a runner's claims was cancelled lately. Who does not tickle meanwhile is told when it completes the job.
func (s *Store) notices(name string) (lost []JobResult) {
	prefix := runnerKey(noticeTable, name)
	var seqs []uint64
	s.o.scan(prefix, after(prefix), func(key string, _ []byte) bool {
		if runnerOfKey(key) == name {
			seqs = append(seqs, claimOfHold(key))
		}
		return len(seqs) < maxNotices
	})
	spans := noticeSpans
	for _, seq := range seqs {
		c := s.claim(seq)
		if c.cancelledAt+noticeMs < s.now.At {
			s.unnotice(c)
			continue
		}
		for _, r := range c.runs {
			if spans <= 0 || len(lost) >= maxNotices {
				break
			}
			s.eachIfThere(r, func(b *batch, sp span, first, last uint32) {
				spans--
				if sp.Claim == c.seq && sp.Status == job.Cancelled {
					lost = appendLost(lost, b, first, last, job.WasCancelled)
				}
			})
		}
	}
	return lost[:min(len(lost), maxNotices)]
}
