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

// TestTight: space is tight below one and a half times the reserve, and low below the reserve.
func TestTight(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		free, total uint64
		tight, low  bool
	}{
		{Reserve*3/2 - 1, 100 * gib, true, false}, {Reserve * 3 / 2, 100 * gib, false, false}, {Reserve - 1, 100 * gib, true, true},
		{192 - 1, 1024, true, false}, {192, 1024, false, false}, // the reserve is an eighth
	} {
		w := NewWatch(t.TempDir(), func(string) (uint64, uint64, error) { return c.free, c.total, nil }, slog.New(slog.DiscardHandler), func(bool) {})
		w.Look()
		testkit.Holds(t, w.Tight() == c.tight && w.Low() == c.low && w.Total() == c.total && w.Left() == c.free, c, w.Tight(), w.Low())
	}
}
