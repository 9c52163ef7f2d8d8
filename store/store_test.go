package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

func TestOpenRemembersItsJournal(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, Options{FS: fs})
	mustStore(t, s, 1, 0, plainCreate("a", "x", 1, 1))
	testkit.NoError(t, s.FlushWait())
	testkit.NoError(t, s.Close())
	testkit.Check(t, s.Close(), "a second close")
	testkit.Fails(Open("store", Options{FS: fs, Journal: "another"}))(t, row.ErrForeignJournal) // with another journal
	s = testkit.Must(Open("store", Options{FS: fs}))(t)
	testkit.Holds(t, s.Journal() == testJournal && s.Applied() == 1 &&
		s.At() == startAt, "journal", s.Journal(), "applied", s.Applied(), "at", s.At())
	testkit.Failed(t, s.Adopt("another"), row.ErrForeignJournal) // adopt another journal
	testkit.NoError(t, s.Close())
}

func TestAdoptSeedsTheJitter(t *testing.T) {
	s := testkit.Must(Open("store", Options{FS: vfs.NewMem()}))(t)
	testkit.NoError(t, s.Adopt(testJournal))
	other := mustOpen(t, Options{})
	testkit.Holds(t, s.machine.Seed == other.machine.Seed && s.Journal() == other.Journal(), "seed", s.machine.Seed, "and", other.machine.Seed)
	testkit.NoError(t, s.Close())
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	for name, m := range map[string]row.Meta{
		"format": {Version: row.FormatVersion + 1, Journal: testJournal, NextQueue: 1},
		"level":  {Version: row.FormatVersion, Level: job.Level + 1, Journal: testJournal, NextQueue: 1},
	} {
		fs := vfs.NewMem()
		s := mustOpen(t, Options{FS: fs})
		testkit.NoError(t, errors.Join(s.db.Pebble().Set([]byte(row.MetaKey), m.Encode(), pebble.NoSync), s.FlushWait(), s.Close()))
		_, err := Open("store", Options{FS: fs})
		testkit.Holds(t, errors.Is(err, row.ErrNewerFormat), "newer", name, err)
	}
}

func TestReadOnlyAndCheckpoint(t *testing.T) {
	fs := vfs.NewMem()
	testkit.Fails(Open("store", Options{FS: fs, ReadOnly: true}))(t)
	s := mustOpen(t, Options{FS: fs})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 10, 5))
	mustStore(t, s, 2, 1, plainClaim("r", 3))
	testkit.NoError(t, s.Checkpoint("base", time.Minute))
	base := testkit.Must(Open("base", Options{FS: fs, ReadOnly: true}))(t)
	testkit.Check(t, sameStores(s, base))
	sound(t, base)
	testkit.Equal(t, testkit.Must(base.Durable())(t), 2)
	testkit.Holds(t, base.DiskBytes() != 0, "a base without a size")
	testkit.Check(t, base.Close())
	mustStore(t, s, 3, 2, plainClaim("r", 1))
	testkit.Failed(t, sameStores(s, mustOpen(t, Options{})))
}

func TestFlushTells(t *testing.T) {
	flushed := make(chan struct{}, 16)
	s := mustOpen(t, Options{Flushed: func() { flushed <- struct{}{} }})
	mustStore(t, s, 7, 0, plainCreate("a", "x", 1, 1))
	testkit.Equal(t, testkit.Must(s.Durable())(t), 0)
	testkit.NoError(t, s.Flush())
	<-flushed
	testkit.Equal(t, testkit.Must(s.Durable())(t), 7)
}

// TestApplyAgain applies commands that a store has already applied: nothing changes.
func TestApplyAgain(t *testing.T) {
	s := mustOpen(t, Options{})
	create := plainCreate("a", "x", 3, 5)
	mustStore(t, s, 5, 0, create)
	before, _ := testkit.Must2(s.Digest())(t)
	for _, seq := range []uint64{1, 4, 5} {
		result := mustApply(t, s, seq, 100, plainClaim("r", 3))
		testkit.Holds(t, result == nil, "command", seq, "again", result)
	}
	mustCommit(t, s)
	after, _ := testkit.Must2(s.Digest())(t)
	testkit.Equal(t, after, before, "the digest")
	testkit.Equal(t, s.machine.O.Bytes(), 0)
}

// TestTimeNeverGoesBack applies a command with an earlier time than the command before it.
func TestTimeNeverGoesBack(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 1000, plainCreate("a", "x", 1, 1))
	mustStore(t, s, 2, 10, plainClaim("r", 1))
	doc := testkit.Must(s.Job(jobID(1000, 1, 0)))(t)
	testkit.Holds(t, doc.UpdatedAt == startAt+1000 && doc.Claim == jobID(1000, 2, 0), doc)
}

func TestQueueExists(t *testing.T) {
	s := mustOpen(t, Options{})
	of := memory.QueueBytes("a", "x", 0)
	check := func(client, typ string, exists bool, priorities row.Priorities, use document.QueueUse) {
		t.Helper()
		if got, gotPriorities, gotUse := s.QueueExists(client, typ); got != exists || gotPriorities != priorities || gotUse != use {
			t.Errorf("%v, %b, %+v; want %v, %b, %+v", got, gotPriorities, gotUse, exists, priorities, use)
		}
	}
	check("a", "x", false, 0, document.QueueUse{})
	create := plainCreate("a", "x", 1, 1)
	create.Groups[0].Priority = 4
	mustApply(t, s, 1, 0, create)
	check("a", "x", true, 1<<4, document.QueueUse{1, 1, of})
	check("x", "a", false, 0, document.QueueUse{1, 1, of})
	create.Groups[0].Priority, create.Groups[0].RunAt = 6, startAt+1000
	mustApply(t, s, 2, 0, create)
	check("a", "x", true, 1<<4|1<<6, document.QueueUse{1, 1, of + 2*memory.LaneBytes})
	priority := 7
	mustApply(t, s, 3, 0, job.Patch{Job: jobID(0, 2, 0), Priority: &priority})
	check("a", "x", true, 1<<4|1<<6|1<<7, document.QueueUse{1, 1, of + 4*memory.LaneBytes})
	mustApply(t, s, 4, 0, job.Move{Op: job.Delete, Job: jobID(0, 1, 0)})
	mustApply(t, s, 5, 0, job.Move{Op: job.Delete, Job: jobID(0, 2, 0)})
	check("a", "x", true, 0, document.QueueUse{1, 1, of})
	mustApply(t, s, 6, 0, job.DeleteQueue{Client: "a", Type: "x"})
	check("a", "x", false, 0, document.QueueUse{0, 1, 0})
}

// TestEffectsAreBounded: effects rows are kept for their time, unless the segments exceed their total size.
func TestEffectsAreBounded(t *testing.T) {
	b, r := memory.SmallBounds, *memory.SmallBounds.Rules
	r.EffectBytes = 100
	b.Rules = &r
	left := func(s *Store) (seqs []uint64) {
		t.Helper()
		mustCommit(t, s)
		bytes := int64(0)
		for _, entry := range dump(s) {
			switch entry.key[0] {
			case row.EffectIndexTable:
				bytes += row.EffectIndexKeyBytes
			case row.EffectTable:
				row.EachEffects(row.SeqOfKey(entry.key), entry.value, func(c *row.Cause, _ []row.Effect) { seqs = append(seqs, c.Seq) })
				bytes += int64(len(entry.key) + len(entry.value))
			}
		}
		testkit.Holds(t, bytes <= machine.EffectSegments*s.machine.Rules.EffectBytes, bytes, "bytes of effects are kept")
		return seqs
	}
	t.Run("by bytes", func(t *testing.T) {
		s := mustOpen(t, Options{bounds: &b})
		for seq := uint64(1); seq <= 100; seq++ {
			mustApply(t, s, seq, 0, plainCreate("a", "x", 1, 1))
			seqs := left(s)
			testkit.MustHold(t, seqs[len(seqs)-1] == seq && (seq >= 10 || seqs[0] == 1), "after", seq, "effects of", seqs, "are left")
		}
		seqs := left(s)
		testkit.Holds(t, len(seqs) >= 12 && int(seqs[0]) == 101-len(seqs), "effects of", seqs, "are left")
	})
	t.Run("with their lists", func(t *testing.T) {
		s := mustOpen(t, Options{bounds: &b})
		mustApply(t, s, 1, 0, plainCreate("a", "x", 100, 1))
		for seq := uint64(2); seq <= 100; seq++ {
			mustApply(t, s, seq, 0, plainClaim("r", 1))
			seqs := left(s)
			h := historyOf(s)
			testkit.Holds(t, seqs[len(seqs)-1] == seq && len(h.byIndex(1)) == len(seqs), "after", seq, "effects of", seqs, "are left, and listed of", h.byIndex(1))
		}
		seqs := left(s)
		testkit.Holds(t, len(seqs) >= 8 && len(seqs) < 24, "effects of", seqs, "are left")
	})
	t.Run("by time", func(t *testing.T) {
		s := mustOpen(t, Options{})
		for day := int64(1); day <= 60; day++ {
			mustApply(t, s, uint64(day), day*24*row.HourMs, plainCreate("a", "x", 1, 1))
			n := len(left(s))
			testkit.MustHold(t, day < 14 || n >= 14 && n <= 22, "after", day, "days the effects of", n, "are left")
		}
	})
}

// TestFailedReadBreaksTheStore makes the files unreadable. Apply returns an error. Afterwards neither Apply nor Commit
// continues, because the overlay may hold half a command.
func TestFailedReadBreaksTheStore(t *testing.T) {
	toggle := &errorfs.Toggle{Injector: errorfs.ErrInjected.If(errorfs.Reads)}
	mem := vfs.NewMem()
	s, err := Open("store", Options{Journal: testJournal, FS: errorfs.Wrap(mem, toggle), CacheBytes: 1})
	testkit.NoError(t, err)
	for seq := range uint64(50) {
		mustApply(t, s, seq+1, 0, plainCreate("a", "x", 100, 100))
	}
	mustCommit(t, s)
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	s = testkit.Must(Open("store", Options{FS: errorfs.Wrap(mem, toggle), CacheBytes: 1}))(t)
	toggle.On()
	var broken *row.Error
	_, err = s.Apply(100, startAt, plainClaim("r", 1))
	testkit.Holds(t, errors.As(err, &broken) && strings.Contains(err.Error(), "injected error"), "apply", err)
	_, err = s.Job(jobID(0, 1, 0))
	testkit.Holds(t, errors.As(err, &broken), "read", err)
	toggle.Off()
	_, err = s.Apply(101, startAt, plainClaim("r", 1))
	testkit.Holds(t, errors.As(err, &broken), "apply after a failure", err)
	err = s.Commit()
	testkit.Holds(t, errors.As(err, &broken), "commit after a failure", err)
	testkit.Equal(t, s.Applied(), 50)
	testkit.NoError(t, s.Close())
	s = testkit.Must(Open("store", Options{FS: mem}))(t)
	testkit.Equal(t, mustApply(t, s, 100, 0, plainClaim("r", 1)).(*applied.Claimed).Jobs(), 1, "after an open")
	testkit.NoError(t, s.Close())
}

// TestQueriesBesideApply runs all queries while commands are applied. It is for the race detector, and each answer must
// be consistent.
func TestQueriesBesideApply(t *testing.T) {
	s := mustOpen(t, Options{})
	mustStore(t, s, 1, 0, plainCreate("a", "x", 400, 20))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var readers sync.WaitGroup
	for n := range 3 {
		readers.Go(func() {
			for line := n; ctx.Err() == nil; line = (line + 7) % 400 {
				doc, err := s.Job(jobID(0, 1, line))
				if err != nil || string(doc.Payload) != "xxxxxxxxxxxxxxxxxxxx" || (doc.Status == job.Active) != (doc.DeadlineAt != 0) {
					t.Errorf("job %d: %+v, %v", line, doc, err)
					return
				}
				b, err := s.Batch(jobID(0, 1, 0))
				if err != nil || b.Counts.Total() != 400 {
					t.Errorf("batch %+v, %v", b, err)
					return
				}
				q, err := s.Queue("a", "x")
				if err != nil || q.Counts.Total() < 400 {
					t.Errorf("queue %+v, %v", q, err)
					return
				}
				if _, _, err := s.Queues(&job.Scope{}, "", "", "", 10); err != nil {
					t.Error(err)
					return
				}
				s.Available([]string{"a"}, nil)
				if s.Totals().Queues != 1 || s.NextDue() < 0 || s.Applied() == 0 {
					t.Errorf("totals %+v", s.Totals())
					return
				}
			}
		})
	}
	seq := uint64(1)
	for range 120 {
		seq++
		c := mustApply(t, s, seq, int64(seq), plainClaim("r", 3)).(*applied.Claimed)
		seq++
		mustApply(t, s, seq, int64(seq), job.Tickle{Claim: c.Claim, Progress: -1})
		if seq%3 == 0 {
			mustCommit(t, s)
		}
		seq++
		mustStore(t, s, seq, int64(seq), job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Error, ExitCode: 500, DelayMs: 0}})
		sound(t, s)
	}
	stop()
	readers.Wait()
}

// TestNewerLevelIsRefused: a program that does not know the rules of a level must not apply later commands.
func TestNewerLevelIsRefused(t *testing.T) {
	s := mustOpen(t, Options{})
	testkit.Fails(s.Apply(1, startAt, job.SetLevel{Level: job.Level + 1}))(t, row.ErrNewerFormat)
	testkit.Fails(s.Apply(2, startAt, job.Mark{}))(t)
	testkit.Check(t, s.Close())
}

// TestHandedOutHistoryIsShort: a claimed job has only the newest attempt of its history and the beginning of its error.
func TestHandedOutHistoryIsShort(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, &job.Create{Frame: job.NoFrame, Groups: []job.Group{{Lines: 1, Client: "a", Type: "x", Attributes: job.Attributes{MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}}}})
	id := jobID(0, 1, 0)
	for seq := uint64(2); seq < 6; seq += 2 {
		mustApply(t, s, seq, 0, job.Claim{Runner: "r", Max: 1, MaxBytes: 1})
		mustApply(t, s, seq+1, 0, job.Complete{Outcomes: []job.Outcome{{ID: id, Code: job.Error, ExitCode: 500, Error: strings.Repeat("ü", query.MaxHandedError), DelayMs: 0}}})
	}
	result := testkit.Must(s.Apply(6, startAt, job.Claim{Runner: "r", Max: 1, MaxBytes: 1}))(t)
	testkit.NoError(t, s.Commit())
	docs, err := documents(s.HandedOut(result.(*applied.Claimed)))
	testkit.MustHold(t, err == nil && len(docs) == 1 && len(docs[0].Attempts) == 1 && len(docs[0].Error) <= query.MaxHandedError &&
		utf8.ValidString(docs[0].Error), "handed out", docs, err)
	doc := testkit.Must(s.Job(id))(t)
	testkit.Holds(t, len(doc.Attempts) == 2 && len(doc.Error) == 2*query.MaxHandedError, "the job's own document has", len(doc.Attempts), "attempts")
}

// TestSweepTakesWhatComesBack: a job is active while its queue is cancelled, and then returns to a place that the sweep
// has passed. It is cancelled too. A job that was created since is not.
func TestSweepTakesWhatComesBack(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 3))
	held := mustApply(t, s, 2, 0, plainClaim("r", 1)).(*applied.Claimed)
	for seq := uint64(3); seq < 40; seq++ {
		mustApply(t, s, seq, 1, plainCreate("a", "x", 1, 3))
	}
	swept := mustApply(t, s, 50, 10, job.Move{Op: job.Cancel, Client: "a", Type: "x"}).(*applied.Swept)
	testkit.MustHold(t, !swept.Sweep.IsZero() && swept.Moved < 38, swept, "is done at once")
	// The job is active, so the sweep reaches it last. Now it returns to the pending jobs that the sweep is passing.
	given := mustApply(t, s, 51, 11, job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{{ID: jobID(0, 1, 0), Code: job.Unget, DelayMs: -1}}}).(*applied.Ended)
	got := given.Results[0]
	testkit.Holds(t, got.Refusal == job.Granted && got.Status == job.Cancelled, "given back", got)
	mustApply(t, s, 52, 12, plainCreate("a", "x", 1, 3))
	for seq := uint64(53); s.Totals().Sweeps > 0 || seq == 53; seq++ {
		mustStore(t, s, seq, 20, job.Tick{})
		testkit.MustHold(t, seq <= 1000, "the sweep does not end")
	}
	doc := testkit.Must(s.Sweep(swept.Sweep))(t)
	testkit.Holds(t, doc.Moved == 38 && doc.FinishedAt != 0 && doc.Client == "a" && doc.Type == "x" && doc.Op == job.Cancel, doc)
	counts := s.Totals().Counts
	testkit.Holds(t, counts[job.Cancelled] == 38 && counts[job.Pending] == 1, counts)
	all := testkit.Must(s.Sweeps())(t)
	testkit.Holds(t, len(all) == 1 && all[0] == doc, all)
	mustStore(t, s, 2000, 21+job.SweepLifeMs, job.Tick{})
	testkit.Fails(s.Sweep(swept.Sweep))(t, job.SweepNotFound) // a day later
}

// TestSweepsAreBounded: at the limit, one more sweep is refused. It is accepted when another sweep has ended.
func TestSweepsAreBounded(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	seq := uint64(0)
	apply := func(cmd job.Command) applied.Result { seq++; return mustApply(t, s, seq, 0, cmd) }
	for q := range job.MaxSweeps + 1 {
		for range 10 {
			apply(plainCreate("a", fmt.Sprintf("t%d", q), 1, 1))
		}
	}
	for q := range job.MaxSweeps {
		w := apply(job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("t%d", q)}).(*applied.Swept)
		testkit.MustHold(t, !w.Sweep.IsZero() && w.Refusal == job.Granted, "sweep", q, w)
	}
	one := job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("t%d", job.MaxSweeps)}
	w := apply(one).(*applied.Swept)
	testkit.Holds(t, w.Refusal == job.TooManySweeps && w.Moved == 0, "one too many", w)
	for len(s.machine.Live.Running) == job.MaxSweeps {
		apply(job.Tick{})
	}
	testkit.Equal(t, apply(one).(*applied.Swept).Refusal, job.Granted, "when one has ended")
	mustCommit(t, s)
}

// BenchmarkReusedUniqueKey creates a job with the same unique key again and again, claims it and completes it, which
// deletes it. The time of a cycle must not grow with the number of cycles before it. µs/first and µs/last are the times
// of the first and the last tenth.
func BenchmarkReusedUniqueKey(b *testing.B) {
	n := newBench(b)
	create := plainCreate("a", "x", 1, 5)
	create.Groups[0].RetentionMs = 0
	create.Unique = []job.UniqueKey{{Line: 0, Key: "the same"}}
	const cycles = 100_000
	part := func() time.Duration {
		began := time.Now()
		for range cycles / 10 {
			n.Apply(create)
			n.commit()
			testkit.MustEqual(b, n.finish(1), 1, "no job")
			n.commit()
		}
		return time.Since(began) / (cycles / 10)
	}
	for b.Loop() {
		first := part()
		for range 8 {
			part()
		}
		last := part()
		b.ReportMetric(float64(first.Nanoseconds())/1000, "µs/first")
		b.ReportMetric(float64(last.Nanoseconds())/1000, "µs/last")
	}
}

// TestReusedUniqueKeyIsNotReadAgain: the row of a key that is used again and again has many versions, and a read would
// walk over them.
func TestReusedUniqueKeyIsNotReadAgain(t *testing.T) {
	s := mustOpen(t, Options{})
	create := plainCreate("a", "x", 1, 5)
	create.Groups[0].RetentionMs = 0
	create.Unique = []job.UniqueKey{{Line: 0, Key: "the same"}}
	seq := uint64(0)
	next := func() uint64 { seq++; return seq }
	for cycle := range 3 {
		before := s.machine.O.Work().Reads
		mustApply(t, s, next(), 0, create)
		after := s.machine.O.Work().Reads
		testkit.Holds(t, cycle <= 0 || after <= before, "cycle", cycle, "the create read", after-before, "rows")
		mustCommit(t, s)
		seq = lifecycle(t, s, seq+1, 0, "r", 1) - 1
		mustCommit(t, s)
	}
	testkit.Equal(t, rowsOf(t, s, row.UniqueTable), 0)
}

// TestKeysAreForgotten: a repeat within a day gets the first answer. Later it is a new request, and the rows of the key
// are deleted.
func TestKeysAreForgotten(t *testing.T) {
	s := mustOpen(t, Options{})
	once := job.Once{Scope: "create a", Key: "k", Digest: job.Digest{1}}
	create := plainCreate("a", "x", 2, 3)
	create.Once = once
	first := mustApply(t, s, 1, 0, create).(*applied.Made)
	again := mustApply(t, s, 2, job.KeyLifeMs-1, create).(*applied.Made)
	testkit.Holds(t, again.Replayed && again.Batch == first.Batch && again.Lines == 2, "again", again, "first", first)
	other := plainCreate("a", "x", 2, 3)
	other.Once = once
	other.Once.Digest = job.Digest{2}
	testkit.Equal(t, mustApply(t, s, 3, job.KeyLifeMs-1, other).(*applied.Made).Refusal, job.KeyReused, "another request")
	made := testkit.Must(s.MadeBefore(&once, startAt+1))(t)
	testkit.Holds(t, made == nil, "before the commit", made)
	mustCommit(t, s)
	made = testkit.Must(s.MadeBefore(&once, startAt+1))(t)
	testkit.Holds(t, made != nil && made.Batch == first.Batch, "after the commit", made)
	made = testkit.Must(s.MadeBefore(&once, startAt+job.KeyLifeMs))(t)
	testkit.Holds(t, made == nil, "a day later", made)
	got := mustApply(t, s, 4, job.KeyLifeMs, create).(*applied.Made)
	testkit.Holds(t, !got.Replayed, "a day later", got)
	mustCommit(t, s)
	testkit.Equal(t, s.Totals().Keys, 2)
	for seq := uint64(5); seq < 10; seq++ { // the first generation is deleted, the second one stays
		mustApply(t, s, seq, 2*job.KeyLifeMs-1, job.Tick{})
	}
	mustCommit(t, s)
	testkit.Equal(t, s.Totals().Keys, 1)
}

// TestHistoryIsBoundByCommand: a command sets how many bytes of effects rows are kept and how long, and deletes the oldest ones.
func TestHistoryIsBoundByCommand(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, Options{FS: fs})
	seq, at := uint64(0), int64(0) // at counts from the store's beginning
	apply := func(cmd job.Command) { seq++; mustApply(t, s, seq, at, cmd) }
	reach := func() document.History {
		t.Helper()
		mustCommit(t, s)
		testkit.EqualSlices(t, problemsOf(t, s), nil)
		return s.Totals().History
	}
	long := strings.Repeat("r", job.MaxRunnerBytes)
	fill := func(kib int) {
		apply(plainCreate("a", "x", kib<<10/len(long), 1))
		for n := range kib << 10 / len(long) {
			apply(plainClaim(fmt.Sprint(n)+long[6:], 1))
		}
	}
	testkit.Equal(t, reach(), document.History{MaxBytes: 256 << 20, MaxAgeMs: job.DefaultHistoryMs})
	apply(job.SetHistory{Bytes: 1 << 20, AgeMs: 2 * job.MinHistoryMs})
	fill(600)
	h := reach()
	testkit.Holds(t, h.First == 2 && h.Since == startAt && h.Next > 2 && h.Bytes > 600<<10 && h.MaxBytes == 1<<20 && h.MaxAgeMs == 2*job.MinHistoryMs, h)
	// A part goes, and the next one after it. The newest part stays.
	apply(job.SetHistory{Before: h.Next})
	next := reach()
	testkit.Holds(t, next.First == h.Next && next.Next > next.First && next.Bytes < h.Bytes && next.MaxBytes == h.MaxBytes, next)
	apply(job.SetHistory{Before: 1 << 62})
	last := reach()
	testkit.Holds(t, last.First > next.First && last.Next == 0 && last.Bytes > 0 && last.Bytes <= 128<<10+row.EffectIndexKeyBytes, last)
	apply(job.SetHistory{Before: 1 << 62})
	testkit.Equal(t, reach(), last)
	// More bytes than the bound, and more time.
	fill(900)
	h = reach()
	testkit.Holds(t, h.Bytes <= 1<<20 && h.Bytes > 800<<10, h)
	at += 3 * job.MinHistoryMs
	apply(plainCreate("a", "x", 1, 1))
	h = reach()
	testkit.Holds(t, h.Next == seq && h.Bytes < 256<<10, h) // the part before it ended within the time
	// A smaller bound deletes at once.
	apply(job.SetHistory{Bytes: 4 << 20, AgeMs: job.DefaultHistoryMs})
	fill(1500)
	before := reach()
	apply(job.SetHistory{Bytes: 1 << 20, AgeMs: job.DefaultHistoryMs})
	h = reach()
	testkit.Holds(t, before.Bytes > 1500<<10 && h.Bytes <= 1<<20 && h.First > before.First, before, h)
	testkit.NoError(t, s.FlushWait())
	testkit.NoError(t, s.Close())
	testkit.Equal(t, mustOpen(t, Options{FS: fs}).Totals().History, h)
}
