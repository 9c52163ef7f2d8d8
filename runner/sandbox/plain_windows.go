package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killGroup(p *os.Process)      { p.Kill() }
func terminateGroup(p *os.Process) { p.Kill() } // Windows lacks SIGTERM

func awaitExit(*os.Process) bool { return false }

func startOnThread(cmd *exec.Cmd) error { return cmd.Start() }

func maxResident(*os.ProcessState) int64 { return 0 }

const plainMissing = "This system has no sandbox: only the program itself is ended, not what it has started, and it may reach all that its user may."
