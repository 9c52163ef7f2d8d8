package blob

import (
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

func mountTmpfs(dir, size string) error {
	return syscall.Mount("daybook-blob", dir, "tmpfs", 0, "size="+size)
}

func remountReadOnly(dir string) error {
	return syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func unmount(dir string) error { return syscall.Unmount(dir, 0) }

// TestTrustedSyncFS: the store trusts syncfs on this file system if it is a known one.
func TestTrustedSyncFS(t *testing.T) {
	s := newStore(t, Options{})
	var fs unix.Statfs_t
	testkit.NoError(t, unix.Statfs(s.dir, &fs))
	testkit.Holds(t, (fs.Type == unix.EXT4_SUPER_MAGIC) == canTrustSyncFS(s.dir) || fs.Type == unix.XFS_SUPER_MAGIC ||
		fs.Type == unix.BTRFS_SUPER_MAGIC, "syncfs is trusted", canTrustSyncFS(s.dir))
	testkit.Holds(t, !canTrustSyncFS("/proc") && !canTrustSyncFS(filepath.Join(s.dir, "missing")), "syncfs of /proc is trusted")
}
