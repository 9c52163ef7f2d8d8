package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// stateNote says whether the engine accepts requests. err is nil if it does, and otherwise the reason.
type stateNote struct{ err error }

var notReady = &stateNote{ErrNotReady}

// Run applies the commands that the store has not applied yet. Then it serves until ctx is done, completes the commands
// that it has taken, and closes the log and the store. An error means that the engine could not continue. The log has all
// acknowledged commands, and a restart applies them. With ErrStuck the data directory stays locked until the process
// ends.
func (e *Engine) Run(ctx context.Context) (err error) {
	defer func() {
		if !errors.Is(err, ErrStuck) { // with ErrStuck, a goroutine is still using the files
			err = errors.Join(err, e.close())
		}
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w; nothing is lost: the journal has all acknowledged commands, and the next start applies them: %w", errFull, err)
		}
	}()
	if err := e.stoppable(ctx, func() error { return e.replay(ctx) }); err != nil {
		e.refuse(err)
		if errors.Is(err, context.Canceled) && !errors.Is(err, ErrStuck) {
			return nil
		}
		return fmt.Errorf("replay journal: %w", err)
	}
	e.commits.applied.send() // a read may wait for the end of the log without a further command

	if e.o.OnRunEnds != nil {
		e.store.ObserveRunEnds()
	}
	if e.o.OnBatchEnds != nil {
		e.store.ObserveBatchEnds()
	}
	e.observeQueues()

	// The applier stops after the log, because it applies the last groups of the log.
	var parts sync.WaitGroup
	var logErr, applyErr error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	after := e.store.Applied()
	parts.Go(func() {
		if logErr = e.log.Run(ctx, after, e.applyQueue.put); logErr != nil {
			e.refuse(fmt.Errorf("%w: %w", ErrNotReady, logErr))
			cancel()
		}
		e.applyQueue.close()
	})
	parts.Go(func() {
		if applyErr = e.apply(); applyErr != nil {
			e.refuse(fmt.Errorf("%w: %w", ErrApply, applyErr))
			cancel()
			e.applyQueue.drain(applyErr)
		}
	})
	parts.Go(func() { e.time.run(ctx) })
	parts.Go(func() { e.ungetStrays(ctx) })
	parts.Go(func() { e.parked.run(ctx) })
	parts.Go(func() { e.maintain(ctx) })
	parts.Go(func() { e.disk.Run(ctx) })
	parts.Go(func() { e.commits.watch(ctx) })
	e.readKeyUses()
	parts.Go(func() { e.keepKeyUses(ctx) })
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
	// The next start compares the end of the log with the cursor on disk, and notices if the last records are missing.
	// After a flush there is also nothing to replay.
	if err := e.store.FlushWithin(e.o.CommitWait); err != nil {
		e.logger.Warn("cannot flush the store; the next start replays more", "error", err)
	}
	return nil
}

// stoppable runs f, which should return when ctx is done. If f does not return because a command or a commit of the store
// is blocked, stoppable returns ErrStuck while f is still running.
func (e *Engine) stoppable(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	for {
		since, wait := e.commits.step(), e.o.CommitWait
		if e.disk.IsFull() {
			wait = min(wait, fullWait)
		}
		timer := time.NewTimer(wait)
		select {
		case err := <-done:
			timer.Stop()
			return err
		case <-timer.C:
		}
		if since != 0 && since == e.commits.step() { // the same step is still running
			if e.disk.IsFull() {
				return fmt.Errorf("%w: %w", ErrStuck, syscall.ENOSPC)
			}
			return fmt.Errorf("%w: a command or commit of it has been blocked since %v; the journal has all acknowledged commands, and the next start applies them",
				ErrStuck, time.Unix(0, since).Format(time.TimeOnly))
		}
	}
}

// fullWait is how long a stop waits for a commit that is blocked by a full disk.
const fullWait = time.Second / 2

// errFull is the reason why an engine could not close its files.
var errFull = errors.New("the disk is full, so the store could not write its latest changes")

// begin makes the engine ready. It first waits until the state includes all commands that the log had when the engine
// started. If this process leads the log, it also proposes the commands that the first term requires.
func (e *Engine) begin(ctx context.Context) error {
	for {
		err := e.CatchUp(ctx, 0)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.logger.Warn("the state does not include all of the log yet; waiting", "applied", e.store.Applied(), "error", err)
		pause(ctx, maxSleep)
	}
	e.reportsEnds.Store(true)
	err := e.time.do(ctx, func(ctx context.Context) error { _, err := e.time.leads(ctx); return err })
	if err != nil {
		return err
	}
	e.state.CompareAndSwap(notReady, &stateNote{})
	e.logger.Info("ready", "applied", e.store.Applied(), "replayed", e.counters.replayed.Load())
	return nil
}

// refuse makes the engine refuse all requests with err. If it is refusing them already, the first reason stays.
func (e *Engine) refuse(err error) {
	for {
		now := e.state.Load()
		if now.err != nil && now != notReady || e.state.CompareAndSwap(now, &stateNote{err}) {
			return
		}
	}
}

// accepting returns nil while the engine accepts requests, and otherwise the reason why it does not.
func (e *Engine) accepting() error {
	if err := e.state.Load().err; err != nil {
		return err
	}
	return e.commits.stalled()
}

// Ready returns nil while the engine accepts requests and the log accepts commands, and otherwise the reason.
func (e *Engine) Ready() error {
	if err := e.accepting(); err != nil {
		return err
	}
	return e.log.Health()
}

// signal sends to a channel of capacity 1, unless it already has a value. This wakes the receiving goroutine, now or at
// its next receive.
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
