package ingest

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// TestOlderStore: a store whose manifest has lost its end has an older state. If the journal has all later commands, a
// start applies them. Otherwise the start is refused and deletes no table, so that an operator can restore the manifest.
func TestOlderStore(t *testing.T) {
	for _, cut := range []bool{false, true} {
		name := "a journal from the beginning"
		if cut {
			name = "a journal that was cut"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			small := Options{Dir: dir, JournalRetain: 1 << 30, Journal: journal.Options{SegmentBytes: 4 << 10, VolumeBytes: 16 << 10}}
			e, stop := startWith(t, small)
			for range 20 {
				_, last := testkit.Must2(e.Create(t.Context(), lines(100)))(t)
				testkit.NoError(t, e.CatchUp(t.Context(), last.Seq))
			}
			testkit.NoError(t, e.store.FlushWait())
			if cut {
				e.cut(0)
			}
			killed := t.TempDir()
			testkit.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
			stop()
			dir, small.Dir = killed, killed
			manifests := testkit.Must(filepath.Glob(filepath.Join(StoreDir(dir), "MANIFEST-*")))(t)
			testkit.MustEqual(t, len(manifests), 1)
			whole := testkit.Must(os.ReadFile(manifests[0]))(t)
			// The first record of the manifest, which makes an empty store, ends at offset 39. The test flips a bit of
			// the second record.
			damaged := bytes.Clone(whole)
			damaged[50] ^= 1
			testkit.NoError(t, os.WriteFile(manifests[0], damaged, 0o600))
			p := testkit.Must(store.Peek(StoreDir(dir), store.Options{}))(t)
			testkit.MustHold(t, p.Applied == 0 && p.Torn != "", "the store is not an older one", p)
			var log bytes.Buffer
			again := small
			again.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if cut {
				for range 2 {
					testkit.Fails(Open(again))(t, journal.ErrCursor, manifests[0]+", cannot be read from offset 39")
				}
				testkit.NoError(t, os.WriteFile(manifests[0], whole, 0o600))
			}
			e, stop = startWith(t, again)
			totals := e.store.Totals()
			testkit.Equal(t, totals.Counts.Total(), 2000, "jobs")
			stop()
			if said := strings.Contains(log.String(), "manifest is missing"); said == cut {
				t.Errorf("it said %s", log.String())
			}
		})
	}
}
