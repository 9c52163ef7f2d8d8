package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// said is the entry of a command in a row of effects.
type said struct {
	row.Cause
	effects []row.Effect
}

// history reads the rows of effects of a store, which has committed.
type history struct {
	rows   lsm.Rows
	oldest uint64 // the first command of the oldest segment
	s      *Store
}

func historyOf(s *Store) *history {
	h := &history{rows: &s.machine.O, oldest: math.MaxUint64, s: s}
	if segments := s.machine.Meta.Effects; len(segments) > 0 {
		h.oldest = segments[0].First
	}
	return h
}

// all returns the entries of all rows.
func (h *history) all() (all []said) {
	h.rows.Scan(string(row.EffectTable), string(row.EffectTable+1), func(key string, value []byte) bool {
		row.EachEffects(row.SeqOfKey(key), value, func(c *row.Cause, effects []row.Effect) { all = append(all, said{*c, effects}) })
		return true
	})
	return all
}

// of returns the part of a command's entry that concerns some lines of a batch. It reads only the row that the entry is in.
func (h *history) of(lines row.Run, seq uint64) (found []said) {
	h.s.machine.O.ScanDown(row.SeqKey(row.EffectTable, h.oldest), row.SeqKey(row.EffectTable, seq)+"\x00", func(key string, value []byte) bool {
		row.EachEffects(row.SeqOfKey(key), value, func(c *row.Cause, effects []row.Effect) {
			if c.Seq != seq {
				return
			}
			effects = slices.DeleteFunc(effects, func(e row.Effect) bool {
				return e.Run.Batch != lines.Batch || e.Run.Last < lines.First || e.Run.First > lines.Last
			})
			found = append(found, said{*c, effects})
		})
		return false
	})
	return found
}

// byIndex returns the entries of a batch: the create, and each command that the index lists.
func (h *history) byIndex(batch uint64) (found []said) {
	all := row.Run{batch, 0, math.MaxUint32}
	if batch >= h.oldest {
		found = h.of(all, batch)
	}
	for _, segment := range h.s.machine.Meta.Effects {
		h.rows.Scan(row.EffectIndexKey(segment.First, batch, 0), row.EffectIndexKey(segment.First, batch, math.MaxUint64)+"\x00", func(key string, _ []byte) bool {
			_, _, seq := row.SplitEffectIndexKey(key)
			found = append(found, h.of(all, seq)...)
			return true
		})
	}
	return found
}

// byChain returns the entries of a job of a separate batch: the last command, and each command before it.
func (h *history) byChain(at row.Position, last uint64) (found []said) {
	for seq := last; seq >= h.oldest; {
		entry := h.of(row.Run{at.Seq, at.Line, at.Line}, seq)
		found = append(entry, found...)
		if seq = 0; len(entry) > 0 && len(entry[0].effects) > 0 {
			seq = entry[0].effects[0].Before
		}
	}
	return found
}

// TestEffectsSay shows the rows of effects of some commands.
func TestEffectsSay(t *testing.T) {
	s := mustOpen(t, Options{})
	seq := uint64(0)
	apply := func(by string, cmd job.Command) {
		t.Helper()
		seq++
		testkit.Must(s.ApplyRecord(seq, startAt+int64(seq), &job.Place{}, &job.Actor{Name: by}, cmd))(t)
	}
	id := func(batch uint64, line int) job.ID { return job.NewID(startAt+int64(batch), batch, line) }
	ended := func(id job.ID) job.Outcome { return job.Outcome{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1} }
	apply("producer", plainCreate("a", "x", 5, 1))
	apply("", plainCreate("a", "y", 1, 1))
	joined := plainCreate("b", "x", 1, 1)
	joined.Groups = append(joined.Groups, plainGroup("b", "x", 2))
	joined.Groups[1].By, joined.Joined, joined.Payloads = "anna", true, []byte("1\n2\n3\n")
	apply("", joined)
	apply("worker", plainClaim("r1", 7))
	failed := ended(id(1, 1))
	failed.Code, failed.ExitCode, failed.DelayMs = job.Error, 500, 1000
	apply("worker", job.Complete{Claim: id(4, 0), Outcomes: []job.Outcome{ended(id(1, 0)), failed, ended(id(2, 0)), ended(id(3, 0))}})
	apply("", job.Complete{Unclaimed: true, Outcomes: []job.Outcome{ended(id(3, 2))}})
	apply("boss", job.Move{Op: job.Cancel, Client: "a", Type: "x"})
	apply("boss", job.Move{Op: job.Redrive, Job: id(1, 4)})
	apply("boss", job.Move{Op: job.Delete, Job: id(2, 0)})
	mustCommit(t, s)
	h := historyOf(s)
	text := func(commands []said) string {
		var b strings.Builder
		for _, c := range commands {
			fmt.Fprintf(&b, "%d %s by %q:", c.Seq, c.Verb, c.By)
			for _, e := range c.effects {
				fmt.Fprintf(&b, " [%d:%d-%d of queue %d %v to %v, reason %d", e.Run.Batch, e.Run.First, e.Run.Last, e.Queue, e.From, e.To, e.Reason)
				if e.OfRun() {
					fmt.Fprintf(&b, ", claim %d of %q", e.Claim, e.Runner)
				}
				if e.Before != 0 {
					fmt.Fprintf(&b, ", after %d", e.Before)
				}
				if e.Sweep != 0 {
					fmt.Fprintf(&b, ", sweep %d", e.Sweep)
				}
				if e.By != "" {
					fmt.Fprintf(&b, ", for %q", e.By)
				}
				b.WriteString("]")
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	testkit.Equal(t, text(h.all()), `1 create by "producer": [1:0-4 of queue 1 none to pending, reason 1]
2 create by "": [2:0-0 of queue 2 none to pending, reason 1]
3 create by "": [3:0-0 of queue 3 none to pending, reason 1] [3:1-2 of queue 3 none to pending, reason 1, for "anna"]
4 claim by "worker": [1:0-4 of queue 1 pending to active, reason 2, claim 4 of "r1"] [2:0-0 of queue 2 pending to active, reason 2, claim 4 of "r1", after 2] [3:0-0 of queue 3 pending to active, reason 2, claim 4 of "r1", after 3]
5 complete by "worker": [1:0-0 of queue 1 active to completed, reason 3, claim 4 of "r1"] [1:1-1 of queue 1 active to deferred, reason 3, claim 4 of "r1"] [2:0-0 of queue 2 active to completed, reason 3, claim 4 of "r1", after 4] [3:0-0 of queue 3 active to completed, reason 3, claim 4 of "r1", after 4]
6 complete by "": [3:2-2 of queue 3 pending to completed, reason 3, claim 6 of "", after 3]
7 cancel by "boss": [1:1-1 of queue 1 deferred to cancelled, reason 7, sweep 7] [1:2-4 of queue 1 active to cancelled, reason 7, claim 4 of "r1", sweep 7]
8 redrive by "boss": [1:4-4 of queue 1 cancelled to pending, reason 10]
9 delete by "boss": [2:0-0 of queue 2 completed to purged, reason 13, after 5]
`, "all")
	testkit.Equal(t, text(h.byIndex(1)), `1 create by "producer": [1:0-4 of queue 1 none to pending, reason 1]
4 claim by "worker": [1:0-4 of queue 1 pending to active, reason 2, claim 4 of "r1"]
5 complete by "worker": [1:0-0 of queue 1 active to completed, reason 3, claim 4 of "r1"] [1:1-1 of queue 1 active to deferred, reason 3, claim 4 of "r1"]
7 cancel by "boss": [1:1-1 of queue 1 deferred to cancelled, reason 7, sweep 7] [1:2-4 of queue 1 active to cancelled, reason 7, claim 4 of "r1", sweep 7]
8 redrive by "boss": [1:4-4 of queue 1 cancelled to pending, reason 10]
`, "of a batch")
	testkit.Equal(t, text(h.byChain(row.Position{3, 0}, 5)), `3 create by "": [3:0-0 of queue 3 none to pending, reason 1]
4 claim by "worker": [3:0-0 of queue 3 pending to active, reason 2, claim 4 of "r1", after 3]
5 complete by "worker": [3:0-0 of queue 3 active to completed, reason 3, claim 4 of "r1", after 4]
`, "of a job")
}

// TestBytesOfHistory measures the bytes of history per job: the rows of effects and their index, with their keys, without the compression
// of the tables. 64 runners work by turns, with keys. docs/004-effects.md has the figures.
func TestBytesOfHistory(t *testing.T) {
	const runners = 64
	bulk, joined := plainCreate("a", "x", 1000, 1), plainCreate("a", "x", runners, 1)
	joined.Joined = true
	joined.Groups = nil
	for i := range runners {
		g := plainGroup(fmt.Sprintf("client-%d", i%8), "x", 1)
		g.By = fmt.Sprintf("producer-%d", i%8)
		joined.Groups = append(joined.Groups, g)
	}
	for _, test := range []struct {
		name         string
		create       *job.Create
		creates      int // before the first claim
		claims, most int
	}{
		{"single jobs", plainCreate("a", "x", 1, 1), runners, 1, 90},
		{"single jobs, creates joined", joined, 1, 1, 90},
		{"single claims of bulk creates", bulk, 1, 1, 130},
		{"bulk", bulk, 1, 100, 2},
	} {
		s := mustOpen(t, Options{})
		seq, jobs := uint64(1_000_000), 0
		apply := func(key string, cmd job.Command) applied.Result {
			seq++
			return testkit.Must(s.ApplyRecord(seq, startAt+int64(seq-1_000_000)/5, &job.Place{}, &job.Actor{Name: key}, cmd))(t)
		}
		for round := range 8 {
			key := "producer"
			if test.create.Joined {
				key = ""
			}
			for range test.creates {
				apply(key, test.create)
				jobs += test.create.Lines()
			}
			for left := true; left; {
				var claims []job.ID
				for r := range runners {
					c := apply("worker", plainClaim(fmt.Sprintf("runner-%d-of-host-%d", r, round%2), test.claims)).(*applied.Claimed)
					if left = len(c.Runs) > 0; !left {
						break
					}
					claims = append(claims, c.Claim)
				}
				for _, claim := range claims {
					apply("worker", job.Complete{Claim: claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
				}
			}
			mustCommit(t, s)
		}
		testkit.Equal(t, s.Totals().Counts[job.Completed], int64(jobs), test.name)
		bytes := int64(0)
		for _, segment := range s.machine.Meta.Effects {
			bytes += segment.Bytes
		}
		perJob := float64(bytes) / float64(jobs)
		t.Logf("%s: %.1f bytes of history per job", test.name, perJob)
		testkit.Holds(t, perJob <= float64(test.most), test.name, perJob, "bytes of history per job, and at most", test.most)
	}
}
