//go:build unix && !linux

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// groupAttributes makes a process the leader of a new session and group.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func killGroup(p *os.Process)      { syscall.Kill(-p.Pid, syscall.SIGKILL) }
func terminateGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

// awaitExit does nothing: not all systems have a call that waits for a process without freeing its id.
func awaitExit(*os.Process) bool { return false }

func startOnThread(cmd *exec.Cmd) error { return cmd.Start() }

// maxResident is unknown, because the unit of the figure differs between systems.
func maxResident(*os.ProcessState) int64 { return 0 }

const plainMissing = "This system has no sandbox: a process that leaves its process group outlives its run, and a program may reach all that its user may."
