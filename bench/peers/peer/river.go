package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// river is the Go library on PostgreSQL.
type river struct {
	work     string
	template string // the files of an empty database, once they were made
}

func (*river) Name() string { return "river" }

func (*river) Describe(ctx context.Context) (measure.Description, error) {
	return describe(ctx, measure.Description{
		Driver: "river", Client: moduleVersion("github.com/riverqueue/river"), Durable: postgresDurable,
		Usage: "InsertManyFast (COPY) in bulk, Insert for one job; its worker with MaxWorkers as many as there are handlers, and a FetchCooldown of 1 ms, the least that it allows; it has no calls to claim or to complete",
	}, "postgres", "--version", postgresPlaces)
}

func (*river) Does(w measure.Work) bool {
	return w.Kind == measure.Create || w.Kind == measure.Worker && w.Batch > 1
}

func (r *river) Start(ctx context.Context, dir string) (measure.Session, error) {
	if r.template == "" {
		template := filepath.Join(r.work, "postgres")
		if err := os.Mkdir(template, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if err := (process.Command{User: postgresUser}).Own(template); err != nil {
			return nil, err
		}
		if err := initPostgres(ctx, template); err != nil {
			return nil, err
		}
		r.template = template
	}
	p, err := startPostgres(ctx, r.template, dir)
	if err != nil {
		return nil, err
	}
	s := &riverSession{postgres: p}
	if err := s.migrate(ctx); err != nil {
		return nil, fmt.Errorf("create River's tables: %w (%w)", err, p.Close())
	}
	if s.inserts, err = riverqueue.NewClient(riverpgxv5.New(p.pool), &riverqueue.Config{Logger: quiet}); err != nil {
		return nil, fmt.Errorf("%w (%w)", err, p.Close())
	}
	return s, nil
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))

type riverSession struct {
	*postgres
	inserts *riverqueue.Client[pgx.Tx]
}

func (s *riverSession) migrate(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(s.pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverJob has a payload that is as long as the other systems' payloads.
type riverJob struct {
	Payload string `json:"payload"`
}

func (riverJob) Kind() string { return "nothing" }

// riverHandler does nothing.
type riverHandler struct {
	riverqueue.WorkerDefaults[riverJob]
}

func (riverHandler) Work(_ context.Context, job *riverqueue.Job[riverJob]) error {
	if len(job.Args.Payload) != measure.PayloadBytes {
		return errLostJobs
	}
	return nil
}

func (s *riverSession) Fill(ctx context.Context, jobs int) error { return fill(ctx, s, jobs, 1000) }

func (s *riverSession) Dial(context.Context, int) (measure.Conn, error) {
	return &riverConn{client: s.inserts}, nil
}

type riverConn struct {
	createOnly
	client *riverqueue.Client[pgx.Tx]
}

func (c *riverConn) Create(ctx context.Context, jobs int) error {
	if jobs == 1 {
		_, err := c.client.Insert(ctx, riverJob{payload}, nil)
		return err
	}
	params := make([]riverqueue.InsertManyParams, jobs)
	for i := range params {
		params[i].Args = riverJob{payload}
	}
	_, err := c.client.InsertManyFast(ctx, params)
	return err
}

func (s *riverSession) Runs(w measure.Work) bool { return w.Kind == measure.Worker }

// Run drains the table with River's worker. A job counts when River reports that its completion is stored.
func (s *riverSession) Run(ctx context.Context, t *measure.Turn) error {
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, riverHandler{})
	c, err := riverqueue.NewClient(riverpgxv5.New(s.pool), &riverqueue.Config{
		Logger: quiet, Workers: workers, FetchCooldown: riverqueue.FetchCooldownMin, FetchPollInterval: 5 * time.Millisecond,
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: t.Work.Callers}},
	})
	if err != nil {
		return err
	}
	// The channel can hold all events, since River discards events while it is full.
	events, cancel := c.SubscribeConfig(&riverqueue.SubscribeConfig{ChanSize: t.Jobs + 1, Kinds: []riverqueue.EventKind{
		riverqueue.EventKindJobCompleted, riverqueue.EventKindJobFailed,
	}})
	defer cancel()
	t.Begin()
	if err := c.Start(ctx); err != nil {
		return err
	}
	err = awaitRiver(ctx, events, t)
	// The server ends next, so the worker need not stop in an orderly way if ctx has ended.
	stopCtx, stopped := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stopped()
	return errors.Join(err, c.StopAndCancel(stopCtx))
}

func awaitRiver(ctx context.Context, events <-chan *riverqueue.Event, t *measure.Turn) error {
	for range t.Jobs {
		select {
		case e := <-events:
			if e.Kind != riverqueue.EventKindJobCompleted {
				var all []string
				for _, failure := range e.Job.Errors {
					all = append(all, failure.Error)
				}
				return fmt.Errorf("job %d: %s: %s", e.Job.ID, e.Kind, strings.Join(all, "; "))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	t.End()
	return nil
}
