package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/daybookq/daybook/runner/sandbox/helper"
	"golang.org/x/sys/unix"
)

// tree is a way to start and end processes with their descendants, with the features that the machine offers.
type tree struct {
	kind      kind
	user      bool // with a user namespace
	mountProc bool // with a separate /proc, in a mount namespace
	landlock  int  // version, or 0
	filter    bool // seccomp
	cgroups   *cgroups

	// sent lets tests delay a handshake. It is called with the channel after the settings were sent.
	sent func(channel *os.File)
}

// kind is a way to end a tree.
type kind string

const (
	plain     kind = "plain"
	namespace kind = "namespace"
	control   kind = "cgroup"
	subreaper kind = "subreaper"
)

const (
	// helperThreads is how many threads the helper may have in addition to the program and its descendants.
	helperThreads = 12
	// startWait bounds Start's wait for the helper. The helper takes milliseconds; the rest is for a busy machine.
	startWait = 30 * time.Second
	// killWait is how long a helper may take to end its tree before it is killed, too.
	killWait = 10 * time.Second
)

// keepCapabilities are the capabilities of a program that runs as root. It may act as any user and group. It may not
// reach the kernel, devices, mounts, other processes' memory or the network's configuration.
var keepCapabilities = func() (set uint64) {
	for _, c := range []int{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
		unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SYS_CHROOT, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
	} {
		set |= 1 << c
	}
	return set
}()

func (s *Sandbox) start(c *Command) (*Process, error) {
	path, err := Lookup(c)
	if err != nil {
		return nil, err
	}
	if s.tree.kind == plain {
		return startPlain(c, path)
	}
	return s.tree.start(c, path)
}

// start starts the helper, which starts the program. path may be helper.Probe.
func (t *tree) start(c *Command, path string) (_ *Process, err error) {
	h := &helped{tree: t, done: make(chan struct{})}
	settings := helper.Settings{
		Path: path, Argv: c.Argv, Env: c.Env, Dir: c.Dir, Files: int64(len(c.Files)), Ruleset: -1, CgroupKill: -1,
		MountProc: t.mountProc, ProcAccess: readFile | readDir, Sweep: t.kind == subreaper, Capabilities: keepCapabilities, Limits: t.limits(c.Limits),
	}
	if t.filter && !c.Access.Network {
		settings.Filter = noNetwork()
	}
	near, far, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	h.channel = near
	files := []*os.File{far} // helper.Channel
	var opened []io.Closer
	defer func() {
		for _, f := range opened {
			f.Close()
		}
		if err != nil {
			h.channel.Close()
			if h.cgroup != nil {
				err = errors.Join(err, h.cgroup.remove())
			}
		}
	}()

	attributes := t.attributes()
	if t.landlock > 0 {
		r, err := newRuleset(t.landlock, c, path)
		if err != nil {
			return nil, err
		}
		opened = append(opened, r)
		settings.Ruleset = int64(3 + len(files))
		files = append(files, r.File)
	}
	if t.kind == control || t.cgroups != nil && (t.cgroups.memory && c.Limits.MemoryBytes > 0 || t.cgroups.pids && c.Limits.Processes > 0) {
		if h.cgroup, err = t.cgroups.create(c.Limits); err != nil {
			return nil, fmt.Errorf("create cgroup: %w", err)
		}
		dir, err := h.cgroup.open()
		if err != nil {
			return nil, err
		}
		opened = append(opened, dir)
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(dir.Fd())
	}
	if t.kind == control {
		kill, err := h.cgroup.openKill()
		if err != nil {
			return nil, err
		}
		opened = append(opened, kill)
		settings.CgroupKill = int64(3 + len(files))
		files = append(files, kill)
	}
	settings.FirstFile = int64(3 + len(files))

	h.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"daybook-sandbox"},
		// The helper has two goroutines, whatever the number of processors, so Go need not read its cgroups.
		Env:   []string{helper.Variable + "=1", "GOMAXPROCS=2", "GODEBUG=containermaxprocs=0"},
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		ExtraFiles: slices.Concat(files, c.Files), SysProcAttr: attributes, WaitDelay: copyWait,
	}
	if err := startOnThread(h.cmd); err != nil {
		return nil, err
	}
	far.Close() // only the helper has it now, so the handshake notices if the helper is killed
	if err := h.handshake(&settings); err != nil {
		h.kill() // kill the whole tree, because the program may already run
		h.cmd.Wait()
		close(h.done)
		return nil, err
	}
	return &Process{cmd: h.cmd, kill: h.kill, terminate: h.terminate, exited: h.exited, release: h.release}, nil
}

// attributes returns the helper's attributes.
func (t *tree) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if t.kind != namespace {
		return a // the helper sees the channel's end, and must live to end the tree
	}
	a.Pdeathsig, a.Cloneflags = syscall.SIGKILL, syscall.CLONE_NEWPID
	if t.mountProc {
		a.Cloneflags |= syscall.CLONE_NEWNS
	}
	if t.user {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		if t.mountProc {
			a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // for the mount; the helper drops it
		}
	}
	return a
}

// limits returns a process's resource limits.
func (t *tree) limits(l Limits) []helper.Limit {
	limits := []helper.Limit{{Resource: unix.RLIMIT_CORE}}
	if l.OpenFiles > 0 {
		limits = append(limits, helper.Limit{Resource: unix.RLIMIT_NOFILE, Value: uint64(l.OpenFiles)})
	}
	if l.FileBytes > 0 {
		limits = append(limits, helper.Limit{Resource: unix.RLIMIT_FSIZE, Value: uint64(l.FileBytes)})
	}
	if l.Processes > 0 && t.user {
		// The kernel counts all processes of a user, but separately per user namespace.
		limits = append(limits, helper.Limit{Resource: unix.RLIMIT_NPROC, Value: uint64(l.Processes + helperThreads)})
	}
	return limits
}

// socketPair returns the two ends of the channel. far is for the helper.
func socketPair() (near, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox"), nil
}

// helped is a process that was started by the helper.
type helped struct {
	tree    *tree
	cmd     *exec.Cmd
	channel *os.File
	cgroup  *cgroup

	killing sync.Once
	done    chan struct{} // closed when the helper has ended the tree or is gone
}

// handshake sends the settings, and waits until the program runs.
func (h *helped) handshake(s *helper.Settings) error {
	h.channel.SetDeadline(time.Now().Add(startWait))
	defer h.channel.SetDeadline(time.Time{})
	if _, err := h.channel.Write(s.Append(nil)); err != nil {
		return unanswered(err)
	}
	if h.tree.sent != nil {
		h.tree.sent(h.channel)
	}
	m, err := h.receive()
	switch {
	case err != nil:
		return unanswered(err)
	case m.Kind == helper.Refused && m.Text == "":
		return m.Errno
	case m.Kind == helper.Refused:
		return &setupError{m.Text, m.Errno}
	}
	return nil
}

// unanswered returns the error of a helper that has not answered.
func unanswered(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the sandbox's helper did not answer within %v", startWait)
	}
	return fmt.Errorf("the sandbox's helper ended: %w", err)
}

// setupError is a step that failed in the helper before it started the program.
type setupError struct {
	what  string
	errno syscall.Errno
}

func (e *setupError) Error() string { return "sandbox: " + e.what + ": " + e.errno.Error() }
func (e *setupError) Unwrap() error { return e.errno }

func (h *helped) receive() (helper.Message, error) {
	var b [helper.MessageBytes]byte
	if _, err := io.ReadFull(h.channel, b[:]); err != nil {
		return helper.Message{}, err
	}
	return helper.DecodeMessage(&b), nil
}

// kill ends the tree.
func (h *helped) kill() {
	h.killing.Do(func() {
		switch h.tree.kind {
		case control:
			h.cgroup.kill()
		case subreaper:
			// The helper sees the end of its channel, and ends all other processes before itself.
			if raw, err := h.channel.SyscallConn(); err == nil {
				raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
			}
			go func() {
				select {
				case <-h.done:
				case <-time.After(killWait):
					h.cmd.Process.Kill()
				}
			}()
		default:
			h.cmd.Process.Kill()
		}
	})
}

func (h *helped) terminate() { h.channel.Write([]byte{helper.Terminate}) }

// exited waits until the program has ended, and ends the rest of the tree.
func (h *helped) exited() (Exit, bool) {
	m, err := h.receive()
	close(h.done)
	if h.cgroup != nil {
		h.cgroup.kill() // a process that is left may keep the output open
	}
	if err != nil {
		return Exit{}, false
	}
	e := Exit{
		Code: m.Status.ExitStatus(), User: time.Duration(m.UserMicros) * time.Microsecond, System: time.Duration(m.SystemMicros) * time.Microsecond,
		MaxResidentBytes: int64(m.MaxResidentKiB) << 10,
	}
	if m.Status.Signaled() {
		e.Code, e.Signal = -1, m.Status.Signal()
	}
	return e, true
}

// release frees the process's resources.
func (h *helped) release() error {
	err := h.channel.Close()
	if h.cgroup != nil {
		err = errors.Join(err, h.cgroup.remove())
	}
	return err
}
