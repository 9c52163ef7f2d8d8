package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// done is what a request with a key or a number did, for those who repeat it. That of a key is a row. Such rows live in generations, each
// of which is deleted as a whole, by one range deletion, when its youngest row is as old as an answer is kept. That of a number is its
// slot's row (see sessions.go).
type done struct {
	digest job.Digest
	// Of the create or claim; seq 0: there was none, or it found nothing.
	seq      uint64
	at       int64
	lines    uint32 // of a create
	group    group  // of its first line, whose queue may be gone by now
	queue    queueName
	existing []madeBy // its lines that made no job
	// Of the completions, in order.
	ended []endedPart
}

type madeBy struct {
	line uint32
	id   job.ID
}

// endedPart is the result of one completion but for the ids, which a repeat names itself.
type endedPart struct {
	seq     uint64
	at      int64
	all     int
	refusal job.Refusal
	results []resultRun
}

// resultRun stands for consecutive outcomes with the same result.
type resultRun struct {
	n       int
	status  job.Status
	refusal job.Refusal
}

// keyGeneration counts the keys of a generation.
type keyGeneration struct {
	number uint32
	keys   uint64
}

// generationMs is how long keys go into one generation: half the time that they are kept, so that a look for a key looks into three, and
// a key takes room for a day and a half at most.
const generationMs = job.KeyLifeMs / 2

func (m *meta) numKeys() (n uint64) {
	for _, g := range m.keys {
		n += g.keys
	}
	return n
}

func (d *done) encode(e *encoder) {
	e.bytes(d.digest[:])
	e.uint(d.seq)
	if d.seq > 0 {
		e.int(d.at)
		e.uint(uint64(d.lines))
		if d.lines > 0 {
			d.group.encode(e)
			e.text(d.queue.client)
			e.text(d.queue.typ)
			e.uint(uint64(len(d.existing)))
			for _, x := range d.existing {
				e.uint(uint64(x.line))
				e.bytes(x.id[:])
			}
		}
	}
	e.uint(uint64(len(d.ended)))
	for i := range d.ended {
		p := &d.ended[i]
		e.uint(p.seq)
		e.int(p.at)
		e.uint(uint64(p.all))
		e.uint(uint64(p.refusal))
		e.uint(uint64(len(p.results)))
		for _, r := range p.results {
			e.uint(uint64(r.n))
			e.uint(uint64(r.status))
			e.uint(uint64(r.refusal))
		}
	}
}

func decodeDone(d *decoder) *done {
	r := &done{}
	copy(r.digest[:], d.bytes())
	if r.seq = d.uint(); r.seq > 0 {
		r.at = d.int()
		if r.lines = uint32(d.uint()); r.lines > 0 {
			r.group = decodeGroup(d)
			r.queue = queueName{d.text(), d.text()}
			r.existing = make([]madeBy, d.count(2))
			for i := range r.existing {
				r.existing[i].line = uint32(d.uint())
				r.existing[i].id = decodeID(d)
			}
		}
	}
	r.ended = make([]endedPart, d.count(5))
	for i := range r.ended {
		r.ended[i] = endedPart{seq: d.uint(), at: d.int(), all: int(d.uint()), refusal: job.Refusal(d.uint())}
		r.ended[i].results = make([]resultRun, d.count(3))
		for k := range r.ended[i].results {
			r.ended[i].results[k] = resultRun{int(d.uint()), job.Status(d.uint()), job.Refusal(d.uint())}
		}
	}
	return r
}

// past is where what requests did before is looked up: the rows and caches of Apply, or one moment of the database.
type past struct {
	keys    []keyGeneration
	rows    rows
	now     int64
	session func(id job.ID) *session
	slot    func(name slotName) *slot
	claim   func(seq uint64) *claim
}

// past is that of Apply.
func (s *Store) past() past {
	return past{s.meta.keys, &s.o, s.now.At, s.sessionOf, s.slot, s.findClaim}
}

// lookBack calls look with the past of the last commit. now is the journal's time, unix ms.
func (s *Store) lookBack(now int64, look func(p past)) (err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	var keys []keyGeneration
	if value := v.get(metaKey); value != nil { // s.meta may be ahead of the view
		m := decodeMeta(value)
		keys = m.keys
	}
	look(past{
		keys, v, now,
		func(id job.ID) *session { return s.readSessionOf(v, id) },
		func(name slotName) *slot { return readSlot(v, name) },
		func(seq uint64) *claim { return readClaim(v, seq) },
	})
	return nil
}

// find returns what the request of a command has done so far, or nil. A refusal says why the command may not be carried out: its session
// does not exist, its number is lower than that of its slot's last request, or its key or number belongs to another request.
func (p past) find(o *job.Once) (d *done, refusal job.Refusal) {
	reused := job.KeyReused
	if o.Numbered() {
		reused = job.NumberReused
		n := p.session(o.Session)
		if n == nil {
			return nil, job.SessionNotFound
		}
		l := p.slot(slotName{n.seq, o.Slot})
		if o.Number < l.number {
			return nil, job.NumberPassed
		}
		if o.Number == l.number {
			d = l.done
		}
	} else {
		d = p.findKey(o)
	}
	if d != nil && d.digest != o.Digest {
		return nil, reused
	}
	return d, job.Granted
}

// findKey returns what was done under a key, if that is not too long ago, or nil.
func (p past) findKey(o *job.Once) *done {
	for i := len(p.keys) - 1; i >= 0; i-- {
		if value := p.rows.get(onceKey(p.keys[i].number, o.Scope, o.Key)); value != nil {
			d := decoder(value)
			if done := decodeDone(&d); done.doneAt()+job.KeyLifeMs > p.now {
				return done
			}
			return nil
		}
	}
	return nil
}

// doneAt is when the request was carried out, or the last part of it.
func (d *done) doneAt() int64 {
	at := d.at
	for i := range d.ended {
		at = max(at, d.ended[i].at)
	}
	return at
}

// rememberOnce keeps what the request of the command has done, for those who repeat it.
func (s *Store) rememberOnce(o *job.Once, d *done) {
	d.digest = o.Digest
	if o.Numbered() {
		n := s.sessionOf(o.Session)
		s.writeSlot(n, o.Slot, o.Number, d)
		s.useSession(n)
		return
	}
	number := uint32(s.now.At / generationMs)
	n := len(s.meta.keys)
	if n == 0 || s.meta.keys[n-1].number != number { // the time of commands never goes back
		s.meta.keys = append(s.meta.keys, keyGeneration{number: number})
		s.setTimer(timerKey(generationEnd(number), onceTimer, uint64(number), 0, 0))
		n++
	}
	key := onceKey(number, o.Scope, o.Key)
	if s.o.get(key) == nil {
		s.meta.keys[n-1].keys++
	}
	e := make(encoder, 0, 64)
	d.encode(&e)
	s.o.set(key, e)
}

// generationEnd is when the youngest row that a generation can have need not be kept any more.
func generationEnd(number uint32) int64 { return int64(number+1)*generationMs + job.KeyLifeMs }

// forgetGeneration drops the keys of the oldest generation.
func (s *Store) forgetGeneration(number uint32) {
	prefix := generationKey(number)
	s.o.cut(prefix, after(prefix))
	s.meta.keys = s.meta.keys[1:]
}

// claimed returns the result of a repeated claim, or nil when the request has made no claim yet, and what the request did. A request of
// another kind with the same digest cannot exist; Apply must decide it all the same.
func (p past) claimed(o *job.Once) (*Claimed, *done) {
	d, refusal := p.find(o)
	switch {
	case refusal != job.Granted:
		return &Claimed{Refusal: refusal}, nil
	case d == nil || d.seq == 0:
		return nil, d
	case d.lines > 0:
		return &Claimed{Refusal: job.KeyReused}, nil
	}
	result := &Claimed{Claim: job.NewID(d.at, d.seq, 0), Seq: d.seq, Keyed: true, Replayed: true}
	if c := p.claim(d.seq); c != nil { // nothing names it any more otherwise
		result.LeaseMs, result.Runs, result.runner = c.lease.Ms, c.runs, c.runner
		result.PayloadBytes = job.MaxClaimBytes
	}
	return result, d
}

// made returns the result of a repeated create, or nil when the request has not been carried out.
func (p past) made(o *job.Once) *Made {
	d, refusal := p.find(o)
	switch {
	case refusal != job.Granted:
		return &Made{Refusal: refusal}
	case d == nil || d.seq == 0:
		return nil
	case d.lines == 0:
		return &Made{Refusal: job.KeyReused}
	}
	made := &Made{Batch: job.NewID(d.at, d.seq, 0), Seq: d.seq, Lines: int(d.lines), Replayed: true}
	made.Group = d.group.of(d.queue)
	for _, x := range d.existing {
		made.Existing = append(made.Existing, Existing{int(x.line), x.id})
	}
	return made
}

// ended returns the result of a repeated completion, or nil when the request has not carried it out, and what the request did.
func (p past) ended(cmd *job.Complete) (*Ended, *done) {
	d, refusal := p.find(&cmd.Once)
	if refusal != job.Granted {
		return &Ended{Denied: refusal}, nil
	}
	parts := 0
	if d != nil {
		parts = len(d.ended)
	}
	part := cmd.Once.Part
	if part == parts {
		return nil, d
	}
	if part > parts { // a request carries its parts out in order
		return &Ended{Denied: job.KeyReused}, nil
	}
	was := &d.ended[part]
	result := &Ended{All: was.all, Refusal: was.refusal, Replayed: true, Seq: was.seq, At: was.at}
	left := cmd.Outcomes
	for _, run := range was.results {
		if run.n > len(left) {
			return &Ended{Denied: job.KeyReused}, nil
		}
		for i := range left[:run.n] {
			result.Results = append(result.Results, JobResult{ID: left[i].ID, Status: run.status, Refusal: run.refusal})
		}
		left = left[run.n:]
	}
	if len(left) > 0 {
		return &Ended{Denied: job.KeyReused}, nil
	}
	return result, d
}

// part returns what is kept of a completion's result.
func (r *Ended) part(seq uint64, at int64) endedPart {
	p := endedPart{seq: seq, at: at, all: r.All, refusal: r.Refusal}
	for i := range r.Results {
		one := resultRun{1, r.Results[i].Status, r.Results[i].Refusal}
		if last := len(p.results) - 1; last >= 0 && p.results[last].status == one.status && p.results[last].refusal == one.refusal {
			p.results[last].n++
		} else {
			p.results = append(p.results, one)
		}
	}
	return p
}

// with returns a copy of d, which may be nil, with another part. What a cache holds of a request is never changed in place: a command that
// fails half way must leave nothing behind.
func (d *done) with(p endedPart) *done {
	next := &done{}
	if d != nil {
		*next = *d
	}
	next.ended = append(slices.Clip(next.ended), p)
	return next
}

// MadeBefore returns what a create did that was carried out with the same key or number, or why it may not be carried out; nil when
// neither, as of the last commit. now is the journal's time, unix ms.
func (s *Store) MadeBefore(o *job.Once, now int64) (made *Made, err error) {
	err = s.lookBack(now, func(p past) { made = p.made(o) })
	return made, err
}

// ClaimedBefore is MadeBefore for a claim.
func (s *Store) ClaimedBefore(o *job.Once, now int64) (c *Claimed, err error) {
	err = s.lookBack(now, func(p past) { c, _ = p.claimed(o) })
	return c, err
}

// EndedBefore is MadeBefore for a completion.
func (s *Store) EndedBefore(cmd *job.Complete, now int64) (ended *Ended, err error) {
	err = s.lookBack(now, func(p past) { ended, _ = p.ended(cmd) })
	return ended, err
}
