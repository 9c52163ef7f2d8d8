package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// asynqLibrary is the Go library on Redis.
type asynqLibrary struct{}

func (asynqLibrary) Name() string { return "asynq" }

func (asynqLibrary) Describe(ctx context.Context) (measure.Description, error) {
	d, err := describeRedis(ctx, "asynq")
	d.Client = moduleVersion("github.com/hibiken/asynq")
	d.Usage = "Enqueue, by all callers through one client; it has no call for many jobs; its server with Concurrency as many as there are handlers; it has no calls to claim or to complete"
	return d, err
}

func (asynqLibrary) Does(w measure.Work) bool {
	return w.Kind == measure.Create || w.Kind == measure.Worker && w.Batch > 1
}

func (asynqLibrary) Start(ctx context.Context, dir string) (measure.Session, error) {
	s, err := startRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &asynqSession{redisServer: s, client: asynq.NewClient(s.asynq())}, nil
}

func (s *redisServer) asynq() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: s.address(), PoolSize: 80}
}

type asynqSession struct {
	*redisServer
	client *asynq.Client
}

func (s *asynqSession) Close() error {
	return errors.Join(s.client.Close(), s.redisServer.Close())
}

// MostJobs is 1: no call takes more jobs.
func (s *asynqSession) MostJobs() int { return 1 }

func (s *asynqSession) Fill(ctx context.Context, jobs int) error { return fill(ctx, s, jobs, 100) }

func (s *asynqSession) Dial(context.Context, int) (measure.Conn, error) {
	return &asynqConn{client: s.client}, nil
}

type asynqConn struct {
	createOnly
	client *asynq.Client
}

const asynqTask = "nothing"

func (c *asynqConn) Create(ctx context.Context, jobs int) error {
	for range jobs {
		if _, err := c.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, []byte(payload))); err != nil {
			return err
		}
	}
	return nil
}

func (s *asynqSession) Runs(w measure.Work) bool { return w.Kind == measure.Worker }

// Run drains the queue with asynq's server. It removes a task from Redis after the handler has returned, without an event
// for this. So Run waits for the last few of them by reading the queue.
func (s *asynqSession) Run(ctx context.Context, t *measure.Turn) error {
	server := asynq.NewServer(s.asynq(), asynq.Config{
		Concurrency: t.Work.Callers, TaskCheckInterval: 5 * time.Millisecond, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second,
	})
	inspector := asynq.NewInspector(s.asynq())
	defer inspector.Close()
	handled, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	left := newCount(t.Jobs, stop)
	t.Begin()
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if len(task.Payload()) != measure.PayloadBytes {
			stop(errLostJobs)
		}
		left.done()
		return nil
	})); err != nil {
		return err
	}
	defer server.Shutdown()
	if err := left.wait(handled); err != nil {
		return err
	}
	for {
		queue, err := inspector.GetQueueInfo("default")
		if err != nil {
			return fmt.Errorf("look at the queue: %w", err)
		}
		if queue.Active+queue.Pending == 0 {
			t.End()
			return nil
		}
		if queue.Retry+queue.Archived > 0 || ctx.Err() != nil {
			return errors.Join(errLostJobs, context.Cause(ctx))
		}
	}
}
