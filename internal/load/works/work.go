package works

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/load"
)

// Work is a call to measure.
type Work struct {
	Name  string // in tables and flags
	Title string
	Jobs  int64 // of one call
	// Callers is the number of callers of a closed loop. UnderWay bounds the outstanding calls of an open loop.
	Callers, UnderWay int
	// Takes is set if each call takes waiting jobs, which Fill must create first.
	Takes bool
	// Type is the type of the jobs.
	Type string

	call func(ctx context.Context, t *Target, caller int) error
}

// mostUnderWay is the largest UnderWay of all works.
const mostUnderWay = 1024

// errDry reports that a work found no job to claim.
var errDry = errors.New("no job was waiting")

var (
	Bulk = Work{
		Name: "bulk-create", Title: "create 1,000 jobs a request", Jobs: bulkJobs, Callers: 16, UnderWay: 64, Type: "bulk",
		call: func(ctx context.Context, t *Target, _ int) error { return t.add(ctx, "bulk", bulkBody) },
	}
	Drain = Work{
		Name: "claim-complete", Title: "claim 100 jobs, then complete them", Jobs: 100, Callers: 16, UnderWay: 64, Takes: true, Type: "bulk",
		call: func(ctx context.Context, t *Target, caller int) error { return t.drain(ctx, "bulk", caller, 100) },
	}
	Single = Work{
		Name: "create-one", Title: "create one job a call, joined in a stream", Jobs: 1, Callers: 64, UnderWay: mostUnderWay, Type: "single",
		call: func(ctx context.Context, t *Target, _ int) error { return t.create(ctx, "single") },
	}
	Lifecycles = Work{
		Name: "lifecycle", Title: "create, claim and complete one job, many at a time", Jobs: 1, Callers: 64, UnderWay: 256, Type: "lifecycle",
		call: func(ctx context.Context, t *Target, caller int) error { return t.lifecycle(ctx, "lifecycle", caller) },
	}
	OneAtATime = Work{
		Name: "one-at-a-time", Title: "create, claim and complete one job after the other", Jobs: 1, Callers: 1, UnderWay: 64, Type: "one",
		call: func(ctx context.Context, t *Target, caller int) error { return t.lifecycle(ctx, "one", caller) },
	}
)

// Peak measures how many calls a second the server answers to Callers callers, each of which sends one call after the
// other. It ends early if no more jobs wait.
func (w Work) Peak(ctx context.Context, t *Target, c load.Closed) (*load.Rate, error) {
	c.Callers = w.Callers
	return c.Run(ctx, func(ctx context.Context, caller int) (bool, error) {
		err := w.call(ctx, t, caller)
		if errors.Is(err, errDry) {
			return false, nil
		}
		return true, err
	})
}

// At measures latencies while calls arrive at a fixed rate.
func (w Work) At(ctx context.Context, t *Target, o load.Open) (*load.Outcome, error) {
	o.UnderWay = w.UnderWay
	return o.Run(ctx, func(ctx context.Context, a load.Arrival) error { return w.call(ctx, t, int(a.N)%w.UnderWay) })
}

func (t *Target) drain(ctx context.Context, typ string, caller, n int) error {
	claim, err := t.client.Claim(ctx, client.ClaimRequest{
		RunnerID: fmt.Sprintf("%s-%d", t.Name, caller), Max: n, Clients: []string{t.Name}, Types: []string{typ},
	})
	if err != nil {
		return err
	}
	if claim == nil {
		return errDry
	}
	_, _, err = t.client.CompleteClaim(ctx, claim.ID, client.Outcome{})
	return err
}

var onePayload = bulkBody[:payloadBytes]

func (t *Target) create(ctx context.Context, typ string) error {
	_, err := t.client.Create(ctx, client.NewJob{Client: t.Name, Type: typ, Payload: onePayload, Kind: client.Text})
	return err
}

// lifecycle creates a job and completes a job, which may be another caller's.
func (t *Target) lifecycle(ctx context.Context, typ string, caller int) error {
	if err := t.create(ctx, typ); err != nil {
		return err
	}
	return t.drain(ctx, typ, caller, 1)
}
