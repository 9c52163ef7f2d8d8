package sandbox

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttributes makes a process the leader of a new session and group, and ends it when the runner ends.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process)      { syscall.Kill(-p.Pid, syscall.SIGKILL) }
func terminateGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

// awaitExit waits until a process has ended, without reaping it, so that no other group can get its id.
func awaitExit(p *os.Process) bool {
	for {
		if err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}

func maxResident(state *os.ProcessState) int64 {
	used, _ := state.SysUsage().(*syscall.Rusage)
	if used == nil {
		return 0
	}
	return int64(used.Maxrss) << 10
}
