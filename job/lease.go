package job

// Lease is the last tickle of a claim, or of a single job, and how long it may go without another.
type Lease struct {
	Seq uint64 // of the tickle's command
	At  int64  // of the tickle, unix ms
	Ms  int64  // length
}

// Promise is the effect of tickles of everything that a runner holds. The server does not write them to each claim.
type Promise struct {
	// From is the time of the last such tickle without a lease_ms, unix ms. Every lease of the runner has its full
	// length from then on.
	From int64
	// Until is the latest end that such a tickle with a lease_ms promised, unix ms. A job that the runner held at Seq,
	// the last such tickle, is not abandoned before, unless the job or its claim was tickled since.
	Until int64
	Seq   uint64
}

// Deadline returns when the holder of the lease counts as abandoned, unix ms. graceAt is when the server began to serve
// again after a time in which no tickle could reach it.
//
// A later tickle of the claim or the job replaces a promise, and may so make the deadline earlier, as a tickle with a
// shorter lease_ms does. Timer rows may be early.
func (l Lease) Deadline(p *Promise, graceAt int64) int64 {
	at := max(l.At, graceAt, p.From) + l.Ms
	if p.Seq > l.Seq {
		at = max(at, p.Until)
	}
	return at
}

// Under returns the lease of a job that was tickled by itself and is held under a claim: a later tickle of the claim
// counts for the job too, with the length of the job's own lease.
func (l Lease) Under(claim Lease) Lease {
	if claim.Seq > l.Seq {
		l.Seq, l.At = claim.Seq, claim.At
	}
	return l
}

// Extend adds a tickle of everything that the runner holds. leaseMs 0 keeps the length of each lease.
func (p *Promise) Extend(leaseMs int64, now Now) {
	if leaseMs == 0 {
		p.From = now.At
		return
	}
	p.Until, p.Seq = max(p.Until, now.At+leaseMs), now.Seq
}
