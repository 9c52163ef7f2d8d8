package job

// Lease is the last tickle of a claim or of a single job, and the time within which the next tickle is due.
type Lease struct {
	Seq uint64 // of the tickle's command
	At  int64  // of the tickle, unix ms
	Ms  int64  // length
}

// Promise is the effect of tickles for all jobs of a runner. The server does not write these tickles to each claim.
type Promise struct {
	// From is the time of the last such tickle without a lease_ms, in unix ms. From then on, every lease of the runner
	// has its full length.
	From int64
	// Until is the latest end that such a tickle with a lease_ms promised, in unix ms. Seq is the last of these tickles.
	// A job that the runner held at Seq is not abandoned before Until, unless the job or its claim was tickled since.
	Until int64
	Seq   uint64
}

// Deadline returns the time at which the holder of the lease counts as abandoned, in unix ms. graceAt is the time at
// which the server began to serve again after an interruption in which no tickle could reach it.
//
// A later tickle of the claim or the job replaces a promise. This can make the deadline earlier, as a tickle with a
// shorter lease_ms does. Timer rows may be early.
func (l Lease) Deadline(p *Promise, graceAt int64) int64 {
	at := max(l.At, graceAt, p.From) + l.Ms
	if p.Seq > l.Seq {
		at = max(at, p.Until)
	}
	return at
}

// Under returns the lease of a job that was tickled individually and is held under a claim. A later tickle of the claim
// also counts for the job, with the length of the job's lease.
func (l Lease) Under(claim Lease) Lease {
	if claim.Seq > l.Seq {
		l.Seq, l.At = claim.Seq, claim.At
	}
	return l
}

// Extend records a tickle for all jobs of the runner. leaseMs 0 keeps the length of each lease.
func (p *Promise) Extend(leaseMs int64, now Now) {
	if leaseMs == 0 {
		p.From = now.At
		return
	}
	p.Until, p.Seq = max(p.Until, now.At+leaseMs), now.Seq
}
