package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// cgroups is a cgroup v2 in which the runner may create others.
type cgroups struct {
	dir          string
	memory, pids bool // controllers available to cgroups in it
	made         atomic.Int64
}

// findCgroups returns a cgroup in which the runner may create others, or nil. It tries the runner's own cgroup, and
// then the parent: controllers require a cgroup without processes, and a service manager can provide one by starting
// the service in a child of the cgroup that it delegates.
func findCgroups() *cgroups {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	var found *cgroups
	for _, dir := range []string{own, filepath.Dir(own)} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil {
			break // above the root
		}
		c := &cgroups{dir: dir}
		c.removeOld()
		if !c.probe() {
			continue
		}
		if c.memory {
			return c
		}
		if found == nil {
			found = c
		}
	}
	return found
}

// ownCgroup returns the directory of this process's cgroup v2, or "".
func ownCgroup() string {
	memberships, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	path := ""
	for line := range strings.Lines(string(memberships)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSuffix(p, "\n")
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if path == "" || err != nil {
		return ""
	}
	for line := range strings.Lines(string(mounts)) {
		// 36 35 98:0 ROOT POINT options … - cgroup2 source options
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		below, ok := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/"))
		if ok {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// probe creates a cgroup to find out whether that is possible and which controllers are available.
func (c *cgroups) probe() bool {
	probe, err := c.create(Limits{})
	if err != nil {
		return false
	}
	if !probe.has("memory.max") || !probe.has("pids.max") {
		for _, controller := range []string{"+memory", "+pids"} {
			os.WriteFile(filepath.Join(c.dir, "cgroup.subtree_control"), []byte(controller), 0) // errors show below, when the files are missing
		}
	}
	c.memory, c.pids = probe.has("memory.max"), probe.has("pids.max")
	kill := probe.has("cgroup.kill")
	return probe.remove() == nil && kill
}

// removeOld removes the cgroups of runners that were killed. Their helpers have already ended the processes.
func (c *cgroups) removeOld() {
	old, err := filepath.Glob(filepath.Join(c.dir, "daybook-*-*"))
	if err != nil {
		return
	}
	for _, dir := range old {
		var pid, n int
		if _, err := fmt.Sscanf(filepath.Base(dir), "daybook-%d-%d", &pid, &n); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			os.Remove(dir) // the kernel refuses this if processes are left
		}
	}
}

// cgroup is the cgroup of one process and its descendants.
type cgroup struct{ dir string }

// create creates a cgroup with limits.
func (c *cgroups) create(l Limits) (*cgroup, error) {
	g := &cgroup{filepath.Join(c.dir, fmt.Sprintf("daybook-%d-%d", os.Getpid(), c.made.Add(1)))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	for _, limit := range []struct {
		on    bool
		file  string
		value int64
	}{
		{c.memory && l.MemoryBytes > 0, "memory.max", l.MemoryBytes},
		{c.memory && l.MemoryBytes > 0, "memory.oom.group", 1},
		{c.pids && l.Processes > 0, "pids.max", int64(l.Processes + helperThreads)},
	} {
		if !limit.on {
			continue
		}
		if err := os.WriteFile(filepath.Join(g.dir, limit.file), strconv.AppendInt(nil, limit.value, 10), 0); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	if c.memory && l.MemoryBytes > 0 && g.has("memory.swap.max") { // otherwise a process could exceed the limit by swapping
		if err := os.WriteFile(filepath.Join(g.dir, "memory.swap.max"), []byte("0"), 0); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	return g, nil
}

func (g *cgroup) has(file string) bool {
	_, err := os.Stat(filepath.Join(g.dir, file))
	return err == nil
}

// open opens the cgroup's directory, to start a process in it.
func (g *cgroup) open() (*os.File, error) { return os.Open(g.dir) }

// openKill opens the file that ends all processes of the cgroup.
func (g *cgroup) openKill() (*os.File, error) {
	return os.OpenFile(filepath.Join(g.dir, "cgroup.kill"), os.O_WRONLY, 0)
}

// kill ends all processes of the cgroup.
func (g *cgroup) kill() { os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) }

// removeWait bounds the wait until a cgroup's processes are gone. Only a process that hangs in the kernel takes long.
const removeWait = 10 * time.Second

// remove ends all processes of the cgroup, waits until they are gone, and removes it.
func (g *cgroup) remove() error {
	pause := 100 * time.Microsecond
	for deadline := time.Now().Add(removeWait); ; pause = min(2*pause, 50*time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		g.kill()
		time.Sleep(pause)
	}
}
