package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestLock: one at a time has the lock of a directory.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no locks of directories")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a locked directory: %v", err)
	}
	file := filepath.Join(dir, "none")
	if _, err := Open(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := os.Remove(dir); err != nil { // the lock is that of the directory, not of its name
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := Open(dir)
	if err != nil {
		t.Errorf("a new directory of the same name: %v", err)
	}
	other.Close()
	f.Close()
	if f, err = Open(dir); err != nil {
		t.Fatalf("after the end of the lock: %v", err)
	}
	f.Close()
}
