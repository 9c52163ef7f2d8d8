package api

import (
	"context"
	"fmt"

	"github.com/labstack/echo/v4"

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
		return o, badRequest("how", "how is missing: it must be retry, unget or archive")
	}
	switch *r.How {
	case "retry":
		o.Code = job.Retry
	case "unget":
		o.Code = job.Unget
	case "archive":
		o.Code = job.OK
	default:
		return o, badRequest("how", fmt.Sprintf("how must be retry, unget or archive, not %q", shortened(*r.How)))
	}
	o.ExitCode = o.Code.DefaultExitCode()
	if r.DelayMs != nil {
		if o.Code != job.Retry {
			return o, badRequest("delay_ms", "delay_ms requires how to be retry")
		}
		if err := job.CheckRange("delay_ms", *r.DelayMs, 0, job.MaxDelayMs); err != nil {
			return o, badField("delay_ms", err)
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
func (s *Server) endOne(c echo.Context, rule *bodyRule, r interface{ outcome() (job.Outcome, error) }, f *fences,
	then func(s *Server, o *job.Outcome, reserve func(bytes int64) error) error) error {
	id, body, err := s.readJobRequest(c, rule, r)
	if err != nil {
		return err
	}
	defer body.release()
	o, err := r.outcome()
	if err == nil && then != nil {
		err = then(s, &o, func(n int64) error { return body.reserve(c.Request().Context(), n) })
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
	if cmd.Once, err = once(c, "complete", runner, body.bytes); err != nil {
		return err
	}
	ended, receipt, err := s.engine.Complete(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	body.release() // the client may be slow to read
	s.streams.completed([]job.Complete{cmd}, []applied.Ended{ended})
	setReplayed(c, ended.Replayed)
	result := ended.Results[0]
	if err := refused(result.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, result.Status)
}

// completeMany answers POST /jobs/complete.
func (s *Server) completeMany(c echo.Context) error {
	body, err := readBody(c, &s.bodies.outcomeList)
	if err != nil {
		return err
	}
	defer body.release()
	ctx := c.Request().Context()
	done := completion{s: s, reserve: func(n int64) error { return body.reserve(ctx, n) }}
	form := formOf(c.Request())
	runner, err := done.decode(form, body.bytes)
	if err != nil {
		return err
	}
	o, err := once(c, "complete", runner, body.bytes)
	if err == nil {
		err = done.setOnce(o)
	}
	if err == nil {
		err = s.requireClaimIDs(&done)
	}
	if err != nil {
		return err
	}
	held, err := s.hold(c, s.changes, resultsBytes(done.count)) // before anything is applied
	if err != nil {
		return err
	}
	defer held.release()
	all := done.all
	ended, seq, err := s.end(ctx, &done)
	if err != nil {
		return err
	}
	done.commands = nil
	body.release() // the client may be slow to read
	setReplayed(c, ended.Replayed)
	if err := refused(ended.Refusal); err != nil {
		return err
	}
	if seq > 0 {
		setSeq(c, seq)
	}

	switch {
	case prefers(c.Request(), mimeRuns):
		p := newPieces(c, mimeRuns, held, nil)
		if err := p.resultRuns(&ended, all); err != nil {
			return err
		}
		return p.end()
	case form == mimeNDJSON:
		p := newPieces(c, mimeNDJSON, held, nil)
		if err := p.results(ended.Results, "", "\n"); err != nil {
			return err
		}
		return p.end()
	}
	p := newPieces(c, mimeJSON, held, nil)
	p.b = append(p.b, '{')
	if all {
		p.b = fmt.Appendf(p.b, `"ended":%d,`, ended.All)
	}
	if done.brief {
		accepted, refused := acceptedOf(ended.Results)
		p.b = fmt.Appendf(p.b, `"accepted":%d,`, accepted)
		return p.endResults("refused", refused)
	}
	return p.endResults("results", ended.Results)
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
	case mimeNDJSON:
		return "", d.lines(body)
	case mimeRuns:
		return d.inRuns(body)
	}
	var r completeRequest
	if err = decodeObject(body, &r); err == nil {
		err = r.completion(d)
	}
	if err != nil {
		return "", err
	}
	return r.runner()
}

// endResults writes the last field of a JSON object, which is a list of results, and the end of the answer.
func (p *pieces) endResults(field string, results []applied.JobResult) error {
	p.b = fmt.Appendf(p.b, `"%s":[`, field)
	if err := p.results(results, ",", ""); err != nil {
		return err
	}
	p.b = append(p.b, "]}\n"...)
	return p.end()
}

// results appends the result of each outcome. It puts separator between two results, and end after each.
func (p *pieces) results(list []applied.JobResult, separator, end string) error {
	for i := range list {
		if i > 0 {
			p.b = append(p.b, separator...)
		}
		p.b = append(appendJobResult(p.b, &list[i]), end...)
		if len(p.b) < pieceBytes {
			continue
		}
		if err := p.write(); err != nil {
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
		p.fate, p.detail = unknown, fmt.Sprintf("the first %d outcomes were applied, then: %s", n, p.detail)
		err = &p
	}
	return all, receipt.Seq, err
}
