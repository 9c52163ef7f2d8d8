package ingest

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestCheckReadsOnly: Check works on a read-only file system, and reports a store that lacks commands.
func TestCheckReadsOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: a mount needs root")
	}
	dir := t.TempDir()
	e, stop := start(t, dir)
	testkit.Must2(e.Create(t.Context(), lines(3)))(t)
	stop()
	mounted := t.TempDir()
	mount := func() (unmount func()) {
		t.Helper()
		if err := syscall.Mount(dir, mounted, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("skipped: this machine allows no mounts: %v", err)
		}
		testkit.Check(t, syscall.Mount("", mounted, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		return func() { testkit.Check(t, syscall.Unmount(mounted, 0)) }
	}
	unmount := mount()
	found, err := Inspect(context.Background(), mounted, func(problem string) bool { t.Error(problem); return true })
	unmount()
	testkit.NoError(t, err)
	testkit.Holds(t, found.Problems == 0 && found.Jobs["pending"] == 3, found)
	testkit.NoError(t, os.Rename(StoreDir(dir), StoreDir(dir)+".newer"))
	testkit.NoError(t, os.CopyFS(StoreDir(dir), os.DirFS(StoreDir(dir)+".newer")))
	e, stop = start(t, dir)
	testkit.Must2(e.Create(t.Context(), lines(3)))(t)
	stop()
	testkit.NoError(t, errors.Join(os.RemoveAll(StoreDir(dir)), os.Rename(StoreDir(dir)+".newer", StoreDir(dir))))
	defer mount()()
	testkit.Fails(Inspect(context.Background(), mounted, func(string) bool { return true }))(t, ErrBehind)
}
