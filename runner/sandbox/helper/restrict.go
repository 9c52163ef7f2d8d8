//go:build linux

package helper

import (
	"syscall"
	"unsafe"
)

// Numbers that package syscall lacks. They are equal on all architectures.
const (
	sysCloseRange    = 436
	sysAddRule       = 445
	sysRestrictSelf  = 446
	rulePathBeneath  = 1
	closeRangeOnExec = 4

	prSetDumpable     = 4
	prSetSeccomp      = 22
	seccompFilter     = 2
	prCapbsetDrop     = 24
	prSetSubreaper    = 36
	prSetNoNewPrivs   = 38
	prCapAmbient      = 47
	ambientClearAll   = 4
	lastCapability    = 63
	openPath          = 0x200000
	maxOpenDescriptor = 1<<31 - 1
)

func prctl(option, a, b uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// restrict applies the settings to this process, and thereby to the program that it starts. It must run on the thread
// that starts the program, because landlock, no-new-privs and filters are attributes of threads.
func restrict(s *Settings) {
	// The program may run as the same user. It must not attach a debugger to the helper.
	if err := prctl(prSetDumpable, 0, 0); err != nil {
		refuse("PR_SET_DUMPABLE", err)
	}
	if s.MountProc {
		mountProc()
	}
	for _, l := range s.Limits {
		// A limit above the hard limit is lowered to it, because only root may raise the hard limit.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(int(l.Resource), &now); err != nil {
			refuse("getrlimit", err)
		}
		limit := min(l.Value, uint64(now.Max))
		now.Cur, now.Max = limit, limit
		if err := syscall.Setrlimit(int(l.Resource), &now); err != nil {
			refuse("setrlimit", err)
		}
	}
	dropCapabilities(s.Capabilities)
	if err := prctl(prSetNoNewPrivs, 1, 0); err != nil {
		refuse("PR_SET_NO_NEW_PRIVS", err)
	}
	if s.Sweep {
		if err := prctl(prSetSubreaper, 1, 0); err != nil {
			refuse("PR_SET_CHILD_SUBREAPER", err)
		}
	}
	if s.Ruleset >= 0 {
		restrictFiles(int(s.Ruleset), s.MountProc, s.ProcAccess)
	}
	if len(s.Filter) > 0 {
		program := struct {
			length uint16
			filter *uint64
		}{uint16(len(s.Filter)), &s.Filter[0]}
		if err := prctl(prSetSeccomp, seccompFilter, uintptr(unsafe.Pointer(&program))); err != nil {
			refuse("PR_SET_SECCOMP", err)
		}
	}
}

// mountProc mounts a /proc that shows only the processes of this PID namespace.
func mountProc() {
	// Otherwise the mount could appear outside this mount namespace, too.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		refuse("make mounts private", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		refuse("mount /proc", err)
	}
}

// dropCapabilities takes all capabilities except keep from the program. Without privilege there are none to drop.
func dropCapabilities(keep uint64) {
	for c := uintptr(0); c <= lastCapability; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		if err := prctl(prCapbsetDrop, c, 0); err == syscall.EINVAL || err == syscall.EPERM {
			break // after this kernel's last capability, or without privilege
		} else if err != nil {
			refuse("PR_CAPBSET_DROP", err)
		}
	}
	// The helper got its ambient capabilities only to mount /proc.
	if err := prctl(prCapAmbient, ambientClearAll, 0); err != nil && err != syscall.EINVAL {
		refuse("PR_CAP_AMBIENT", err)
	}
}

// restrictFiles applies a landlock ruleset.
func restrictFiles(ruleset int, mountedProc bool, procAccess uint64) {
	if mountedProc { // the ruleset has the runner's /proc
		proc, err := syscall.Open("/proc", openPath|syscall.O_CLOEXEC, 0)
		if err != nil {
			refuse("open /proc", err)
		}
		rule := struct {
			access uint64
			parent int32
		}{procAccess, int32(proc)}
		if _, _, errno := syscall.Syscall6(sysAddRule, uintptr(ruleset), rulePathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			refuse("landlock_add_rule /proc", errno)
		}
		syscall.Close(proc)
	}
	if _, _, errno := syscall.Syscall(sysRestrictSelf, uintptr(ruleset), 0, 0); errno != 0 {
		refuse("landlock_restrict_self", errno)
	}
}

// closeOnExec keeps the helper's descriptors, and descriptors that the runner has inherited, from the program.
func closeOnExec() {
	if _, _, errno := syscall.Syscall(sysCloseRange, 3, maxOpenDescriptor, closeRangeOnExec); errno == 0 {
		return
	}
	// Before Linux 5.11.
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		refuse("getrlimit", err)
	}
	for fd := range min(int(most.Cur), 1<<16) {
		if fd >= 3 {
			syscall.CloseOnExec(fd)
		}
	}
}
