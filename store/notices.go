package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A notice is a row that names a claim with cancelled jobs. While it exists, the tickles of everything that a runner
// holds report these jobs.

const (
	// maxNotices bounds the claims that one tickle looks at, and the jobs that it reports as cancelled.
	maxNotices = 1000
	// noticeSpans bounds the spans that one tickle looks at. If a runner's claims have more spans, the runner learns of
	// the remaining cancelled jobs when it completes them.
	noticeSpans = 4000
	// noticeMs is how long a notice stays. Most runners tickle much more often, and an answer may get lost.
	noticeMs = hourMs
)

// addNotice adds the notice of a claim.
func (a *applying) addNotice(c *claim) {
	if c.cancelledAt == 0 {
		a.o.Set(holdKey(noticeTable, c.runner, c.seq), nil)
	}
	c.cancelledAt = a.now.At
	a.touchClaim(c)
}

// deleteNotice deletes the notice of a claim.
func (a *applying) deleteNotice(c *claim) {
	if c.cancelledAt != 0 {
		a.o.Delete(holdKey(noticeTable, c.runner, c.seq))
		c.cancelledAt = 0
		a.touchClaim(c)
	}
}

// notices returns the jobs of a runner's claims that were cancelled lately. A runner that does not tickle is notified
// when it completes the job.
func (a *applying) notices(name string) (lost []JobResult) {
	prefix := runnerKey(noticeTable, name)
	var seqs []uint64
	a.o.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		if runnerOfKey(key) == name {
			seqs = append(seqs, claimOfHold(key))
		}
		return len(seqs) < maxNotices
	})
	spans := noticeSpans
	for _, seq := range seqs {
		c := a.claim(seq)
		if c.cancelledAt+noticeMs < a.now.At {
			a.deleteNotice(c)
			continue
		}
		for _, r := range c.runs {
			if spans <= 0 || len(lost) >= maxNotices {
				break
			}
			a.eachOf(r, func(p part) {
				spans--
				if p.in.Claim == c.seq && p.in.Status == job.Cancelled {
					lost = appendLost(lost, p, job.WasCancelled)
				}
			})
		}
	}
	return lost[:min(len(lost), maxNotices)]
}

// appendLost appends the refusal of each line of a part.
func appendLost(lost []JobResult, p part, refusal job.Refusal) []JobResult {
	for line := p.first; line <= p.last; line++ {
		lost = append(lost, JobResult{ID: job.NewID(p.b.at, p.b.seq, int(line)), Refusal: refusal})
	}
	return lost
}
