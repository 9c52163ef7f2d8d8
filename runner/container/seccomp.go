package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Docker's seccomp profile refuses new namespaces to containers without capabilities. Podman's profile permits them, and
// a process has all capabilities in a user namespace that it has created. So containers get the engine's profile without
// these calls. The runner reads it from the engine's file, so that it refuses everything that the engine's profile
// refuses.

// profile is a seccomp profile in the format that Docker and Podman read.
type profile struct {
	DefaultAction string                    `json:"defaultAction"`
	Syscalls      []rule                    `json:"syscalls"`
	Other         map[string]jsontext.Value `json:",embed"`
}

type rule struct {
	Name     string                    `json:"name,omitzero"` // in old profiles
	Names    []string                  `json:"names,omitzero"`
	Action   string                    `json:"action"`
	ErrnoRet uint32                    `json:"errnoRet,omitzero"`
	Args     []condition               `json:"args,omitzero"`
	Other    map[string]jsontext.Value `json:",embed"`
}

// condition compares an argument of a system call. With the operator maskedEqual, it holds if the argument, masked with
// Value, equals ValueTwo.
type condition struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

const (
	permit      = "SCMP_ACT_ALLOW"
	refuse      = "SCMP_ACT_ERRNO"
	maskedEqual = "SCMP_CMP_MASKED_EQ"
	eperm       = 1
	enosys      = 38 // makes a program use clone instead of clone3
)

// namespaceFlags are the flags of clone for mount, cgroup, UTS, IPC, user, PID and network namespaces.
var namespaceFlags = []uint64{0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000}

const userFlag = 0x10000000

// refusedCalls create or enter namespaces, or change mounts.
var refusedCalls = []string{
	"unshare", "setns", "mount", "umount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
}

// maxProfileBytes bounds the file of a profile.
const maxProfileBytes = 1 << 20

// noNamespaces returns a profile that refuses everything that the given profile refuses, and also new namespaces.
func noNamespaces(text []byte) ([]byte, error) {
	var p profile
	if err := json.Unmarshal(text, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		return nil, fmt.Errorf("read the filter of system calls: %w", err)
	}
	index := uint(0) // of the argument with the flags of clone
	if runtime.GOARCH == "s390x" {
		index = 1
	}
	all := uint64(0)
	for _, flag := range namespaceFlags {
		all |= flag
	}
	var rules []rule
	for _, r := range p.Syscalls {
		if r.Name != "" {
			r.Names, r.Name = append(r.Names, r.Name), ""
		}
		clone := slices.Contains(r.Names, "clone")
		others := slices.DeleteFunc(slices.Clone(r.Names), func(name string) bool {
			return name == "clone" || name == "clone3" || slices.Contains(refusedCalls, name)
		})
		switch {
		case !clone:
		case !permits(r.Action):
			others = append(others, "clone")
		case permits(p.DefaultAction): // the rules below refuse the flags
		case len(r.Args) == 0:
			own := r
			own.Names, own.Args = []string{"clone"}, []condition{{index, all, 0, maskedEqual}}
			rules = append(rules, own)
		case slices.ContainsFunc(r.Args, func(c condition) bool {
			return c.Op == maskedEqual && c.Index == index && c.Value&userFlag != 0 && c.ValueTwo&userFlag == 0
		}):
			others = append(others, "clone")
		default:
			return nil, errors.New("the filter of system calls permits clone under a condition that the runner does not know")
		}
		if r.Names = others; len(others) > 0 {
			rules = append(rules, r)
		}
	}
	if permits(p.DefaultAction) {
		for _, flag := range namespaceFlags {
			rules = append(rules, rule{Names: []string{"clone"}, Action: refuse, ErrnoRet: eperm, Args: []condition{{index, flag, flag, maskedEqual}}})
		}
	}
	p.Syscalls = append(rules, rule{Names: refusedCalls, Action: refuse, ErrnoRet: eperm}, rule{Names: []string{"clone3"}, Action: refuse, ErrnoRet: enosys})
	return json.Marshal(&p, json.Deterministic(true))
}

// permits reports whether an action allows the call, or may allow it.
func permits(action string) bool {
	return !strings.HasPrefix(action, "SCMP_ACT_ERRNO") && !strings.HasPrefix(action, "SCMP_ACT_KILL") && action != "SCMP_ACT_TRAP"
}

// unfiltered is the profile of an engine without a profile.
const unfiltered = `{"defaultAction":"` + permit + `","archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86","SCMP_ARCH_X32"]},` +
	`{"architecture":"SCMP_ARCH_AARCH64","subArchitectures":["SCMP_ARCH_ARM"]}],"syscalls":[]}`

// filter chooses the profile of containers. Docker gets its text, and Podman a file. If the engine's profile cannot be
// read or changed, containers get it unchanged, and Missing reports that they can create user namespaces.
func (e *Engine) filter() error {
	own, found := e.ownFilter()
	if !found || !e.podman && (own == "" || own == "default" || own == "builtin") {
		return nil // Missing reports an engine without filters; Docker's own profile refuses namespaces
	}
	text := []byte(unfiltered)
	if own != "unconfined" {
		var err error
		if text, err = readProfile(own); err != nil {
			e.namespaces = err
			return nil
		}
	}
	text, err := noNamespaces(text)
	if err != nil {
		e.namespaces = err
		return nil
	}
	if !e.podman {
		e.seccomp = "seccomp=" + string(text)
		return nil
	}
	path := e.workspaces.path(e.workspaces.instance, "seccomp.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write the filter of system calls: %w", err)
	}
	e.seccomp = "seccomp=" + path
	return nil
}

// ownFilter returns the name or path of the engine's own profile.
func (e *Engine) ownFilter() (own string, found bool) {
	for _, o := range e.info.SecurityOptions {
		if name, rest, _ := strings.Cut(o, ","); name == "name=seccomp" {
			own, found = strings.TrimPrefix(rest, "profile="), true
		}
	}
	if e.podman {
		own = e.podmanFilter
	}
	return own, found
}

// readProfile reads the file of a profile.
func readProfile(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the engine does not name the file of its filter of system calls, but %q", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the engine's filter of system calls: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProfileBytes+1))
	if err == nil && len(text) > maxProfileBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxProfileBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the engine's filter of system calls: %w", err)
	}
	return text, nil
}
