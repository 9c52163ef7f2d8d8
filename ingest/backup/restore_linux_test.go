package backup

import (
	"io/fs"
	"math/rand/v2"
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
	testkit.Must(Restore(t.Context(), made.Path, data, RestoreOptions{}))(t)
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

// smallDisk mounts a tmpfs.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("daybook-backup", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { testkit.Check(t, syscall.Unmount(dir, syscall.MNT_DETACH), "unmount") })
	return dir
}

// TestFullDisk: a backup and a restore that do not fit fail with the reason and leave nothing. The previous backup stays.
func TestFullDisk(t *testing.T) {
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 100, "x"))(t)
	disk := smallDisk(t, "8m")
	dir := filepath.Join(disk, "backups")
	first := mustMake(t, dir, s.stream, nil, 0)
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte('a' + rand.IntN(26))
	}
	for range 20 {
		testkit.Must(s.create(t.Context(), 1, string(random)))(t)
	}
	for range 3 {
		testkit.Fails(tryMake(t, dir, s.stream, nil, 0))(t, syscall.ENOSPC)
		testkit.Equal(t, len(testkit.Must(os.ReadDir(dir))(t)), 1, "on the full disk")
	}
	testkit.Must(Verify(t.Context(), first.Path, true))(t)
	large := mustMake(t, t.TempDir(), s.stream, nil, 0)
	testkit.Fails(Restore(t.Context(), large.Path, filepath.Join(disk, "data"), RestoreOptions{}))(t, syscall.ENOSPC)
	testkit.Equal(t, len(testkit.Must(os.ReadDir(disk))(t)), 1, "on the full disk")
	testkit.Must(Restore(t.Context(), first.Path, filepath.Join(disk, "data"), RestoreOptions{}))(t)
}
