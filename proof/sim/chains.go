package sim

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// Outcomes create chained jobs, and so do jobs that complete.

// chainedGroup makes random attributes for chained jobs. Some of these jobs inherit their client and meta.
func (u *user) chainedGroup() job.Group {
	return job.Group{
		Client: pick(u.random, "", u.client()), Type: pick(u.random, "resize", "mail"), Attributes: job.Attributes{
			Priority: pick(u.random, 4, 0, 9), MaxAttempts: 1 + u.random.IntN(4), LeaseMs: int64(1000 + u.random.IntN(4000)),
			Backoff: job.Backoff{InitialMs: int64(u.random.IntN(500)), FactorMilli: 2000, MaxMs: 2000}, RetentionMs: 1_000_000_000,
			Meta: pick(u.random, "", "", job.Meta("of=chain"))},
	}
}

// followOn makes the job to create when a job completes. With nested, it may have a follow-on job, too.
func (u *user) followOn(nested bool) job.FollowOn {
	g := u.chainedGroup()
	if nested && u.random.IntN(2) == 0 {
		g.OnComplete = u.followOn(false)
	}
	text, err := job.NewFollowOn(&g, int64(pick(u.random, 0, 0, u.random.IntN(3000))))
	if err != nil {
		panic(err)
	}
	return text
}

// then makes the jobs that an outcome creates. Some have unique keys, and other jobs may have the same keys.
func (u *user) then() *job.Create {
	u.w.account.mu.Lock()
	u.w.chains++
	tag := fmt.Sprintf("chain-%d", u.w.chains)
	u.w.account.mu.Unlock()
	c, line := &job.Create{Frame: job.LenFrame}, 0
	for range pick(u.random, 1, 1, 2, 3) {
		g := u.chainedGroup()
		g.Kind, g.Lines = pick(u.random, job.Text, job.Bytes), 1+u.random.IntN(2)
		if u.random.IntN(4) == 0 {
			g.OnComplete = u.followOn(true)
		}
		c.Groups = append(c.Groups, g)
		for range g.Lines {
			if u.random.IntN(3) == 0 {
				c.Unique = append(c.Unique, job.UniqueKey{Line: line, Key: fmt.Sprintf("chain-key-%d", u.random.IntN(8))})
			}
			payload := fmt.Appendf(nil, "%s/%d/%s", tag, line, u.text())
			c.Payloads = c.Frame.Append(c.Payloads, payload)
			c.Longest = max(c.Longest, len(payload))
			line++
		}
	}
	return c
}

// addThen lets some outcomes of a completion create jobs.
func (u *user) addThen(c *job.Complete) {
	for i := range c.Outcomes {
		if o := &c.Outcomes[i]; (o.Code == job.OK || o.Code == job.Fail) && u.random.IntN(2) == 0 {
			o.Then = u.then()
		}
	}
}
