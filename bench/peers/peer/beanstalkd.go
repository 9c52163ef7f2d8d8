package peer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// beanstalkd lacks calls for many jobs, so a batch is a call for each of its jobs.
type beanstalkd struct{}

const beanstalkdProgram = "beanstalkd"

func (beanstalkd) Name() string { return "beanstalkd" }

func (beanstalkd) Describe(ctx context.Context) (measure.Description, error) {
	return describe(ctx, measure.Description{
		Driver: "beanstalkd", Client: moduleVersion("github.com/beanstalkd/go-beanstalk"),
		Durable: "-b DIRECTORY -f0: a sync with each write to its log",
		Weaker:  "a reservation (a claim) is not written at all: after a crash, the job is ready again as if it had never been claimed",
		Usage:   "put, reserve-with-timeout, delete; it has no calls for many jobs, so a batch is one call for each job",
	}, beanstalkdProgram, "-v")
}

func (beanstalkd) Does(w measure.Work) bool {
	return w.Kind != measure.Worker && w.Kind != measure.Exchange && w.Callers <= measure.Connections
}

func (beanstalkd) Start(ctx context.Context, dir string) (measure.Session, error) {
	started, port, err := startServer(beanstalkdProgram, dir, func(port int) []string {
		return []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-b", dir, "-f0"}
	})
	if err != nil {
		return nil, err
	}
	if err := untilReady(ctx, started, process.Answers(port)); err != nil {
		return nil, err
	}
	return &beanstalkdSession{started, fmt.Sprintf("127.0.0.1:%d", port)}, nil
}

type beanstalkdSession struct {
	process *process.Process
	address string
}

func (s *beanstalkdSession) Pid() int { return s.process.Pid() }

func (s *beanstalkdSession) Close() error { return s.process.Close() }

// MostJobs is 1: no call takes more jobs.
func (s *beanstalkdSession) MostJobs() int { return 1 }

func (s *beanstalkdSession) Fill(ctx context.Context, jobs int) error { return fill(ctx, s, jobs, 100) }

func (s *beanstalkdSession) Dial(context.Context, int) (measure.Conn, error) {
	c, err := beanstalk.Dial("tcp", s.address)
	if err != nil {
		return nil, err
	}
	return &beanstalkdConn{conn: c}, nil
}

type beanstalkdConn struct {
	conn *beanstalk.Conn
	ids  []uint64 // of the jobs that this caller holds
}

// runLimit is beanstalkd's time-to-run: how long a job may be reserved.
const runLimit = 5 * time.Minute

func (c *beanstalkdConn) Create(ctx context.Context, jobs int) error {
	body := []byte(payload)
	for range jobs {
		if _, err := c.conn.Put(body, 1, 0, runLimit); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *beanstalkdConn) Claim(_ context.Context, most int) (int, error) {
	c.ids = c.ids[:0]
	for range most {
		id, body, err := c.conn.Reserve(0)
		if errors.Is(err, beanstalk.ErrTimeout) {
			break
		}
		if err != nil {
			return 0, err
		}
		if len(body) != measure.PayloadBytes {
			return 0, errLostJobs
		}
		c.ids = append(c.ids, id)
	}
	return len(c.ids), nil
}

func (c *beanstalkdConn) Complete(context.Context) error {
	for _, id := range c.ids {
		if err := c.conn.Delete(id); err != nil {
			return err
		}
	}
	return nil
}

func (c *beanstalkdConn) Close() error { return c.conn.Close() }
