package blob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
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
		if infos, err := s.List(t.Context(), "", nil, 1); len(infos) != 0 || err != nil {
			t.Errorf("List has %v, %v", infos, err)
		}
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
	if !slices.Equal(rec.calls, want) {
		t.Errorf("the first Put calls\n%s\nwant\n%s", strings.Join(rec.calls, "\n"), strings.Join(want, "\n"))
	}
	s.h.Sync = func(f *os.File) error { ask(true); return realSync(f) } // a repeated Put hides nothing
	rec.calls = nil
	mustPut(t, s, wilson)
	want = []string{"write uploads/temp", "sync uploads/temp", "sync blobs/sha1", "rename sha256/" + hex, "sync blobs/sha256"}
	if !slices.Equal(rec.calls, want) {
		t.Errorf("the second Put calls\n%s\nwant\n%s", strings.Join(rec.calls, "\n"), strings.Join(want, "\n"))
	}

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
			if there, err := has(t, s, a); there != before || err != nil {
				t.Errorf("%s: Has is %v, %v", name, there, err)
			}
			if before {
				mustRead(t, s, wilson)
			}
			mustBeEmpty(t, s.uploadsDir())
			mustAddUp(t, s)
			if _, err := s.Put(context.Background(), "", strings.NewReader(wilson), Ref{SHA256: &a}); err != nil {
				t.Errorf("%s: the next Put: %v", name, err)
			}
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
		if missing, err := s.Missing(t.Context(), "", []Address{addressOf(wilson)}); len(missing) != 1 || err != nil {
			t.Errorf("missing are %v, %v", missing, err)
		}
		testkit.Fails(s.Get(context.Background(), "", addressOf(wilson)))(t, ErrNotFound)
		mustAddUp(t, s)
	}
	s.h.Sync = (*os.File).Sync
	testkit.Holds(t, !mustPut(t, s, wilson).Existed, "it existed")
	mustRead(t, s, wilson)
	mustAddUp(t, s)
}
