package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/rates"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// claims are the jobs that runners hold.
type claims struct {
	reader
	web      *web.Server
	decode   *command.Decoder
	streams  *stream.Streams
	draining context.Context // done when the shutdown begins
	log      zerolog.Logger
}

const (
	exampleClaim = "#:claim v=1 claim_id=01a0c450-6c00-7000-8000-0000e1000000 runner_id=r1 lease_ms=300000 jobs=2 runs=1\n" +
		"#:run job_id=01a0c450-5878-7000-8000-000001c00000 n=2 client=acme type=resize run_attempts=1 kind=text frame=line bytes=13\nfirst\nsecond\n"
	exampleComplete = "#:complete v=1 claim_id=01a0c450-6c00-7000-8000-0000e1000000 runner_id=r1 jobs=2 runs=1\n" +
		"#:run job_id=01a0c450-5878-7000-8000-000001c00000 n=2 code=ok kind=text frame=line bytes=13\nfirst\nsecond\n"
	exampleResults = "#:results v=1 jobs=2 runs=1\n#:run job_id=01a0c450-5878-7000-8000-000001c00000 n=2 status=completed\n"
)

func (s *claims) routes() []route {
	tickled := "A tickle is a heartbeat. A job whose lease ends without a tickle counts as abandoned."
	ending := []int{404, 409, 422, 503, 507}
	return []route{
		direct[struct {
			selected
			keyedRequest
			Body command.ClaimRequest `required:"true"`
		}](http.MethodPost, "/jobs/claim", operation.About{
			ID: "claim", Tag: "Running", Summary: "Claim jobs",
			Replies: []operation.Reply{
				{Status: http.StatusOK, Headers: []string{"Daybook-Seq", answer.HeaderHandler, headerReplayed},
					Text: "The server has handed out jobs. If the request has neither max nor complete, the answer is the document of\n" +
						"the job. Otherwise it is the document of the claim, in which fields of jobs that are null are left out. A\n" +
						"request with complete gets this answer even if the claim got no jobs. The Accept header chooses NDJSON or\n" +
						"runs; the parameter fields is refused with runs.\n",
					Content: map[string]openapi.Shape{
						web.MIMEJSON: answered[answer.JobPart](), web.MIMEClaim: answered[answer.Claimed](),
						web.MIMENDJSON: openapi.ListOf(openapi.OneOf(answered[answer.ClaimHead](), answered[answer.JobPart]())), web.MIMERuns: inRuns(exampleClaim),
					}},
				{Status: http.StatusNoContent, Text: "No job could be claimed.", Headers: []string{headerReplayed}},
			},
			Refusals: ending,
		}, s.claim).often().once(),
		direct[struct {
			Body command.TickleManyRequest `required:"true"`
		}](http.MethodPost, "/jobs/tickle", operation.About{
			ID: "tickleMany", Tag: "Running", Summary: "Extend the leases of several jobs", Text: tickled,
			Replies:  []operation.Reply{replied[answer.HeldDocument](http.StatusOK, "At least one job is still held, and its lease is extended.", "Daybook-Seq")},
			Refusals: []int{409, 503, 507},
		}, s.tickleMany).often(),
		direct[struct {
			onlyID
			Body command.TickleFields
		}](http.MethodPost, "/jobs/:id/tickle", operation.About{
			ID: "tickle", Tag: "Running", Summary: "Extend the lease of a job", Text: tickled,
			Replies: []operation.Reply{jobReply("The lease is extended. The answer is the document of the job.")}, Refusals: []int{404, 409, 503, 507},
		}, s.tickle).often(),
		direct[keyedRequest](http.MethodPost, "/jobs/complete", operation.About{
			ID: "completeMany", Tag: "Running", Summary: "Report how several runs ended", BodyRequired: true,
			Bodies: map[string]openapi.Shape{
				web.MIMEJSON: openapi.JSON[command.CompleteRequest](openapi.InRequest), web.MIMENDJSON: openapi.ListOf(openapi.Plain(openapi.Ref("Outcome"))),
				web.MIMERuns: inRuns(exampleComplete),
			},
			Replies: []operation.Reply{{Status: http.StatusOK, Headers: []string{"Daybook-Seq", headerReplayed},
				Text: "The answer has a result for each outcome. It is in runs if the Accept header requests them, otherwise in\n" +
					"NDJSON if the request is, otherwise in JSON. To a request in runs, the answer in JSON has accepted and\n" +
					"refused instead of results.\n",
				Content: map[string]openapi.Shape{
					web.MIMEJSON: openapi.OneOf(answered[answer.Results](), answered[answer.Accepted]()), web.MIMENDJSON: openapi.ListOf(answered[answer.Result]()),
					web.MIMERuns: inRuns(exampleResults),
				}}},
			Refusals: ending,
		}, s.completeMany).often().once(),
		direct[struct {
			onlyID
			keyedRequest
			Body command.EndRequest `required:"true"`
		}](http.MethodPost, "/jobs/:id/complete", operation.About{
			ID: "complete", Tag: "Running", Summary: "Report how a run ended", Refusals: ending,
			Replies: []operation.Reply{jobReply("The run has ended. The answer is the document of the job.", headerReplayed)},
		}, s.complete).often().once(),
		direct[struct {
			onlyID
			keyedRequest
			Body command.ReleaseRequest `required:"true"`
		}](http.MethodPost, "/jobs/:id/release", operation.About{
			ID: "release", Tag: "Running", Summary: "Return a job that the runner does not complete", Refusals: ending,
			Text: "`retry` defers the job for its backoff or delay_ms. `unget` makes it pending again and does not count the\n" +
				"attempt. `archive` completes it.\n",
			Replies: []operation.Reply{jobReply("The runner no longer holds the job. The answer is its document.", headerReplayed)},
		}, s.release).often().once(),
	}
}

// claim answers POST /jobs/claim.
func (s *claims) claim(c echo.Context) error {
	var call answer.ClaimCall
	if err := call.ChooseForm(c); err != nil {
		return err
	}
	var r command.ClaimRequest
	body, err := web.ReadObject(c, &s.bodies.outcomes, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	call.Cmd, call.Wait, err = r.Command()
	if err == nil {
		call.Cmd.Once, err = web.Once(c, "claim", call.Cmd.Runner, body.Bytes)
	}
	if err != nil {
		return err
	}
	if !web.Absent(r.Complete) {
		return s.completeAndClaim(c, body, &r, &call)
	}
	body.Release() // before the claim, which may wait for a minute
	if r.Max == nil {
		return s.claimOne(c, &call)
	}
	return s.claimMany(c, &call)
}

// completeAndClaim answers a claim with outcomes. The server applies the outcomes first, and answers with their results
// even if it refuses the claim. Only the claim can wait.
//
// The results stay in memory until the answer is written, so completeAndClaim takes a share for them before it applies
// anything. A claim that waits must not hold a share of the budget that other claims need. So the results of claims
// that wait have a separate budget. If that budget is used up, the claim does not wait.
func (s *claims) completeAndClaim(c echo.Context, body *web.Body, r *command.ClaimRequest, call *answer.ClaimCall) error {
	ctx := c.Request().Context()
	done := command.Completion{Decoder: s.decode, Most: job.MaxOutcomes, Reserve: func(n int64) error { return body.Reserve(ctx, n) }}
	err := r.Completion(&done)
	if err == nil {
		err = s.decode.RequireClaimIDs(&done)
	}
	if err == nil {
		err = done.SetOnce(call.Cmd.Once)
	}
	if err != nil {
		return err
	}
	held, parked := web.ShareOf(c, s.handouts), web.ShareOf(c, s.parked)
	defer held.Release()
	defer parked.Release()
	if results := answer.ResultsBytes(done.Count); call.Wait == 0 || !parked.Grow(ctx, results, 0) {
		call.Wait = 0
		if err := held.Resize(ctx, results); err != nil {
			return err
		}
	}
	all := done.All
	exchange, err := s.engine.Exchange(ctx, done.Commands, call.Cmd)
	if err != nil {
		return err
	}
	defer exchange.Close()
	each, receipt, err := exchange.Ended(ctx)
	s.streams.Completed(ctx, done.Commands, each)
	ended, seq, err := command.JoinEnded(each, receipt, err)
	if err != nil {
		return err
	}
	done.Commands, r.Complete = nil, nil
	body.Release()
	claimSeq, err := s.finishClaim(c, call, held, exchange.Claimed)
	if err != nil && ctx.Err() != nil {
		return err // the client hung up
	}
	if seq = max(seq, claimSeq); seq > 0 {
		web.SetSeq(c, seq)
	}
	web.SetReplayed(c, ended.Replayed || call.Claimed.Replayed)
	call.Ended = &answer.EndedJobs{Ended: ended, ForAll: all}
	if err != nil {
		call.Ended.Err = refusal.Of(err)
		if call.Ended.Err.Code != rates.Code {
			s.logFailure(c, call.Ended.Err, err)
		}
	}
	err = s.answerClaim(c, held, call)
	if p, ok := errors.AsType[*web.Problem](err); ok {
		return refusal.After(p)
	}
	return err
}

// logFailure logs why a claim was refused after its outcomes were applied. The answer is then a success, so logAccess
// does not log the cause.
func (s *claims) logFailure(c echo.Context, p *web.Problem, err error) {
	s.log.Warn().Str("route", c.Path()).Str("code", p.Code).AnErr("error", err).Msg("claim refused after its outcomes were applied")
}
