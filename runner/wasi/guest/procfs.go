package guest

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// procfs is the part of /proc that guests with the permission proc:read:* may read. It has no files that show the memory,
// the arguments, the environment or the open files of a process, and none that lead out of /proc: without a PID namespace
// of its own, this process sees those of others.
type procfs struct{ root *os.Root }

// openProc opens /proc, which must be a real one. The caller closes it after the run.
func openProc() (*procfs, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot("/proc") // refuses links that lead out of it
	if err != nil {
		return nil, err
	}
	return &procfs{root}, nil
}

// close closes /proc. Files that a guest has opened belong to its instance.
func (p *procfs) close() { p.root.Close() }

var (
	// ofProcesses are the files of a process that a guest may read.
	ofProcesses = []string{"stat", "statm", "status", "comm", "limits", "loginuid", "oom_score", "oom_adj", "oom_score_adj", "sched", "schedstat", "wchan"}
	// hidden are files of the kernel with more than figures.
	hidden = []string{"kcore", "kmsg", "kallsyms", "keys", "key-users", "kpagecgroup", "kpagecount", "kpageflags", "sysrq-trigger", "timer_list", "vmallocinfo", "config.gz", "cmdline", "mounts"}
)

// Open implements fs.FS.
func (p *procfs) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) || !visible(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	f, err := p.root.FS().Open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// visible reports whether a guest may open a path below /proc.
func visible(name string) bool {
	first, rest, below := strings.Cut(name, "/")
	switch {
	case first == "self" || first == "thread-self" || strings.Trim(first, "0123456789") == "":
		return !below || slices.Contains(ofProcesses, rest)
	case slices.Contains(hidden, first):
		return false
	}
	return true
}
