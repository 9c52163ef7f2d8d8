package container

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	engine "github.com/moby/moby/client"

	"github.com/daybookq/daybook/runner/disk"
	"github.com/daybookq/daybook/runner/task"
)

// ended describes the end of a container.
type ended struct {
	code      int64
	outOfMem  bool
	abandoned bool  // nobody waits for the result any more
	timedOut  bool  // the run exceeded its time-out
	tooLarge  error // the workspace is too large, or the disk is nearly full
}

// killed is the exit code of a container killed by SIGKILL.
const killed = 137

// maxMeasureFailures bounds the consecutive failures to measure a workspace, which its container may be changing.
const maxMeasureFailures = 5

var errFull = errors.New("the disk of the workspaces is nearly full")

// await waits until a container has ended. It stops the container at the time-out, if its workspace is too large, and
// when nobody waits for the result any more. It returns an error if it cannot find out the exit code.
func (r *run) await(ctx context.Context, name string) (how ended, err error) {
	looking, stopLooking := context.WithCancel(context.Background())
	tooLarge := make(chan error, 1)
	var look sync.WaitGroup
	look.Go(func() {
		if err := r.watchFiles(looking, name); err != nil {
			tooLarge <- err
		}
	})
	defer look.Wait()
	defer stopLooking()
	timeout := time.NewTimer(r.executor.timeout)
	defer timeout.Stop()

	waiting, stopWaiting := context.WithCancel(context.Background())
	defer stopWaiting()
	wait := r.engine.docker.ContainerWait(waiting, name, engine.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	for {
		select {
		case got := <-wait.Result:
			return r.gone(name, how, got)
		case err := <-wait.Error:
			// The engine may have been restarted. Ask it whether the container has ended.
			if err := r.engine.available(waiting); err != nil {
				return how, err
			}
			state, asked := r.state(waiting, name)
			switch {
			case asked != nil:
				return how, errors.Join(fmt.Errorf("wait for the container: %w", err), asked)
			case !state.Running:
				return r.gone(name, how, container.WaitResponse{StatusCode: int64(state.ExitCode)})
			}
			select { // do not ask in a tight loop if the engine refuses to wait
			case <-time.After(lookEvery):
			case <-ctx.Done():
			}
			wait = r.engine.docker.ContainerWait(waiting, name, engine.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
			continue
		case <-ctx.Done():
			how.abandoned = true
		case <-timeout.C:
			how.timedOut = true
		case how.tooLarge = <-tooLarge:
		}
		if err := r.stop(name, how.tooLarge == nil); err != nil {
			return how, err
		}
		select {
		case got := <-wait.Result:
			return r.gone(name, how, got)
		case err := <-wait.Error:
			return how, fmt.Errorf("wait for the container: %w", err)
		case <-time.After(stopWait):
			return how, errors.New("the container was killed, and the engine says that it still runs")
		}
	}
}

// gone records the exit code of a container that has ended, and whether it ran out of memory.
func (r *run) gone(name string, how ended, got container.WaitResponse) (ended, error) {
	if got.Error != nil && got.Error.Message != "" {
		return how, fmt.Errorf("run the container: %s", got.Error.Message)
	}
	how.code = got.StatusCode
	r.report.ExitCode = &how.code
	if how.code != 0 {
		if state, err := r.state(context.Background(), name); err == nil {
			how.outOfMem = state.OOMKilled
		}
	}
	return how, nil
}

// stop stops a container. If gently is set, it sends the stop signal first, and kills the container after grace or after
// the job's StopTimeout, whichever is shorter. Otherwise it kills the container immediately.
func (r *run) stop(name string, gently bool) error {
	var err error
	if gently {
		seconds := int(r.engine.grace / time.Second)
		if asked := r.document.Container.Config.StopTimeout; asked != nil {
			seconds = min(seconds, *asked)
		}
		ctx, cancel := context.WithTimeout(context.Background(), r.engine.grace+stopWait)
		_, err = r.engine.docker.ContainerStop(ctx, name, engine.ContainerStopOptions{Timeout: &seconds})
		cancel()
		if err == nil {
			return nil
		}
	}
	killed := r.engine.call(context.Background(), func(ctx context.Context) error {
		_, err := r.engine.docker.ContainerKill(ctx, name, engine.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
	if killed != nil && !cerrdefs.IsConflict(killed) { // a conflict means that it no longer runs
		return fmt.Errorf("end the container: %w", errors.Join(err, killed))
	}
	return nil
}

// watchFiles checks the workspace until ctx ends. It returns an error if the workspace is too large, or the disk is
// nearly full.
func (r *run) watchFiles(ctx context.Context, name string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	next, failures := time.Now(), 0
	gone := r.deleted(ctx, name)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if free, err := disk.Free(r.workspace.dir()); err == nil && free < disk.ReserveBytes {
			return fmt.Errorf("%w: %d bytes are free, and a container must leave %d", errFull, free, disk.ReserveBytes)
		}
		if time.Now().Before(next) {
			continue
		}
		began := time.Now()
		deleted := int64(0)
		if gone != nil {
			if n, err := gone.bytes(ctx, r.engine.WorkspaceBytes); err == nil {
				deleted = n
			}
		}
		switch _, err := measure(ctx, r.workspace.files, r.engine.WorkspaceBytes, deleted); {
		case errors.Is(err, errTree):
			return err
		case err == nil, ctx.Err() != nil:
			failures = 0
		default:
			if failures++; failures == maxMeasureFailures {
				return fmt.Errorf("%w: it cannot be measured: %w", errTree, err)
			}
		}
		next = time.Now().Add(20 * time.Since(began)) // use at most a twentieth of a processor
	}
}

// deleted returns a counter of files that the container has deleted but keeps open, or nil if the runner cannot see them.
func (r *run) deleted(ctx context.Context, name string) *deletedFiles {
	state, err := r.state(ctx, name)
	var d *deletedFiles
	if err == nil && state.Running {
		d, err = newDeletedFiles(state.Pid, r.workspace.dir())
	}
	if err != nil && ctx.Err() == nil && state != nil {
		if now, lookErr := r.state(ctx, name); lookErr == nil && now.Running { // it has not just ended
			r.engine.hidden.Do(func() {
				r.engine.Log.Warn("files that containers delete and hold open do not count as those of their workspaces", "error", err)
			})
		}
	}
	return d
}

// outcome converts the end of a container to the end of the run.
func (r *run) outcome(ctx context.Context, how ended) task.End {
	tail := r.log.Tail()
	switch {
	case how.abandoned:
		r.reason = becauseNotAwaited
		return task.Error(withTail(notAwaited(ctx), tail))
	case how.timedOut:
		r.reason = becauseTimeOut
		return task.Error(withTail(fmt.Sprintf("the container took longer than its time-out, %d ms", r.executor.timeout.Milliseconds()), tail))
	case errors.Is(how.tooLarge, errFull):
		r.reason = becauseDiskFull
		return task.Error(withTail(how.tooLarge.Error(), tail))
	case how.tooLarge != nil:
		r.reason = becauseTooLarge
		return task.Failed(withTail(how.tooLarge.Error(), tail))
	}
	r.reason = becauseExit
	if how.outOfMem {
		r.reason = becauseMemory
	}
	text := fmt.Sprintf("the container ended with exit code %d", how.code)
	if how.code == killed || how.outOfMem {
		text += fmt.Sprintf("; a container that needs more memory than it may have, %d bytes, is killed", r.executor.memoryBytes)
	}
	text = withTail(text, tail)
	switch r.executor.codes[int(how.code)] {
	case "ok":
		return task.OK(nil, "")
	case "failed":
		return task.Failed(text)
	case "retry":
		return task.Retry(text, -1)
	}
	return task.Error(text)
}
