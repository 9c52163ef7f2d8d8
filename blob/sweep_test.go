package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

func nobody(Address) bool { return false }

func TestSweep(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	sweep := func(want int) {
		t.Helper()
		got := testkit.Must(s.Sweep(context.Background(), "", func(a Address) bool { return a == addressOf("live") }))(t)
		testkit.Holds(t, got.Blobs == want && got.SHA1s == want, "swept", got, "want", want)
		mustAddUp(t, s)
	}
	for _, content := range []string{"live", "dead", "put again", "asked for", "asked for early"} {
		mustPut(t, s, content)
	}
	c.at = c.at.Add(defaultGrace / renewShare)
	early := c.at
	testkit.Must(s.Missing(t.Context(), "", []Address{addressOf("asked for early")}))(t)
	c.at = c.at.Add(defaultGrace - defaultGrace/renewShare)
	sweep(0) // exactly the grace
	mustPut(t, s, "put again")
	missing, err := s.Missing(t.Context(), "", []Address{addressOf("asked for")})
	testkit.Holds(t, len(missing) == 0 && err == nil, missing, err)
	c.at = c.at.Add(1)
	sweep(2) // "dead", and blobs whose Missing was so early that it did not renew them
	mustRead(t, s, "live")
	mustRead(t, s, "put again")
	mustRead(t, s, "asked for")
	testkit.Holds(t, !early.Add(defaultGrace*(renewShare-1)/renewShare).After(c.at), "the sweep was too early for what doc.go promises")
	c.at = c.at.Add(defaultGrace)
	sweep(2)
	mustRead(t, s, "live")
	testkit.Fails(s.Sweep(canceled(), "", nobody))(t, context.Canceled)
	c.at = c.at.Add(-48 * time.Hour) // the clock was set back
	sweep(0)
}

// TestSlowUpload: the age of a blob counts from its acknowledgement and not from the last write of its stream.
func TestSlowUpload(t *testing.T) {
	c := &clock{time.Now()} // as the file system has it
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	sent := false
	testkit.Must(s.Put(context.Background(), "", readerFunc(func(p []byte) (int, error) {
		c.at = c.at.Add(2 * defaultGrace)
		if sent {
			return 0, io.EOF
		}
		sent = true
		return copy(p, wilson), nil
	}), Ref{}))(t)
	swept, err := s.Sweep(context.Background(), "", nobody)
	testkit.Holds(t, swept.Blobs == 0 && err == nil, "swept", swept, err)
	mustRead(t, s, wilson)
}

// TestSweepOwnsTheBlob: a Put or a Missing that begins after a sweep has decided about a blob waits for the removal.
func TestSweepOwnsTheBlob(t *testing.T) {
	for name, produce := range map[string]func(s *Store) error{
		"Put": func(s *Store) error {
			info, err := put(s, wilson)
			testkit.Holds(t, !info.Existed, "it existed")
			return err
		},
		"Missing": func(s *Store) error {
			missing, err := s.Missing(t.Context(), "", []Address{addressOf(wilson)})
			testkit.Equal(t, len(missing), 1, "Missing has reported a blob that was being removed")
			return err
		},
	} {
		c := &clock{time.Unix(1_700_000_000, 0)}
		s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
		mustPut(t, s, wilson)
		c.at = c.at.Add(2 * defaultGrace)
		done := make(chan error, 1)
		swept := testkit.Must(s.Sweep(context.Background(), "", func(Address) bool {
			go func() { done <- produce(s) }()
			select {
			case <-time.After(50 * time.Millisecond): // enough for it to end if it does not wait
			case err := <-done:
				t.Errorf("%s did not wait: %v", name, err)
				done <- err
			}
			return false
		}))(t)
		testkit.Equal(t, swept.Blobs, 1, "swept", swept)
		testkit.Check(t, <-done)
		there, err := has(t, s, addressOf(wilson))
		testkit.Holds(t, there == (name == "Put") && err == nil, "after", name, there, err)
		mustAddUp(t, s)
	}
}

// TestSweepModel runs concurrent producers, a sweeper and a deleter on a few blobs. The grace is nearly nothing, so
// only the order of the calls protects a blob. After each Put a producer names its blob, as a job does, and after each
// Missing it names the stored blobs. A named blob must be stored, with its SHA-1, until it is no longer named.
func TestSweepModel(t *testing.T) {
	testkit.OneByOne(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex // guards the next two
	named := map[Address]int{}
	now := time.Unix(1_700_000_000, 0)
	// Time passes only between the phases: within a phase, blobs that were put in it are young, and all others are old.
	s := newStore(t, Options{Grace: time.Hour, Hooks: Hooks{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }}})
	s.verified.backgroundFrom = 1 // all verifications are in the background
	content := func(i int) string { return fmt.Sprint("content ", i) }
	const contents = fewFiles + 6
	// name names the blobs that way has protected, checks that they are stored, and takes the names away.
	name := func(all []int) {
		mu.Lock()
		for _, i := range all {
			named[addressOf(content(i))]++
		}
		mu.Unlock()
		for _, i := range all {
			mustRead(t, s, content(i))
			x := mustResolve(t, s, content(i))
			testkit.Holds(t, x == addressOf(content(i)), "the SHA-1 of", content(i), "is", x)
		}
		mu.Lock()
		for _, i := range all {
			named[addressOf(content(i))]--
		}
		mu.Unlock()
	}
	swept, renewed := 0, 0
	for phase := range 12 {
		s.trustsSyncFS = phase%2 == 0
		mu.Lock()
		now = now.Add(2 * time.Hour)
		mu.Unlock()
		stop := make(chan struct{})
		var producers, sweeper sync.WaitGroup
		sweeper.Go(func() {
			for done := false; !done; {
				select {
				case <-stop:
					done = true
				default:
				}
				got, err := s.Sweep(context.Background(), "", func(a Address) bool { mu.Lock(); defer mu.Unlock(); return named[a] > 0 })
				testkit.Check(t, err)
				swept += got.Blobs
			}
		})
		for p := range 4 {
			rng := rand.New(rand.NewPCG(seed, uint64(phase*10+p)))
			producers.Go(func() {
				for range 10 {
					i, j := rng.IntN(contents), rng.IntN(contents)
					switch rng.IntN(5) {
					case 0:
						mustPut(t, s, content(i))
						name([]int{i})
					case 1:
						mustCommit(t, s, content(i), content(j))
						name([]int{i, j})
					case 2:
						u := mustNewUpload(t, s, int64(len(content(i))), Ref{})
						mustAppend(t, u, content(i)[:3])
						mustAppend(t, u, content(i)[3:])
						_, err := u.Finish(t.Context())
						testkit.Check(t, err)
						name([]int{i})
						testkit.Check(t, u.Remove(t.Context()))
					default: // of one blob, or of so many that they are not synced individually
						some := []int{i}
						if rng.IntN(2) == 0 {
							some = rng.Perm(contents)
						}
						var asked []Address
						for _, i := range some {
							asked = append(asked, addressOf(content(i)))
						}
						missing, err := s.Missing(t.Context(), "", asked)
						if err != nil {
							t.Error(err)
							return
						}
						some = slices.DeleteFunc(some, func(i int) bool { return slices.Contains(missing, addressOf(content(i))) })
						mu.Lock()
						renewed += len(some)
						mu.Unlock()
						name(some)
					}
				}
			})
		}
		producers.Wait()
		close(stop)
		sweeper.Wait()
		if t.Failed() {
			return
		}
	}
	testkit.Holds(t, swept != 0 && renewed != 0, "the sweeps have removed", swept, "blobs, and Missing has found", renewed)
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	testkit.Must(s.Sweep(context.Background(), "", nobody))(t)
	mustBeEmpty(t, s.blobs())
	mustBeEmpty(t, s.sha1s())
	mustBeEmpty(t, s.uploadsDir())
	testkit.Holds(t, s.Used() == 0 && len(s.busy) == 0 && s.hidden() == 0 &&
		len(s.unsyncedAge) == 0, s.Used(), "bytes are used", len(s.busy), "addresses are owned", s.hidden(), "are unsynced")
}

// TestSweepDuringCommit: a sweep during any step of a Put never removes the blob or its SHA-1.
func TestSweepDuringCommit(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	for range 2 { // the second time, the blob is stored and old
		var sweeps sync.WaitGroup
		s.h.Sync = func(f *os.File) error {
			sweeps.Go(func() { // it waits until the Put is done, if it gets as far as this blob
				swept, err := s.Sweep(context.Background(), "", nobody)
				testkit.Holds(t, err == nil && swept.Blobs+swept.SHA1s == 0, "swept", swept, err)
			})
			return f.Sync()
		}
		mustPut(t, s, wilson)
		s.h.Sync = (*os.File).Sync
		sweeps.Wait()
		mustRead(t, s, wilson)
		mustResolve(t, s, wilson)
		c.at = c.at.Add(2 * defaultGrace)
	}
}

func TestSweepKeepsWhatItCannotRead(t *testing.T) {
	s := newStore(t, Options{})
	info := mustPut(t, s, wilson)
	path := s.sha1Path(info.SHA1)
	testkit.NoError(t, os.WriteFile(path, nil, 0o600))
	swept, err := s.Sweep(context.Background(), "", nobody)
	testkit.Holds(t, swept == (Swept{}) && err == nil, "swept", swept, err)
	testkit.Must(os.Stat(filepath.Clean(path)))(t)
}

// TestManyRenewals: Missing renews many old blobs with one syncfs, or with an fsync of each where syncfs is not
// trusted. If that fails, no later call relies on the new ages.
func TestManyRenewals(t *testing.T) {
	const n = 5 * fewFiles
	for _, trusted := range []bool{false, true} {
		c := &clock{time.Unix(1_700_000_000, 0)}
		rec := &recorder{}
		h := rec.hooks()
		h.Now = c.now
		s := newStore(t, Options{Hooks: h})
		s.trustsSyncFS = trusted
		all := []Address{addressOf("none")}
		for i := range n {
			all = append(all, mustPut(t, s, fmt.Sprint(i)).Address)
		}
		ask := func() error {
			missing, err := s.Missing(t.Context(), "", all)
			testkit.Holds(t, err != nil || slices.Equal(missing, all[:1]), "missing are", missing)
			return err
		}
		count := func() (syncs, whole int) {
			for _, call := range rec.calls {
				if strings.HasPrefix(call, "syncfs ") {
					whole++
				} else if strings.HasPrefix(call, "sync ") {
					syncs++
				}
			}
			return syncs, whole
		}
		rec.calls = nil
		err := ask()
		testkit.Holds(t, err == nil && len(rec.calls) == 0, "young blobs", rec.calls, err)
		c.at = c.at.Add(2 * defaultGrace)
		rec.failAt = 1
		testkit.Failed(t, ask(), errInjected)
		rec.calls, rec.failAt = nil, 0
		testkit.Check(t, ask()) // the ages look young, but are not durable
		if syncs, whole := count(); trusted && (syncs != 0 || whole != 1) || !trusted && (syncs != n || whole != 0) {
			t.Errorf("trusted %v: %d fsyncs and %d syncfs", trusted, syncs, whole)
		}
		rec.calls = nil
		if err := ask(); err != nil || len(rec.calls) != 0 || len(s.unsyncedAge) != 0 {
			t.Errorf("after a renewal: %v, %v, %d are not durable", rec.calls, err, len(s.unsyncedAge))
		}
		swept, err := s.Sweep(t.Context(), "", nobody)
		testkit.Holds(t, swept.Blobs == 0 && err == nil, "swept", swept, err)
		opened, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, fd := range opened {
			to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
			testkit.Holds(t, err != nil || !strings.HasPrefix(to, s.blobs()), to, "is still open")
		}
	}
}

// TestRenewalOfBatch: a renewal by a batch counts for other calls from the commit of the batch.
func TestRenewalOfBatch(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	rec := &recorder{}
	h := rec.hooks()
	h.Now = c.now
	s := newStore(t, Options{Hooks: h})
	mustPut(t, s, wilson)
	synced := func() bool {
		t.Helper()
		rec.calls = nil
		testkit.Equal(t, len(testkit.Must(s.Missing(t.Context(), "", []Address{addressOf(wilson)}))(t)), 0, "missing")
		return len(rec.calls) == 1
	}
	for _, commit := range []bool{false, true} {
		c.at = c.at.Add(2 * defaultGrace)
		b, err := s.NewBatch(t.Context(), "")
		if err == nil {
			_, err = b.Add(t.Context(), strings.NewReader(wilson), Ref{})
		}
		if err == nil && commit {
			err = b.Commit(t.Context())
		}
		testkit.Check(t, errors.Join(err, b.Discard()))
		testkit.Holds(t, synced() != commit, "commit", commit, "Missing calls", rec.calls)
		testkit.Holds(t, !synced(), "it was synced again")
	}
	c.at = c.at.Add(2 * defaultGrace)
	rec.calls, rec.failAt = nil, 1
	testkit.Fails(s.Missing(t.Context(), "", []Address{addressOf(wilson)}))(t, errInjected)
	err := s.Delete(t.Context(), "", addressOf(wilson))
	testkit.Holds(t, err == nil && len(s.unsyncedAge) == 0, err, len(s.unsyncedAge), "are not durable")
}
