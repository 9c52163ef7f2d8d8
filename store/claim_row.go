package store

import "github.com/daybookq/daybook/job"

// claim is a claim. What changes of it is in claimState, which has a row of its own.
type claim struct {
	seq    uint64
	at     int64
	runner string
	runs   []Run // that it handed out
	claimState
	closed          bool // it holds nothing any more, and has neither a timer nor a row by its runner
	dirty, settling bool // on the lists of these names
}

// claimState is the part of a claim that changes.
type claimState struct {
	lease     job.Lease
	timerAt   int64 // time of its timer row, at or before its deadline; 0: no timer row
	held      int   // active lines
	refs      int   // lines whose state names the claim
	jobLeases int   // lines with a lease of their own
	// cancelledAt is when lines that it held were last cancelled, for as long as tickles of everything that the runner holds should report it.
	cancelledAt int64
}

// jobLease is the lease of one job that was tickled by itself.
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

// handedOut reports whether the claim handed out a line.
func (c *claim) handedOut(seq uint64, line uint32) bool {
	for _, r := range c.runs {
		if r.Batch == seq && r.First <= line && line <= r.Last {
			return true
		}
	}
	return false
}

func encodeRuns(e *encoder, runs []Run) {
	e.uint(uint64(len(runs)))
	for _, r := range runs {
		e.uint(r.Batch)
		e.uint(uint64(r.First))
		e.uint(uint64(r.Last))
	}
}

func decodeRuns(d *decoder) []Run {
	runs := make([]Run, d.count(3))
	for i := range runs {
		runs[i] = Run{Batch: d.uint(), First: uint32(d.uint()), Last: uint32(d.uint())}
	}
	return runs
}

func (c *claim) encode() []byte {
	e := make(encoder, 0, 64)
	e.int(c.at)
	e.text(c.runner)
	encodeRuns(&e, c.runs)
	return e
}

func decodeClaim(seq uint64, value []byte) *claim {
	d := decoder(value)
	return &claim{seq: seq, at: d.int(), runner: d.text(), runs: decodeRuns(&d)}
}

func encodeLease(e *encoder, l job.Lease) {
	e.uint(l.Seq)
	e.int(l.At)
	e.int(l.Ms)
}

func decodeLease(d *decoder) job.Lease { return job.Lease{Seq: d.uint(), At: d.int(), Ms: d.int()} }

func (c *claimState) encode() []byte {
	e := make(encoder, 0, 32)
	encodeLease(&e, c.lease)
	e.int(c.timerAt)
	e.uint(uint64(c.held))
	e.uint(uint64(c.refs))
	e.uint(uint64(c.jobLeases))
	e.int(c.cancelledAt)
	return e
}

func decodeClaimState(value []byte) (c claimState) {
	d := decoder(value)
	c.lease = decodeLease(&d)
	c.timerAt = d.int()
	c.held = int(d.uint())
	c.refs = int(d.uint())
	c.jobLeases = int(d.uint())
	c.cancelledAt = d.int()
	return c
}

func (o *jobLease) encode() []byte {
	e := make(encoder, 0, 24)
	encodeLease(&e, o.lease)
	e.int(o.timerAt)
	return e
}

func decodeJobLease(value []byte) jobLease {
	d := decoder(value)
	return jobLease{lease: decodeLease(&d), timerAt: d.int()}
}

// readClaim returns the claim that the command seq made, or nil.
func readClaim(r rows, seq uint64) *claim {
	value := r.get(seqKey(claimTable, seq))
	if value == nil {
		return nil
	}
	c := decodeClaim(seq, value)
	c.claimState = decodeClaimState(r.get(seqKey(claimStateTable, seq)))
	c.closed = c.held == 0
	return c
}
