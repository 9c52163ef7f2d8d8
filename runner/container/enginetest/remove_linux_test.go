package enginetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestRemove: Remove unmounts a directory on which several mounts are stacked. It waits for a process that names the
// directory and mounts once more.
func TestRemove(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := testkit.Must(os.MkdirTemp("", "daybook engine-"))(t) // mountinfo escapes spaces
	inner := filepath.Join(dir, "data", "overlay")
	testkit.NoError(t, os.MkdirAll(inner, 0o700))
	mount := func(at string) {
		t.Helper()
		if err := unix.Mount(at, at, "", unix.MS_BIND, ""); err != nil {
			_ = Remove(dir)
			t.Skipf("this machine does not let root mount: %v", err)
		}
	}
	mount(filepath.Dir(inner))
	mount(inner)
	mount(inner)
	late := exec.Command("sh", "-c", `sleep 0.3; mount --bind "$0" "$0"`, inner)
	testkit.NoError(t, late.Start())
	ended := make(chan error, 1)
	go func() { ended <- late.Wait() }()
	testkit.Check(t, Remove(dir))
	testkit.Check(t, <-ended, "the late mount")
	_, err := os.Lstat(dir)
	testkit.Holds(t, os.IsNotExist(err), "the directory is there", err)
}
