package blob

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestTrustedSyncFS: the store trusts syncfs on this file system if it is a known one.
func TestTrustedSyncFS(t *testing.T) {
	s := newStore(t, Options{})
	var fs unix.Statfs_t
	testkit.NoError(t, unix.Statfs(s.dir, &fs))
	if fs.Type == unix.EXT4_SUPER_MAGIC != canTrustSyncFS(s.dir) && fs.Type != unix.XFS_SUPER_MAGIC && fs.Type != unix.BTRFS_SUPER_MAGIC {
		t.Errorf("syncfs is trusted: %v", canTrustSyncFS(s.dir))
	}
	testkit.Holds(t, !canTrustSyncFS("/proc") && !canTrustSyncFS(filepath.Join(s.dir, "missing")), "syncfs of /proc is trusted")
}
