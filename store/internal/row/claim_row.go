package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Claim is a claim. The part that changes is ClaimState. The claim's row has the state with which it was opened. Once a
// later command changes the state, a separate row has it, because a claim may have handed out many runs, and a tickle
// should not write them again.
type Claim struct {
	Seq    uint64
	At     int64
	Runner string
	Runs   []Run // that it handed out
	// announced: the runner reports when it begins jobs, and ClaimState.begun records it. Otherwise all runs count as
	// begun.
	Announced bool
	ClaimState
	Changed         bool // a command after the opening one has changed ClaimState
	Closed          bool // it holds no jobs any more, and its timer and its row by runner are deleted
	Dirty, Settling bool // on the machine's list of unwritten rows; on the command's list of that name
}

// ClaimState is the part of a claim that changes.
type ClaimState struct {
	Lease     job.Lease
	TimerAt   int64 // time of its timer row, at or before its deadline; 0: no timer row
	Held      int   // active lines
	Refs      int   // lines whose state names the claim
	JobLeases int   // lines with their own lease
	// begun has a bit for each line that has begun, in the order in which they were handed out. Words of zeros at the
	// end are left out.
	begun []uint64
	// CancelledAt is when lines that the claim held were last cancelled. It is kept while tickles of everything that
	// the runner holds should report them.
	CancelledAt int64
}

// JobLease is the lease of a job that was tickled individually.
type JobLease struct {
	Lease   job.Lease
	TimerAt int64
}

func (c *Claim) Id() job.ID { return job.NewID(c.At, c.Seq, 0) }

// Lines returns the number of lines that the claim handed out.
func (c *Claim) Lines() int {
	n := 0
	for _, r := range c.Runs {
		n += r.Lines()
	}
	return n
}

// Size is about how many bytes of memory a claim takes with its place in the cache.
func (c *Claim) Size() int {
	n := 350 + len(c.Runner) + 16*cap(c.Runs)
	if c.Announced {
		n += job.MaxClaimJobs / 8 // begun, at most
	}
	return n
}

// Places yields the parts of r that the claim handed out. It numbers their first lines in the order in which the claim
// handed lines out.
func (c *Claim) Places(r Run, visit func(first, last uint32, place int)) {
	place := 0
	for _, h := range c.Runs {
		if first, last := max(h.First, r.First), min(h.Last, r.Last); h.Batch == r.Batch && first <= last {
			visit(first, last, place+int(first-h.First))
		}
		place += h.Lines()
	}
}

// HasBegun reports whether the run of the line at a place has begun.
func (c *Claim) HasBegun(place int) bool {
	return !c.Announced || place/64 < len(c.begun) && c.begun[place/64]&(1<<(place%64)) != 0
}

// Begin records that the run of the line at a place has begun, and reports whether that is new.
func (c *Claim) Begin(place int) bool {
	if c.HasBegun(place) {
		return false
	}
	for len(c.begun) <= place/64 {
		c.begun = append(c.begun, 0)
	}
	c.begun[place/64] |= 1 << (place % 64)
	return true
}

func encodeRuns(e *lsm.Encoder, runs []Run) {
	e.Uint(uint64(len(runs)))
	for _, r := range runs {
		e.Uint(r.Batch)
		e.Uint(uint64(r.First))
		e.Uint(uint64(r.Last))
	}
}

func decodeRuns(d *lsm.Decoder) []Run {
	runs := make([]Run, d.Count(3))
	for i := range runs {
		runs[i] = Run{Batch: d.Uint(), First: uint32(d.Uint()), Last: uint32(d.Uint())}
	}
	return runs
}

func (c *Claim) Encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Int(c.At)
	e.Text(c.Runner)
	encodeRuns(&e, c.Runs)
	announced := uint64(0)
	if c.Announced {
		announced = 1
	}
	e.Uint(announced)
	c.ClaimState.Encode(&e)
	return e
}

// DecodeClaim decodes the row of a claim, and the row of its state. state is nil if the claim is still in the state in
// which it was opened.
func DecodeClaim(seq uint64, value, state []byte) *Claim {
	d := lsm.Decoder(value)
	c := &Claim{Seq: seq, At: d.Int(), Runner: d.Text(), Runs: decodeRuns(&d), Announced: d.Uint() == 1, ClaimState: DecodeClaimState(&d)}
	if state != nil {
		c.ClaimState = DecodeClaimState((*lsm.Decoder)(&state))
		c.Changed = true
	}
	c.Closed = c.Held == 0
	return c
}

// RunnerOfClaim decodes only the runner in a claim's row, because the claim may have handed out a thousand runs.
func RunnerOfClaim(value []byte) string {
	d := lsm.Decoder(value)
	d.Int()
	return d.Text()
}

func encodeLease(e *lsm.Encoder, l job.Lease) {
	e.Uint(l.Seq)
	e.Int(l.At)
	e.Int(l.Ms)
}

func decodeLease(d *lsm.Decoder) job.Lease { return job.Lease{Seq: d.Uint(), At: d.Int(), Ms: d.Int()} }

func (c *ClaimState) Encode(e *lsm.Encoder) {
	encodeLease(e, c.Lease)
	e.Int(c.TimerAt)
	e.Uint(uint64(c.Held))
	e.Uint(uint64(c.Refs))
	e.Uint(uint64(c.JobLeases))
	e.Int(c.CancelledAt)
	e.Uint(uint64(len(c.begun)))
	for _, word := range c.begun {
		e.Uint(word)
	}
}

// Row is the value of the state's separate row.
func (c *ClaimState) Row() []byte {
	e := make(lsm.Encoder, 0, 32)
	c.Encode(&e)
	return e
}

func DecodeClaimState(d *lsm.Decoder) (c ClaimState) {
	c.Lease = decodeLease(d)
	c.TimerAt = d.Int()
	c.Held = int(d.Uint())
	c.Refs = int(d.Uint())
	c.JobLeases = int(d.Uint())
	c.CancelledAt = d.Int()
	if n := d.Count(1); n > 0 {
		c.begun = make([]uint64, n)
		for i := range c.begun {
			c.begun[i] = d.Uint()
		}
	}
	return c
}

func (o *JobLease) Encode() []byte {
	e := make(lsm.Encoder, 0, 24)
	encodeLease(&e, o.Lease)
	e.Int(o.TimerAt)
	return e
}

func DecodeJobLease(value []byte) JobLease {
	d := lsm.Decoder(value)
	return JobLease{Lease: decodeLease(&d), TimerAt: d.Int()}
}

// ReadClaim returns the claim that the command seq made, or nil.
func ReadClaim(r lsm.Rows, seq uint64) *Claim {
	value := r.Get(SeqKey(ClaimTable, seq))
	if value == nil {
		return nil
	}
	return DecodeClaim(seq, value, r.Get(SeqKey(ClaimStateTable, seq)))
}

func (c *Claim) Document(r *Runner, graceAt int64) document.Claim {
	doc := document.Claim{
		ID: job.NewID(c.At, c.Seq, 0), Runner: c.Runner, CreatedAt: c.At, LeaseMs: c.Lease.Ms, TickledAt: c.Lease.At,
		HandedOut: c.Lines(), Held: c.Held,
	}
	if c.Held > 0 {
		doc.TickledAt = max(doc.TickledAt, r.TickledAt)
		doc.DeadlineAt = c.Lease.Deadline(&r.Promise, graceAt)
	}
	return doc
}

func (c *Claim) Flush(o *lsm.Overlay) {
	c.Dirty = false
	if c.Refs > 0 && c.Changed {
		o.Set(SeqKey(ClaimStateTable, c.Seq), c.ClaimState.Row())
	}
}
