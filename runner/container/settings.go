package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/runner/runlog"
)

// Filesets moves files between the server and a directory. Version 0 means the newest version. Pull calls fits before it
// fetches a file, and returns the error of fits. Push follows no links in dir, and opens only regular files. The errors
// are errors of package client.
type Filesets interface {
	Pull(ctx context.Context, client, name string, version int, patterns []string, dir string, fits func(*fileset.Manifest) error) (got int, err error)
	Push(ctx context.Context, client, name string, patterns []string, dir string) (version int, err error)
}

// Settings configures an Engine.
type Settings struct {
	// Engine is the address of the engine's socket, for example unix:///run/docker.sock. If it is "", New calls
	// FindEngine.
	Engine string
	// Workspaces is the directory for the files of runs. New creates it if it is missing. "" means a directory in the
	// user's cache.
	Workspaces string
	Runner     string // id of the runner, a label of its containers
	Images     *Images
	Pull       bool // pull missing images

	// Limits of a container. 0 means the default.
	MemoryBytes    int64 // including swap
	Processes      int64 // including threads
	CPUs           float64
	TmpBytes       int64 // of /tmp
	WorkspaceBytes int64
	LogBytes       int64 // of a kept log
	Timeout        time.Duration

	// Each of these may be nil. Without Filesets, jobs that name a fileset fail. Without Blobs, logs are not kept.
	Blobs    runlog.Blobs
	Filesets Filesets
	Logs     runlog.Logs
	// Step is called at the start of each step, with etcdq's text for the step.
	Step func(ctx context.Context, jobID, claimID, step string)
	Log  *slog.Logger
}

// Defaults of Settings.
const (
	DefaultMemoryBytes    = 512 << 20
	DefaultProcesses      = 256
	DefaultTmpBytes       = 64 << 20
	DefaultWorkspaceBytes = 10 << 30
	DefaultLogBytes       = 16 << 20
	DefaultTimeout        = time.Hour
)

// minMemoryBytes is the smallest limit that engines accept.
const minMemoryBytes = 16 << 20

// check sets the defaults. It returns an error if a setting is invalid.
func (s *Settings) check() error {
	for _, limit := range []struct {
		name  string
		value int64
		least int64
	}{
		{"memory", s.MemoryBytes, minMemoryBytes}, {"processes", s.Processes, 1}, {"bytes of /tmp", s.TmpBytes, 4096}, {"bytes of the workspace", s.WorkspaceBytes, 4096},
		{"bytes of the log", s.LogBytes, runlog.MinBytes}, {"time-out", int64(s.Timeout), int64(time.Millisecond)},
	} {
		if limit.value != 0 && limit.value < limit.least {
			return fmt.Errorf("container %s: %d is less than the minimum, %d", limit.name, limit.value, limit.least)
		}
	}
	if s.CPUs < 0 || s.CPUs > 0 && s.CPUs < 0.01 {
		return fmt.Errorf("container processors: %g is less than the minimum, 0.01", s.CPUs)
	}
	s.MemoryBytes = cmp.Or(s.MemoryBytes, DefaultMemoryBytes)
	s.Processes = cmp.Or(s.Processes, DefaultProcesses)
	s.TmpBytes = cmp.Or(s.TmpBytes, DefaultTmpBytes)
	s.WorkspaceBytes = cmp.Or(s.WorkspaceBytes, DefaultWorkspaceBytes)
	s.LogBytes = cmp.Or(s.LogBytes, DefaultLogBytes)
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Workspaces == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find a directory for workspaces: %w; name one", err)
		}
		s.Workspaces = filepath.Join(cache, "daybook", "workspaces")
	}
	var err error
	s.Workspaces, err = filepath.Abs(s.Workspaces)
	return err
}

var errNoEngine = errors.New("no container engine was found")

// FindEngine returns the address of an engine: named, or the environment variable DOCKER_HOST, or the first of the usual
// sockets of Docker and Podman that exists. Root uses the machine's sockets first, other users their own. The engine must
// be a socket of this machine, because containers mount the workspace, which is a directory of this machine.
func FindEngine(named string) (string, error) {
	if named == "" {
		named = os.Getenv("DOCKER_HOST")
	}
	if named != "" {
		path, ok := strings.CutPrefix(named, "unix://")
		if !ok || !filepath.IsAbs(path) {
			return "", fmt.Errorf("the container engine %q must be a socket of this machine, as in unix:///run/docker.sock", named)
		}
		return named, nil
	}
	usual := []string{"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		own := []string{filepath.Join(dir, "docker.sock"), filepath.Join(dir, "podman", "podman.sock")}
		if os.Getuid() == 0 {
			usual = append(usual, own...)
		} else {
			usual = append(own, usual...)
		}
	}
	for _, path := range usual {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return "unix://" + path, nil
		}
	}
	return "", fmt.Errorf("%w: none of the sockets %s is there, and DOCKER_HOST is not set", errNoEngine, strings.Join(usual, ", "))
}
