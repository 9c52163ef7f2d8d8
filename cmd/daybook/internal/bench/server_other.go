//go:build unix && !linux

package bench

import (
	"os/exec"
	"syscall"
)

// apart puts a process into a separate group, so that Ctrl-C does not reach it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
