package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	engine "github.com/moby/moby/client"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/internal/containerjob"
	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/task"
)

// run runs one job.
type run struct {
	engine      *Engine
	executor    *Executor
	task        *task.Task
	job         *client.Job
	document    *containerjob.Document
	dir         string // working directory, relative to the workspace
	user, group int

	workspace *workspace
	log       *runlog.Log
	report    report
	volumes   *volumes
	ran       bool    // the container was started
	orphan    *orphan // the container if it could not be removed, since it may use the workspace
	reason    string  // why the run does not end ok, if it does not
}

const (
	// stopWait is how long the engine may take to report the end of a killed container.
	stopWait = 10 * time.Second
	// logWait is how long after the container's end the rest of its output may arrive.
	logWait = 10 * time.Second
)

// run opens the log, runs the steps, and adds the report to the end.
func (r *run) run() task.End {
	ctx := r.task.Context
	var err error
	if r.log, err = r.engine.keeper.Begin(ctx, r.job, r.engine.LogBytes, r.workspace.path); err != nil {
		if diskFull(err) {
			r.reason = becauseDiskFull
			return r.back(ctx, err)
		}
		return task.Error(err.Error())
	}
	defer r.log.Close() // the file is removed with the workspace

	end := r.steps(ctx)
	if ctx.Err() != nil || end.Unget {
		return end // nobody reads the log
	}
	r.keepLog(ctx)
	return r.with(end)
}

// steps runs the steps, and stops at the first that fails.
func (r *run) steps(ctx context.Context) task.End {
	r.reason = pullImage
	img, err := r.image(ctx)
	if err == nil {
		r.report.ImageID = img.ID
		r.volumes, err = volumesOf(img, r.document.Container.Config.Volumes)
	}
	if err == nil {
		err = r.pull(ctx)
	}
	if err == nil {
		err = r.prepare()
	}
	if err != nil {
		return r.failed(ctx, err)
	}
	how, err := r.container(ctx, img)
	if err != nil {
		return r.failed(ctx, err)
	}
	end := r.outcome(ctx, how)
	if end.Code != "ok" {
		return end
	}
	if r.document.Fileset.Output != nil {
		if err := r.push(ctx); err != nil {
			return r.failed(ctx, err)
		}
	}
	return end
}

// push stores the output. If the server is unreachable, push retries for stepTimeout, because the container's work is
// done.
func (r *run) push(ctx context.Context) error {
	out := r.document.Fileset.Output
	// watchFiles may not have checked the workspace of a short-lived container.
	if _, err := measure(ctx, r.workspace.files, r.engine.WorkspaceBytes, 0); errors.Is(err, errTree) {
		return err
	}
	return r.step(ctx, pushFileset, "Pushing fileset: "+out.Name, func() error {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		err := runlog.Patiently(ctx, r.engine.pause, r.engine.Log, r.job.ID, func(ctx context.Context) error {
			n, err := r.engine.Filesets.Push(ctx, r.job.Client, out.Name, out.Patterns, r.workspace.dir())
			r.report.Output = &version{out.Name, n}
			return err
		})
		if err != nil {
			r.report.Output = nil
			return fmt.Errorf("push the fileset %s: %w", out.Name, err)
		}
		return nil
	})
}

// failed returns the end of a run after a failed step. The job runs again unless it would fail again.
func (r *run) failed(ctx context.Context, err error) task.End {
	switch {
	case ctx.Err() != nil:
		r.reason = becauseNotAwaited
	case errors.Is(err, errInput), errors.Is(err, errTree):
		r.reason = becauseTooLarge
	case diskFull(err):
		r.reason = becauseDiskFull
	case errors.Is(err, errVolume):
		r.reason = becauseRefused
	case errors.Is(err, errRegistry):
		r.reason = becauseRegistry
	case runlog.ServerAway(err):
		r.reason = becauseServerAway
	case engineAway(err):
		r.reason = becauseEngineAway
	}
	switch r.reason {
	case becauseNotAwaited:
		return task.Error(withTail(notAwaited(ctx), r.log.Tail()))
	case becauseTooLarge, becauseRefused:
		return task.Failed(withTail(err.Error(), r.log.Tail()))
	case becauseServerAway, becauseEngineAway, becauseDiskFull:
		if !r.ran {
			return r.back(ctx, err)
		}
	case becauseRegistry:
		return task.CannotRun(err.Error())
	}
	return task.Error(withTail(err.Error(), r.log.Tail()))
}

// back returns the job to its queue. It pauses first, because the runner may claim the job again immediately.
func (r *run) back(ctx context.Context, err error) task.End {
	r.engine.Log.Warn("a job goes back to its queue, because it cannot be run now", "job_id", r.job.ID, "reason", r.reason, "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(r.engine.pause):
	}
	return task.Unget()
}

// diskFull reports whether an error means that a disk of this machine is full.
func diskFull(err error) bool {
	return errors.Is(err, errFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// image returns the job's image. It pulls the image if it is missing and the runner may pull images.
func (r *run) image(ctx context.Context) (*image.InspectResponse, error) {
	name := r.report.Image
	inspect := func(ctx context.Context) (img *image.InspectResponse, err error) {
		err = r.engine.call(ctx, func(ctx context.Context) error {
			got, err := r.engine.docker.ImageInspect(ctx, name)
			img = &got.InspectResponse
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for the image %s: %w", name, err)
		}
		return img, nil
	}
	img, err := inspect(ctx)
	if !cerrdefs.IsNotFound(err) {
		return img, err
	}
	if !r.engine.Pull {
		return nil, fmt.Errorf("the engine does not have the image %s, and this runner pulls none: pull it, or start the runner with --pull", name)
	}
	err = r.step(ctx, pullImage, "Pulling docker image: "+name, func() error {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		pulling, err := r.engine.docker.ImagePull(ctx, name, engine.ImagePullOptions{})
		if err == nil {
			err = errors.Join(pulling.Wait(ctx), pulling.Close())
		}
		if registryAway(err, name) {
			err = fmt.Errorf("%w: %w", errRegistry, err)
		}
		if err == nil {
			img, err = inspect(ctx)
		}
		if err != nil {
			return fmt.Errorf("pull the image %s: %w", name, err)
		}
		return nil
	})
	return img, err
}

// pull writes the input fileset to the workspace. It does nothing if the job names no input.
func (r *run) pull(ctx context.Context) error {
	in := r.document.Fileset.Input
	if in == nil {
		return nil
	}
	return r.step(ctx, pullFileset, "Pulling fileset: "+in.Name, func() error {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		n, err := r.engine.Filesets.Pull(ctx, r.job.Client, in.Name, in.Version, in.Patterns, r.workspace.dir(), func(m *fileset.Manifest) error {
			return r.engine.fits(m, r.workspace.dir())
		})
		if err != nil {
			return fmt.Errorf("pull the fileset %s: %w", in.Name, err)
		}
		r.report.Input = &version{in.Name, n}
		return nil
	})
}

// prepare creates the working directory, and makes the container's user the owner of the workspace.
func (r *run) prepare() error {
	files := r.workspace.files
	r.reason = becauseRunner
	if !path.IsAbs(r.dir) { // an absolute path is in the image
		if err := files.MkdirAll(r.dir, 0o700); err != nil {
			return fmt.Errorf("create the working directory %s: %w", r.dir, err)
		}
	}
	for _, dir := range r.volumes.inside {
		if err := files.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: create the directory %s of the image's volume: %w", errVolume, dir, err)
		}
	}
	if os.Getuid() != 0 || r.engine.rootless {
		return nil
	}
	if err := give(files, r.user, r.group); err != nil {
		return fmt.Errorf("give the workspace to the user of the container: %w", err)
	}
	return nil
}

// container creates the container, runs it to its end, and removes it.
func (r *run) container(ctx context.Context, img *image.InspectResponse) (how ended, err error) {
	e, name := r.engine, "daybook-"+rand.Text()
	unanswered := false // the creation got no answer: the engine may still create the container
	defer func() {
		found, failed := e.removed(context.WithoutCancel(ctx), name)
		switch {
		case failed == nil && (found || !unanswered):
		case unanswered: // the container was not started, so it uses no files
			e.orphaned(&orphan{name: name, until: time.Now().Add(lateCreate)}, err)
		default:
			r.orphan = &orphan{name: name}
			e.orphaned(r.orphan, failed)
		}
	}()
	user := fmt.Sprintf("%d:%d", r.user, r.group)
	// An engine finishes a call even if its caller leaves, so wait for the answer of the next calls. await checks ctx
	// after that.
	err = r.step(ctx, create, "", func() error {
		ctx := context.WithoutCancel(ctx)
		var made engine.ContainerCreateResult
		err := e.call(ctx, func(ctx context.Context) (err error) {
			made, err = e.docker.ContainerCreate(ctx, engine.ContainerCreateOptions{
				Name: name, HostConfig: e.hostConfig(r.workspace.dir(), r.executor.memoryBytes, r.volumes),
				Config: e.config(&r.document.Container.Config, r.job, inContainer(r.dir), user, img.ID),
			})
			return err
		})
		if err != nil {
			unanswered = engineAway(err)
			return fmt.Errorf("create the container: %w", err)
		}
		r.report.ID = made.ID
		for _, text := range made.Warnings {
			e.Log.Debug("the container engine warns", "job_id", r.job.ID, "warning", text)
		}
		if e.podman {
			if err := e.call(ctx, func(ctx context.Context) error { return e.initialize(ctx, name) }); err != nil {
				return fmt.Errorf("start the container: prepare it: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return how, err
	}
	r.reason = start
	stopCopy, err := r.attach(ctx, name)
	if err != nil {
		return how, err
	}
	defer stopCopy(0)
	if ctx.Err() != nil {
		return how, ctx.Err()
	}
	err = r.step(ctx, start, "", func() error {
		err := e.call(context.WithoutCancel(ctx), func(ctx context.Context) error {
			_, err := e.docker.ContainerStart(ctx, name, engine.ContainerStartOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("start the container: %w", err)
		}
		return nil
	})
	if err != nil {
		return how, err
	}
	r.ran = true
	err = r.step(ctx, running, "RUNNING", func() (err error) {
		how, err = r.await(ctx, name)
		return err
	})
	stopCopy(logWait)
	return how, err
}

func inContainer(dir string) string {
	if path.IsAbs(dir) {
		return dir
	}
	return path.Join(containerjob.MountPoint, dir)
}

// attach starts to copy the container's output to the log. The returned function waits up to the given time for the end
// of the output, then stops the copy.
func (r *run) attach(ctx context.Context, name string) (stop func(time.Duration), err error) {
	var stream engine.ContainerAttachResult
	err = r.engine.call(ctx, func(ctx context.Context) (err error) {
		stream, err = r.engine.docker.ContainerAttach(ctx, name, engine.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the output of the container: %w", err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if _, err := stdcopy.StdCopy(r.log, r.log, stream.Reader); err != nil {
			r.engine.Log.Debug("the output of a container has ended with an error", "job_id", r.job.ID, "error", err)
		}
	}()
	return func(wait time.Duration) {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-copied:
		case <-timer.C:
		}
		stream.Close()
		<-copied
	}, nil
}

func (r *run) keepLog(ctx context.Context) {
	r.report.LogBytes = r.log.Bytes()
	r.report.LogAddr = r.log.Keep(ctx)
}

// state returns the state of a container.
func (r *run) state(ctx context.Context, name string) (*container.State, error) {
	var got engine.ContainerInspectResult
	err := r.engine.call(ctx, func(ctx context.Context) (err error) {
		got, err = r.engine.docker.ContainerInspect(ctx, name, engine.ContainerInspectOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the state of the container: %w", err)
	}
	if got.Container.State == nil {
		return nil, errors.New("the engine does not say whether the container runs")
	}
	return got.Container.State, nil
}

// withTail adds the end of the log to a text.
func withTail(text, tail string) string {
	if tail == "" {
		return text
	}
	return text + "\n" + tail
}
