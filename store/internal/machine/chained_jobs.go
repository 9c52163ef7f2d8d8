package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// chainHops returns the longest chain of jobs that an outcome of p can lead to: the number of jobs that have created
// each other, up to the last one.
func chainHops(p row.Part, o *job.Outcome) int {
	hops := p.Group().Hops
	if o.Then == nil {
		return hops
	}
	most := 0
	for i := range o.Then.Groups {
		most = max(most, followOns(o.Then.Groups[i].OnComplete))
	}
	return hops + 1 + most
}

// followOns returns how many jobs are created in a chain if a job with an on_complete completes, and each of them
// completes.
func followOns(text job.FollowOn) (n int) {
	for ; text != ""; n++ {
		g, _ := FollowOn(text)
		text = g.OnComplete
	}
	return n
}

func FollowOn(text job.FollowOn) (g job.Group, delayMs int64) {
	g, delayMs, err := text.Parse()
	if err != nil {
		lsm.Contradict("decode", "%v", err)
	}
	return g, delayMs
}

// chained adds the jobs that the end of lines creates: first the outcome's jobs, then the jobs that the lines' create
// named. status is the new status of the lines.
func (a *Applying) chained(p row.Part, o *job.Outcome, status job.Status) {
	if o.Then != nil {
		a.addThen(p.Group(), o.Then)
	}
	if status != job.Completed || o.Code != job.OK {
		return
	}
	if from := p.Group(); from.OnComplete != "" {
		a.addFollowOns(from, int(p.Lines()), &o.Result)
	}
}

func (a *Applying) addThen(from *row.Group, jobs *job.Create) {
	client, first, body := a.AllQueues.ByID[from.QueueID].Client, a.chain.jobs.Lines(), jobs.Payloads
	for _, u := range jobs.Unique {
		a.chain.jobs.Unique = append(a.chain.jobs.Unique, job.UniqueKey{Line: first + u.Line, Key: u.Key})
	}
	for i := range jobs.Groups {
		g := jobs.Groups[i]
		g.Inherit(client, &from.Attributes)
		for range jobs.Groups[i].Lines {
			payload, rest, err := jobs.Frame.Next(body)
			if err != nil {
				lsm.Fail("create chained jobs", err) // cannot happen: the decoder has walked the body
			}
			a.chain.Add(g, payload)
			body = rest
		}
	}
}

// addFollowOns adds the follow-on jobs that the create of n lines named.
func (a *Applying) addFollowOns(from *row.Group, n int, result *job.Result) {
	g, delayMs := FollowOn(from.OnComplete)
	g.Inherit(a.AllQueues.ByID[from.QueueID].Client, &from.Attributes)
	if delayMs > 0 {
		g.RunAt = min(a.Now.At+delayMs, job.MaxTimeMs)
	}
	kind, payload := result.Payload()
	g.Kind = kind
	for range n {
		a.chain.Add(g, payload)
	}
}

// createChained creates the jobs that the outcomes of a completion have collected.
func (a *Applying) createChained() {
	if len(a.chain.jobs.Groups) == 0 {
		return
	}
	jobs := a.chain.jobs
	a.chain = chain{}
	jobs.Frame, jobs.Joined = job.LenFrame, true
	a.makeBatch(&jobs, nil)
}

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
