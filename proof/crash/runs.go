package crash

import (
	"maps"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// readRuns reads the answer to a claim in runs.
func readRuns(body []byte) (a claimed, err error) {
	d := runs.NewDecoder(body)
	if d.Is("results") {
		r, err := d.Results()
		if err != nil {
			return a, err
		}
		a.ended, a.refused = max(r.Ended, 0), r.Code != ""
		for range r.Runs {
			if _, err := d.Result(); err != nil {
				return a, err
			}
		}
	}
	c, err := d.Claim()
	if err != nil {
		return a, err
	}
	var docs []job.Job
	for range c.Runs {
		r, err := d.Run(&c)
		if err != nil {
			return a, err
		}
		if docs, err = r.Documents(docs); err != nil {
			return a, err
		}
	}
	a.claim = c.ID
	for i := range docs {
		j := &docs[i]
		a.jobs = append(a.jobs, document{
			JobID: j.ID, BatchID: j.Batch, Type: j.Type, Meta: maps.Collect(j.Meta.All()), Status: j.Status.String(), PayloadB64: j.Payload, RunAttempts: int32(j.RunAttempts), MaxAttempts: int32(j.MaxAttempts),
			ClaimID: &j.Claim, RunnerID: &j.Runner, LeaseMs: j.LeaseMs,
		})
	}
	return a, d.End()
}

// outcomesInRuns writes an outcome for each job of a grant. Neighbours with equal outcomes are one run.
func (g *grant) outcomesInRuns(outcomes []outcome) []byte {
	c := runs.Completion{Claim: g.id, Jobs: len(g.jobs)}
	var list []runs.OutcomeRun
	for i, id := range g.jobs {
		if n := len(list); i > 0 && outcomes[i] == outcomes[i-1] {
			if last := &list[n-1]; id == last.Outcome.ID.WithLine(last.Outcome.ID.Line()+last.N) {
				last.N++
				continue
			}
		}
		code, err := job.ParseCode(outcomes[i].code)
		if err != nil {
			panic(err)
		}
		o := job.Outcome{ID: id, Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
		if outcomes[i].delayMs >= 0 && !outcomes[i].final() {
			o.DelayMs = outcomes[i].delayMs
		}
		list = append(list, runs.OutcomeRun{Claim: g.id, Outcome: o, N: 1})
	}
	c.Runs = len(list)
	b := runs.AppendCompletion(nil, &c)
	for i := range list {
		b = runs.AppendOutcomeRun(b, &c, &list[i])
	}
	return b
}

// resultsInRuns reads results in runs.
func resultsInRuns(body []byte) (list []result, err error) {
	d := runs.NewDecoder(body)
	head, err := d.Results()
	if err != nil {
		return nil, err
	}
	for range head.Runs {
		r, err := d.Result()
		if err != nil {
			return nil, err
		}
		for i := range r.N {
			one := result{JobID: r.First.WithLine(r.First.Line() + i), Code: r.Code}
			if r.Status != 0 {
				name := r.Status.String()
				one.Status = &name
			}
			list = append(list, one)
		}
	}
	return list, d.End()
}
