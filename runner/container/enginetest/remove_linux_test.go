package enginetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemove: Remove unmounts a directory on which several mounts are stacked. It waits for a process that names the
// directory and mounts once more.
func TestRemove(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir, err := os.MkdirTemp("", "daybook engine-") // mountinfo escapes spaces
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "data", "overlay")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
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
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- late.Wait() }()
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the late mount: %v", err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}
