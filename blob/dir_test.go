package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestLayout: OCI tools accept the directory, only the owner can read it, and files of other programs stay.
func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := mustOpen(t, dir, Options{})
	mustPut(t, s, wilson)
	for name, want := range map[string]string{
		"oci-layout": `map[imageLayoutVersion:1.0.0]`,
		"index.json": `map[manifests:[] mediaType:application/vnd.oci.image.index.v1+json schemaVersion:2]`,
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		var got map[string]any
		err = errors.Join(err, json.Unmarshal(text, &got))
		testkit.Holds(t, err == nil && fmt.Sprint(got) == want, name, "has", got, err, "want", want)
	}
	testkit.Check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		testkit.Holds(t, err != nil || info.Mode().Perm()&0o077 == 0, path, "has mode", info.Mode())
		return err
	}))
	foreign := map[string]string{
		"index.json":           `{"schemaVersion":2,"manifests":[{"digest":"sha256:` + servalHex + `"}],"annotations":{}}`,
		"uploads/mine":         "not an upload",
		"blobs/sha256/README":  "not a blob",
		"blobs/sha512":         "of another tool",
		"sha1/README":          "not an entry",
		"uploads/put-00killed": "",
	}
	for name, text := range foreign {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	testkit.NoError(t, s.Close())
	s = mustOpen(t, dir, Options{})
	testkit.Must(s.Sweep(context.Background(), "", func(Address) bool { return true }))(t)
	for name, want := range foreign {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if name == "uploads/put-00killed" {
			testkit.Failed(t, err, os.ErrNotExist)
		} else if string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	testkit.Equal(t, s.Used(), int64(len(wilson)), "bytes are used")
	testkit.NoError(t, errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"2.0.0"}`), 0o600)))
	testkit.Fails(OpenDir(t.Context(), dir, Options{}))(t, "oci-layout")
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := mustOpen(t, dir, Options{})
	testkit.Fails(OpenDir(t.Context(), dir, Options{}))(t, filelock.ErrLocked)
	testkit.NoError(t, s.Close())
	mustOpen(t, dir, Options{})
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{MaxBytes: -1}, {QuotaBytes: -1}, {ReserveBytes: -1}, {Grace: -1}} {
		_, err := OpenDir(t.Context(), t.TempDir(), o)
		testkit.Holds(t, err != nil, "Open took", o)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestConcurrentPuts: many Puts of a few blobs against a quota that all but one of them fill.
func TestConcurrentPuts(t *testing.T) {
	const size, kinds = 100_000, 5
	s := newStore(t, Options{QuotaBytes: size * (kinds - 1)})
	content := func(kind int) string { return strings.Repeat(fmt.Sprint(kind), size) }
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := map[Address]bool{}
	for i := range 60 {
		wg.Go(func() {
			info, err := put(s, content(i%kinds))
			testkit.Holds(t, err == nil || errors.Is(err, ErrQuota), err)
			used := s.Used()
			testkit.Holds(t, used <= size*(kinds-1), used, "bytes are used")
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				stored[info.Address] = true
			}
		})
	}
	wg.Wait()
	mustBeTidy(t, s)
	there := 0
	for kind := range kinds {
		if stored[addressOf(content(kind))] {
			mustRead(t, s, content(kind))
			there++
		}
	}
	infos := testkit.Must(s.List(t.Context(), "", nil, MaxList))(t)
	testkit.Holds(t, len(infos) == there && there != 0 && there != kinds, there, "blobs were acknowledged", len(infos), "are stored")
}

func TestReserve(t *testing.T) {
	var free uint64 = 1 << 30
	s := newStore(t, Options{ReserveBytes: 1 << 20, Hooks: Hooks{Free: func(string) (uint64, uint64, error) { return free, 1 << 40, nil }}})
	mustPut(t, s, wilson)
	free = 1<<20 - 1
	testkit.Fails(put(s, "x"))(t, ErrNoSpace)
	free = 1 << 20
	mustPut(t, s, "x")
	sent := 0
	endless := readerFunc(func(p []byte) (int, error) {
		if sent += len(p); sent > 2*freeEvery {
			free = 1 << 10
		}
		return len(p), nil
	})
	testkit.Fails(s.Put(context.Background(), "", endless, Ref{}))(t, ErrNoSpace)
	testkit.Holds(t, sent <= 4*freeEvery, "it was refused after", sent, "bytes")
	mustBeTidy(t, s)
}

// smallDisk mounts a tmpfs.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := mountTmpfs(dir, size); err != nil {
		t.Skipf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { testkit.Check(t, unmount(dir)) })
	return dir
}

func TestFullDisk(t *testing.T) {
	s := mustOpen(t, smallDisk(t, "4m"), Options{ReserveBytes: 1})
	t.Cleanup(func() { s.Close() }) // before the unmount
	mustPut(t, s, wilson)
	_, err := put(s, strings.Repeat("x", 5<<20))
	testkit.Failed(t, err, ErrNoSpace)
	testkit.Failed(t, err, syscall.ENOSPC)
	mustBeTidy(t, s)
	mustPut(t, s, strings.Repeat("y", 2<<20))
	mustRead(t, s, wilson)
}

func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	s := mustOpen(t, dir, Options{})
	mustPut(t, s, wilson)
	testkit.NoError(t, remountReadOnly(dir))
	for range 2 {
		testkit.Fails(put(s, "x"))(t, syscall.EROFS)
		testkit.Failed(t, s.Delete(t.Context(), "", addressOf(wilson)), syscall.EROFS)
		mustRead(t, s, wilson)
		testkit.Equal(t, s.Used(), int64(len(wilson)), "bytes are used")
		testkit.NoError(t, s.Close())
		s = mustOpen(t, dir, Options{}) // reads work after a restart, too
	}
	s.Close()
}

func TestSHA1(t *testing.T) {
	s := newStore(t, Options{})
	ref, err := Parse(servalSHA1)
	testkit.NoError(t, err)
	testkit.Fails(s.Resolve(t.Context(), "", ref))(t, ErrNotFound)
	testkit.Fails(s.Resolve(t.Context(), "", Ref{}))(t, ErrNotFound)
	first := mustPut(t, s, wilson)
	resolves := func(want Info) {
		t.Helper()
		testkit.Equal(t, testkit.Must(s.Resolve(t.Context(), "", Ref{SHA1: &first.SHA1}))(t), want.Address, "the SHA-1 leads to")
	}
	resolves(first)
	testkit.Holds(t, strings.HasPrefix(first.SHA1.String(), "68d5b573") &&
		strings.HasSuffix(first.Address.String(), "2e9698"), wilson, "has the digests", first.Address, "and", first.SHA1)
	info := testkit.Must(s.Put(context.Background(), "", strings.NewReader(wilson), Ref{SHA1: &first.SHA1}))(t)
	testkit.Equal(t, info.Address, first.Address, "Put that expects a SHA-1:", info)

	second := mustPut(t, s, "second")
	collide := func() error { // puts the second again, as if it had the SHA-1 of the first
		return s.local().Put(t.Context(), "", []*File{{Info: Info{Address: second.Address, SHA1: first.SHA1}}})
	}
	// Another content with the same SHA-1 gets the entry only when the first is gone.
	testkit.NoError(t, collide())
	resolves(first)
	testkit.NoError(t, s.Delete(t.Context(), "", first.Address))
	testkit.NoError(t, collide())
	resolves(second)

	// A Put repairs a damaged entry.
	path := s.sha1Path(second.SHA1)
	for _, damage := range []string{"", second.Address.String(), second.Address.String() + "\n\n", second.Address.String()[7:] + "\n", strings.Repeat("x", 1000)} {
		testkit.NoError(t, os.WriteFile(path, []byte(damage), 0o600))
		_, err = s.Resolve(t.Context(), "", Ref{SHA1: &second.SHA1})
		mustBeDamaged(t, err, path)
		mustPut(t, s, "second")
		got := testkit.Must(s.Resolve(t.Context(), "", Ref{SHA1: &second.SHA1}))(t)
		testkit.Holds(t, got == second.Address, "after a repair of", damage, "the SHA-1 leads to", got)
	}
}

// TestSymlinks: a symbolic link in place of a file is not followed, and the next Put replaces it.
func TestSymlinks(t *testing.T) {
	s := newStore(t, Options{})
	info := mustPut(t, s, wilson)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, path := range []string{s.path(info.Address), s.sha1Path(info.SHA1)} {
		testkit.NoError(t, errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path)))
		_, err := s.Get(context.Background(), "", info.Address)
		_, sha1Err := s.Resolve(t.Context(), "", Ref{SHA1: &info.SHA1})
		mustBeDamaged(t, errors.Join(err, sha1Err), path)
		mustPut(t, s, wilson)
		mustRead(t, s, wilson)
		st := testkit.Must(os.Lstat(path))(t)
		testkit.Holds(t, st.Mode().IsRegular(), path, "is", st)
	}
	testkit.NoError(t, errors.Join(s.Close(), os.RemoveAll(s.blobs()), os.Symlink(t.TempDir(), s.blobs())))
	testkit.Fails(OpenDir(t.Context(), s.dir, Options{}))(t, syscall.ENOTDIR)
}

func random(seed uint64, n int) string {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	rng.Read(b)
	return string(b)
}
