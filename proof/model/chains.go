package model

import "github.com/daybookq/daybook/job"

// mayChain reports whether the chain of jobs that an outcome leads to is short enough.
func (m *Model) mayChain(j *Job, o *job.Outcome) bool {
	if o.Then == nil {
		return true
	}
	for _, g := range o.Then.Groups {
		hops := j.Attr.Hops + 1
		for next := g.OnComplete; next != ""; hops++ {
			g, _, err := next.Parse()
			if err != nil {
				panic(err)
			}
			next = g.OnComplete
		}
		if hops > job.MaxHops {
			return false
		}
	}
	return true
}

// chained records the jobs that the end of a job creates.
func (m *Model) chained(j *Job, o *job.Outcome) {
	inherit := func(g job.Group) job.Group {
		if g.Client == "" {
			g.Client = j.Attr.Client
		}
		if g.Meta == "" {
			g.Meta = j.Attr.Meta
		}
		if g.Traceparent == "" {
			g.Traceparent = j.Attr.Traceparent
		}
		g.Lines, g.Hops = 1, j.Attr.Hops+1
		return g
	}
	c := &m.chain
	if o.Then != nil {
		for _, u := range o.Then.Unique {
			c.Unique = append(c.Unique, job.UniqueKey{Line: len(c.Groups) + u.Line, Key: u.Key})
		}
		for _, g := range o.Then.Groups {
			for range g.Lines {
				c.Groups = append(c.Groups, inherit(g))
			}
		}
		c.Payloads = append(c.Payloads, o.Then.Payloads...)
	}
	if o.Code == job.OK && j.shown() == job.Completed && j.Attr.OnComplete != "" {
		g, delay, err := j.Attr.OnComplete.Parse()
		if err != nil {
			panic(err)
		}
		if delay > 0 {
			g.RunAt = m.At + delay
		}
		payload := o.Output
		g.Kind = o.OutputKind
		if o.OutputKind == job.Nothing && o.OutputAddr != "" {
			g.Kind, payload = job.Text, []byte(o.OutputAddr)
		}
		c.Groups = append(c.Groups, inherit(g))
		c.Payloads = job.LenFrame.Append(c.Payloads, payload)
	}
}

// createChained creates the jobs that the outcomes of a completion lead to.
func (m *Model) createChained() {
	lines := m.chain.Groups
	if len(lines) == 0 {
		return
	}
	c := &job.Create{Joined: true, Frame: job.LenFrame, Unique: m.chain.Unique, Payloads: m.chain.Payloads}
	m.chain = job.Create{}
	for _, g := range lines { // equal neighbours are a group
		if n := len(c.Groups); n > 0 {
			before := c.Groups[n-1]
			if before.Lines = 1; before == g {
				c.Groups[n-1].Lines++
				continue
			}
		}
		c.Groups = append(c.Groups, g)
	}
	m.create(c)
}
