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
	testkit.Fails(Open(dir))(t, ErrLocked)
	file := filepath.Join(dir, "none")
	testkit.Fails(Open(file))(t, fs.ErrNotExist)
	testkit.NoError(t, os.Remove(dir)) // the lock is that of the directory, not of its name
	testkit.NoError(t, os.Mkdir(dir, 0o700))
	other, err := Open(dir)
	testkit.NoError(t, err, "a new directory of the same name")
	other.Close()
	f.Close()
	f, err = Open(dir)
	testkit.NoError(t, err, "after the end of the lock")
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
	testkit.Failed(t, Lock(b), ErrLocked)
	testkit.Must(b.WriteAt([]byte("text"), 0))(t)
	testkit.Equal(t, string(testkit.Must(os.ReadFile(path))(t)), "text")
	_ = Unlock(b) // an error on some systems
	testkit.Failed(t, Lock(c), ErrLocked)
	testkit.NoError(t, Unlock(a))
	testkit.Check(t, Lock(b), "after the end of the lock")
}
