package s3test

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel end the process when the thread that started it ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
