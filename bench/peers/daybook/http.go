package daybook

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/daybookq/daybook/bench"
	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/job/runs"
)

// plain is a session of plain HTTP requests. Each caller has a separate connection.
type plain struct {
	*server
	runs bool // claims are answered in runs
}

func openHTTP(s *server) measure.Session { return plain{s, false} }

func openRuns(s *server) measure.Session { return plain{s, true} }

func (p plain) Dial(_ context.Context, caller int) (measure.Conn, error) {
	l := bench.NewLoad(p.process.URL(), 1).As(runnerID(caller))
	c := &plainConn{load: l, claims: l, body: lines(1000)}
	if p.runs {
		c.claims = l.InRuns()
	}
	return c, nil
}

type plainConn struct {
	load, claims *bench.Load
	body         []byte // a thousand lines
	claim        string // the claim whose jobs this caller holds
}

func (c *plainConn) Create(ctx context.Context, jobs int) error {
	if jobs > 1 {
		return c.load.Add(ctx, c.body[:jobs*lineBytes])
	}
	return c.load.CreateBody(ctx, fmt.Appendf(nil, `{"payload":"%s"}`, c.body[:measure.PayloadBytes]))
}

// claimed claims up to most jobs, after it has completed the jobs of a claim unless that is "". It finds the payloads in the answer, which
// contain neither escapes nor braces, and returns their number.
func (c *plainConn) claimed(ctx context.Context, most int, complete string) (jobs int, err error) {
	c.claim, err = c.claims.ClaimAnd(ctx, most, complete, func(answer []byte) (err error) {
		if c.claims.Accept == runs.MediaType {
			_, jobs, err = bench.ClaimedRuns(answer, lineBytes)
			return err
		}
		const payload = `"payload":"`
		for {
			at := bytes.Index(answer, []byte(payload))
			if at < 0 {
				return nil
			}
			answer = answer[at+len(payload):]
			if len(answer) <= measure.PayloadBytes || answer[measure.PayloadBytes] != '"' {
				return errors.New("the answer to a claim has a payload of another length than was posted")
			}
			answer = answer[measure.PayloadBytes:]
			jobs++
		}
	})
	return jobs, err
}

func (c *plainConn) Claim(ctx context.Context, most int) (int, error) {
	return c.claimed(ctx, most, "")
}

func (c *plainConn) Complete(ctx context.Context) error { return c.load.Complete(ctx, c.claim) }

func (c *plainConn) Exchange(ctx context.Context, most int) (int, error) {
	return c.claimed(ctx, most, c.claim)
}

func (c *plainConn) Close() error {
	c.load.Close()
	return nil
}
