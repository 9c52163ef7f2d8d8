package testkit

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes the kernel end the process when the thread that started it ends.
func EndWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
