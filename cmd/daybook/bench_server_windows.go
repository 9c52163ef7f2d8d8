package main

import (
	"os/exec"
	"syscall"
)

// apart gives a process a group of its own, so that Ctrl-C does not reach it.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
