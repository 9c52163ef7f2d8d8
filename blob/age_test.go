package blob

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

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
		if err := ask(); err != nil || len(rec.calls) != 0 {
			t.Errorf("young blobs: %v, %v", rec.calls, err)
		}
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
		if swept, err := s.Sweep(t.Context(), "", nobody); swept.Blobs != 0 || err != nil {
			t.Errorf("swept %+v, %v", swept, err)
		}
		opened, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, fd := range opened {
			if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(to, s.blobs()) {
				t.Errorf("%s is still open", to)
			}
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
	if err := s.Delete(t.Context(), "", addressOf(wilson)); err != nil || len(s.unsyncedAge) != 0 {
		t.Errorf("%v; %d are not durable", err, len(s.unsyncedAge))
	}
}
