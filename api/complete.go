package api

import (
	"context"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

type completer interface {
	Complete(ctx context.Context, c job.Complete) (applied.Ended, ingest.Receipt, error)
	CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error)
}

// complete answers POST /jobs/{id}/complete.
func (s *Server) complete(c echo.Context) error {
	var r struct {
		outcomeFields
		fences
	}
	return s.endOne(c, &s.bodies.outcomes, &r, &r.fences, r.then)
}

// releaseRequest is the body of POST /jobs/{id}/release.
type releaseRequest struct {
	How     *string `json:"how"`
	DelayMs *int64  `json:"delay_ms"`
	fences
}

func (r *releaseRequest) outcome() (o job.Outcome, err error) {
	o.DelayMs = -1
	if r.How == nil {
		return o, web.BadRequest("how", "how is missing: it must be retry, unget or archive")
	}
	switch *r.How {
	case "retry":
		o.Code = job.Retry
	case "unget":
		o.Code = job.Unget
	case "archive":
		o.Code = job.OK
	default:
		return o, web.BadRequest("how", fmt.Sprintf("how must be retry, unget or archive, not %q", web.Shortened(*r.How)))
	}
	o.ExitCode = o.Code.DefaultExitCode()
	if r.DelayMs != nil {
		if o.Code != job.Retry {
			return o, web.BadRequest("delay_ms", "delay_ms requires how to be retry")
		}
		if err := job.CheckRange("delay_ms", *r.DelayMs, 0, job.MaxDelayMs); err != nil {
			return o, web.BadField("delay_ms", err)
		}
		o.DelayMs = *r.DelayMs
	}
	return o, nil
}

// release answers POST /jobs/{id}/release.
func (s *Server) release(c echo.Context) error {
	var r releaseRequest
	return s.endOne(c, &s.bodies.small, &r, &r.fences, nil)
}

// endOne ends the run of one job with the outcome of a request, and answers with the document of the job. f holds the
// fences of the request. then, if not nil, adds the jobs that the outcome creates.
func (s *Server) endOne(c echo.Context, rule *web.BodyRule, r interface{ outcome() (job.Outcome, error) }, f *fences,
	then func(s *Server, o *job.Outcome, reserve func(bytes int64) error) error) error {
	id, body, err := readJobRequest(c, rule, r)
	if err != nil {
		return err
	}
	defer body.Release()
	o, err := r.outcome()
	if err == nil && then != nil {
		err = then(s, &o, func(n int64) error { return body.Reserve(c.Request().Context(), n) })
	}
	if err != nil {
		return err
	}
	runner, err := f.runner()
	if err == nil {
		err = s.requireClaimID(f.ClaimID)
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
	s.streams.completed([]job.Complete{cmd}, []applied.Ended{ended})
	web.SetReplayed(c, ended.Replayed)
	result := ended.Results[0]
	if err := refused(result.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, result.Status)
}

// completeMany answers POST /jobs/complete.
func (s *Server) completeMany(c echo.Context) error {
	body, err := web.ReadBody(c, &s.bodies.outcomeList)
	if err != nil {
		return err
	}
	defer body.Release()
	ctx := c.Request().Context()
	done := completion{s: s, reserve: func(n int64) error { return body.Reserve(ctx, n) }}
	form := web.FormOf(c.Request())
	runner, err := done.decode(form, body.Bytes)
	if err != nil {
		return err
	}
	o, err := web.Once(c, "complete", runner, body.Bytes)
	if err == nil {
		err = done.setOnce(o)
	}
	if err == nil {
		err = s.requireClaimIDs(&done)
	}
	if err != nil {
		return err
	}
	held, err := web.Hold(c, s.changes, resultsBytes(done.count)) // before anything is applied
	if err != nil {
		return err
	}
	defer held.Release()
	all := done.all
	ended, seq, err := s.end(ctx, &done)
	if err != nil {
		return err
	}
	done.commands = nil
	body.Release() // the client may be slow to read
	web.SetReplayed(c, ended.Replayed)
	if err := refused(ended.Refusal); err != nil {
		return err
	}
	if seq > 0 {
		web.SetSeq(c, seq)
	}

	switch {
	case web.Prefers(c.Request(), web.MIMERuns):
		p := web.NewPieces(c, web.MIMERuns, held, nil)
		if err := appendResultRuns(p, &ended, all); err != nil {
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
	if done.brief {
		accepted, refused := acceptedOf(ended.Results)
		p.B = fmt.Appendf(p.B, `"accepted":%d,`, accepted)
		return endResults(p, "refused", refused)
	}
	return endResults(p, "results", ended.Results)
}

// acceptedOf returns the number of accepted outcomes, and the results of the refused ones. A request in runs names
// thousands of jobs in a few bytes, so its answer does not name them one by one.
func acceptedOf(results []applied.JobResult) (accepted int, refused []applied.JobResult) {
	refused = results[:0]
	for i := range results {
		if results[i].Refusal != job.Granted {
			refused = append(refused, results[i])
		}
	}
	return len(results) - len(refused), refused
}

// decode adds the outcomes of a body with the given media type, and returns the runner_id of the whole request.
func (d *completion) decode(mediaType string, body []byte) (runner string, err error) {
	switch mediaType {
	case web.MIMENDJSON:
		return "", d.lines(body)
	case web.MIMERuns:
		return d.inRuns(body)
	}
	var r completeRequest
	if err = web.DecodeObject(body, &r); err == nil {
		err = r.completion(d)
	}
	if err != nil {
		return "", err
	}
	return r.runner()
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
		p.B = append(appendJobResult(p.B, &list[i]), end...)
		if len(p.B) < web.PieceBytes {
			continue
		}
		if err := p.Write(); err != nil {
			return err
		}
	}
	return nil
}

// end carries out the commands of a completion. It returns the results of all commands, and the journal position of the
// last one. If a command fails after others were applied, the outcome of the request is unknown, and the client can
// repeat the request to find out.
func (s *Server) end(ctx context.Context, done *completion) (all applied.Ended, seq uint64, err error) {
	ended, receipt, err := s.engine.CompleteInOrder(ctx, done.commands)
	s.streams.completed(done.commands, ended)
	return joinEnded(ended, receipt, err)
}

// joinEnded joins the results of a request's commands, as if the request were one command.
func joinEnded(ended []applied.Ended, receipt ingest.Receipt, err error) (all applied.Ended, seq uint64, _ error) {
	n := 0
	for i := range ended {
		n += len(ended[i].Results)
	}
	all.Results = make([]applied.JobResult, 0, n)
	for i := range ended {
		all.Results = append(all.Results, ended[i].Results...)
		all.All, all.Refusal, all.Replayed = ended[i].All, ended[i].Refusal, ended[i].Replayed
	}
	if n := len(all.Results); err != nil && n > 0 {
		p := *problemOf(err)
		p.Fate, p.Detail = web.Unknown, fmt.Sprintf("the first %d outcomes were applied, then: %s", n, p.Detail)
		err = &p
	}
	return all, receipt.Seq, err
}
