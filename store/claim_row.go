package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// claim is a claim. The part that changes is claimState. The claim's row has the state with which it was opened. Once a
// later command changes the state, a separate row has it, because a claim may have handed out many runs, and a tickle
// should not write them again.
type claim struct {
	seq    uint64
	at     int64
	runner string
	runs   []Run // that it handed out
	// announced: the runner reports when it begins jobs, and claimState.begun records it. Otherwise all runs count as
	// begun.
	announced bool
	claimState
	changed         bool // a command after the opening one has changed claimState
	closed          bool // it holds no jobs any more, and its timer and its row by runner are deleted
	dirty, settling bool // on the machine's list of unwritten rows; on the command's list of that name
}

// claimState is the part of a claim that changes.
type claimState struct {
	lease     job.Lease
	timerAt   int64 // time of its timer row, at or before its deadline; 0: no timer row
	held      int   // active lines
	refs      int   // lines whose state names the claim
	jobLeases int   // lines with their own lease
	// begun has a bit for each line that has begun, in the order in which they were handed out. Words of zeros at the
	// end are left out.
	begun []uint64
	// cancelledAt is when lines that the claim held were last cancelled. It is kept while tickles of everything that
	// the runner holds should report them.
	cancelledAt int64
}

// jobLease is the lease of a job that was tickled individually.
type jobLease struct {
	lease   job.Lease
	timerAt int64
}

func (c *claim) id() job.ID { return job.NewID(c.at, c.seq, 0) }

// lines returns the number of lines that the claim handed out.
func (c *claim) lines() int {
	n := 0
	for _, r := range c.runs {
		n += r.Lines()
	}
	return n
}

// size is about how many bytes of memory a claim takes with its place in the cache.
func (c *claim) size() int {
	n := 350 + len(c.runner) + 16*cap(c.runs)
	if c.announced {
		n += job.MaxClaimJobs / 8 // begun, at most
	}
	return n
}

// places yields the parts of r that the claim handed out. It numbers their first lines in the order in which the claim
// handed lines out.
func (c *claim) places(r Run, visit func(first, last uint32, place int)) {
	place := 0
	for _, h := range c.runs {
		if first, last := max(h.First, r.First), min(h.Last, r.Last); h.Batch == r.Batch && first <= last {
			visit(first, last, place+int(first-h.First))
		}
		place += h.Lines()
	}
}

// hasBegun reports whether the run of the line at a place has begun.
func (c *claim) hasBegun(place int) bool {
	return !c.announced || place/64 < len(c.begun) && c.begun[place/64]&(1<<(place%64)) != 0
}

// begin records that the run of the line at a place has begun, and reports whether that is new.
func (c *claim) begin(place int) bool {
	if c.hasBegun(place) {
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

func (c *claim) encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Int(c.at)
	e.Text(c.runner)
	encodeRuns(&e, c.runs)
	announced := uint64(0)
	if c.announced {
		announced = 1
	}
	e.Uint(announced)
	c.claimState.encode(&e)
	return e
}

// decodeClaim decodes the row of a claim, and the row of its state. state is nil if the claim is still in the state in
// which it was opened.
func decodeClaim(seq uint64, value, state []byte) *claim {
	d := lsm.Decoder(value)
	c := &claim{seq: seq, at: d.Int(), runner: d.Text(), runs: decodeRuns(&d), announced: d.Uint() == 1, claimState: decodeClaimState(&d)}
	if state != nil {
		c.claimState = decodeClaimState((*lsm.Decoder)(&state))
		c.changed = true
	}
	c.closed = c.held == 0
	return c
}

// runnerOfClaim decodes only the runner in a claim's row, because the claim may have handed out a thousand runs.
func runnerOfClaim(value []byte) string {
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

func (c *claimState) encode(e *lsm.Encoder) {
	encodeLease(e, c.lease)
	e.Int(c.timerAt)
	e.Uint(uint64(c.held))
	e.Uint(uint64(c.refs))
	e.Uint(uint64(c.jobLeases))
	e.Int(c.cancelledAt)
	e.Uint(uint64(len(c.begun)))
	for _, word := range c.begun {
		e.Uint(word)
	}
}

// row is the value of the state's separate row.
func (c *claimState) row() []byte {
	e := make(lsm.Encoder, 0, 32)
	c.encode(&e)
	return e
}

func decodeClaimState(d *lsm.Decoder) (c claimState) {
	c.lease = decodeLease(d)
	c.timerAt = d.Int()
	c.held = int(d.Uint())
	c.refs = int(d.Uint())
	c.jobLeases = int(d.Uint())
	c.cancelledAt = d.Int()
	if n := d.Count(1); n > 0 {
		c.begun = make([]uint64, n)
		for i := range c.begun {
			c.begun[i] = d.Uint()
		}
	}
	return c
}

func (o *jobLease) encode() []byte {
	e := make(lsm.Encoder, 0, 24)
	encodeLease(&e, o.lease)
	e.Int(o.timerAt)
	return e
}

func decodeJobLease(value []byte) jobLease {
	d := lsm.Decoder(value)
	return jobLease{lease: decodeLease(&d), timerAt: d.Int()}
}

// readClaim returns the claim that the command seq made, or nil.
func readClaim(r lsm.Rows, seq uint64) *claim {
	value := r.Get(seqKey(claimTable, seq))
	if value == nil {
		return nil
	}
	return decodeClaim(seq, value, r.Get(seqKey(claimStateTable, seq)))
}

func (c *claim) document(r *runner, graceAt int64) Claim {
	doc := Claim{
		ID: job.NewID(c.at, c.seq, 0), Runner: c.runner, CreatedAt: c.at, LeaseMs: c.lease.Ms, TickledAt: c.lease.At,
		HandedOut: c.lines(), Held: c.held,
	}
	if c.held > 0 {
		doc.TickledAt = max(doc.TickledAt, r.tickledAt)
		doc.DeadlineAt = c.lease.Deadline(&r.promise, graceAt)
	}
	return doc
}

func (c *claim) flush(o *lsm.Overlay) {
	c.dirty = false
	if c.refs > 0 && c.changed {
		o.Set(seqKey(claimStateTable, c.seq), c.claimState.row())
	}
}
