package guest

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// procfs is the part of /proc that guests with the permission proc:read:* may read. It leaves out files that show the
// memory, arguments, environment or open files of a process, and links that lead out of /proc. Without a separate PID
// namespace, this process sees other processes' files.
type procfs struct{ root *os.Root }

// openProc opens /proc. It returns an error if /proc is not a real procfs, without this process. The caller closes it
// after the run.
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

// close closes /proc. The instance of the guest closes the files that the guest opened.
func (p *procfs) close() { p.root.Close() }

var (
	// ofProcesses are the files in a process's directory that a guest may read.
	ofProcesses = []string{"stat", "statm", "status", "comm", "limits", "loginuid", "oom_score", "oom_adj", "oom_score_adj", "sched", "schedstat", "wchan"}
	// hidden are files of the kernel that show more than figures.
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
