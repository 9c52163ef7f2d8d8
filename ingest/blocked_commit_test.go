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
	if err := e.Ready(); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("ready while a commit is blocked: %v", err)
	}
	if err := create(); !errors.Is(err, ErrStale) {
		t.Errorf("create while a commit is blocked: %v", err)
	}
	if _, _, _, err := e.Claim(ctx, claimOf(1), 0); !errors.Is(err, ErrStale) {
		t.Errorf("claim while a commit is blocked: %v", err)
	}
	full.Store(false)
	testkit.Eventually(t, "it is ready, as there is space again", func() bool { return e.Ready() == nil })
	if err := create(); err != nil {
		t.Errorf("create with space: %v", err)
	}
	if _, jobs, _, err := e.Claim(ctx, claimOf(1), 0); err != nil || len(jobs) != 1 {
		t.Errorf("claim with space: %d jobs, %v", len(jobs), err)
	}
	for _, id := range acknowledged {
		if doc, err := current(t, e).Job(id); err != nil || string(doc.Payload) != "line 4999" {
			t.Errorf("job %v of %d acknowledged creates: %q, %v", id, len(acknowledged), doc.Payload, err)
		}
	}
	t.Logf("%d creates were acknowledged", len(acknowledged))
}
