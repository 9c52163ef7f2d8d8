package daybook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

// goClient is a session through package client. All callers share one client, as the goroutines of a program do.
type goClient struct {
	*server
	shared *client.Client
}

func openGo(s *server) measure.Session {
	return goClient{s, client.New(s.process.URL(), client.Options{})}
}

func (g goClient) Dial(_ context.Context, caller int) (measure.Conn, error) {
	return &goConn{client: g.shared, runner: runnerID(caller), body: lines(1000)}, nil
}

type goConn struct {
	client *client.Client
	runner string
	body   []byte // a thousand lines
	claim  string // the claim whose jobs this caller holds
}

func (c *goConn) Create(ctx context.Context, jobs int) error {
	if jobs > 1 {
		_, err := c.client.AddLines(ctx, c.body[:jobs*lineBytes], client.AddOptions{})
		return err
	}
	_, err := c.client.Create(ctx, client.TextJob("", string(c.body[:measure.PayloadBytes])))
	return err
}

func (c *goConn) Claim(ctx context.Context, most int) (int, error) {
	claim, err := c.client.Claim(ctx, client.ClaimRequest{RunnerID: c.runner, Max: most})
	if err != nil || claim == nil {
		return 0, err
	}
	c.claim = claim.ID
	return len(claim.Jobs), nil
}

func (c *goConn) Complete(ctx context.Context) error {
	_, _, err := c.client.CompleteClaim(ctx, c.claim, client.Outcome{})
	return err
}

func (c *goConn) Close() error { return nil }

func (g goClient) Runs(w measure.Work) bool { return w.Kind == measure.Worker }

// Run drains the queue with a Worker. A job counts when its completion was reported to the server.
func (g goClient) Run(ctx context.Context, t *measure.Turn) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	drained := errors.New("all jobs are done")
	var left atomic.Int64
	left.Store(int64(t.Jobs))
	w := &worker.Worker{
		Client: g.shared, Concurrency: t.Work.Callers, Batch: t.Work.Batch,
		Handler: func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil },
		OnEvent: func(e worker.Event) {
			switch {
			case e.Job == nil: // a claim
			case e.Err != nil:
				stop(fmt.Errorf("job %s: %w", e.Job.ID, e.Err))
			case left.Add(-1) == 0:
				t.End()
				stop(drained)
			}
		},
	}
	t.Begin()
	if err := w.Run(ctx); err != nil {
		return err
	}
	if err := context.Cause(ctx); !errors.Is(err, drained) {
		return err
	}
	return nil
}
