package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
	"github.com/daybookq/daybook/internal/load"
)

// Drivers returns a driver for each peer. work is a directory that outlasts the turns; the caller removes it.
func Drivers(work string) []measure.Driver {
	return []measure.Driver{
		redis{}, rueidisLibrary{}, beanstalkd{}, &river{work: work}, nats{}, asynqLibrary{}, queued{}, faktory{}, echo{},
	}
}

// find returns the path of a program, or an error that wraps ErrMissing and names the program.
func find(program string, places ...string) (string, error) {
	path, err := process.Find(program, places...)
	if err != nil {
		return "", fmt.Errorf("%w: %w; run `scripts/tools peers`", measure.ErrMissing, err)
	}
	return path, nil
}

// describe completes the description of a driver with the version that a program prints for a flag.
func describe(ctx context.Context, d measure.Description, program, flag string, places ...string) (measure.Description, error) {
	path, err := find(program, places...)
	if err != nil {
		return measure.Description{}, err
	}
	d.System, err = process.Version(ctx, path, flag)
	return d, err
}

// createOnly is the part of a Conn that systems without calls to claim and to complete lack.
type createOnly struct{}

func (createOnly) Claim(context.Context, int) (int, error) { return 0, measure.ErrUnsupported }

func (createOnly) Complete(context.Context) error { return measure.ErrUnsupported }

func (createOnly) Close() error { return nil }

// startServer starts a program that listens on a free port of loopback, and returns the port. args are its arguments.
func startServer(program, dir string, args func(port int) []string) (*process.Process, int, error) {
	path, err := find(program)
	if err != nil {
		return nil, 0, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, 0, err
	}
	started, err := process.Start(process.Command{Path: path, Dir: dir, Args: args(port)})
	return started, port, err
}

// untilReady waits until a server is ready, and stops it if it is not ready in time.
func untilReady(ctx context.Context, p *process.Process, ready func(context.Context) error) error {
	if err := p.Until(ctx, ready); err != nil {
		return fmt.Errorf("%w (%w)", err, p.Close())
	}
	return nil
}

const (
	queueName = "jobs"
	// fillers is the number of callers that fill a queue at the same time.
	fillers = 16
)

// payload is the payload of every job of a peer. Redis, PostgreSQL and the other peers do not compress it.
var payload = strings.Repeat("Qx7-", measure.PayloadBytes/4)

// fill creates jobs through several connections.
func fill(ctx context.Context, s measure.Session, jobs, batch int) error {
	conns := make([]measure.Conn, fillers)
	for i := range conns {
		c, err := s.Dial(ctx, i)
		if err != nil {
			return err
		}
		defer c.Close()
		conns[i] = c
	}
	return load.InBatches(ctx, fillers, jobs, batch, func(ctx context.Context, i, n int) error { return conns[i].Create(ctx, n) })
}

var errLostJobs = errors.New("the server returned an answer of another form than expected")
