package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// orphan is a container that could not be removed, because its engine was unreachable or hung.
type orphan struct {
	name  string
	until time.Time // the engine may still create the container until then

	// Guarded by orphans.mu.
	gone      bool
	workspace *workspace // to remove after the container; nil while the run uses it
}

// orphans holds the containers that could not be removed. While there are any, a goroutine tries to remove them.
// closeOrphans stops it.
type orphans struct {
	mu      sync.Mutex
	list    []*orphan
	running bool
	closed  bool
	stop    context.CancelFunc // stops the goroutine
	ended   sync.WaitGroup
}

const (
	removeTimeout = 30 * time.Second // of all attempts to remove a container before it becomes an orphan
	orphanPause   = 5 * time.Second  // between two attempts
	// lateCreate is how long after an unanswered call an engine may still create the container.
	lateCreate = 5 * time.Minute
	// maxOrphans bounds the orphans of an engine that removes no containers. From then on, jobs go back to their queue.
	maxOrphans = 100
)

// remove kills and removes a container, given its name or id. It returns nil if the container does not exist.
func (e *Engine) remove(ctx context.Context, name string) error {
	_, err := e.removed(ctx, name)
	return err
}

// removed does the same as remove, and reports whether the container existed.
func (e *Engine) removed(ctx context.Context, name string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for try := range 3 {
		if try > 0 {
			select {
			case <-time.After(time.Duration(try) * time.Second):
			case <-ctx.Done():
			}
		}
		_, err = e.docker.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || cerrdefs.IsNotFound(err) {
			return err == nil, nil
		}
		if ctx.Err() != nil || engineAway(err) {
			break
		}
	}
	return false, fmt.Errorf("remove the container %s: %w", name, err)
}

// orphaned adds a container that could not be removed.
func (e *Engine) orphaned(o *orphan, err error) {
	e.Log.Error("a container could not be removed; the runner tries again every few seconds", "container", o.name, "error", err)
	s := &e.orphans
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, o)
	if s.running || s.closed {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.running = true
	s.ended.Go(func() { e.removeOrphans(ctx) })
}

// tooManyOrphans reports whether the runner must not create more containers.
func (e *Engine) tooManyOrphans() bool {
	e.orphans.mu.Lock()
	defer e.orphans.mu.Unlock()
	return len(e.orphans.list) >= maxOrphans
}

// removeOrphans tries to remove the orphans until none is left or ctx ends.
func (e *Engine) removeOrphans(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(e.orphanPause, orphanPause)):
		}
		if e.tryOrphans(ctx) {
			return
		}
	}
}

// tryOrphans tries once to remove each orphan. It reports whether the goroutine should end.
func (e *Engine) tryOrphans(ctx context.Context) (end bool) {
	s := &e.orphans
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	for _, o := range list {
		if ctx.Err() != nil {
			break
		}
		found, err := e.removed(ctx, o.name)
		if err != nil {
			e.Log.Debug("a container could still not be removed", "container", o.name, "error", err)
			if engineAway(err) || errors.Is(err, context.DeadlineExceeded) {
				break // the remaining calls would fail, too
			}
			continue
		}
		if !found && time.Now().Before(o.until) {
			continue
		}
		if found {
			e.Log.Info("a container that could not be removed before was removed", "container", o.name)
		}
		s.mu.Lock()
		o.gone = true
		ws := o.workspace
		s.mu.Unlock()
		if ws != nil {
			e.removeWorkspace(ws)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []*orphan
	for _, o := range s.list {
		if !o.gone {
			left = append(left, o)
		}
	}
	s.list = left
	if len(left) > 0 && ctx.Err() == nil {
		return false
	}
	s.running = false
	s.stop()
	return true
}

// leave removes the workspace of a run. If the run's container could not be removed, the workspace is removed after it. o
// is nil for a removed container.
func (e *Engine) leave(o *orphan, ws *workspace) {
	if o != nil {
		e.orphans.mu.Lock()
		defer e.orphans.mu.Unlock()
		if !o.gone {
			o.workspace = ws
			return
		}
	}
	e.removeWorkspace(ws)
}

func (e *Engine) removeWorkspace(ws *workspace) {
	if err := ws.remove(); err != nil {
		e.Log.Error("a workspace could not be removed; the next start of a runner removes it", "error", err)
	}
}

// closeOrphans stops the goroutine, and tries once more to remove the orphans. It reports whether an orphan with a
// workspace may be left.
func (e *Engine) closeOrphans(ctx context.Context) (left bool) {
	s := &e.orphans
	s.mu.Lock()
	s.closed = true
	if s.running {
		s.stop()
	}
	s.mu.Unlock()
	s.ended.Wait()
	s.stop = func() {}
	if len(s.list) > 0 {
		e.tryOrphans(ctx)
	}
	for _, o := range s.list {
		if o.workspace != nil {
			o.workspace.files.Close()
			left = true
		}
	}
	return left
}
