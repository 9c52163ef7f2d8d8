//go:build !windows

package powerfs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

var full = flag.Bool("full", false, "fail instead of skipping the tests if FUSE is not available")

// mount mounts a file system for the time of a test.
func mount(t *testing.T) (*FS, string) {
	t.Helper()
	dir := t.TempDir()
	f, err := Mount(dir)
	if err != nil {
		testkit.MustHold(t, !*full, err)
		t.Skip(err)
	}
	t.Cleanup(func() { testkit.Check(t, f.Close()) })
	return f, dir
}

func (f *FS) cycle(seed uint64) { f.Cut(seed); f.PowerOn() }

func must(t *testing.T, errs ...error) { t.Helper(); testkit.NoError(t, errors.Join(errs...)) }

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeSynced writes a file whose data is durable, but not its name.
func writeSynced(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// settled waits until the kernel has reported all closed files, which it does some time later.
func (f *FS) settled(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "all handles are closed", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.handles) == 0
	})
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// pattern returns n bytes that show their place and their version.
func pattern(n int, version byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i/sectorBytes)&0x3f | version<<6
	}
	return out
}

const seeds = 60

// TestSyncedSurvives: a file whose data and name were synced survives every cut, whatever else happens.
func TestSyncedSurvives(t *testing.T) {
	f, dir := mount(t)
	for seed := range uint64(seeds) {
		sub := filepath.Join(dir, fmt.Sprint(seed))
		path := filepath.Join(sub, "file")
		data := pattern(3000, 1)
		must(t, os.Mkdir(sub, 0o755), syncPath(dir), writeSynced(path, data), syncPath(sub))
		must(t, os.WriteFile(filepath.Join(sub, "other"), data, 0o644), os.Mkdir(filepath.Join(sub, "dir"), 0o755))
		f.cycle(seed)
		got := testkit.Must(os.ReadFile(path))(t)
		testkit.MustHold(t, bytes.Equal(got, data), "seed", seed, len(got), "bytes")
	}
}

// TestUnsynced: each kind of unsynced change survives some cuts and not others.
func TestUnsynced(t *testing.T) {
	f, dir := mount(t)
	kept := map[string]int{}
	for seed := range uint64(seeds) {
		at := func(name string) string { return filepath.Join(dir, fmt.Sprint(seed), name) }
		must(t, os.Mkdir(at(""), 0o755), syncPath(dir))
		must(t, writeSynced(at("removed"), nil), writeSynced(at("moved"), nil), writeSynced(at("appended"), pattern(1000, 1)),
			writeSynced(at("overwritten"), pattern(1000, 1)), writeSynced(at("cut"), pattern(1000, 1)), os.Mkdir(at("rmdir"), 0o755), syncPath(at("")))

		must(t, writeSynced(at("created"), nil), os.Remove(at("removed")), os.Rename(at("moved"), at("there")), os.Mkdir(at("mkdir"), 0o755),
			os.Remove(at("rmdir")), os.Link(at("cut"), at("linked")), os.Truncate(at("cut"), 10))
		file, err := os.OpenFile(at("appended"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = file.Write(pattern(1000, 2))
		must(t, err, file.Close())
		must(t, os.WriteFile(at("overwritten"), pattern(1000, 2), 0o644))
		f.cycle(seed)

		size := func(name string) int64 {
			info, err := os.Stat(at(name))
			must(t, err)
			return info.Size()
		}
		overwritten, err := os.ReadFile(at("overwritten"))
		must(t, err)
		for name, yes := range map[string]bool{
			"created": exists(at("created")), "removed": !exists(at("removed")), "moved": exists(at("there")), "mkdir": exists(at("mkdir")),
			"rmdir": !exists(at("rmdir")), "linked": exists(at("linked")), "cut": size("cut") == 10,
			"appended": size("appended") == 2000, "overwritten": bytes.Equal(overwritten, pattern(1000, 2)),
		} {
			if yes {
				kept[name]++
			} else {
				kept[name] += 0
			}
		}
		testkit.MustHold(t, exists(at("moved")) != exists(at("there")), "seed", seed, "a renamed file has both names, or neither")
	}
	for name, n := range kept {
		testkit.Holds(t, n != 0 && n != seeds, name, "kept at", n, "of", seeds, "cuts")
	}
	if lost := f.Unsynced(); lost.Names < 6*seeds || lost.Files < 3*seeds || lost.Sectors < 3*seeds {
		t.Errorf("the count of unsynced changes is too small: %+v", lost)
	}
}

// TestRenameOver: when a rename moves a new file over an old one, the name leads to the old file or to the new one, never
// to none and never to a part of one. After a sync of the directory it leads to the new one.
func TestRenameOver(t *testing.T) {
	f, dir := mount(t)
	name, fresh := filepath.Join(dir, "name"), filepath.Join(dir, "name.new")
	old, next := []byte("old"), []byte("new and longer")
	saw := map[string]int{}
	for seed := range uint64(seeds) {
		must(t, writeSynced(name, old), syncPath(dir))
		must(t, writeSynced(fresh, next), os.Rename(fresh, name))
		f.cycle(seed)
		got := testkit.Must(os.ReadFile(name))(t)
		testkit.MustHold(t, bytes.Equal(got, old) || bytes.Equal(got, next), "seed", seed, got)
		saw[string(got)]++
		testkit.MustHold(t, string(got) != string(next) || !exists(fresh), "seed", seed, "the new file has both names")
		must(t, os.RemoveAll(fresh), writeSynced(fresh, next), os.Rename(fresh, name), syncPath(dir))
		f.cycle(seed + seeds)
		got, err := os.ReadFile(name)
		testkit.MustHold(t, err == nil && bytes.Equal(got, next), "seed", seed, "synced", got, err)
	}
	testkit.Holds(t, saw[string(old)] != 0 && saw[string(next)] != 0, "over all seeds", saw)
}

// TestTorn: without a sync, each written sector is old or new. With some seeds a later sector is new and an earlier one
// old. The length is between the old and the new one. Beyond its data, the file has zeros or garbage.
func TestTorn(t *testing.T) {
	f, dir := mount(t)
	path := filepath.Join(dir, "file")
	const sectors = 16
	old, next := pattern(sectors*sectorBytes, 1), pattern(2*sectors*sectorBytes, 2)
	torn, reordered, between, garbage := 0, 0, 0, 0
	for seed := range uint64(4 * seeds) {
		must(t, writeSynced(path, old), syncPath(dir))
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = file.Write(next)
		must(t, err, file.Close())
		f.cycle(seed)
		got, err := os.ReadFile(path)
		must(t, err)
		testkit.MustHold(t, len(got) >= sectors*sectorBytes && len(got) <= 2*sectors*sectorBytes, "seed", seed, len(got), "bytes")
		if len(got) > sectors*sectorBytes && len(got) < 2*sectors*sectorBytes {
			between++
		}
		isNew := 0
		for i := range sectors {
			sector := got[i*sectorBytes : (i+1)*sectorBytes]
			switch {
			case bytes.Equal(sector, next[i*sectorBytes:][:sectorBytes]):
				if isNew < i {
					reordered++
				}
				isNew++
			case !bytes.Equal(sector, old[i*sectorBytes:][:sectorBytes]):
				t.Fatalf("seed %d: sector %d is neither old nor new", seed, i)
			}
		}
		if isNew > 0 && isNew < sectors {
			torn++
		}
		for i, b := range got[sectors*sectorBytes:] {
			if b != 0 && b != next[sectors*sectorBytes+i] {
				garbage++
				break
			}
		}
	}
	testkit.Holds(t, torn != 0 && reordered != 0 && between != 0 &&
		garbage != 0, "over all seeds", torn, "torn", reordered, "reordered", between, "lengths between", garbage, "with garbage")
}

// TestCutEndsHandles: after a cut, the files that were open can no longer be used, and without power no request succeeds.
func TestCutEndsHandles(t *testing.T) {
	f, dir := mount(t)
	path := filepath.Join(dir, "file")
	must(t, writeSynced(path, []byte("x")), syncPath(dir))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	f.Cut(1)
	testkit.Fails(os.Stat(path))(t, syscall.EIO) // stat without power
	f.PowerOn()
	testkit.Fails(file.Write([]byte("y")))(t, syscall.EIO) // write to a handle from before
	testkit.Failed(t, file.Sync(), syscall.EIO)            // sync of a handle from before
	testkit.Equal(t, string(testkit.Must(os.ReadFile(path))(t)), "x", "read after the cut")
}

func TestReadOnly(t *testing.T) {
	f, dir := mount(t)
	path := filepath.Join(dir, "file")
	must(t, writeSynced(path, []byte("x")))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	f.SetReadOnly(true)
	_, write := file.Write([]byte("y"))
	_, create := os.Create(filepath.Join(dir, "other"))
	for name, err := range map[string]error{
		"write": write, "sync": file.Sync(), "create": create, "mkdir": os.Mkdir(filepath.Join(dir, "d"), 0o755), "remove": os.Remove(path),
		"rename": os.Rename(path, path+"2"), "truncate": file.Truncate(0), "sync of a directory": syncPath(dir),
	} {
		testkit.Holds(t, errors.Is(err, syscall.EROFS), name, err)
	}
	testkit.Equal(t, string(testkit.Must(os.ReadFile(path))(t)), "x")
	f.SetReadOnly(false)
	testkit.Must(file.Write([]byte("y")))(t)
	f.ReadOnlyAt("trap")
	must(t, os.WriteFile(path, []byte("z"), 0o644))
	testkit.Failed(t, os.WriteFile(filepath.Join(dir, "trap-1"), []byte("z"), 0o644), syscall.EROFS)
	testkit.Failed(t, os.WriteFile(path, []byte("z"), 0o644), syscall.EROFS)
}

func TestNoSpace(t *testing.T) {
	f, dir := mount(t)
	f.SetSize(64 << 10)
	free := func() uint64 {
		var s unix.Statfs_t
		must(t, unix.Statfs(dir, &s))
		return s.Bavail * uint64(s.Bsize)
	}
	testkit.Equal(t, free(), 64<<10)
	path := filepath.Join(dir, "file")
	file, err := os.Create(path)
	must(t, err)
	n, err := file.Write(make([]byte, 100<<10))
	testkit.Equal(t, n, 64<<10, "write more than there")
	testkit.Failed(t, err, syscall.ENOSPC)
	testkit.Failed(t, unix.Fallocate(int(file.Fd()), 0, 0, 65<<10), syscall.ENOSPC)
	testkit.Check(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644), "an empty file needs no space")
	must(t, os.Remove(path))
	testkit.Equal(t, free(), 0)
	must(t, file.Close())
	f.settled(t)
	testkit.Equal(t, free(), 64<<10)
	testkit.Equal(t, f.Used(), 0)
	for seed := range uint64(10) { // the space of the surviving data is counted
		must(t, os.WriteFile(path, make([]byte, 10<<10), 0o644))
		f.cycle(seed)
		used := int64(0)
		if info, err := os.Stat(path); err == nil {
			used = blocks(info.Size())
		}
		testkit.MustEqual(t, f.Used(), used, "seed", seed, "bytes used")
	}
}

// TestFailedSync: after a failed sync, a later sync succeeds, but does not make the data of the failed sync durable, as
// in Linux. If the data is written again, it becomes durable.
func TestFailedSync(t *testing.T) {
	f, dir := mount(t)
	path := filepath.Join(dir, "file")
	lost := 0
	for seed := range uint64(seeds) {
		must(t, writeSynced(path, pattern(2*sectorBytes, 1)), syncPath(dir))
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		next := pattern(2*sectorBytes, 2)
		_, err = file.Write(next)
		must(t, err)
		f.FailSyncs(1)
		testkit.Failed(t, file.Sync(), syscall.EIO)
		_, err = file.WriteAt(next[:sectorBytes], 0)
		must(t, err, file.Sync(), file.Close())
		f.cycle(seed)
		got, err := os.ReadFile(path)
		must(t, err)
		testkit.MustHold(t, bytes.Equal(got[:sectorBytes], next[:sectorBytes]), "seed", seed, "data that was written again and synced is lost")
		if !bytes.Equal(got, next) {
			lost++
		}
	}
	testkit.Holds(t, lost != 0 && lost != seeds, "lost at", lost, "of", seeds, "cuts")
	all, failed := f.Syncs()
	testkit.Holds(t, failed == seeds && all > failed, all, "syncs", failed, "failed")
}

// TestCutAt: CutAt cuts at the moment for which it waits, and not before.
func TestCutAt(t *testing.T) {
	f, dir := mount(t)
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		moment Moment
		do     func() error
	}{
		{Write, func() error { return os.WriteFile(path, []byte("x"), 0o644) }},
		{Name, func() error { return os.Mkdir(filepath.Join(dir, "dir"), 0o755) }},
		{Name, func() error { return os.Rename(path, path+"2") }},
		{Name, func() error { return os.Remove(path) }},
		{Sync, func() error { return syncPath(path) }},
	} {
		must(t, writeSynced(path, nil), syncPath(dir))
		cut := f.CutAt(c.moment, 1, 7)
		select {
		case <-cut:
			t.Fatalf("moment %d: cut before it", c.moment)
		default:
		}
		err := c.do()
		testkit.Holds(t, errors.Is(err, syscall.EIO), "moment", c.moment, err)
		<-cut
		f.PowerOn()
		testkit.Holds(t, exists(path) || exists(path+"2") || c.moment == Name, "moment", c.moment, "synced data is lost")
		must(t, os.RemoveAll(path+"2"), os.RemoveAll(filepath.Join(dir, "dir")))
	}
}
