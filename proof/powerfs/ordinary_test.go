//go:build !windows

package powerfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestOrdinary makes the same random operations here and in an ordinary directory, and compares the answers.
func TestOrdinary(t *testing.T) {
	f, here := mount(t)
	there := t.TempDir()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	open := map[string][2]*os.File{} // open files, some of which have lost their names
	name := func() string {
		parts := []string{"a", "b", "c", "d"}
		path := parts[rng.IntN(len(parts))]
		for rng.IntN(3) == 0 {
			path += "/" + parts[rng.IntN(len(parts))]
		}
		return path
	}
	for step := range 6000 {
		one, two := name(), name()
		at, size := int64(rng.IntN(9000)), int64(rng.IntN(5000))
		data := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(3000))
		var what string
		var do func(root string, k int) (any, error)
		switch rng.IntN(14) {
		case 0, 1:
			what, do = "write "+one, func(root string, _ int) (any, error) { return nil, os.WriteFile(filepath.Join(root, one), data, 0o640) }
		case 2:
			what, do = fmt.Sprint("write at ", at, one), func(root string, _ int) (any, error) {
				file, err := os.OpenFile(filepath.Join(root, one), os.O_RDWR, 0)
				if err != nil {
					return nil, err
				}
				n, err := file.WriteAt(data, at)
				return n, errors.Join(err, file.Close())
			}
		case 3:
			what, do = "append "+one, func(root string, _ int) (any, error) {
				file, err := os.OpenFile(filepath.Join(root, one), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return nil, err
				}
				n, err := file.Write(data)
				return n, errors.Join(err, file.Sync(), file.Close())
			}
		case 4:
			what, do = fmt.Sprint("truncate ", size, one), func(root string, _ int) (any, error) {
				return nil, os.Truncate(filepath.Join(root, one), size)
			}
		case 5:
			what, do = "remove "+one, func(root string, _ int) (any, error) { return nil, os.Remove(filepath.Join(root, one)) }
		case 6:
			what, do = "mkdir "+one, func(root string, _ int) (any, error) { return nil, os.Mkdir(filepath.Join(root, one), 0o750) }
		case 7:
			what, do = "rename "+one+" "+two, func(root string, _ int) (any, error) {
				return nil, os.Rename(filepath.Join(root, one), filepath.Join(root, two))
			}
		case 8:
			what, do = "link "+one+" "+two, func(root string, _ int) (any, error) {
				return nil, os.Link(filepath.Join(root, one), filepath.Join(root, two))
			}
		case 9:
			what, do = "stat "+one, func(root string, _ int) (any, error) {
				info, err := os.Lstat(filepath.Join(root, one))
				if err != nil || info.IsDir() {
					return nil, err
				}
				return fmt.Sprint(info.Mode(), info.Size(), info.Sys().(*syscall.Stat_t).Nlink), nil
			}
		case 10:
			what, do = "list "+one, func(root string, _ int) (any, error) {
				entries, err := os.ReadDir(filepath.Join(root, one))
				return fmt.Sprint(entries), err
			}
		case 11:
			what, do = "sync "+one, func(root string, _ int) (any, error) { return nil, syncPath(filepath.Join(root, one)) }
		case 12:
			what, do = "open "+one, func(root string, k int) (any, error) {
				file, err := os.OpenFile(filepath.Join(root, one), os.O_RDWR, 0)
				if err != nil {
					return nil, err
				}
				pair := open[one]
				if pair[k] != nil {
					pair[k].Close()
				}
				pair[k] = file
				open[one] = pair
				return nil, nil
			}
		case 13:
			what, do = "use what was opened as "+one, func(_ string, k int) (any, error) {
				file := open[one][k]
				if file == nil {
					return nil, nil
				}
				if _, err := file.WriteAt(data, at); err != nil {
					return nil, err
				}
				out := make([]byte, 2000)
				n, _ := file.ReadAt(out, at/2)
				return string(out[:n]), nil
			}
		}
		got, gotErr := do(here, 0)
		want, wantErr := do(there, 1)
		testkit.MustEqual(t, got, want, "seed", seed, "step", step, what, gotErr, "elsewhere", wantErr)
		testkit.MustEqual(t, errno(gotErr), errno(wantErr), "seed", seed, "step", step, what, got, gotErr, "elsewhere", want, wantErr)
		if step%500 == 499 {
			testkit.MustEqual(t, tree(t, here), tree(t, there), "seed", seed, "step", step, "the trees differ")
		}
	}
	for _, pair := range open {
		must(t, pair[0].Close(), pair[1].Close())
	}
	must(t, os.RemoveAll(filepath.Join(here, "a")), os.RemoveAll(filepath.Join(here, "b")), os.RemoveAll(filepath.Join(here, "c")),
		os.RemoveAll(filepath.Join(here, "d")), syncPath(here))
	f.settled(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	testkit.Holds(t, len(f.disk.nodes) == 1 && f.disk.used == 0 && len(f.disk.changes) == 0,
		"everything is removed and synced, but", len(f.disk.nodes), "nodes", f.disk.used, "bytes", len(f.disk.changes), "changes are left")
}

func errno(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}

// tree describes everything under root.
func tree(t *testing.T, root string) string {
	var out []string
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		out = append(out, fmt.Sprintf("%s %d %x", rel, len(data), sum(data)))
		return err
	}))
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func sum(data []byte) (h uint64) {
	for _, b := range data {
		h = h*1099511628211 + uint64(b) + 1
	}
	return h
}

// TestLocks: the kernel handles flock, also for directories, and a lock ends with its handle.
func TestLocks(t *testing.T) {
	_, dir := mount(t)
	one, err := os.Open(dir)
	must(t, err)
	two, err := os.Open(dir)
	must(t, err)
	defer two.Close()
	must(t, syscall.Flock(int(one.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	testkit.Failed(t, syscall.Flock(int(two.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) // a second lock
	must(t, one.Close(), syscall.Flock(int(two.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}

// TestLargeDirectory: the listing of a large directory takes more than one answer.
func TestLargeDirectory(t *testing.T) {
	_, dir := mount(t)
	const files = 3000
	for i := range files {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d", i)), nil, 0o644))
	}
	testkit.Equal(t, len(testkit.Must(os.ReadDir(dir))(t)), files)
}
