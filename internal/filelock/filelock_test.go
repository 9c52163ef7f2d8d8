package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestLock: one at a time has the lock of a directory.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no locks of directories")
	}
	testkit.NoError(t, err)
	if _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a locked directory: %v", err)
	}
	file := filepath.Join(dir, "none")
	if _, err := Open(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	testkit.NoError(t, os.Remove(dir)) // the lock is that of the directory, not of its name
	testkit.NoError(t, os.Mkdir(dir, 0o700))
	other, err := Open(dir)
	if err != nil {
		t.Fatalf("a new directory of the same name: %v", err)
	}
	other.Close()
	f.Close()
	if f, err = Open(dir); err != nil {
		t.Fatalf("after the end of the lock: %v", err)
	}
	f.Close()
}

// TestLockOfAFile: a lock of a file keeps others from locking it, but not from reading and writing. To unlock a file that
// another one has locked changes nothing.
func TestLockOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		t.Helper()
		f := testkit.Must(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))(t)
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b, c := open(), open(), open()
	if err := Lock(a); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no locks of files")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := Lock(b); !errors.Is(err, ErrLocked) {
		t.Errorf("a locked file: %v", err)
	}
	if _, err := b.WriteAt([]byte("text"), 0); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	_ = Unlock(b) // an error on some systems
	if err := Lock(c); !errors.Is(err, ErrLocked) {
		t.Errorf("after somebody else has unlocked it: %v", err)
	}
	testkit.NoError(t, Unlock(a))
	if err := Lock(b); err != nil {
		t.Errorf("after the end of the lock: %v", err)
	}
}
