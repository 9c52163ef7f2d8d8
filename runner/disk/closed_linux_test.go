package disk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestClosedDirectories: an unprivileged user removes a tree whose directories lack permissions.
func TestClosedDirectories(t *testing.T) {
	ended := make(chan error)
	go func() { ended <- closedDirectories() }()
	testkit.Check(t, <-ended)
}

// closedDirectories switches to another user if it is root. Its thread ends with the goroutine.
func closedDirectories() error {
	if os.Geteuid() == 0 {
		const nobody = 65534
		runtime.LockOSThread()
		if _, err := unix.SetfsgidRetGid(nobody); err != nil {
			return err
		}
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			return err
		}
	}
	top, err := os.MkdirTemp("", "closed-")
	if err != nil {
		return err
	}
	closed := filepath.Join(top, "a", "closed")
	err = errors.Join(os.MkdirAll(filepath.Join(closed, "below"), 0o700), os.WriteFile(filepath.Join(closed, "file"), nil, 0), os.Chmod(closed, 0), os.Chmod(top, 0))
	if err != nil {
		return err
	}
	if os.RemoveAll(top) == nil {
		return errors.New("the tree is not closed for this user")
	}
	if err := RemoveTree(top); err != nil {
		return err
	}
	if _, err := os.Lstat(top); !errors.Is(err, os.ErrNotExist) {
		return errors.New("it is still there")
	}
	return nil
}
