package store

import "github.com/daybookq/daybook/job"

// claim returns the claim of a seq that a line names. It must exist: a claim's rows live as long as a line names it.
func (s *Store) claim(seq uint64) *claim {
	c := s.findClaim(seq)
	if c == nil {
		contradict("find claim", "claim %d is named by a line and has no row", seq)
	}
	return c
}

// findClaim returns the claim of a seq, or nil.
func (s *Store) findClaim(seq uint64) *claim {
	if c := s.claims.get(seq); c != nil {
		return c
	}
	c := readClaim(&s.o, seq)
	if c != nil {
		s.claims.set(seq, c)
	}
	return c
}

// claimByID returns the claim with an id, or nil.
func (s *Store) claimByID(id job.ID) *claim {
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if c := s.findClaim(seq); c != nil && c.refs > 0 && c.id() == id {
			return c
		}
	}
	return nil
}

// leaseMoved has settle look at a claim at the end of the command.
func (s *Store) leaseMoved(c *claim) {
	s.touch(&c.dirty, c)
	if !c.settling {
		c.settling = true
		s.leases = append(s.leases, c)
	}
}

// openClaim writes the rows of a new claim.
func (s *Store) openClaim(c *claim) {
	s.claims.set(c.seq, c)
	s.hold(c.runner, 1, 0)
	s.o.set(seqKey(claimTable, c.seq), c.encode())
	s.o.set(holdKey(holdTable, c.runner, c.seq), nil)
	s.retime(c, c.lease.At+c.lease.Ms)
	s.touch(&c.dirty, c)
}

// retime moves the claim's timer row; at 0 takes it away.
func (s *Store) retime(c *claim, at int64) {
	if c.timerAt == at {
		return
	}
	if c.timerAt != 0 {
		s.dropTimer(timerKey(c.timerAt, claimTimer, c.seq, 0, 0))
	}
	if c.timerAt = at; at != 0 {
		s.setTimer(timerKey(at, claimTimer, c.seq, 0, 0))
	}
	s.touch(&c.dirty, c)
}

// renew gives all that the claim holds a full lease from now: the given one or, with 0, what each has. A timer row may be early,
// so it only moves when the deadline came closer: a tickle usually writes one row.
func (s *Store) renew(c *claim, leaseMs int64) {
	c.lease.Seq, c.lease.At = s.now.Seq, s.now.At
	if leaseMs > 0 {
		c.lease.Ms = leaseMs
		if c.jobLeases > 0 {
			s.dropOverrides(c, jobLeaseKey(c.seq, 0, 0), after(seqKey(jobLeaseTable, c.seq)))
		}
	}
	if due := c.lease.At + c.lease.Ms; c.timerAt == 0 || due < c.timerAt {
		s.retime(c, due)
	}
	s.touch(&c.dirty, c)
}

// renewLine gives one of several held lines a lease of its own.
func (s *Store) renewLine(c *claim, seq uint64, line uint32, leaseMs int64) {
	key := jobLeaseKey(c.seq, seq, line)
	o := jobLease{lease: c.lease}
	if value := s.o.get(key); value != nil {
		o = decodeJobLease(value)
	} else {
		c.jobLeases++
		s.touch(&c.dirty, c)
	}
	if leaseMs > 0 {
		o.lease.Ms = leaseMs
	}
	o.lease.Seq, o.lease.At = s.now.Seq, s.now.At
	if due := o.lease.At + o.lease.Ms; o.timerAt == 0 || due < o.timerAt {
		s.retimeLine(c, &o, seq, line, due)
	}
	s.o.set(key, o.encode())
}

func (s *Store) retimeLine(c *claim, o *jobLease, seq uint64, line uint32, at int64) {
	if o.timerAt != 0 {
		s.dropTimer(timerKey(o.timerAt, jobLeaseTimer, c.seq, seq, line))
	}
	o.timerAt = at
	s.setTimer(timerKey(at, jobLeaseTimer, c.seq, seq, line))
}

// dropOverrides removes the leases of single lines whose keys are in from … to (not included).
func (s *Store) dropOverrides(c *claim, from, to string) {
	type row struct {
		key string
		jobLease
	}
	var rows []row
	s.o.scan(from, to, func(key string, value []byte) bool {
		rows = append(rows, row{key, decodeJobLease(value)})
		return true
	})
	for _, r := range rows {
		_, seq, line := splitJobLeaseKey(r.key)
		s.o.del(r.key)
		s.dropTimer(timerKey(r.timerAt, jobLeaseTimer, c.seq, seq, line))
		c.jobLeases--
	}
}

// unhold tells that lines of a batch are no longer active under a claim.
func (s *Store) unhold(claimSeq, seq uint64, first, last uint32) {
	c := s.claim(claimSeq)
	n := int(last-first) + 1
	c.held -= n
	s.hold(c.runner, 0, -n)
	if c.jobLeases > 0 {
		s.dropOverrides(c, jobLeaseKey(c.seq, seq, first), after(jobLeaseKey(c.seq, seq, last)))
	}
	s.leaseMoved(c)
}

// settle closes what the command left at an end: claims that hold nothing lose their timer and their place with the runner,
// claims that no line names any more go, and queues whose heads moved are placed anew.
func (s *Store) settle() {
	for _, c := range s.leases {
		c.settling = false
		if c.held == 0 && !c.closed {
			c.closed = true
			s.retime(c, 0)
			s.o.del(holdKey(holdTable, c.runner, c.seq))
			if r := s.hold(c.runner, -1, 0); r.claims == 0 {
				s.rest(r)
			}
		}
		if c.refs == 0 {
			s.unnotice(c)
			s.o.del(seqKey(claimTable, c.seq))
			s.o.del(seqKey(claimStateTable, c.seq))
			s.claims.del(c.seq)
		}
	}
	clear(s.leases)
	s.leases = s.leases[:0]
	s.resizeCells()
	for _, q := range s.moved {
		q.moved = false
		for _, l := range q.lanes {
			s.resizeLane(q, l)
		}
		s.queues.place(q, &s.o)
	}
	clear(s.moved)
	s.moved = s.moved[:0]
}
