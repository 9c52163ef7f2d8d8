package machine

import (
	"cmp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Past looks up the results of earlier requests, in the rows and caches of Apply, or in the database at one moment.
type Past struct {
	Keys    []row.KeyGeneration
	Rows    lsm.Rows
	Now     int64
	Session func(id job.ID) *row.Session
	Slot    func(name row.SlotName) *row.Slot
	Claim   func(seq uint64) *row.Claim
}

// Past returns the past as Apply sees it.
func (a *Applying) past() Past {
	return Past{a.Meta.Keys, &a.O, a.Now.At, a.SessionOf, a.Slot, a.findClaim}
}

// Find returns the recorded results of the command's request so far, or nil. A refusal says why the command may not be
// carried out: its session does not exist, its number is lower than the number of its slot's last request, or its key
// or number belongs to a different request.
func (p Past) Find(o *job.Once) (d *row.Done, refusal job.Refusal) {
	reused := job.KeyReused
	if o.Numbered() {
		reused = job.NumberReused
		n := p.Session(o.Session)
		if n == nil {
			return nil, job.SessionNotFound
		}
		l := p.Slot(row.SlotName{n.Seq, o.Slot})
		if o.Number < l.Number {
			return nil, job.NumberPassed
		}
		if o.Number == l.Number {
			d = l.Done
		}
	} else {
		d = p.findKey(o)
	}
	if d != nil && d.Digest != o.Digest {
		return nil, reused
	}
	return d, job.Granted
}

// findKey returns the recorded results for a key, or nil if there are none, or if they are too old.
func (p Past) findKey(o *job.Once) *row.Done {
	for i := len(p.Keys) - 1; i >= 0; i-- {
		if value := p.Rows.Get(row.OnceKey(p.Keys[i].Number, o.Scope, o.Key)); value != nil {
			d := lsm.Decoder(value)
			if done := row.DecodeDone(&d); done.DoneAt()+job.KeyLifeMs > p.Now {
				return done
			}
			return nil
		}
	}
	return nil
}

// rememberOnce records the results of the command's request for callers that repeat it.
func (a *Applying) rememberOnce(o *job.Once, d *row.Done) {
	d.Digest = o.Digest
	if o.Numbered() {
		n := a.SessionOf(o.Session)
		a.writeSlot(n, o.Slot, o.Number, d)
		a.useSession(n)
		return
	}
	number := uint32(a.Now.At / row.GenerationMs)
	n := len(a.Meta.Keys)
	if n == 0 || a.Meta.Keys[n-1].Number != number { // the time of commands never goes back
		a.Meta.Keys = append(a.Meta.Keys, row.KeyGeneration{Number: number})
		a.SetTimer(row.TimerKey(GenerationEnd(number), row.OnceTimer, uint64(number), 0, 0))
		n++
	}
	key := row.OnceKey(number, o.Scope, o.Key)
	before := a.O.Get(key)
	if d.Owner = a.By.Owner(); before != nil {
		rest := lsm.Decoder(before)
		d.Owner = row.DecodeDone(&rest).Owner // it stays, though another key may have sent the rest of the request
	}
	e := make(lsm.Encoder, 0, 64)
	d.Encode(&e)
	more := row.KeyOwner{Bytes: uint64(len(e) - len(before))}
	if before == nil {
		a.Meta.Keys[n-1].Keys++
		more.Keys++
		more.Bytes += uint64(len(key))
	}
	a.O.Set(key, e)
	a.Meta.Keys[n-1].Bytes += more.Bytes
	owner := row.OwnerKey(number, cmp.Or(d.Owner, job.OwnerInScope(o.Scope)))
	has := row.ReadKeyOwner(&a.O, owner)
	has.Keys += more.Keys
	has.Bytes += more.Bytes
	a.O.Set(owner, has.Encode())
}

// GenerationEnd is when even the youngest row of a generation need not be kept any longer.
func GenerationEnd(number uint32) int64 { return int64(number+1)*row.GenerationMs + job.KeyLifeMs }

// deleteGeneration deletes the keys of the oldest generation by two range deletions, however many there are.
func (a *Applying) deleteGeneration(number uint32) {
	for _, table := range []byte{row.OnceTable, row.OwnerTable} {
		prefix := row.GenerationKey(table, number)
		a.O.DeleteRange(prefix, lsm.After(prefix))
	}
	a.Meta.Keys = a.Meta.Keys[1:]
}

// Claimed returns the result of a repeated claim, or nil if the request has made no claim yet, and the request's
// record. A request of a different kind cannot have the same digest, but Apply must still decide this case.
func (p Past) Claimed(o *job.Once) (*applied.Claimed, *row.Done) {
	d, refusal := p.Find(o)
	switch {
	case refusal != job.Granted:
		return &applied.Claimed{Refusal: refusal}, nil
	case d == nil || d.Seq == 0:
		return nil, d
	case d.Create():
		return &applied.Claimed{Refusal: job.KeyReused}, nil
	}
	result := &applied.Claimed{Claim: job.NewID(d.At, d.Seq, 0), Seq: d.Seq, Keyed: true, Replayed: true}
	if c := p.Claim(d.Seq); c != nil { // otherwise no line names it any more
		result.LeaseMs, result.Runs, result.Runner = c.Lease.Ms, c.Runs, c.Runner
		result.PayloadBytes = job.MaxClaimBytes
	}
	return result, d
}

// Made returns the result of a repeated create, or nil if the request has not been carried out.
func (p Past) Made(o *job.Once) *applied.Made {
	d, refusal := p.Find(o)
	switch {
	case refusal != job.Granted:
		return &applied.Made{Refusal: refusal}
	case d == nil || d.Seq == 0:
		return nil
	case !d.Create():
		return &applied.Made{Refusal: job.KeyReused}
	}
	made := &applied.Made{Batch: job.NewID(d.At, d.Seq, 0), Seq: d.Seq, Lines: int(d.Lines), Replayed: true}
	if first := made.Batch; !d.Batch.IsZero() && d.Batch != first {
		made.Batch, made.First = d.Batch, first
	}
	made.Group = d.Group.Of(d.QueueName)
	for _, x := range d.Existing {
		made.Existing = append(made.Existing, applied.Existing{int(x.Line), x.Id})
	}
	return made
}

// Ended returns the result of a repeated completion, or nil if the request has not carried it out, and the request's
// record.
func (p Past) Ended(cmd *job.Complete) (*applied.Ended, *row.Done) {
	d, refusal := p.Find(&cmd.Once)
	if refusal != job.Granted {
		return &applied.Ended{Denied: refusal}, nil
	}
	parts := 0
	if d != nil {
		parts = len(d.Ended)
	}
	part := cmd.Once.Part
	if part == parts {
		return nil, d
	}
	if part > parts { // a request carries out its parts in order
		return &applied.Ended{Denied: job.KeyReused}, nil
	}
	was := &d.Ended[part]
	result := &applied.Ended{All: was.All, Refusal: was.Refusal, Replayed: true, Seq: was.Seq, At: was.At}
	left := cmd.Outcomes
	for _, run := range was.Results {
		if run.N > len(left) {
			return &applied.Ended{Denied: job.KeyReused}, nil
		}
		for i := range left[:run.N] {
			result.Results = append(result.Results, applied.JobResult{ID: left[i].ID, Status: run.Status, Refusal: run.Refusal})
		}
		left = left[run.N:]
	}
	if len(left) > 0 {
		return &applied.Ended{Denied: job.KeyReused}, nil
	}
	return result, d
}

// recordedPart returns the part of a completion's result that is recorded.
func recordedPart(r *applied.Ended, seq uint64, at int64) row.EndedPart {
	p := row.EndedPart{Seq: seq, At: at, All: r.All, Refusal: r.Refusal}
	for i := range r.Results {
		one := row.ResultRun{1, r.Results[i].Status, r.Results[i].Refusal}
		if last := len(p.Results) - 1; last >= 0 && p.Results[last].Status == one.Status && p.Results[last].Refusal == one.Refusal {
			p.Results[last].N++
		} else {
			p.Results = append(p.Results, one)
		}
	}
	return p
}
