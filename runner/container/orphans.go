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

// orphan is a container that could not be removed, because its engine was away or hung.
type orphan struct {
	name  string
	until time.Time // before this time, the container may be created yet

	// Of orphans.mu.
	gone      bool
	workspace *workspace // is removed after the container, which may still run; nil until the run does not use it
}

// orphans are the containers that could not be removed. A goroutine tries again until none is left. It runs only while there
// are some, and close ends it.
type orphans struct {
	mu      sync.Mutex
	list    []*orphan
	running bool
	closed  bool
	stop    context.CancelFunc // of the goroutine
	ended   sync.WaitGroup
}

const (
	removeTimeout = 30 * time.Second // of all tries to remove a container before it is an orphan
	orphanPause   = 5 * time.Second  // between two tries
	// lateCreate is how long an engine may take to create a container whose creation it has not answered.
	lateCreate = 5 * time.Minute
	// maxOrphans bounds what an engine can leave that removes no containers. Above it, jobs go back to their queue.
	maxOrphans = 100
)

// remove ends and removes a container, by its name or id. It is no error if there is none.
func (e *Engine) remove(ctx context.Context, name string) error {
	_, err := e.removed(ctx, name)
	return err
}

// removed does what remove does, and reports whether there was a container.
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

// tooManyOrphans reports whether the runner should create no more containers.
func (e *Engine) tooManyOrphans() bool {
	e.orphans.mu.Lock()
	defer e.orphans.mu.Unlock()
	return len(e.orphans.list) >= maxOrphans
}

// removeOrphans tries to remove the orphans until none is left.
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

// tryOrphans tries once to remove each orphan, and reports whether the goroutine ends.
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
				break // it would be the same with the others
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

// leave removes the workspace of a run, or leaves it until the container of the run is removed. o may be nil.
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

// closeOrphans ends the goroutine, and tries a last time. It reports whether containers are left that may have files.
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
