package machine

import "github.com/daybookq/daybook/job"

// chain collects the jobs that the outcomes of a completion create. They are lines of one batch, which has the
// completion's seq and which users never see.
type chain struct{ jobs job.Create }

// Add adds the next job. Consecutive jobs with equal attributes are a group.
func (c *chain) Add(g job.Group, payload []byte) {
	last := len(c.jobs.Groups) - 1
	g.Lines = 1
	if last >= 0 {
		if before := c.jobs.Groups[last]; before.Client == g.Client && before.Type == g.Type && before.Attributes == g.Attributes {
			g.Lines += before.Lines
			c.jobs.Groups = c.jobs.Groups[:last]
		}
	}
	c.jobs.Groups = append(c.jobs.Groups, g)
	c.jobs.Payloads = job.LenFrame.Append(c.jobs.Payloads, payload)
	c.jobs.Longest = max(c.jobs.Longest, len(payload))
}
