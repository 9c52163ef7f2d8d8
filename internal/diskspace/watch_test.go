package diskspace

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestBallastWithoutFallocate: if the file system cannot reserve space, zeros are written to the ballast.
func TestBallastWithoutFallocate(t *testing.T) {
	d := &Watch{dir: t.TempDir(), reserve: 1 << 20, fallocate: func(int, uint32, int64, int64) error { return unix.EOPNOTSUPP }}
	testkit.NoError(t, d.keepBallast(1<<30))
	var stat unix.Stat_t
	if err := unix.Stat(d.ballast(), &stat); err != nil || stat.Size != 1<<20/BallastShare || stat.Blocks == 0 {
		t.Errorf("the ballast has %d bytes in %d blocks, %v", stat.Size, stat.Blocks, err)
	}
}

// TestDiskProblemsAreLoggedOnce: a Watch logs a problem only when it begins.
func TestDiskProblemsAreLoggedOnce(t *testing.T) {
	var log strings.Builder
	space := func(string) (free, total uint64, err error) { return 1 << 40, 1 << 40, nil }
	w := NewWatch(filepath.Join(t.TempDir(), "gone"), space, slog.New(slog.NewTextHandler(&log, nil)), func(bool) {})
	for range 5 {
		w.Look()
	}
	testkit.Equal(t, strings.Count(log.String(), "make or delete the ballast"), 1, "logged", "times", log.String())
}
