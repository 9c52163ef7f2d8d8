package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// claimer calls admit with the total size of the payloads before it reads them. If admit returns an error, the claim
// fails. The payloads must not be changed.
type claimer interface {
	ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)
}

// exchanger carries out the outcomes of a claim and the claim.
type exchanger interface {
	Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error)
}

// claimFields select the jobs that a runner accepts, and how many at once.
type claimFields struct {
	Max      *int64         `json:"max"`
	Clients  []string       `json:"clients"`
	Types    []string       `json:"types"`
	LeaseMs  *int64         `json:"lease_ms"`
	MaxBytes *int64         `json:"max_bytes"`
	Strategy jsontext.Value `json:"strategy"`
}

// fill sets the fields of a claim that has a runner and default values.
func (r *claimFields) fill(cmd *job.Claim) (err error) {
	cmd.Clients, cmd.Types = r.Clients, r.Types
	if r.Max != nil {
		if err := job.CheckRange("max", *r.Max, 1, job.MaxClaimJobs); err != nil {
			return web.BadField("max", err)
		}
		cmd.Max = int(*r.Max)
	}
	if err := checkNames("clients", r.Clients); err != nil {
		return err
	}
	if err := checkNames("types", r.Types); err != nil {
		return err
	}
	if !web.Absent(r.Strategy) {
		if cmd.Strategy, err = strategy("strategy", r.Strategy, 0); err != nil {
			return err
		}
	}
	if r.LeaseMs != nil {
		if err := job.CheckRange("lease_ms", *r.LeaseMs, job.MinLeaseMs, job.MaxLeaseMs); err != nil {
			return web.BadField("lease_ms", err)
		}
		cmd.LeaseMs = *r.LeaseMs
	}
	if r.MaxBytes != nil {
		if err := job.CheckRange("max_bytes", *r.MaxBytes, 1, job.MaxClaimBytes); err != nil {
			return web.BadField("max_bytes", err)
		}
		cmd.MaxBytes = *r.MaxBytes
	}
	return nil
}

// claimRequest is the body of POST /jobs/claim.
type claimRequest struct {
	RunnerID *string `json:"runner_id"`
	claimFields
	WaitMs   *int64         `json:"wait_ms"`
	Complete jsontext.Value `json:"complete"`
	Begins   *int64         `json:"begins"`
}

func (r *claimRequest) command() (cmd job.Claim, wait time.Duration, err error) {
	cmd = job.Claim{Max: 1, MaxBytes: job.DefaultClaimBytes}
	if r.RunnerID == nil {
		return cmd, 0, web.BadRequest("runner_id", "runner_id is missing")
	}
	cmd.Runner = *r.RunnerID
	if err := job.CheckText("runner_id", cmd.Runner, 1, job.MaxRunnerBytes); err != nil {
		return cmd, 0, web.BadField("runner_id", err)
	}
	if err := r.fill(&cmd); err != nil {
		return cmd, 0, err
	}
	if r.Begins != nil {
		if err := job.CheckRange("begins", *r.Begins, 0, job.MaxClaimJobs); err != nil {
			return cmd, 0, web.BadField("begins", err)
		}
		cmd.Announced, cmd.Begins = true, int(*r.Begins)
	}
	if r.WaitMs != nil {
		if err := job.CheckRange("wait_ms", *r.WaitMs, 0, job.MaxWaitMs); err != nil {
			return cmd, 0, web.BadField("wait_ms", err)
		}
		wait = time.Duration(*r.WaitMs) * time.Millisecond
	}
	return cmd, wait, nil
}

func checkNames(field string, names []string) error {
	if len(names) > job.MaxClaimNames {
		return web.BadRequest(field, fmt.Sprintf("%s has %d names; the maximum is %d", field, len(names), job.MaxClaimNames))
	}
	if names != nil && len(names) == 0 {
		return web.BadRequest(field, fmt.Sprintf("%s is an empty list; leave the field out to claim from all %s", field, field))
	}
	for i, name := range names {
		place := web.Item(field, i)
		if err := job.CheckName(place, name); err != nil {
			return web.BadField(place, err)
		}
	}
	return nil
}

// completion reads the field complete: a list of outcomes, or an object like the body of POST /jobs/complete.
func (r *claimRequest) completion(done *completion) error {
	const field = "complete"
	switch r.Complete.Kind() {
	case jsontext.KindBeginArray:
		return done.list(field, r.Complete, job.ID{}, "")
	case jsontext.KindBeginObject:
		var all completeRequest
		if err := web.DecodeValue(field, r.Complete, &all); err != nil {
			return err
		}
		if err := all.completion(done); err != nil {
			return web.Inside(field, err)
		}
		return nil
	}
	return web.BadRequest(field, "complete must be a list of outcomes or an object")
}

// claim answers POST /jobs/claim.
func (s *Server) claim(c echo.Context) error {
	var call claimCall
	if err := call.chooseForm(c); err != nil {
		return err
	}
	var r claimRequest
	body, err := web.ReadObject(c, &s.bodies.outcomes, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	call.cmd, call.wait, err = r.command()
	if err == nil {
		call.cmd.Once, err = web.Once(c, "claim", call.cmd.Runner, body.Bytes)
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
func (s *Server) completeAndClaim(c echo.Context, body *web.Body, r *claimRequest, call *claimCall) error {
	ctx := c.Request().Context()
	done := completion{s: s, most: job.MaxOutcomes, reserve: func(n int64) error { return body.Reserve(ctx, n) }}
	err := r.completion(&done)
	if err == nil {
		err = s.requireClaimIDs(&done)
	}
	if err == nil {
		err = done.setOnce(call.cmd.Once)
	}
	if err != nil {
		return err
	}
	held, parked := web.ShareOf(c, s.handouts), web.ShareOf(c, s.parked)
	defer held.Release()
	defer parked.Release()
	if results := resultsBytes(done.count); call.wait == 0 || !parked.Grow(ctx, results, 0) {
		call.wait = 0
		if err := held.Resize(ctx, results); err != nil {
			return err
		}
	}
	all := done.all
	exchange, err := s.engine.Exchange(ctx, done.commands, call.cmd)
	if err != nil {
		return err
	}
	defer exchange.Close()
	each, receipt, err := exchange.Ended(ctx)
	s.streams.completed(done.commands, each)
	ended, seq, err := joinEnded(each, receipt, err)
	if err != nil {
		return err
	}
	done.commands, r.Complete = nil, nil
	body.Release()
	claimSeq, err := s.finishClaim(ctx, call, held, exchange.Claimed)
	if err != nil && ctx.Err() != nil {
		return err // the client hung up
	}
	if seq = max(seq, claimSeq); seq > 0 {
		web.SetSeq(c, seq)
	}
	web.SetReplayed(c, ended.Replayed || call.claimed.Replayed)
	call.ended = &endedJobs{Ended: ended, all: all}
	if err != nil {
		call.ended.refused = problemOf(err)
		s.logFailure(c, call.ended.refused, err)
	}
	err = s.answerClaim(c, held, call)
	if p, ok := errors.AsType[*web.Problem](err); ok {
		return after(p)
	}
	return err
}

// logFailure logs why a claim was refused after its outcomes were applied. The answer is then a success, so logAccess
// does not log the cause.
func (s *Server) logFailure(c echo.Context, p *web.Problem, err error) {
	s.log.Warn().Str("route", c.Path()).Str("code", p.Code).AnErr("error", err).Msg("claim refused after its outcomes were applied")
}
