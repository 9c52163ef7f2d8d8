package bench

import (
	"os/exec"
	"syscall"
)

// apart puts a process into a separate group, so that Ctrl-C does not reach it, and makes the kernel end it when the
// thread that started it ends.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
