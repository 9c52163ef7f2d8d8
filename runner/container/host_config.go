package container

import (
	"maps"
	"slices"
	"strconv"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/containerjob"
)

// Labels of containers. Labels that a job chooses get the prefix labelOfJob, because programs that watch an engine act on
// labels.
const (
	labelWorkspaces = "daybook.workspaces" // id of the directory of workspaces
	labelInstance   = "daybook.instance"   // of the runner's process
	labelRunner     = "daybook.runner"
	labelJob        = "daybook.job"
	labelOfJob      = "daybook.job-label."
)

const (
	shmBytes  = 16 << 20
	openFiles = 4096
)

// hostConfig returns the rights and limits of a container. Jobs cannot change them. A handler can only lower the memory.
func (e *Engine) hostConfig(files string, memoryBytes int64, v *volumes) *container.HostConfig {
	processes := e.Processes
	h := &container.HostConfig{
		LogConfig:      container.LogConfig{Type: "none"}, // the runner reads the output itself
		NetworkMode:    "none",
		IpcMode:        container.IPCModePrivate,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: true,
		ShmSize:        shmBytes,
		Tmpfs:          map[string]string{"/tmp": tmpfs(e.TmpBytes)},
		Mounts:         append([]mount.Mount{bind(files, containerjob.MountPoint)}, v.mounts(files)...),
		Resources: container.Resources{
			Memory: memoryBytes, MemorySwap: memoryBytes, // memory and swap together, so no swap
			PidsLimit: &processes, NanoCPUs: int64(e.CPUs * 1e9),
			Ulimits: []*units.Ulimit{
				{Name: "core", Hard: 0, Soft: 0},
				{Name: "nofile", Hard: openFiles, Soft: openFiles},
				{Name: "fsize", Hard: e.WorkspaceBytes, Soft: e.WorkspaceBytes},
			},
		},
	}
	if e.podman {
		// Podman allows a container a million processes in addition to PidsLimit. That requires a right that the engine
		// may lack.
		if n, ok := processLimit(); ok {
			h.Ulimits = append(h.Ulimits, &units.Ulimit{Name: "nproc", Hard: n, Soft: n})
		}
	}
	if e.seccomp != "" {
		h.SecurityOpt = append(h.SecurityOpt, e.seccomp)
	}
	for _, dir := range v.memory {
		h.Tmpfs[dir] = tmpfs(e.TmpBytes)
	}
	return h
}

// tmpfs returns the options of an in-memory file system. Its files count as memory of the container.
func tmpfs(bytes int64) string {
	return "rw,nosuid,nodev,mode=1777,size=" + strconv.FormatInt(bytes, 10)
}

// config returns the part of a container's configuration that a job can influence.
func (e *Engine) config(c *containerjob.Config, j *client.Job, dir, user, imageID string) *container.Config {
	labels := map[string]string{
		labelWorkspaces: e.workspaces.id, labelInstance: e.workspaces.instance, labelRunner: e.Runner, labelJob: j.ID,
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		labels[labelOfJob+name] = c.Labels[name]
	}
	env := append(slices.Clone(c.Env), "DAYBOOK_JOB_ID="+j.ID, "DAYBOOK_CLIENT="+j.Client, "DAYBOOK_TYPE="+j.Type, "DAYBOOK_ATTEMPT="+strconv.Itoa(j.RunAttempts))
	if j.Traceparent != "" {
		env = append(env, "TRACEPARENT="+j.Traceparent)
	}
	return &container.Config{
		Image: imageID, Cmd: c.Cmd, Entrypoint: c.Entrypoint, Env: env, User: user, Labels: labels, StopSignal: c.StopSignal,
		Hostname: c.Hostname, Domainname: c.Domainname, WorkingDir: dir, AttachStdout: true, AttachStderr: true, NetworkDisabled: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // no processes except the job's own
	}
}
