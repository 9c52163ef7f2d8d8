package blob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
)

var errInjected = errors.New("injected")

// recorder observes the calls of a store, and makes call number failAt fail. The first call is number 1.
type recorder struct {
	mu     sync.Mutex // guards the fields below
	calls  []string
	failAt int
}

func (r *recorder) call(verb, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := filepath.Base(path)
	if strings.HasPrefix(name, tempPrefix) {
		name = "temp"
	}
	r.calls = append(r.calls, verb+" "+filepath.Base(filepath.Dir(path))+"/"+name)
	if len(r.calls) == r.failAt {
		return errInjected
	}
	return nil
}

func (r *recorder) hooks() Hooks {
	return Hooks{
		Write: func(f *os.File, b []byte) (int, error) {
			if err := r.call("write", f.Name()); err != nil {
				return 0, err
			}
			return f.Write(b)
		},
		Sync: func(f *os.File) error {
			if err := r.call("sync", f.Name()); err != nil {
				return err
			}
			return f.Sync()
		},
		SyncFS: func(f *os.File) error {
			if err := r.call("syncfs", f.Name()); err != nil {
				return err
			}
			return syncFS(f)
		},
		Rename: func(from, to string) error {
			if err := r.call("rename", to); err != nil {
				return err
			}
			return os.Rename(from, to)
		},
		Remove: func(path string) error {
			if err := r.call("remove", path); err != nil {
				return err
			}
			return os.Remove(path)
		},
	}
}

// TestOrder: a Put makes its calls in a fixed order, and all of them before its acknowledgement.
func TestOrder(t *testing.T) {
	rec := &recorder{}
	dir := filepath.Join(t.TempDir(), "blobs")
	s := mustOpen(t, dir, Options{Hooks: rec.hooks()})
	hex := filepath.Base(s.path(addressOf(wilson)))
	ask := func(want bool) {
		t.Helper()
		there, err := has(t, s, addressOf(wilson))
		testkit.Holds(t, there == want && err == nil, "Has is", there, err, "after", rec.calls)
	}
	realSync := s.h.Sync
	s.h.Sync = func(f *os.File) error { // no read sees the blob before the last sync has returned
		ask(false)
		testkit.Fails(s.Get(context.Background(), "", addressOf(wilson)))(t, ErrNotFound)
		infos, err := s.List(t.Context(), "", nil, 1)
		testkit.Holds(t, len(infos) == 0 && err == nil, "List has", infos, err)
		return realSync(f)
	}
	rec.calls = nil
	info := mustPut(t, s, wilson)
	ask(true)
	want := []string{
		"write uploads/temp", "sync uploads/temp",
		"write uploads/temp", "sync uploads/temp", "rename sha1/" + info.SHA1.String(), "sync blobs/sha1",
		"rename sha256/" + hex, "sync blobs/sha256",
	}
	testkit.EqualSlices(t, rec.calls, want, "the first Put calls")
	s.h.Sync = func(f *os.File) error { ask(true); return realSync(f) } // a repeated Put hides nothing
	rec.calls = nil
	mustPut(t, s, wilson)
	want = []string{"write uploads/temp", "sync uploads/temp", "sync blobs/sha1", "rename sha256/" + hex, "sync blobs/sha256"}
	testkit.EqualSlices(t, rec.calls, want, "the second Put calls")

	// Open syncs the names that a killed process may have left.
	testkit.NoError(t, s.Close())
	rec.calls = nil
	mustOpen(t, dir, Options{Hooks: rec.hooks()})
	for _, call := range []string{"sync blobs/sha256", "sync blobs/sha1"} {
		testkit.Holds(t, slices.Contains(rec.calls, call), "Open does not call", call, rec.calls)
	}
}

// TestFailedCalls makes each call of a Put fail. The Put fails and leaves nothing that reads can see, an older blob
// stays, and the next Put succeeds.
func TestFailedCalls(t *testing.T) {
	for _, before := range []bool{false, true} {
		for failAt := 1; ; failAt++ {
			rec := &recorder{}
			s := newStore(t, Options{QuotaBytes: int64(len(wilson)), Hooks: rec.hooks()})
			if before {
				mustPut(t, s, wilson)
			}
			rec.calls, rec.failAt = nil, failAt
			a := addressOf(wilson)
			_, err := s.Put(context.Background(), "", strings.NewReader(wilson), Ref{SHA256: &a})
			if len(rec.calls) < failAt {
				testkit.NoError(t, err)
				testkit.Holds(t, failAt >= 5, "a Put of", len(rec.calls), "calls")
				break
			}
			name := fmt.Sprintf("before %v, %s fails", before, rec.calls[failAt-1])
			testkit.Holds(t, errors.Is(err, errInjected), name, "Put returned", err)
			there, err := has(t, s, a)
			testkit.Holds(t, there == before && err == nil, name, "Has is", there, err)
			if before {
				mustRead(t, s, wilson)
			}
			mustBeTidy(t, s)
			_, err = s.Put(context.Background(), "", strings.NewReader(wilson), Ref{SHA256: &a})
			testkit.Check(t, err, name, "the next Put")
			mustRead(t, s, wilson)
			mustAddUp(t, s)
		}
	}
}

// TestUnsyncedNameThatStays: if the name of a blob is not durable and cannot be removed, no read sees the blob.
func TestUnsyncedNameThatStays(t *testing.T) {
	s := newStore(t, Options{})
	s.h.Sync = func(f *os.File) error {
		if f.Name() == s.blobs() {
			return errInjected
		}
		return f.Sync()
	}
	s.h.Remove = func(path string) error {
		if path == s.path(addressOf(wilson)) {
			return errInjected
		}
		return os.Remove(path)
	}
	for range 2 {
		testkit.Fails(put(s, wilson))(t, errInjected)
		if _, err := os.Stat(s.path(addressOf(wilson))); err != nil {
			t.Fatal(err) // this test needs a name that stays
		}
		missing, err := s.Missing(t.Context(), "", []Address{addressOf(wilson)})
		testkit.Holds(t, len(missing) == 1 && err == nil, "missing are", missing, err)
		testkit.Fails(s.Get(context.Background(), "", addressOf(wilson)))(t, ErrNotFound)
		mustAddUp(t, s)
	}
	s.h.Sync = (*os.File).Sync
	testkit.Holds(t, !mustPut(t, s, wilson).Existed, "it existed")
	mustRead(t, s, wilson)
	mustAddUp(t, s)
}

// killDir is set in the process that TestKill starts, which is this test binary as a writer.
const killDir = "DAYBOOK_BLOB_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		if err := putUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// putUntilKilled puts blobs and prints the number of each acknowledged one, while an upload that never ends holds a
// temporary file.
func putUntilKilled(dir string) error {
	s, err := OpenDir(context.Background(), dir, Options{})
	if err != nil {
		return err
	}
	begun := make(chan struct{})
	var once sync.Once
	go s.Put(context.Background(), "", readerFunc(func(p []byte) (int, error) { // ends with the process
		once.Do(func() { close(begun) })
		return len(p), nil
	}), Ref{})
	<-begun
	for i := 0; ; i++ {
		if _, err := put(s, killContent(i)); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
}

func killContent(i int) string { return strings.Repeat(fmt.Sprintf("kill %d ", i), 1+i*i*100) }

// TestKill kills a process that puts blobs. The page cache survives the process, so this tests the start. Separate
// tests cover the fsyncs.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	leftovers := 0
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killDir+"="+dir)
		cmd.Stderr = os.Stderr
		out := testkit.Must(cmd.StdoutPipe())(t)
		testkit.NoError(t, cmd.Start())
		acknowledged := -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			acknowledged++
			if acknowledged == 3+round {
				testkit.NoError(t, cmd.Process.Kill())
			}
		}
		testkit.Failed(t, cmd.Wait())
		left := testkit.Must(os.ReadDir(filepath.Join(dir, "uploads")))(t)
		leftovers += len(left)
		s := mustOpen(t, dir, Options{})
		for i := range acknowledged + 1 {
			mustRead(t, s, killContent(i))
			mustResolve(t, s, killContent(i))
		}
		mustBeTidy(t, s)
		testkit.NoError(t, s.Close())
	}
	testkit.Holds(t, leftovers != 0, "no kill has left an upload")
}

// TestPowerCuts repeatedly cuts the power of the disk while blobs are put. Each acknowledged blob is stored with its
// SHA-1, and each blob that Has reports is whole and survives the next cut.
func TestPowerCuts(t *testing.T) {
	testkit.OneByOne(t)
	disk, mount := mountDisk(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(mount, "blobs")
	durable := map[string]bool{} // contents that were acknowledged, or that Has has reported
	attempted := map[string]bool{}
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	telling := func() bool { // the cuts have lost bytes that only syncs keep
		lost := disk.Unsynced()
		return lost.Files > 0 && lost.Names > 0 && len(durable) > 0
	}
	for round := 0; round < rounds || !telling() && round < 20*rounds; round++ { // few cuts may all miss a file
		moment := disk.CutAt(powerfs.Moment(rng.IntN(3)), 1+rng.IntN(40), rng.Uint64())
		s, err := OpenDir(t.Context(), dir, Options{})
		for i := 0; err == nil && i < 30; i++ {
			content := strings.Repeat(fmt.Sprint("cut ", rng.IntN(20), " "), 1+rng.IntN(2)*2000)
			attempted[content] = true
			if _, err = put(s, content); err == nil {
				durable[content] = true
			}
		}
		s = afterCut(t, disk, moment, rng.Uint64(), s, dir)
		mustHaveDurable(t, s, attempted, durable)
		if t.Failed() {
			return
		}
		testkit.NoError(t, s.Close())
		disk.Cut(rng.Uint64())
		disk.PowerOn()
	}
	if !telling() {
		t.Errorf("the cuts have lost %+v, and %d blobs were acknowledged", disk.Unsynced(), len(durable))
	}
}

// TestFailedSyncsThenCut: a disk that fails one sync and no later one loses no acknowledged blob at a power cut.
func TestFailedSyncsThenCut(t *testing.T) {
	disk, mount := mountDisk(t)
	dir := filepath.Join(mount, "blobs")
	for n := range 8 {
		s := mustOpen(t, dir, Options{})
		disk.FailSyncs(n % 3)
		durable := map[string]bool{}
		failed := 0
		for i := range 6 {
			content := fmt.Sprint("failing ", n, " ", i%4)
			if _, err := put(s, content); err == nil {
				durable[content] = true
			} else if failed++; !strings.Contains(err.Error(), "input/output error") {
				t.Error(err)
			}
		}
		testkit.Equal(t, failed, n%3, "Puts failed")
		disk.Cut(uint64(n))
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Log(err) // the power is off
		}
		disk.PowerOn()
		s = mustOpen(t, dir, Options{})
		for content := range durable {
			mustRead(t, s, content)
			mustResolve(t, s, content)
		}
		testkit.NoError(t, s.Close())
	}
}
