package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// past looks up the results of earlier requests, in the rows and caches of Apply, or in the database at one moment.
type past struct {
	keys    []keyGeneration
	rows    lsm.Rows
	now     int64
	session func(id job.ID) *session
	slot    func(name slotName) *slot
	claim   func(seq uint64) *claim
}

// past returns the past as Apply sees it.
func (a *applying) past() past {
	return past{a.meta.keys, &a.o, a.now.At, a.sessionOf, a.slot, a.findClaim}
}

// find returns the recorded results of the command's request so far, or nil. A refusal says why the command may not be
// carried out: its session does not exist, its number is lower than the number of its slot's last request, or its key
// or number belongs to a different request.
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

// findKey returns the recorded results for a key, or nil if there are none, or if they are too old.
func (p past) findKey(o *job.Once) *done {
	for i := len(p.keys) - 1; i >= 0; i-- {
		if value := p.rows.Get(onceKey(p.keys[i].number, o.Scope, o.Key)); value != nil {
			d := lsm.Decoder(value)
			if done := decodeDone(&d); done.doneAt()+job.KeyLifeMs > p.now {
				return done
			}
			return nil
		}
	}
	return nil
}

// rememberOnce records the results of the command's request for callers that repeat it.
func (a *applying) rememberOnce(o *job.Once, d *done) {
	d.digest = o.Digest
	if o.Numbered() {
		n := a.sessionOf(o.Session)
		a.writeSlot(n, o.Slot, o.Number, d)
		a.useSession(n)
		return
	}
	number := uint32(a.now.At / generationMs)
	n := len(a.meta.keys)
	if n == 0 || a.meta.keys[n-1].number != number { // the time of commands never goes back
		a.meta.keys = append(a.meta.keys, keyGeneration{number: number})
		a.setTimer(timerKey(generationEnd(number), onceTimer, uint64(number), 0, 0))
		n++
	}
	key := onceKey(number, o.Scope, o.Key)
	e := make(lsm.Encoder, 0, 64)
	d.encode(&e)
	more := len(e)
	if before := a.o.Get(key); before != nil {
		more -= len(before)
	} else {
		a.meta.keys[n-1].keys++
		more += len(key)
	}
	a.o.Set(key, e)
	a.meta.keys[n-1].bytes += uint64(more)
	owner := ownerKey(number, o.Owner())
	a.o.Set(owner, encodeOwner(decodeOwner(a.o.Get(owner))+uint64(more)))
}

// encodeOwner encodes the row of an owner of idempotency keys: how many bytes they take in a generation.
func encodeOwner(bytes uint64) []byte {
	e := make(lsm.Encoder, 0, 8)
	e.Uint(bytes)
	return e
}

// decodeOwner is the inverse of encodeOwner. A missing row means 0.
func decodeOwner(value []byte) uint64 {
	if value == nil {
		return 0
	}
	d := lsm.Decoder(value)
	return d.Uint()
}

// generationEnd is when even the youngest row of a generation need not be kept any longer.
func generationEnd(number uint32) int64 { return int64(number+1)*generationMs + job.KeyLifeMs }

// deleteGeneration deletes the keys of the oldest generation by two range deletions, however many there are.
func (a *applying) deleteGeneration(number uint32) {
	for _, table := range []byte{onceTable, ownerTable} {
		prefix := generationKey(table, number)
		a.o.DeleteRange(prefix, lsm.After(prefix))
	}
	a.meta.keys = a.meta.keys[1:]
}

// claimed returns the result of a repeated claim, or nil if the request has made no claim yet, and the request's
// record. A request of a different kind cannot have the same digest, but Apply must still decide this case.
func (p past) claimed(o *job.Once) (*Claimed, *done) {
	d, refusal := p.find(o)
	switch {
	case refusal != job.Granted:
		return &Claimed{Refusal: refusal}, nil
	case d == nil || d.seq == 0:
		return nil, d
	case d.create():
		return &Claimed{Refusal: job.KeyReused}, nil
	}
	result := &Claimed{Claim: job.NewID(d.at, d.seq, 0), Seq: d.seq, Keyed: true, Replayed: true}
	if c := p.claim(d.seq); c != nil { // otherwise no line names it any more
		result.LeaseMs, result.Runs, result.runner = c.lease.Ms, c.runs, c.runner
		result.PayloadBytes = job.MaxClaimBytes
	}
	return result, d
}

// made returns the result of a repeated create, or nil if the request has not been carried out.
func (p past) made(o *job.Once) *Made {
	d, refusal := p.find(o)
	switch {
	case refusal != job.Granted:
		return &Made{Refusal: refusal}
	case d == nil || d.seq == 0:
		return nil
	case !d.create():
		return &Made{Refusal: job.KeyReused}
	}
	made := &Made{Batch: job.NewID(d.at, d.seq, 0), Seq: d.seq, Lines: int(d.lines), Replayed: true}
	if first := made.Batch; !d.batch.IsZero() && d.batch != first {
		made.Batch, made.First = d.batch, first
	}
	made.Group = d.group.of(d.queueName)
	for _, x := range d.existing {
		made.Existing = append(made.Existing, Existing{int(x.line), x.id})
	}
	return made
}

// ended returns the result of a repeated completion, or nil if the request has not carried it out, and the request's
// record.
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
	if part > parts { // a request carries out its parts in order
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

// recordedPart returns the part of a completion's result that is recorded.
func recordedPart(r *Ended, seq uint64, at int64) endedPart {
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
