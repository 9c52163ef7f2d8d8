package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// chainHops returns the longest chain of jobs that an outcome of p can lead to: the number of jobs that have created
// each other, up to the last one.
func chainHops(p part, o *job.Outcome) int {
	hops := p.group().Hops
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
		g, _ := followOn(text)
		text = g.OnComplete
	}
	return n
}

func followOn(text job.FollowOn) (g job.Group, delayMs int64) {
	g, delayMs, err := text.Parse()
	if err != nil {
		lsm.Contradict("decode", "%v", err)
	}
	return g, delayMs
}

// chained adds the jobs that the end of lines creates: first the outcome's jobs, then the jobs that the lines' create
// named. status is the new status of the lines.
func (a *applying) chained(p part, o *job.Outcome, status job.Status) {
	if o.Then != nil {
		a.addThen(p.group(), o.Then)
	}
	if status != job.Completed || o.Code != job.OK {
		return
	}
	if from := p.group(); from.OnComplete != "" {
		a.addFollowOns(from, int(p.lines()), &o.Result)
	}
}

func (a *applying) addThen(from *group, jobs *job.Create) {
	client, first, body := a.queues.byID[from.queueID].client, a.chain.jobs.Lines(), jobs.Payloads
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
			a.chain.add(g, payload)
			body = rest
		}
	}
}

// addFollowOns adds the follow-on jobs that the create of n lines named.
func (a *applying) addFollowOns(from *group, n int, result *job.Result) {
	g, delayMs := followOn(from.OnComplete)
	g.Inherit(a.queues.byID[from.queueID].client, &from.Attributes)
	if delayMs > 0 {
		g.RunAt = min(a.now.At+delayMs, job.MaxTimeMs)
	}
	kind, payload := result.Payload()
	g.Kind = kind
	for range n {
		a.chain.add(g, payload)
	}
}

// createChained creates the jobs that the outcomes of a completion have collected.
func (a *applying) createChained() {
	if len(a.chain.jobs.Groups) == 0 {
		return
	}
	jobs := a.chain.jobs
	a.chain = chain{}
	jobs.Frame, jobs.Joined = job.LenFrame, true
	a.makeBatch(&jobs, nil)
}
