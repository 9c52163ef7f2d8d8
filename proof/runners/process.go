package runners

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// processes returns the ids of all processes.
func processes() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isMarked reports whether a process has a text in the path of its program, its arguments or its environment. An ended
// process that waits to be reaped has none of them.
func isMarked(pid int, mark string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil && strings.Contains(exe, mark) {
		return true
	}
	for _, name := range []string{"cmdline", "environ"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && bytes.Contains(text, []byte(mark)) {
			return true
		}
	}
	return false
}

// marked returns the processes with a mark.
func marked(mark string) ([]int, error) {
	pids, err := processes()
	return slices.DeleteFunc(pids, func(pid int) bool { return !isMarked(pid, mark) }), err
}

// describe returns a line about each of the processes that is still alive.
func describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		arguments, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(dir, "stat")) // it may end now
		fmt.Fprintf(&b, "%d %.200q, stat %.60q\n", pid, bytes.ReplaceAll(arguments, []byte{0}, []byte{' '}), stat)
	}
	return b.String()
}

// descendants returns the processes below a process.
func descendants(root int) ([]int, error) {
	all, err := rig.Descendants(root)
	delete(all, root)
	return slices.Sorted(maps.Keys(all)), err
}

// killMarked kills a process if it still has the mark, or reports false if it has ended. The kernel may give the id of an
// ended process to a new process, so killMarked looks for the mark while a handle keeps the two apart.
func killMarked(pid int, mark string) (bool, error) {
	p, err := os.FindProcess(pid) // a pidfd
	if err != nil {
		return false, err
	}
	defer p.Release()
	if !isMarked(pid, mark) {
		return false, nil
	}
	if err := p.Kill(); err == os.ErrProcessDone {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("kill process %d: %w", pid, err)
	}
	return true, nil
}

// awaitGone waits until no process has the mark. After patience, it returns the remaining processes.
func awaitGone(mark string, patience time.Duration) ([]int, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left, err := marked(mark)
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left, err
		}
	}
}

// inEnvironment reports whether a process has a variable, as in NAME=value.
func inEnvironment(pid int, variable string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && slices.Contains(strings.Split(string(text), "\x00"), variable)
}
