package api

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// complete answers POST /jobs/{id}/complete.
func (s *claims) complete(c echo.Context) error {
	var r command.EndRequest
	return s.endOne(c, &s.bodies.outcomes, &r, &r.Fences, r.CreateThen)
}

// release answers POST /jobs/{id}/release.
func (s *claims) release(c echo.Context) error {
	var r command.ReleaseRequest
	return s.endOne(c, &s.bodies.small, &r, &r.Fences, nil)
}

// endOne ends the run of one job with the outcome of a request, and answers with the document of the job. f holds the
// fences of the request. then, if not nil, adds the jobs that the outcome creates.
func (s *claims) endOne(c echo.Context, rule *web.BodyRule, r interface{ Outcome() (job.Outcome, error) }, f *command.Fences,
	then func(s *command.Decoder, o *job.Outcome, reserve func(bytes int64) error) error) error {
	id, body, err := readJobRequest(c, rule, r)
	if err != nil {
		return err
	}
	defer body.Release()
	o, err := r.Outcome()
	if err == nil && then != nil {
		err = then(s.decode, &o, func(n int64) error { return body.Reserve(c.Request().Context(), n) })
	}
	if err != nil {
		return err
	}
	runner, err := f.Runner()
	if err == nil {
		err = s.decode.RequireClaimID(f.ClaimID)
	}
	if err != nil {
		return err
	}
	o.ID = id
	cmd := job.Complete{Claim: f.ClaimID, Runner: runner, Outcomes: []job.Outcome{o}}
	if cmd.Once, err = web.Once(c, "complete", runner, body.Bytes); err != nil {
		return err
	}
	ended, receipt, err := s.engine.Complete(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	body.Release() // the client may be slow to read
	s.streams.Completed(c.Request().Context(), []job.Complete{cmd}, []applied.Ended{ended})
	web.SetReplayed(c, ended.Replayed)
	result := ended.Results[0]
	if err := refusal.Err(result.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, result.Status)
}

// completeMany answers POST /jobs/complete.
func (s *claims) completeMany(c echo.Context) error {
	body, err := web.ReadBody(c, &s.bodies.outcomeList)
	if err != nil {
		return err
	}
	defer body.Release()
	ctx := c.Request().Context()
	done := command.Completion{Decoder: s.decode, Reserve: func(n int64) error { return body.Reserve(ctx, n) }}
	form := web.FormOf(c.Request())
	runner, err := done.Decode(form, body.Bytes)
	if err != nil {
		return err
	}
	o, err := web.Once(c, "complete", runner, body.Bytes)
	if err == nil {
		err = done.SetOnce(o)
	}
	if err == nil {
		err = s.decode.RequireClaimIDs(&done)
	}
	if err != nil {
		return err
	}
	held, err := web.Hold(c, s.changes, answer.ResultsBytes(done.Count)) // before anything is applied
	if err != nil {
		return err
	}
	defer held.Release()
	all := done.All
	ended, seq, err := s.streams.End(ctx, &done)
	if err != nil {
		return err
	}
	done.Commands = nil
	body.Release() // the client may be slow to read
	web.SetReplayed(c, ended.Replayed)
	if err := refusal.Err(ended.Refusal); err != nil {
		return err
	}
	if seq > 0 {
		web.SetSeq(c, seq)
	}

	switch {
	case web.Prefers(c.Request(), web.MIMERuns):
		p := web.NewPieces(c, web.MIMERuns, held, nil)
		if err := answer.AppendResultRuns(p, &ended, all); err != nil {
			return err
		}
		return p.End()
	case form == web.MIMENDJSON:
		p := web.NewPieces(c, web.MIMENDJSON, held, nil)
		if err := appendResultPieces(p, ended.Results, "", "\n"); err != nil {
			return err
		}
		return p.End()
	}
	p := web.NewPieces(c, web.MIMEJSON, held, nil)
	p.B = append(p.B, '{')
	if all {
		p.B = fmt.Appendf(p.B, `"ended":%d,`, ended.All)
	}
	if done.Brief {
		accepted, refused := command.AcceptedOf(ended.Results)
		p.B = fmt.Appendf(p.B, `"accepted":%d,`, accepted)
		return endResults(p, "refused", refused)
	}
	return endResults(p, "results", ended.Results)
}

// endResults writes the last field of a JSON object, which is a list of results, and the end of the answer.
func endResults(p *web.Pieces, field string, results []applied.JobResult) error {
	p.B = fmt.Appendf(p.B, `"%s":[`, field)
	if err := appendResultPieces(p, results, ",", ""); err != nil {
		return err
	}
	p.B = append(p.B, "]}\n"...)
	return p.End()
}

// appendResultPieces appends the result of each outcome. It puts separator between two results, and end after each.
func appendResultPieces(p *web.Pieces, list []applied.JobResult, separator, end string) error {
	for i := range list {
		if i > 0 {
			p.B = append(p.B, separator...)
		}
		p.B = append(answer.AppendJobResult(p.B, &list[i]), end...)
		if len(p.B) < web.PieceBytes {
			continue
		}
		if err := p.Write(); err != nil {
			return err
		}
	}
	return nil
}
