package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stateNote says whether requests are taken: a nil err is yes.
type stateNote struct{ err error }

var notReady = &stateNote{ErrNotReady}

// Run replays what the store has not applied yet, then serves until ctx is done, commits what was taken, and closes
// everything. An error means that the engine could not go on; the log holds what was acknowledged, and a restart
// applies it. With ErrStuck the data directory stays in use until the process ends.
func (e *Engine) Run(ctx context.Context) (err error) {
	defer func() {
		if !errors.Is(err, ErrStuck) { // a part that is stuck still uses the files
			err = errors.Join(err, e.close())
		}
	}()
	if err := e.stoppable(ctx, func() error { return e.replay(ctx) }); err != nil {
		e.refuse(err)
		if errors.Is(err, context.Canceled) && !errors.Is(err, ErrStuck) {
			return nil
		}
		return fmt.Errorf("replay journal: %w", err)
	}

	// The applier outlives the log, whose last groups it takes.
	var parts sync.WaitGroup
	var logErr, applyErr error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	after := e.store.Applied()
	parts.Go(func() {
		logErr = e.log.Run(ctx, after, e.over.put)
		e.over.close()
	})
	parts.Go(func() {
		if applyErr = e.apply(); applyErr != nil {
			e.refuse(fmt.Errorf("%w: %w", ErrApply, applyErr))
			cancel()
			e.over.drain(applyErr)
		}
	})
	parts.Go(func() { e.time.run(ctx) })
	parts.Go(func() { e.ungetStrays(ctx) })
	parts.Go(func() { e.parked.run(ctx, e.store.Queries) })
	parts.Go(func() { e.maintain(ctx) })
	parts.Go(func() { e.watchDisk(ctx) })
	parts.Go(func() { e.commits.watch(ctx) })
	ended := func() error { parts.Wait(); return errors.Join(logErr, applyErr) }
	if err := e.begin(ctx); err != nil && ctx.Err() == nil {
		cancel()
		return fmt.Errorf("begin: %w", errors.Join(err, e.stoppable(ctx, ended)))
	}
	<-ctx.Done()
	e.refuse(ErrClosed)
	e.parked.close()
	if err := e.stoppable(ctx, ended); err != nil {
		return err
	}
	// The cursor on disk is the only evidence of the log's end outside the log: with it, the next start notices if the
	// last records are missing. It also has nothing to replay.
	if err := e.store.FlushWithin(e.o.CommitWait); err != nil {
		e.logger.Warn("cannot flush the store; the next start replays more", "error", err)
	}
	return nil
}

// stoppable runs f, which ends when ctx is done unless the store takes no commit. In that case stoppable returns
// ErrStuck, and f goes on.
func (e *Engine) stoppable(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	for {
		since := e.commits.began.Load()
		timer := time.NewTimer(e.o.CommitWait)
		select {
		case err := <-done:
			timer.Stop()
			return err
		case <-timer.C:
		}
		if since != 0 && since == e.commits.began.Load() { // the same commit all the time
			return fmt.Errorf("%w: it has not taken a commit since %v; what was acknowledged is in the journal, and the next start applies it",
				ErrStuck, time.Unix(0, since).Format(time.TimeOnly))
		}
	}
}

// begin makes the engine ready. Before, its state must include what the log had when the engine started, and, if this
// process leads the log, what the first term requires.
func (e *Engine) begin(ctx context.Context) error {
	for {
		err := e.CatchUp(ctx, 0)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.logger.Warn("the state does not include all of the log yet; waiting for it", "applied", e.store.Applied(), "error", err)
		pause(ctx, maxSleep)
	}
	err := e.time.do(ctx, func(ctx context.Context) error { _, err := e.time.leads(ctx); return err })
	if err != nil {
		return err
	}
	e.state.CompareAndSwap(notReady, &stateNote{})
	e.logger.Info("ready", "applied", e.store.Applied(), "replayed", e.counters.replayed.Load())
	return nil
}

// refuse has all requests answered with err from now on. The first reason stays.
func (e *Engine) refuse(err error) {
	for {
		now := e.state.Load()
		if now.err != nil && now != notReady || e.state.CompareAndSwap(now, &stateNote{err}) {
			return
		}
	}
}

// accepting is nil while requests are taken.
func (e *Engine) accepting() error {
	if err := e.state.Load().err; err != nil {
		return err
	}
	return e.commits.stalled()
}

// Ready returns nil when the engine serves and the log takes commands; otherwise why not.
func (e *Engine) Ready() error {
	if err := e.accepting(); err != nil {
		return err
	}
	return e.log.Health()
}

// signal wakes the goroutine that waits on a channel of capacity 1, now or the next time that it waits.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
