package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// New probes the machine by starting processes, and returns a sandbox. It returns an error if no process can be
// started, and with mode Require also if anything is missing (ErrMissing).
func New(mode Mode) (*Sandbox, error) {
	switch mode {
	case Off:
		return &Sandbox{tree: tree{kind: plain}, missing: []string{"The sandbox is off: a process that leaves its process group outlives its run, and a program may reach all that its user may."}}, nil
	case Auto, Require, "":
	default:
		return nil, fmt.Errorf("the mode of the sandbox must be auto, require or off, not %q", mode)
	}
	s, err := newSandbox(namespace, control, subreaper)
	if err == nil && mode == Require && len(s.missing) > 0 {
		return nil, fmt.Errorf("%w:\n%s", ErrMissing, strings.Join(s.missing, "\n"))
	}
	return s, err
}

// newSandbox returns a sandbox with the first of some kinds that works on this machine.
func newSandbox(kinds ...kind) (*Sandbox, error) {
	s := &Sandbox{}
	abi, groups := landlockABI(), findCgroups()
	var errs []error
	for _, k := range kinds {
		for _, t := range variants(k) {
			t.landlock, t.filter, t.cgroups = abi, canFilter(), groups
			if err := t.probe(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", t, err))
				continue
			}
			s.tree = t
			s.missing = t.missing(errs)
			return s, nil
		}
	}
	return nil, fmt.Errorf("the sandbox cannot start a process: %w", errors.Join(errs...))
}

// variants returns the forms of a kind, best first.
func variants(k kind) []tree {
	if k != namespace {
		return []tree{{kind: k}}
	}
	user := []tree{{kind: k, user: true, mountProc: true}, {kind: k, user: true}}
	if os.Geteuid() == 0 {
		// A user namespace would map only one user, and take root's privilege over other users' files away.
		return append([]tree{{kind: k, mountProc: true}, {kind: k}}, user...)
	}
	return user
}

// String names the form, for errors.
func (t tree) String() string {
	s := string(t.kind)
	if t.user {
		s += " with a user namespace"
	}
	if t.mountProc {
		s += " with /proc"
	}
	return s
}

// probe starts a process.
func (t *tree) probe() error {
	if t.kind == control && t.cgroups == nil {
		return errors.New("no cgroup v2 may be created here, or the kernel has no cgroup.kill (Linux 5.14)")
	}
	p, err := t.start(&Command{}, "")
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	if err == nil && !exit.OK() {
		err = errors.New(exit.String())
	}
	return err
}

// missing returns the features that a tree lacks. errs are the errors of the kinds that were tried before it.
func (t *tree) missing(errs []error) (missing []string) {
	why := func(text string) string {
		for _, err := range errs {
			text += "\n  " + err.Error()
		}
		return text
	}
	switch {
	case t.kind == control:
		missing = append(missing, why("No PID namespace can be created. Processes are ended by their cgroup, and see the other processes of the machine:"))
	case t.kind == subreaper:
		missing = append(missing, why("Neither a PID namespace nor a cgroup can be created. Processes are found in /proc to end them, and one that ends the sandbox's helper outlives its run:"))
	case !t.mountProc:
		missing = append(missing, why("/proc cannot be mounted again. Programs see the ids of all processes of the machine there:"))
	}
	switch {
	case t.landlock == 0:
		missing = append(missing, "The kernel has no landlock (Linux 5.13), or it is switched off. Programs may reach all files that their user may.")
	case t.landlock < 3:
		missing = append(missing, fmt.Sprintf("The kernel's landlock has version %d. It does not restrict the truncation of files (version 3, Linux 6.2).", t.landlock))
	case t.landlock < 6 && t.kind != namespace:
		missing = append(missing, fmt.Sprintf("The kernel's landlock has version %d. Programs may send signals to all processes of their user (version 6, Linux 6.12).", t.landlock))
	}
	if !t.filter {
		missing = append(missing, "The kernel has no seccomp filters, or they are not known for this architecture. Programs may reach the network.")
	}
	if t.cgroups == nil || !t.cgroups.memory {
		missing = append(missing, "No cgroup v2 with the memory controller may be created here. The memory of programs is not limited. Under systemd, Delegate=yes and DelegateSubgroup=runner provide one.")
	}
	if !t.user && (t.cgroups == nil || !t.cgroups.pids) {
		missing = append(missing, "No cgroup v2 with the pids controller may be created here. The number of processes is not limited.")
	}
	return missing
}
