//go:build unix

package testkit

import (
	"os/exec"
	"syscall"
	"testing"
)

// StartGroup starts a process in a new process group. When the test ends, it kills the processes of the group, also those that
// the process started and left, and waits until the process has ended.
func StartGroup(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = KillGroup(cmd)
		_ = cmd.Wait() // an error if it was killed, or if the test has waited
	})
}

// KillGroup kills the processes of a group that StartGroup started. It fails if all have ended.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
