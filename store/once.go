package store

import (
	"github.com/daybookq/daybook/job"
)

// done is what a command with an idempotency key did, for whoever repeats it. Such rows live in generations, each of which goes as a
// whole, by one range deletion, when its youngest row is as old as an answer is kept.
type done struct {
	digest   job.Digest
	seq      uint64
	at       int64
	lines    uint32 // of a create
	group    group  // of its first line, whose queue may be gone by now
	queue    queueName
	existing []madeBy // its lines that made no job
}

type madeBy struct {
	line uint32
	id   job.ID
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

func (d *done) encode() []byte {
	e := make(encoder, 0, 64)
	e.bytes(d.digest[:])
	e.uint(d.seq)
	e.int(d.at)
	e.uint(uint64(d.lines))
	if d.lines > 0 {
		d.group.encode(&e)
		e.text(d.queue.client)
		e.text(d.queue.typ)
	}
	e.uint(uint64(len(d.existing)))
	for _, x := range d.existing {
		e.uint(uint64(x.line))
		e.bytes(x.id[:])
	}
	return e
}

func decodeDone(value []byte) *done {
	d := decoder(value)
	r := &done{}
	copy(r.digest[:], d.bytes())
	r.seq = d.uint()
	r.at = d.int()
	if r.lines = uint32(d.uint()); r.lines > 0 {
		r.group = decodeGroup(&d)
		r.queue = queueName{d.text(), d.text()}
	}
	r.existing = make([]madeBy, d.count(2))
	for i := range r.existing {
		r.existing[i].line = uint32(d.uint())
		r.existing[i].id = decodeID(&d)
	}
	return r
}

// findOnce returns what was done under a key, if that is not too long ago.
func (s *Store) findOnce(r rows, o *job.Once, now int64) (*done, bool) {
	for i := len(s.meta.keys) - 1; i >= 0; i-- {
		if value := r.get(onceKey(s.meta.keys[i].number, o.Scope, o.Key)); value != nil {
			d := decodeDone(value)
			return d, d.at+job.KeyLifeMs > now
		}
	}
	return nil, false
}

// rememberOnce keeps what the command did for those who repeat it.
func (s *Store) rememberOnce(o *job.Once, d *done) {
	d.digest = o.Digest
	number := uint32(s.now / generationMs)
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
	s.o.set(key, d.encode())
}

// generationEnd is when the youngest row that a generation can have need not be kept any more.
func generationEnd(number uint32) int64 { return int64(number+1)*generationMs + job.KeyLifeMs }

// forgetGeneration drops the keys of the oldest generation.
func (s *Store) forgetGeneration(number uint32) {
	prefix := generationKey(number)
	s.o.cut(prefix, after(prefix))
	s.meta.keys = s.meta.keys[1:]
}

// claimedBefore is the result of a repeated claim; c is nil when nothing names it any more.
func (s *Store) claimedBefore(c *claim, d *done, o *job.Once) *Claimed {
	if d.digest != o.Digest {
		return &Claimed{Refusal: job.KeyReused}
	}
	result := &Claimed{Claim: job.NewID(d.at, d.seq, 0), Seq: d.seq, Keyed: true, Replayed: true}
	if c != nil {
		result.LeaseMs, result.Runs, result.runner = c.leaseMs, c.runs, c.runner
		result.PayloadBytes = job.MaxClaimBytes
	}
	return result
}

// madeBefore is the result of a repeated create.
func (s *Store) madeBefore(d *done, o *job.Once) *Made {
	if d.digest != o.Digest {
		return &Made{Refusal: job.KeyReused}
	}
	made := &Made{Batch: job.NewID(d.at, d.seq, 0), Seq: d.seq, Lines: int(d.lines), Replayed: true}
	made.Group = d.group.of(d.queue.client, d.queue.typ)
	for _, x := range d.existing {
		made.Existing = append(made.Existing, Existing{int(x.line), x.id})
	}
	return made
}

// of returns a group as a create told it, but for its lines.
func (g *group) of(client, typ string) job.Group {
	return job.Group{
		Client: client, Type: typ, Kind: g.kind, Priority: int(g.priority), RunAt: g.runAt, MaxAttempts: g.maxAttempts, Backoff: g.backoff,
		LeaseMs: g.leaseMs, RetentionMs: g.retentionMs, ExpiresAt: g.expiresAt, TimeoutMs: g.timeoutMs, Traceparent: g.traceparent, Meta: g.meta,
	}
}

// MadeBefore returns what a create did that was carried out under the same key; nil when there was none, as of the last commit. now is
// the journal's time, unix ms.
func (s *Store) MadeBefore(o *job.Once, now int64) (made *Made, err error) {
	err = s.lookOnce(o, now, func(_ view, d *done) { made = s.madeBefore(d, o) })
	return made, err
}

// ClaimedBefore is MadeBefore for a claim.
func (s *Store) ClaimedBefore(o *job.Once, now int64) (c *Claimed, err error) {
	err = s.lookOnce(o, now, func(v view, d *done) { c = s.claimedBefore(readClaim(v, d.seq), d, o) })
	return c, err
}

func (s *Store) lookOnce(o *job.Once, now int64, found func(v view, d *done)) (err error) {
	defer catch(&err)
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.view()
	defer v.close()
	if d, ok := s.findOnce(v, o, now); ok {
		found(v, d)
	}
	return nil
}
