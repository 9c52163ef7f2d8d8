package work

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/container"
)

// ContainerFlags define how handlers of kind container run.
type ContainerFlags struct {
	engine, workspaces string
	images             []string
	pull               bool
}

func (f *ContainerFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.engine, "engine", "", "socket of Docker or Podman, like unix:///run/docker.sock (default: DOCKER_HOST, or the usual sockets)")
	flags.StringSliceVar(&f.images, "images", nil, "images that jobs may run in containers, with registry and tag, like docker.io/library/busybox:* (default: none)")
	flags.BoolVar(&f.pull, "pull", false, "pull the images of --images that the engine does not have")
	flags.StringVar(&f.workspaces, "workspaces", "", "directory for the files of containers (default: in the user's cache)")
}

// ContainersTable has the limits of each container, in the file of a runner:
//
//	[containers]
//	memory_bytes = 1073741824
//	processes = 256
type ContainersTable struct {
	MemoryBytes    int64   `toml:"memory_bytes"`
	Processes      int64   `toml:"processes"`
	CPUs           float64 `toml:"cpus"`
	TmpBytes       int64   `toml:"tmp_bytes"`
	WorkspaceBytes int64   `toml:"workspace_bytes"`
	LogBytes       int64   `toml:"log_bytes"`
	TimeoutMs      int64   `toml:"timeout_ms"`
}

// Settings returns the settings of containers.
func (f *ContainerFlags) Settings(t ContainersTable, accept []string) (s container.Settings, err error) {
	s = container.Settings{
		Engine: f.engine, Workspaces: f.workspaces, Pull: f.pull, MemoryBytes: t.MemoryBytes, Processes: t.Processes, CPUs: t.CPUs, TmpBytes: t.TmpBytes, WorkspaceBytes: t.WorkspaceBytes,
		LogBytes: t.LogBytes, Timeout: time.Duration(t.TimeoutMs) * time.Millisecond,
	}
	if s.Images, err = container.ParseImages(f.images); err != nil {
		return s, terminal.Usagef("--images: %w", err)
	}
	if s.Images.None() && slices.Contains(accept, handler.Container) {
		return s, terminal.Usage(errors.New("--accept container requires --images, the images that jobs may run"))
	}
	return s, nil
}
