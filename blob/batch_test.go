package blob

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
	"golang.org/x/sys/unix"
)

func mustBegin(t testing.TB, s *Store) *Batch {
	t.Helper()
	b := testkit.Must(s.NewBatch(t.Context(), ""))(t)
	t.Cleanup(func() { testkit.Check(t, b.Discard()) })
	return b
}

func mustAdd(t testing.TB, b *Batch, content string) Info {
	t.Helper()
	info := testkit.Must(b.Add(context.Background(), strings.NewReader(content), Ref{}))(t)
	testkit.Holds(t, info.Address == addressOf(content) && info.Size == int64(len(content)), "Add of", len(content), "bytes", info)
	return info
}

func mustCommit(t testing.TB, s *Store, contents ...string) {
	t.Helper()
	b := mustBegin(t, s)
	for _, content := range contents {
		mustAdd(t, b, content)
	}
	testkit.Check(t, b.Commit(context.Background()))
}

// contents returns n different contents. Each seventh is larger than the limit up to which Add keeps a blob in memory.
func contents(name string, n int) (all []string) {
	for i := range n {
		content := fmt.Sprint(name, " ", i)
		if i%7 == 6 {
			content = strings.Repeat(content, 1+bufferBytes/len(content))
		}
		all = append(all, content)
	}
	return all
}

// manyFiles is a number of blobs with more files than a batch keeps open.
const manyFiles = fewFiles/2 + 2

// ways are the ways in which a batch makes its files durable.
func ways(t *testing.T, test func(t *testing.T, syncFS bool, n int)) {
	t.Run("few files", func(t *testing.T) { test(t, true, fewFiles/2) })
	t.Run("syncfs", func(t *testing.T) { test(t, true, manyFiles) })
	t.Run("many syncs at once", func(t *testing.T) { test(t, false, manyFiles) })
}

// TestBatch: added blobs are visible after Commit, and not before. There are only as many fsyncs as necessary.
func TestBatch(t *testing.T) {
	ways(t, func(t *testing.T, syncFS bool, n int) {
		rec := &recorder{}
		s := newStore(t, Options{Hooks: rec.hooks()})
		s.trustsSyncFS = syncFS
		all := contents("batch", n)
		check := func() {
			t.Helper()
			missing, err := s.Missing(t.Context(), "", []Address{addressOf(all[0]), addressOf(all[n-1])})
			_, getErr := s.Get(t.Context(), "", addressOf(all[0]))
			infos, listErr := s.List(t.Context(), "", nil, 1)
			if err := errors.Join(err, listErr); err != nil || len(missing) != 2 || !errors.Is(getErr, ErrNotFound) || len(infos) != 0 {
				t.Errorf("before the commit %d are missing, Get returns %v, List has %v; %v", len(missing), getErr, infos, err)
			}
		}
		// The sync hook reads the store at each sync. It cannot call Missing, which would wait for Commit, because
		// Commit owns the addresses.
		realSync := s.h.Sync
		s.h.Sync = func(f *os.File) error {
			for _, content := range all {
				there, err := has(t, s, addressOf(content))
				testkit.Holds(t, !there && err == nil, "it is there before the last sync", err)
			}
			return realSync(f)
		}
		b := mustBegin(t, s)
		for _, content := range all {
			testkit.Holds(t, !mustAdd(t, b, content).Existed, "it existed")
		}
		testkit.Holds(t, mustAdd(t, b, all[n-1]).Existed && mustAdd(t, b, all[0]).Existed, "it did not exist at the second time")
		check()
		testkit.NoError(t, b.Commit(t.Context()))
		for _, content := range all {
			mustRead(t, s, content)
			testkit.Equal(t, mustResolve(t, s, content), addressOf(content), "its SHA-1 leads elsewhere")
		}
		mustBeTidy(t, s)
		count := map[string]int{}
		first := len(rec.calls)
		for i, call := range rec.calls {
			verb, path, _ := strings.Cut(call, " ")
			if verb == "rename" && path != "blobs/oci-layout" && path != "blobs/index.json" {
				first = min(first, i)
			}
			if strings.HasPrefix(path, "uploads/") || verb == "syncfs" || path == "blobs/sha256" || path == "blobs/sha1" {
				count[verb]++
				testkit.Holds(t, i <= first || verb == "rename" || path != "uploads/temp", call, "after the first rename")
			}
		}
		opening := 2 + 2 // the syncs of OpenDir: two files, two directories
		want := 2*n + 2  // each file; two directories
		if n > fewFiles/2 && syncFS {
			want = 2
		}
		if syncs := count["sync"] - opening; syncs != want || count["syncfs"] != map[bool]int{true: 1}[want == 2] {
			t.Errorf("%d syncs and %d syncfs, want %d syncs; calls %v", syncs, count["syncfs"], want, count)
		}
		testkit.Failed(t, b.Commit(t.Context()), errBatchEnded)
		testkit.Fails(b.Add(t.Context(), strings.NewReader("late"), Ref{}))(t, errBatchEnded)
		mustBeTidy(t, s)
	})
}

// TestBatchFailedCalls makes each call of a batch fail. A failed batch leaves no blob, and earlier blobs stay.
func TestBatchFailedCalls(t *testing.T) {
	testkit.OneByOne(t)
	ways(t, func(t *testing.T, syncFS bool, n int) {
		all := contents("failing", n)
		for failAt := 1; ; failAt++ {
			rec := &recorder{}
			s := newStore(t, Options{Hooks: rec.hooks()})
			s.trustsSyncFS = syncFS
			mustPut(t, s, all[0])
			mustPut(t, s, all[6])
			rec.calls, rec.failAt = nil, failAt
			b := mustBegin(t, s)
			var err error
			for _, content := range all {
				if _, err = b.Add(t.Context(), strings.NewReader(content), Ref{}); err != nil {
					break
				}
			}
			if err == nil {
				err = b.Commit(t.Context())
			} else {
				err = errors.Join(err, b.Discard())
			}
			if len(rec.calls) < failAt {
				testkit.NoError(t, err)
				testkit.Holds(t, failAt >= 2*n, "a batch of", len(rec.calls), "calls")
				break
			}
			if !errors.Is(err, errInjected) {
				t.Errorf("%s fails: %v", rec.calls[failAt-1], err)
			}
			mustBeTidy(t, s)
			for i, content := range all {
				if there, err := has(t, s, addressOf(content)); there != (i == 0 || i == 6) || err != nil {
					t.Errorf("%s fails: blob %d is there: %v, %v", rec.calls[failAt-1], i, there, err)
				}
			}
			mustRead(t, s, all[0])
			mustRead(t, s, all[6])
			testkit.Holds(t, s.hidden() == 0 && len(s.busy) == 0, s.hidden(), "are unsynced", len(s.busy), "are owned")
			if t.Failed() {
				return
			}
			if failAt%16 == 0 {
				mustCommit(t, s, all...)
				mustRead(t, s, all[n-1])
			}
			testkit.NoError(t, s.Close())
		}
	})
}

// TestBatchOfKnownBlobs: an intact blob is renewed and not written again. A damaged or missing SHA-1 entry, and a
// damaged blob, are repaired.
func TestBatchOfKnownBlobs(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	damaged := random(1, 5000)
	info := mustPut(t, s, wilson)
	mustPut(t, s, damaged)
	noSHA1 := mustPut(t, s, "without a SHA-1")
	testkit.NoError(t, errors.Join(os.Remove(s.sha1Path(noSHA1.SHA1)), os.WriteFile(s.path(addressOf(damaged)), make([]byte, 5000), 0o600)))
	before := testkit.Must(os.Stat(s.path(info.Address)))(t)
	c.at = c.at.Add(defaultGrace)
	s.o.QuotaBytes = s.Used() // nothing is added
	mustCommit(t, s, wilson, damaged, "without a SHA-1")
	mustRead(t, s, wilson)
	mustRead(t, s, damaged)
	testkit.Equal(t, mustResolve(t, s, "without a SHA-1"), noSHA1.Address, "the SHA-1 leads elsewhere")
	after, err := os.Stat(s.path(info.Address))
	testkit.Holds(t, err == nil && os.SameFile(before, after) && after.ModTime().Equal(c.at),
		"the same file", os.SameFile(before, after), "it is of", after.ModTime(), "not", c.at, err)
	mustAddUp(t, s)

	// A blob that is deleted between Add and Commit fails the whole batch.
	s.o.QuotaBytes += 3
	b := mustBegin(t, s)
	mustAdd(t, b, "new")
	mustAdd(t, b, wilson)
	testkit.NoError(t, s.Delete(t.Context(), "", info.Address))
	testkit.Failed(t, b.Commit(t.Context()), ErrNotFound)
	there, err := has(t, s, addressOf("new"))
	testkit.Holds(t, !there && err == nil, "a part of the batch is there", err)
	mustBeTidy(t, s)
}

// TestBatchRefusals: a refused blob does not end the batch.
func TestBatchRefusals(t *testing.T) {
	free := uint64(1 << 40)
	s := newStore(t, Options{MaxBytes: 2 * bufferBytes, QuotaBytes: 4 * bufferBytes, Hooks: Hooks{Free: func(string) (uint64, uint64, error) { return free, 1 << 40, nil }}})
	s.maxBatch = 3
	b := mustBegin(t, s)
	mustAdd(t, b, wilson)
	large := strings.Repeat("x", 2*bufferBytes)
	other := addressOf("other")
	for _, refused := range []struct {
		name, content string
		want          Ref
		err           error
	}{
		{"too large", large + "x", Ref{}, ErrTooLarge},
		{"another digest", "not it", Ref{SHA256: &other}, ErrDigest},
		{"another digest of a large one", large, Ref{SHA256: &other}, ErrDigest},
	} {
		_, err := b.Add(t.Context(), strings.NewReader(refused.content), refused.want)
		testkit.Holds(t, errors.Is(err, refused.err), refused.name, err)
	}
	testkit.Fails(b.Add(canceled(), strings.NewReader("canceled"), Ref{}))(t, context.Canceled)
	testkit.Fails(b.Add(t.Context(), readerFunc(func([]byte) (int, error) { return 0, errInjected }), Ref{}))(t, errInjected)
	s.o.MaxBytes = 10
	testkit.Fails(b.Add(t.Context(), strings.NewReader("eleven byte"), Ref{}))(t, ErrTooLarge)
	s.o.MaxBytes = 2 * bufferBytes
	free = 0
	testkit.Fails(b.Add(t.Context(), strings.NewReader("no space"), Ref{}))(t, ErrNoSpace)
	free = 1 << 40
	mustAdd(t, b, large)
	testkit.Fails(b.Add(t.Context(), strings.NewReader(strings.Repeat("y", 2*bufferBytes)), Ref{}))(t, ErrQuota)
	testkit.Equal(t, s.Used(), int64(len(wilson)+len(large)), "bytes are used")
	mustAdd(t, b, "third")
	testkit.Fails(b.Add(t.Context(), strings.NewReader("fourth"), Ref{}))(t, ErrBatchFull)
	mustAdd(t, b, wilson) // the batch has this blob
	testkit.NoError(t, b.Commit(t.Context()))
	for _, content := range []string{wilson, large, "third"} {
		mustRead(t, s, content)
	}
	mustBeTidy(t, s)

	testkit.Fails(s.NewBatch(canceled(), ""))(t, context.Canceled)
	for _, end := range []func(*Batch) error{(*Batch).Discard, func(b *Batch) error {
		testkit.Failed(t, b.Commit(canceled()), context.Canceled)
		return b.Discard()
	}} {
		b := mustBegin(t, s)
		mustAdd(t, b, "gone")
		testkit.Check(t, end(b))
		there, err := has(t, s, addressOf("gone"))
		testkit.Holds(t, !there && err == nil, "a discarded blob is there", err)
		mustBeTidy(t, s)
	}
}

// TestSlowBatch: the age of each blob counts from Commit.
func TestSlowBatch(t *testing.T) {
	ways(t, func(t *testing.T, syncFS bool, n int) {
		c := &clock{time.Unix(1_700_000_000, 0)}
		s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
		s.trustsSyncFS = syncFS
		all := contents("slow", n)
		mustPut(t, s, all[0])
		b := mustBegin(t, s)
		for _, content := range all {
			mustAdd(t, b, content)
		}
		c.at = c.at.Add(2 * defaultGrace)
		testkit.NoError(t, b.Commit(t.Context()))
		swept, err := s.Sweep(t.Context(), "", nobody)
		testkit.Holds(t, swept.Blobs == 0 && err == nil, "swept", swept, err)
	})
}

// TestBatchesAtOnce: batches and Puts of the same blobs run concurrently, with several Adds at a time. Nothing blocks,
// and a failing batch removes no blob that a Put has acknowledged.
func TestBatchesAtOnce(t *testing.T) {
	for _, syncFS := range []bool{true, false} {
		s := newStore(t, Options{})
		s.trustsSyncFS = syncFS
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var mu sync.Mutex // guards failing and durable
		rng := rand.New(rand.NewPCG(seed, 0))
		s.h.Rename = func(from, to string) error {
			mu.Lock()
			fails := rng.IntN(100) == 0
			mu.Unlock()
			if fails {
				return errInjected
			}
			return os.Rename(from, to)
		}
		durable := map[string]bool{}
		var all sync.WaitGroup
		for g := range 4 {
			rng := rand.New(rand.NewPCG(seed, 1+uint64(g)))
			all.Go(func() {
				for range 10 {
					var some []string
					for range 1 + rng.IntN(30) {
						some = append(some, fmt.Sprint("at once ", rng.IntN(60)))
					}
					var err error
					if rng.IntN(3) == 0 {
						some = some[:1]
						_, err = put(s, some[0])
					} else {
						b := mustBegin(t, s)
						var adds sync.WaitGroup
						for part := range slices.Chunk(some, 10) {
							adds.Go(func() {
								for _, content := range part {
									mustAdd(t, b, content)
								}
							})
						}
						adds.Wait()
						err = b.Commit(t.Context())
					}
					testkit.Holds(t, err == nil || errors.Is(err, errInjected), err)
					mu.Lock()
					for _, content := range some {
						durable[content] = durable[content] || err == nil
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for content, is := range durable {
			if is {
				mustRead(t, s, content)
				mustResolve(t, s, content)
			}
		}
		mustBeTidy(t, s)
	}
}

// TestBatchPowerCuts cuts the power during batches. Each acknowledged batch is whole, and so is each stored blob.
func TestBatchPowerCuts(t *testing.T) {
	disk, mount := mountDisk(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(mount, "blobs")
	durable, attempted := map[string]bool{}, map[string]bool{}
	rounds, batches := 12, 0
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		moment := disk.CutAt(powerfs.Moment(rng.IntN(3)), 1+rng.IntN(160), rng.Uint64())
		var hooks Hooks
		if round%2 == 0 { // the kernel does not pass syncfs on to this file system
			hooks.SyncFS = func(f *os.File) error { return syncAll(f.Name()) }
		}
		s, err := OpenDir(t.Context(), dir, Options{Hooks: hooks})
		for i := 0; err == nil && i < 4; i++ {
			var b *Batch
			if b, err = s.NewBatch(t.Context(), ""); err != nil {
				break
			}
			var some []string
			for range 1 + rng.IntN(2*manyFiles) {
				content := strings.Repeat(fmt.Sprint("cut ", rng.IntN(200), " "), 1+rng.IntN(2)*200)
				some = append(some, content)
				attempted[content] = true
				if _, err = b.Add(t.Context(), strings.NewReader(content), Ref{}); err != nil {
					break
				}
			}
			if err == nil {
				err = b.Commit(t.Context())
			}
			if err == nil {
				batches++
				for _, content := range some {
					durable[content] = true
				}
			}
			b.Discard() // fails without power
		}
		s = afterCut(t, disk, moment, rng.Uint64(), s, dir)
		mustHaveDurable(t, s, attempted, durable)
		err = s.Close()
		testkit.MustHold(t, err == nil && !t.Failed(), err)
		disk.Cut(rng.Uint64())
		disk.PowerOn()
	}
	few := testing.Short() // so few rounds may lose names only
	if lost := disk.Unsynced(); lost.Files == 0 && !few || lost.Names == 0 || batches == 0 {
		t.Errorf("the cuts have lost %+v, and %d batches were acknowledged", lost, batches)
	}
}

// syncAll syncs each file of a directory.
func syncAll(dir string) error {
	return names(dir, func(name string) error {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// TestFailedSyncFS: the error of a syncfs fails the commit.
func TestFailedSyncFS(t *testing.T) {
	s := newStore(t, Options{Hooks: Hooks{SyncFS: func(*os.File) error { return unix.EIO }}})
	b := mustBegin(t, s)
	for _, content := range contents("failed", manyFiles) {
		mustAdd(t, b, content)
	}
	testkit.Failed(t, b.Commit(t.Context()), unix.EIO)
	mustBeEmpty(t, s.uploadsDir())
	mustBeEmpty(t, s.blobs())
	mustAddUp(t, s)
}
