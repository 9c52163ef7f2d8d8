package store

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

var sameSeedsFlag = flag.Int("same-seeds", 0, "how many seeds TestLiveRestartRebuild plays; 0: 60, or 8 with -short")

// playLive plays the steps of a generator in a store beside the model, and commits them.
func playLive(t *testing.T, seed uint64, g *generator) *player {
	t.Helper()
	live := &player{options: g.options, replay: newReplay()}
	live.options.FS = vfs.NewMem()
	live.s = testkit.Must(Open("store", live.options))(t)
	live.m = newModel(live.s)
	for i, st := range g.steps() {
		testkit.NoError(t, live.step(st), "seed", seed, "step", i)
	}
	testkit.NoError(t, live.s.Commit())
	return live
}

// TestLiveRestartRebuild: the same commands make the same keys and values, however they are divided into commits,
// whatever the caches hold, and wherever the power fails.
func TestLiveRestartRebuild(t *testing.T) {
	for seed := uint64(1); seed <= seedsOr(*sameSeedsFlag, 24, 8); seed++ {
		g := newGenerator(seed)
		g.length *= 3
		live := playLive(t, seed, g)
		log := live.log

		random := rand.New(rand.NewPCG(seed, 1))
		for _, way := range []struct {
			name string
			s    *Store
			err  error
		}{
			withError("one commit for all", func() (*Store, error) { return rebuild(random, g.options, log, 0) }),
			withError("a commit for each", func() (*Store, error) { return rebuild(random, g.options, log, 100) }),
			withError("other caches", func() (*Store, error) { return rebuild(random, otherCaches(g.options, random), log, 20) }),
			withError("power failures", func() (*Store, error) { return crashing(random, g.options, log) }),
		} {
			testkit.MustHold(t, way.err == nil, "seed", seed, way.name, way.err)
			testkit.Check(t, sameStores(live.s, way.s), "seed", seed, way.name)
			sound(t, way.s, "seed", seed, way.name)
			testkit.Check(t, way.s.Close())
		}
		testkit.Check(t, live.s.Close())
		if t.Failed() {
			return
		}
	}
}

func withError(name string, open func() (*Store, error)) (way struct {
	name string
	s    *Store
	err  error
}) {
	way.name = name
	way.s, way.err = open()
	return way
}

// otherCaches changes options that must not affect the rows, and keeps the options that decide which rows exist.
func otherCaches(o Options, random *rand.Rand) Options {
	b := *o.bounds
	b.SpanBytes, b.BatchBytes, b.RowBytes = random.IntN(1000), random.IntN(2000), random.IntN(1500)
	b.MinWindow, b.MaxWindow, b.WindowKeys = 1+random.IntN(2), 2+random.IntN(9), random.IntN(20)
	o.bounds = &b
	return o
}

// rebuild makes a new store from a log. It commits after commits of a hundred commands, and after the last.
func rebuild(random *rand.Rand, o Options, log []step, commits int) (s *Store, err error) {
	o.FS = vfs.NewMem()
	if s, err = Open("store", o); err != nil {
		return nil, err
	}
	return s, errors.Join(applyLog(random, s, log, commits), s.Commit())
}

// applyLog applies the commands of log that s has not applied, in their journaled form.
func applyLog(random *rand.Rand, s *Store, log []step, commits int) error {
	for _, st := range log {
		if st.seq <= s.Applied() {
			continue
		}
		fields, body := st.cmd.Encode()
		cmd, err := job.Decode(st.cmd.Verb(), fields, body)
		if err != nil {
			return err
		}
		if _, err := s.ApplyRecord(st.seq, st.at, &job.Place{}, &st.by, cmd); err != nil {
			return err
		}
		if random.IntN(100) < commits {
			if err := s.Commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

// crashing makes a store from a log while the power fails several times. After a failure, unsynced data may or may not
// exist, and the store continues from its cursor.
func crashing(random *rand.Rand, o Options, log []step) (s *Store, err error) {
	fs := vfs.NewCrashableMem()
	for at := 0; ; {
		o := otherCaches(o, random)
		o.FS = fs
		if s, err = Open("store", o); err != nil {
			return nil, fmt.Errorf("open after a failure at %d: %w", at, err)
		}
		durable, err := s.Durable()
		if err != nil {
			return nil, err
		}
		if durable != s.Applied() {
			return nil, fmt.Errorf("after an open, seq %d is durable and seq %d is applied", durable, s.Applied())
		}
		upto := at + 1 + random.IntN(len(log)/3+1)
		if upto >= len(log) {
			return s, errors.Join(applyLog(random, s, log, 30), s.Commit())
		}
		middle := at + random.IntN(upto-at)
		if err := errors.Join(applyLog(random, s, log[:middle], 30), s.Commit(), s.FlushWait(), applyLog(random, s, log[:upto], 30)); err != nil {
			return nil, err
		}
		if durable, err = s.Durable(); err != nil {
			return nil, err
		}
		if middle > 0 && durable < log[middle-1].seq {
			return nil, fmt.Errorf("seq %d is durable, but seq %d was flushed", durable, log[middle-1].seq)
		}
		after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(3) * 50, RNG: random})
		if err := s.Close(); err != nil {
			return nil, err
		}
		fs, at = after, upto
	}
}

// sameStores compares all keys and values, and reports the first difference.
func sameStores(a, b *Store) (err error) {
	defer lsm.Catch(&err)
	sumA, rowsA, err := a.Digest()
	if err != nil {
		return err
	}
	sumB, rowsB, err := b.Digest()
	if err != nil {
		return err
	}
	if sumA == sumB && fmt.Sprint(rowsA) == fmt.Sprint(rowsB) {
		return nil
	}
	dumpA, dumpB := dump(a), dump(b)
	var differ []string
	for i, k := 0, 0; (i < len(dumpA) || k < len(dumpB)) && len(differ) < 6; {
		switch {
		case k == len(dumpB) || i < len(dumpA) && dumpA[i].key < dumpB[k].key:
			differ = append(differ, "only the first has "+describeRow(dumpA[i].key, dumpA[i].value))
			i++
		case i == len(dumpA) || dumpB[k].key < dumpA[i].key:
			differ = append(differ, "only the second has "+describeRow(dumpB[k].key, dumpB[k].value))
			k++
		default:
			if string(dumpA[i].value) != string(dumpB[k].value) {
				differ = append(differ, fmt.Sprintf("the first has %s,\n\t\tthe second %s", describeRow(dumpA[i].key, dumpA[i].value),
					describeRow(dumpB[k].key, dumpB[k].value)))
			}
			i++
			k++
		}
	}
	return fmt.Errorf("digests %x and %x, rows %v and %v:\n\t%s", sumA, sumB, rowsA, rowsB, strings.Join(differ, "\n\t"))
}

type storedRow struct {
	key   string
	value []byte
}

// dump reads every row.
func dump(s *Store) (rows []storedRow) {
	v := s.db.View()
	defer v.Close()
	v.Scan("\x00", "\xff", func(key string, value []byte) bool {
		rows = append(rows, storedRow{key, append([]byte{}, value...)})
		return true
	})
	return rows
}

// describeRow describes a row in words.
func describeRow(key string, value []byte) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("%x = %x, which does not decode: %v", key, value, r)
		}
	}()
	switch key[0] {
	case row.MetaTable:
		return fmt.Sprintf("meta %+v", row.DecodeMeta(value))
	case row.QueueTable:
		q := memory.DecodeQueue(lsm.U32At(key, 1), value)
		text = fmt.Sprintf("queue %d %s/%s paused=%v created=%d counts=%v", q.Id, q.Client, q.Typ, q.Paused, q.CreatedAt, q.Counts)
		for l := q.Lanes; l != nil; l = l.Next {
			text += fmt.Sprintf(" lane %d/%d pending=%d", l.Priority, l.Class, l.Pending)
		}
		return text
	case row.BatchTable:
		return fmt.Sprintf("batch %d %+v", row.SeqOfKey(key), *row.DecodeBatch(row.SeqOfKey(key), value))
	case row.CountsTable:
		return fmt.Sprintf("counts of batch %d %+v", row.SeqOfKey(key), row.DecodeBatchCounts(value))
	case row.GroupTable:
		name := row.GroupPageName{row.SeqOfKey(key), row.LineOfKey(key)}
		d := lsm.Decoder(value)
		text = fmt.Sprintf("groups of batch %d up to line %d", name.Seq, name.Last)
		for n := d.Count(row.GroupBytes); n > 0; n-- {
			text += fmt.Sprintf(" %+v", row.DecodeGroup(&d, string(d)))
		}
		return text
	case row.PageTable:
		last, first := row.SplitPageKey(key)
		return fmt.Sprintf("page %d-%d of batch %d %q", first, last, row.SeqOfKey(key), value)
	case row.SizesTable:
		last, first := row.SplitPageKey(key)
		return fmt.Sprintf("sizes of page %d-%d of batch %d %v", first, last, row.SeqOfKey(key), value)
	case row.SpanTable:
		return fmt.Sprintf("span of batch %d %+v", row.SeqOfKey(key), row.DecodeSpan(row.LineOfKey(key), value))
	case row.DetailTable:
		return fmt.Sprintf("detail %d of line %d of batch %d %q", key[13], row.LineOfKey(key), row.SeqOfKey(key), value)
	case row.ReadyTable:
		queue, lane, end := row.SplitReadyKey(key)
		return fmt.Sprintf("ready row of queue %d priority %d class %d order %d batch %d last %d", queue, lane.Priority, lane.Class, lsm.U64At(key, 10), end.Seq, end.Line)
	case row.ListTable:
		return fmt.Sprintf("list row of queue %d %v batch %d last %d", lsm.U32At(key, 1), job.Status(key[5]), lsm.U64At(key, 6), lsm.U32At(key, 14))
	case row.MovedTable:
		at, end := row.SplitMovedKey(key)
		return fmt.Sprintf("moved row of queue %d %v at %d batch %d last %d", lsm.U32At(key, 1), job.Status(key[5]), at, end.Seq, end.Line)
	case row.TimerTable:
		if key[9] == row.RunnerTimer {
			return fmt.Sprintf("timer at %d kind %d of runner %q", lsm.U64At(key, 1), row.RunnerTimer, row.RunnerOfTimer(key))
		}
		t := row.SplitTimer(key)
		return fmt.Sprintf("timer at %d kind %d of %d, %d, line %d", t.At, t.Kind, t.A, t.B, t.Line)
	case row.ClaimTable:
		c := row.DecodeClaim(row.SeqOfKey(key), value, nil)
		return fmt.Sprintf("claim %d at %d of %q runs %v %+v", c.Seq, c.At, c.Runner, c.Runs, c.ClaimState)
	case row.ClaimStateTable:
		return fmt.Sprintf("lease of claim %d %+v", row.SeqOfKey(key), row.DecodeClaimState((*lsm.Decoder)(&value)))
	case row.JobLeaseTable:
		claim, seq, line := row.SplitJobLeaseKey(key)
		return fmt.Sprintf("lease of line %d of batch %d under claim %d %+v", line, seq, claim, row.DecodeJobLease(value))
	case row.RunnerTable:
		return fmt.Sprintf("runner %+v", *row.DecodeRunner(row.RunnerOfKey(key), value))
	case row.HoldTable:
		return fmt.Sprintf("claim %d of runner %q", lsm.U64At(key, len(key)-8), row.RunnerOfKey(key))
	case row.EffectTable:
		return fmt.Sprintf("effects %+v", decodedEffects(row.SeqOfKey(key), value))
	case row.EffectIndexTable:
		segment, batch, seq := row.SplitEffectIndexKey(key)
		return fmt.Sprintf("command %d moved lines of batch %d, in the segment of effects from %d", seq, batch, segment)
	}
	return fmt.Sprintf("row %x = %x", key, value)
}

// sound reports the problems that Check finds in a store. The context says when.
func sound(t *testing.T, s *Store, context ...any) {
	t.Helper()
	testkit.EqualSlices(t, problemsOf(t, s), nil, context...)
}

func problemsOf(t *testing.T, s *Store) (problems []string) {
	t.Helper()
	testkit.Must(s.Check(func(problem string) bool { problems = append(problems, problem); return len(problems) < 50 }))(t)
	return problems
}
