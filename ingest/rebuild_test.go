package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// work uses the engine from several producers and runners in parallel, with commands of all kinds.
func work(t *testing.T, e *Engine, seed uint64, rounds int) {
	ctx := t.Context()
	var group sync.WaitGroup
	for producer := range 3 {
		random := rand.New(rand.NewPCG(seed, uint64(producer)))
		group.Go(func() {
			for range rounds {
				c := lines(1 + random.IntN(300))
				g := &c.Groups[0]
				g.Client, g.Type = fmt.Sprintf("c%d", random.IntN(3)), fmt.Sprintf("t%d", random.IntN(2))
				g.Priority, g.RetentionMs = random.IntN(3), int64(random.IntN(2))*1_000_000
				if random.IntN(5) == 0 {
					g.RunAt = e.Now() + random.Int64N(50)
				}
				_, _, err := e.Create(ctx, c)
				testkit.Check(t, err)
			}
		})
	}
	for runner := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(100+runner)))
		group.Go(func() {
			for range rounds * 2 {
				c := claimOf(1 + random.IntN(100))
				c.Runner = fmt.Sprintf("r%d", runner)
				claimed, jobs, _, err := e.Claim(ctx, c, 0)
				testkit.Check(t, err)
				if len(jobs) == 0 {
					continue
				}
				_, _, err = e.Tickle(ctx, job.Tickle{IDs: []job.ID{jobs[0].ID}, Step: "half", Progress: 500_000})
				testkit.Check(t, err)
				end := job.Complete{Claim: claimed.Claim}
				if random.IntN(4) > 0 {
					end.All = &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}
				}
				for _, doc := range jobs {
					if random.IntN(10) > 0 {
						continue
					}
					o := job.Outcome{ID: doc.ID, Code: job.Code(1 + random.IntN(5)), DelayMs: -1}
					o.ExitCode = o.Code.DefaultExitCode()
					if o.Code == job.Fail {
						o.Error = "a reason"
					}
					end.Outcomes = append(end.Outcomes, o)
				}
				if end.All == nil && len(end.Outcomes) == 0 {
					continue
				}
				_, _, err = e.Complete(ctx, end)
				testkit.Check(t, err)
			}
		})
	}
	group.Wait()
	testkit.Must2(e.Pause(ctx, job.Pause{Client: "c1", Type: "t1", Paused: true}))(t)
}

func digest(t *testing.T, s *store.Store) string {
	t.Helper()
	sum, rows := testkit.Must2(s.Digest())(t)
	return fmt.Sprintf("%x %v", sum, rows)
}

// TestLiveRestartRebuild: the state of a running engine, the state after a restart with a replay, and the state after a
// rebuild from the beginning of the journal have equal keys and values.
func TestLiveRestartRebuild(t *testing.T) {
	dir := t.TempDir()
	e := testkit.Must(Open(Options{Dir: dir}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	for e.Ready() != nil {
	}
	work(t, e, 1, 60)

	// The test stops the engine, so that it can read the state between the last command and the end.
	e.refuse(ErrClosed)
	testkit.NoError(t, e.log.Close())
	for e.store.Applied() < e.log.Status().Synced {
	}
	live := digest(t, e.store)
	cancel()
	testkit.NoError(t, <-ended)

	restarted := testkit.Must(Open(Options{Dir: dir}))(t)
	testkit.NoError(t, restarted.replay(t.Context()))
	testkit.Equal(t, digest(t, restarted.store), live, "after a restart")
	testkit.NoError(t, restarted.close())

	done := testkit.Must(Rebuild(t.Context(), dir, "", func(uint64, uint64) {}))(t)
	rebuilt := testkit.Must(store.Open(StoreDir(dir), store.Options{ReadOnly: true}))(t)
	defer func() { testkit.Check(t, rebuilt.Close()) }()
	testkit.Equal(t, digest(t, rebuilt), live, "rebuilt")
	testkit.Holds(t, filepath.Dir(done.Kept) == dir && done.Commands != 0 &&
		done.Cursor == rebuilt.Applied(), "rebuilt", done, "cursor", rebuilt.Applied())
}

// TestRebuildKeepsEveryOldStore: a second rebuild with the same cursor as the first keeps the old store under another
// name.
func TestRebuildKeepsEveryOldStore(t *testing.T) {
	dir := t.TempDir()
	e, stop := start(t, dir)
	testkit.Must2(e.Create(t.Context(), lines(3)))(t)
	stop()
	kept := map[string]bool{}
	for range 3 {
		done := testkit.Must(Rebuild(t.Context(), dir, "", func(uint64, uint64) {}))(t)
		kept[done.Kept] = true
	}
	for path := range kept {
		testkit.Must(os.Stat(path))(t)
	}
	testkit.Equal(t, len(kept), 3, "three rebuilds kept")
}

// TestKilledRebuildIsFinished: if a process is killed while it replaces a store, at any step, the next start completes
// the step. It replays nothing that the new store has, and no store is lost.
func TestKilledRebuildIsFinished(t *testing.T) {
	for _, hasOld := range []bool{true, false} {
		for done := range len(renames("", "kept")) {
			dir := t.TempDir()
			e, stop := start(t, dir)
			_, receipt := testkit.Must2(e.Create(t.Context(), lines(3)))(t)
			stop()
			if !hasOld {
				testkit.NoError(t, os.RemoveAll(StoreDir(dir)))
			}
			rebuilt := testkit.Must(Rebuild(t.Context(), dir, "", func(uint64, uint64) {}))(t)
			testkit.MustEqual(t, rebuilt.Kept != "", hasOld, rebuilt)
			steps := renames(dir, rebuilt.Kept)
			if done > len(steps) {
				continue
			}
			for i := len(steps) - 1; i >= done; i-- { // back to the state in which the process was killed
				testkit.NoError(t, os.Rename(steps[i].to, steps[i].from))
			}
			what := fmt.Sprintf("killed after %d of %d renames", done, len(steps))
			e, stop = start(t, dir)
			testkit.Equal(t, string(testkit.Must(current(t, e).Job(job.NewID(receipt.At, receipt.Seq, 2)))(t).Payload), "line 2", what)
			n := e.Stats().Replayed
			testkit.Holds(t, n == 0 || !hasOld && done == 0, what, "the start replayed", n, "commands")
			stop()
			_, err := os.Stat(StoreDir(dir) + finishedSuffix)
			testkit.Holds(t, os.IsNotExist(err), what, "the finished store is still beside it", err)
			testkit.Holds(t, done < 2 || !hasOld || isStore(rebuilt.Kept), what, "the old store is gone")
			_, err = Rebuild(t.Context(), dir, "", func(uint64, uint64) {})
			testkit.Check(t, err, what, "another rebuild")
		}
	}
}

// TestBaseIsCopiedDurably: after a base was copied, every file and every directory of the copy was synced when complete.
func TestBaseIsCopiedDurably(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "store")
	files := map[string]string{"000004.sst": "a table", "MANIFEST-000001": "a manifest", "deep/er/000005.sst": "another"}
	for name, text := range files {
		testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755), os.WriteFile(filepath.Join(from, name), []byte(text), 0o644)))
	}
	synced := map[string]string{}
	note := func(path string) error {
		rel, err := filepath.Rel(to, path)
		if err != nil {
			return err
		}
		if entries, err := os.ReadDir(path); err == nil {
			synced[rel] = fmt.Sprint(len(entries), " names")
			return nil
		}
		text, err := os.ReadFile(path)
		synced[rel] = string(text)
		return err
	}
	testkit.NoError(t, copyDurably(to, from, note))
	want := map[string]string{".": "3 names", "deep": "1 names", "deep/er": "1 names"}
	maps.Copy(want, files)
	testkit.Holds(t, maps.Equal(synced, want), "synced", synced, "want", want)
	failing := errors.New("the disk is gone")
	testkit.Failed(t, copyDurably(filepath.Join(t.TempDir(), "store"), from, func(string) error { return failing }), failing)
}
