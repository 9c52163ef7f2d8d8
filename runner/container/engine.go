package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/daybookq/daybook/internal/containerjob"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/disk"
	"github.com/daybookq/daybook/runner/runlog"
)

// Engine is the connection with Docker or Podman, and the directory of workspaces. All handlers of kind container of a
// runner share it.
type Engine struct {
	Settings
	docker     *client.Client
	info       system.Info
	workspaces *workspaces
	rootless   bool // the engine's root is the runner's user
	podman     bool

	podmanFilter string // path of Podman's seccomp profile
	seccomp      string // security option with the seccomp profile of containers; "" means the engine's own
	namespaces   error  // why containers can create user namespaces, or nil

	grace time.Duration // how long a container may take to exit after its stop signal
	pause time.Duration // first pause before another request to an unreachable server

	counters counters
	keeper   runlog.Keeper

	hidden sync.Once // logs once that deleted files are not counted

	orphans orphans

	patience, orphanPause time.Duration // set by tests; 0 means callTimeout and the constant orphanPause
}

const (
	grace        = 5 * time.Second
	stepTimeout  = 15 * time.Minute // of a pull or push
	startTimeout = 15 * time.Second // of the engine's first answer
)

// New connects to the engine, and removes the containers and files of killed runners. It returns an error if the engine
// is unreachable or cannot run these containers.
func New(ctx context.Context, s Settings) (*Engine, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	host, err := FindEngine(s.Engine)
	if err != nil {
		return nil, err
	}
	s.Engine = host
	docker, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("use the container engine %s: %w", host, err)
	}
	e := &Engine{Settings: s, docker: docker, grace: grace, pause: runlog.FirstPause, keeper: runlog.Keeper{Blobs: s.Blobs, Logs: s.Logs, Log: s.Log}}
	if err := e.connect(ctx); err != nil {
		docker.Close()
		return nil, err
	}
	if e.workspaces, err = openWorkspaces(s.Workspaces); err != nil {
		docker.Close()
		return nil, err
	}
	if err := e.filter(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if err := e.sweep(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("remove what ended runners have left: %w", err), e.Close())
	}
	return e, nil
}

// connect reads the capabilities of the engine. It returns an error if the engine cannot run containers that use
// workspaces.
func (e *Engine) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	got, err := e.docker.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("ask the container engine %s what it can do: %w", e.Engine, err)
	}
	e.info = got.Info
	if e.info.OSType != "linux" {
		return fmt.Errorf("the container engine %s runs containers for %q, not for linux", e.Engine, e.info.OSType)
	}
	has := func(option string) bool {
		return slices.ContainsFunc(e.info.SecurityOptions, func(o string) bool { return o == option || strings.HasPrefix(o, option+",") })
	}
	e.rootless = has("name=rootless")
	if err := e.askPodman(ctx); err != nil {
		return fmt.Errorf("ask the container engine %s for its version: %w", e.Engine, err)
	}
	if e.rootless {
		if err := ownSocket(e.Engine); err != nil {
			return fmt.Errorf("the container engine %s has no rights of its own (rootless): %w", e.Engine, err)
		}
	}
	if has("name=userns") && !e.rootless {
		return fmt.Errorf("the container engine %s runs containers with other users (userns-remap), who cannot write to workspaces", e.Engine)
	}
	return nil
}

// Limits returns the limits for handlers that the server stores.
func (e *Engine) Limits() *handler.Options {
	return &handler.Options{TimeoutMs: min(e.Timeout.Milliseconds(), job.MaxTimeoutMs), MemoryBytes: e.MemoryBytes}
}

// Missing returns a sentence for each protection that the engine lacks.
func (e *Engine) Missing() []string {
	var missing []string
	if !e.info.MemoryLimit || !e.info.SwapLimit {
		missing = append(missing, "the container engine does not limit the memory of containers, or not their swap")
	}
	if !e.info.PidsLimit {
		missing = append(missing, "the container engine does not limit the processes of containers")
	}
	if !e.info.CPUCfsQuota && e.CPUs > 0 {
		missing = append(missing, "the container engine does not limit the processors of containers")
	}
	if !slices.ContainsFunc(e.info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }) {
		missing = append(missing, "the container engine does not filter the system calls of containers")
	}
	if e.namespaces != nil {
		missing = append(missing, "the container engine lets containers create user namespaces, in which they have all capabilities: "+e.namespaces.Error())
	}
	return missing
}

// user returns the user of a container, who owns the files of the workspace: the user that the job names, or a default.
// It returns an error if this runner cannot run containers as the named user.
//
//	rootless engine          0, which is the runner's user outside of the container
//	the runner is not root   the runner's user
//	the runner is root       65534, nobody
func (e *Engine) user(named string) (user, group int, err error) {
	user, group = os.Getuid(), os.Getgid()
	switch {
	case e.rootless:
		user, group = 0, 0
	case user == 0:
		user, group = 65534, 65534
	}
	if named == "" {
		return user, group, nil
	}
	first, second, both := strings.Cut(named, ":")
	wantUser, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, containerjob.Refused("Container.Config.User: %w", err)
	}
	wantGroup := wantUser
	if both {
		if wantGroup, err = strconv.Atoi(second); err != nil {
			return 0, 0, containerjob.Refused("Container.Config.User: %w", err)
		}
	}
	if (e.rootless || os.Getuid() != 0) && (wantUser != user || wantGroup != group) {
		return 0, 0, containerjob.Refused("Container.Config.User is %s, and containers of this runner have the user %d:%d", named, user, group)
	}
	return wantUser, wantGroup, nil
}

// sweep removes the containers and files of ended instances.
func (e *Engine) sweep(ctx context.Context) error {
	ended, err := e.workspaces.ended()
	defer func() {
		for _, lock := range ended {
			lock.Close()
		}
	}()
	if err != nil {
		return err
	}
	listing, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := e.docker.ContainerList(listing, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelWorkspaces+"="+e.workspaces.id)})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	for _, c := range list.Items {
		instance := c.Labels[labelInstance]
		if c.Labels[labelWorkspaces] != e.workspaces.id || instance == e.workspaces.instance || ended[instance] == nil && e.workspaces.has(instance) {
			continue // a runner uses it
		}
		if err := e.remove(ctx, c.ID); err != nil { // it may still use its workspace
			e.orphaned(&orphan{name: c.ID}, err)
			if lock := ended[instance]; lock != nil {
				lock.Close()
				delete(ended, instance)
			}
			continue
		}
		e.counters.change(func(n *Stats) { n.LeftOvers++ })
		e.Log.Info("a container of an ended runner was removed", "container", c.ID, "runner_id", c.Labels[labelRunner], "job_id", c.Labels[labelJob], "state", string(c.State))
	}
	for instance := range ended {
		if err := disk.RemoveTree(e.workspaces.path(instance)); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the directory of the runner. No job may be running. If a container cannot be removed, Close leaves the
// directory to the next runner that starts.
func (e *Engine) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if e.closeOrphans(ctx) {
		return errors.Join(e.workspaces.lock.Close(), e.docker.Close())
	}
	return errors.Join(e.workspaces.close(), e.docker.Close())
}
