package backup

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestRestoreIntoAMount: the data directory of an image is a mount point, owned by the server's user. A restore by root
// gives all files to that user.
func TestRestoreIntoAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can mount file systems and give files away")
	}
	made := tenJobs(t)
	data := filepath.Join(t.TempDir(), "data")
	testkit.NoError(t, os.Mkdir(data, 0o750))
	if err := syscall.Mount("none", data, "tmpfs", 0, ""); err != nil {
		t.Skipf("skipped: this machine does not allow to mount a file system: %v", err)
	}
	t.Cleanup(func() { testkit.Check(t, syscall.Unmount(data, 0)) })
	const user, group = 65532, 65533
	testkit.NoError(t, os.Chown(data, user, group))
	testkit.Must(Restore(t.Context(), made.Path, data))(t)
	testkit.Check(t, filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		s := info.Sys().(*syscall.Stat_t)
		testkit.Holds(t, s.Uid == user && s.Gid == group, path, "belongs to", s.Uid, s.Gid)
		return nil
	}))
	mustBeSound(t, data)
}
