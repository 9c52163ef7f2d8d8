package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// A notice is a row that names a claim with cancelled jobs. While it exists, the tickles of everything that a runner
// holds report these jobs.

const (
	// MaxNotices bounds the claims that one tickle looks at, and the jobs that it reports as cancelled.
	MaxNotices = 1000
	// NoticeSpans bounds the spans that one tickle looks at. If a runner's claims have more spans, the runner learns of
	// the remaining cancelled jobs when it completes them.
	NoticeSpans = 4000
)

// addNotice adds the notice of a claim.
func (a *Applying) addNotice(c *row.Claim) {
	if c.CancelledAt == 0 {
		a.O.Set(row.HoldKey(row.NoticeTable, c.Runner, c.Seq), nil)
	}
	c.CancelledAt = a.Now.At
	a.touchClaim(c)
}

// deleteNotice deletes the notice of a claim.
func (a *Applying) deleteNotice(c *row.Claim) {
	if c.CancelledAt != 0 {
		a.O.Delete(row.HoldKey(row.NoticeTable, c.Runner, c.Seq))
		c.CancelledAt = 0
		a.touchClaim(c)
	}
}

// notices returns the jobs of a runner's claims that were cancelled lately. A runner that does not tickle is notified
// when it completes the job.
func (a *Applying) notices(name string) (lost []applied.JobResult) {
	prefix := row.RunnerKey(row.NoticeTable, name)
	var seqs []uint64
	a.O.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		if row.RunnerOfKey(key) == name {
			seqs = append(seqs, row.ClaimOfHold(key))
		}
		return len(seqs) < MaxNotices
	})
	spans := NoticeSpans
	for _, seq := range seqs {
		c := a.claim(seq)
		if c.CancelledAt+job.NoticeMs < a.Now.At {
			a.deleteNotice(c)
			continue
		}
		for _, r := range c.Runs {
			if spans <= 0 || len(lost) >= MaxNotices {
				break
			}
			a.eachOf(r, func(p row.Part) {
				spans--
				if p.In.Claim == c.Seq && p.In.Status == job.Cancelled {
					lost = appendLost(lost, p, job.WasCancelled)
				}
			})
		}
	}
	return lost[:min(len(lost), MaxNotices)]
}

// appendLost appends the refusal of each line of a part.
func appendLost(lost []applied.JobResult, p row.Part, refusal job.Refusal) []applied.JobResult {
	for line := p.First; line <= p.Last; line++ {
		lost = append(lost, applied.JobResult{ID: job.NewID(p.B.At, p.B.Seq, int(line)), Refusal: refusal})
	}
	return lost
}
