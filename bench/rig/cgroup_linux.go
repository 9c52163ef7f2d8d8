package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryCgroup is a cgroup that bounds the memory of its processes.
type memoryCgroup struct{ dir string }

// newMemoryCgroup creates a cgroup below this process's cgroup, or at the top of the hierarchy. The error says what is
// missing.
func newMemoryCgroup(bytes int64) (memoryCgroup, error) {
	var problems []error
	name := fmt.Sprintf("daybook-%d", os.Getpid())
	for _, version := range []struct{ kind, option, membership, limit string }{
		{"cgroup", "memory", "memory", "memory.limit_in_bytes"},
		{"cgroup2", "", "", "memory.max"},
	} {
		parents, err := parentCgroups(version.kind, version.option, version.membership)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, parent := range parents {
			if version.kind == "cgroup2" { // the files below show whether this worked
				_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0)
			}
			g := memoryCgroup{filepath.Join(parent, name)}
			if err := os.Mkdir(g.dir, 0o755); err != nil {
				problems = append(problems, err)
				continue
			}
			err := os.WriteFile(filepath.Join(g.dir, version.limit), []byte(strconv.FormatInt(bytes, 10)), 0)
			if err == nil {
				return g, nil
			}
			problems = append(problems, err, g.remove())
		}
	}
	return memoryCgroup{}, fmt.Errorf("no memory cgroup can be made: %w", errors.Join(problems...))
}

// parentCgroups returns the folders in which a cgroup may be made: this process's cgroup, and the top of its hierarchy.
func parentCgroups(kind, option, membership string) (dirs []string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		// 36 35 98:0 ROOT POINT options … - type source options
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields, of := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(of) < 3 || of[0] != kind || option != "" && !strings.Contains(","+of[2]+",", ","+option+",") {
			continue
		}
		for line := range strings.Lines(string(own)) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 && strings.Contains(","+parts[1]+",", ","+membership+",") {
				if below, ok := strings.CutPrefix(parts[2], strings.TrimSuffix(fields[3], "/")); ok && below != "" && below != "/" {
					dirs = append(dirs, filepath.Join(fields[4], below))
				}
			}
		}
		return append(dirs, fields[4]), nil
	}
	return nil, fmt.Errorf("no %s hierarchy is mounted that has the controller memory", kind)
}

// enter returns a line of shell that moves the shell into the cgroup.
func (g memoryCgroup) enter() string {
	return fmt.Sprintf("echo $$ > '%s'", filepath.Join(g.dir, "cgroup.procs"))
}

// remove removes the cgroup, whose processes must have ended.
func (g memoryCgroup) remove() error { return os.Remove(g.dir) }
