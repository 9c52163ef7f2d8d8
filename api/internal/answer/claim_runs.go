package answer

import (
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// runHeadBytes is about the length of the head line of a run of jobs. It is used to size buffers.
const runHeadBytes = 256

// WriteRuns writes the answer to a claim in runs. It copies the payloads as they are stored.
func (call *ClaimCall) WriteRuns(p *web.Pieces) error {
	head := runs.Claim{ID: call.Claimed.Claim, LeaseMs: call.Claimed.LeaseMs, Jobs: runs.Jobs(call.Handed), Runs: len(call.Handed), Handlers: call.Handlers}
	if !head.ID.IsZero() {
		head.Runner = call.Cmd.Runner
	}
	if call.Ended != nil {
		if err := AppendResultRuns(p, &call.Ended.Ended, call.Ended.ForAll); err != nil {
			return err
		}
		if refused := call.Ended.Err; refused != nil {
			head.Refusal = runs.Refusal{Code: refused.Code, Detail: refused.Detail}
		}
	}
	p.B = runs.AppendClaim(p.B, &head)
	for i := range call.Handed {
		r := &call.Handed[i]
		made := runBytes(r)
		p.B = runs.AppendRunHead(p.B, &head, r)
		for _, part := range r.Parts {
			p.B = append(p.B, part...)
			if len(p.B) < web.PieceBytes {
				continue
			}
			if err := p.Write(); err != nil {
				return err
			}
		}
		if *r = (runs.Run{}); p.Begun {
			p.Held.Shrink(min(made, p.Held.Held))
		}
	}
	return nil
}

// AppendResultRuns appends a section of results.
func AppendResultRuns(p *web.Pieces, ended *applied.Ended, all bool) error {
	head := runs.Results{Ended: -1, Jobs: len(ended.Results)}
	if all {
		head.Ended, head.Refusal = ended.All, refusalInRuns(ended.Refusal)
	}
	for rest := ended.Results; len(rest) > 0; head.Runs++ {
		rest = rest[equalResults(rest):]
	}
	p.B = runs.AppendResults(p.B, &head)
	for rest := ended.Results; len(rest) > 0; {
		n := equalResults(rest)
		r := runs.ResultRun{First: rest[0].ID, N: n, Refusal: refusalInRuns(rest[0].Refusal)}
		if r.Code == "" {
			r.Status = rest[0].Status
		}
		if p.B = runs.AppendResultRun(p.B, &r); len(p.B) >= web.PieceBytes {
			if err := p.Write(); err != nil {
				return err
			}
		}
		rest = rest[n:]
	}
	return nil
}

// equalResults returns the number of results, counted from the first one, that are equal and have ids that count up.
func equalResults(list []applied.JobResult) int {
	first := &list[0]
	n := 1
	for n < len(list) && first.ID.Line()+n < job.MaxLines && list[n].ID == first.ID.WithLine(first.ID.Line()+n) &&
		list[n].Refusal == first.Refusal && (first.Refusal != job.Granted || list[n].Status == first.Status) {
		n++
	}
	return n
}

func refusalInRuns(r job.Refusal) runs.Refusal {
	if r == job.Granted {
		return runs.Refusal{}
	}
	return runs.Refusal{Code: r.Code(), Detail: r.Error()}
}
