package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// dryFor is how long a caller finds no job, although some are left, before the turn fails.
const dryFor = 20 * time.Second

// run does the jobs of a turn on a session. The server holds enough waiting jobs already.
func run(ctx context.Context, s Session, t *Turn) error {
	if r, ok := s.(Runner); ok && r.Runs(t.Work) {
		return r.Run(ctx, t)
	}
	conns := make([]Conn, t.Work.Callers)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // the server ends next
			}
		}
	}()
	for i := range conns {
		var err error
		if conns[i], err = s.Dial(ctx, i); err != nil {
			return fmt.Errorf("connect caller %d: %w", i, err)
		}
	}
	l := &loop{t: t, batch: t.Work.Batch, createBatch: createBatch}
	if limited, ok := s.(Limited); ok {
		l.batch, l.createBatch = min(l.batch, limited.MostJobs()), min(l.createBatch, limited.MostJobs())
	}
	l.left.Store(int64(t.Jobs))
	step := l.step(t.Work.Kind)
	if step == nil {
		return fmt.Errorf("the driver does no work of kind %s", t.Work.Kind)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	t.Begin()
	for _, c := range conns {
		group.Go(func() {
			if err := step(ctx, c); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	t.End()
	return context.Cause(ctx)
}

// loop is the state that the callers of a turn share.
type loop struct {
	t           *Turn
	batch       int          // jobs of one call
	createBatch int          // jobs of one create of Both
	left        atomic.Int64 // jobs that no caller has begun
}

// take reserves up to n of the remaining jobs.
func (l *loop) take(n int) int {
	for {
		left := l.left.Load()
		if left <= 0 {
			return 0
		}
		n := min(left, int64(n))
		if l.left.CompareAndSwap(left, left-n) {
			return int(n)
		}
	}
}

func (l *loop) step(k Kind) func(context.Context, Conn) error {
	switch k {
	case Create:
		return l.create
	case Drain:
		return l.drain
	case Exchange:
		return l.exchange
	case Both:
		return l.both
	case Lifecycle:
		return l.lifecycle
	}
	return nil
}

func (l *loop) create(ctx context.Context, c Conn) error {
	for n := l.take(l.batch); n > 0; n = l.take(l.batch) {
		if err := l.t.Time(func() error { return c.Create(ctx, n) }); err != nil {
			return fmt.Errorf("create %d: %w", n, err)
		}
	}
	return nil
}

// claim claims up to n jobs, and at least one. It measures a claim only if the claim got jobs.
func (l *loop) claim(ctx context.Context, c Conn, n int) (int, error) {
	since := time.Now()
	for {
		start := time.Now()
		got, err := c.Claim(ctx, n)
		if err != nil {
			return 0, fmt.Errorf("claim %d: %w", n, err)
		}
		if got > n {
			return 0, fmt.Errorf("claim %d: the server returned %d jobs", n, got)
		}
		if got > 0 {
			l.t.Add(time.Since(start))
			return got, nil
		}
		if time.Since(since) > dryFor {
			return 0, errors.New("claims returned no job for a long time, although jobs are left")
		}
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
	}
}

func (l *loop) drain(ctx context.Context, c Conn) error {
	for n := l.take(l.batch); n > 0; n = l.take(l.batch) {
		got, err := l.claim(ctx, c, n)
		if err != nil {
			return err
		}
		l.left.Add(int64(n - got))
		if err := c.Complete(ctx); err != nil {
			return fmt.Errorf("complete %d: %w", got, err)
		}
	}
	return nil
}

func (l *loop) exchange(ctx context.Context, c Conn) error {
	x, ok := c.(Exchanger)
	if !ok {
		return ErrUnsupported
	}
	held := 0
	for n := l.take(l.batch); n > 0; n = l.take(l.batch) {
		got, err := 0, error(nil)
		if held == 0 {
			got, err = l.claim(ctx, c, n)
		} else if err = l.t.Time(func() (err error) { got, err = x.Exchange(ctx, n); return err }); err != nil {
			err = fmt.Errorf("complete %d and claim %d: %w", held, n, err)
		}
		if err != nil {
			return err
		}
		l.left.Add(int64(n - got))
		held = got
	}
	if held == 0 {
		return nil
	}
	return c.Complete(ctx)
}

func (l *loop) both(ctx context.Context, c Conn) error {
	for n := l.take(l.createBatch); n > 0; n = l.take(l.createBatch) {
		if err := c.Create(ctx, n); err != nil {
			return fmt.Errorf("create %d: %w", n, err)
		}
		for n > 0 {
			got, err := l.claim(ctx, c, min(n, l.batch))
			if err != nil {
				return err
			}
			if err := c.Complete(ctx); err != nil {
				return fmt.Errorf("complete %d: %w", got, err)
			}
			n -= got
		}
	}
	return nil
}

// lifecycle claims any job, perhaps one that another caller created. Each caller creates as many jobs as it completes.
func (l *loop) lifecycle(ctx context.Context, c Conn) error {
	for l.take(1) > 0 {
		start := time.Now()
		if err := c.Create(ctx, 1); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		for got, since := 0, time.Now(); got == 0; {
			var err error
			if got, err = c.Claim(ctx, 1); err != nil {
				return fmt.Errorf("claim: %w", err)
			}
			if got == 0 && time.Since(since) > dryFor {
				return errors.New("claims returned no job for a long time, although one was created")
			}
		}
		if err := c.Complete(ctx); err != nil {
			return fmt.Errorf("complete: %w", err)
		}
		l.t.Add(time.Since(start))
	}
	return nil
}
