package daybooktest

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the process when the thread that starts it ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
