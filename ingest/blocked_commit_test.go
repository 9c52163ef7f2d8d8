package ingest

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// TestBlockedCommit: on a full disk Pebble returns no error. It keeps trying to write its tables, and when its memtables
// are full a commit waits. The engine then refuses requests with the reason, and serves them again when the disk has
// space. No acknowledged job is lost.
func TestBlockedCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as a commit may until it counts as blocked; Pebble holds a lock meanwhile, so the time cannot be virtual")
	}
	ctx := t.Context()
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") && op.Kind != errorfs.OpRemove {
			return syscall.ENOSPC
		}
		return nil
	}))
	e, stop := startWith(t, Options{Dir: t.TempDir(), Store: store.Options{FS: fs, MemtableBytes: 256 << 10}})
	defer stop()
	var acknowledged []job.ID
	create := func() error {
		_, receipt, err := e.Create(ctx, lines(5000))
		if err == nil {
			acknowledged = append(acknowledged, job.NewID(receipt.At, receipt.Seq, 4999))
		}
		return err
	}
	testkit.NoError(t, create())
	full.Store(true)
	testkit.Eventually(t, "a commit is blocked", func() bool {
		if err := create(); err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrOverloaded) {
			t.Fatalf("create while the commit is about to block: %v", err)
		}
		return e.accepting() != nil
	})
	testkit.Failed(t, e.Ready(), ErrStale, "disk full")
	testkit.Failed(t, create(), ErrStale)
	_, _, _, err := e.Claim(ctx, claimOf(1), 0)
	testkit.Holds(t, errors.Is(err, ErrStale), "claim while a commit is blocked", err)
	full.Store(false)
	testkit.Eventually(t, "it is ready, as there is space again", func() bool { return e.Ready() == nil })
	testkit.Check(t, create(), "create with space")
	_, jobs := mustClaim(t, e, claimOf(1))
	testkit.Equal(t, len(jobs), 1, "claim with space")
	for _, id := range acknowledged {
		doc := testkit.Must(current(t, e).Job(id))(t)
		testkit.Equal(t, string(doc.Payload), "line 4999", "job", id, "of", len(acknowledged), "acknowledged creates")
	}
	t.Logf("%d creates were acknowledged", len(acknowledged))
}
