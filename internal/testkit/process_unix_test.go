//go:build unix

package testkit

import (
	"io"
	"os"
	"os/exec"
	"testing"
)

// TestStartGroup: a process that the first one left ends with the test. Until then it keeps the pipe open.
func TestStartGroup(t *testing.T) {
	out, into := Must2(os.Pipe())(t)
	defer out.Close()
	t.Run("start", func(t *testing.T) {
		shell := exec.Command("/bin/sh", "-c", "echo begun; sleep 1000 &")
		shell.Stdout = into
		StartGroup(t, shell)
		NoError(t, into.Close())
		Must(io.ReadFull(out, make([]byte, len("begun\n"))))(t)
	})
	Must(io.ReadAll(out))(t)
}
