package store

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

func TestKeysSplitIntoWhatMadeThem(t *testing.T) {
	for _, n := range []uint64{0, 1, 255, 256, 1<<40 - 1, math.MaxUint64} {
		for _, line := range []uint32{0, 1, 1<<22 - 1, math.MaxUint32} {
			for _, table := range []byte{row.SpanTable, row.BatchTable, row.CountsTable} {
				testkit.Equal(t, row.SeqOfKey(row.SeqKey(table, n)), n)
			}
			if key := row.LineKey(row.SpanTable, n, line); row.SeqOfKey(key) != n || row.LineOfKey(key) != line {
				t.Errorf("lineKey %d %d: %x", n, line, key)
			}
			if key := row.DetailKey(n, line, row.ResultDetail); row.SeqOfKey(key) != n || row.LineOfKey(key) != line || key[13] != row.ResultDetail {
				t.Errorf("detailKey %d %d: %x", n, line, key)
			}
			if key := row.PageKey(n, line, line/2); row.SeqOfKey(key) != n {
				t.Errorf("pageKey %d: %x", n, key)
			} else if last, first := row.SplitPageKey(key); last != line || first != line/2 {
				t.Errorf("pageKey %d %d: %d %d", line, line/2, last, first)
			}
			if claim, seq, l := row.SplitJobLeaseKey(row.JobLeaseKey(n, n/3, line)); claim != n || seq != n/3 || l != line {
				t.Errorf("jobLeaseKey %d %d: %d %d %d", n, line, claim, seq, l)
			}
			lane, end := row.LaneID{line, job.Fresh}, row.Position{n, line}
			if queue, l, e := row.SplitReadyKey(row.ReadyKey(7, lane, n/5, end)); queue != 7 || l != lane || e != end {
				t.Errorf("readyKey %d %d: %d %v %v", n, line, queue, l, e)
			}
			for kind, want := range map[byte][2]uint64{row.RunAtTimer: {0, uint64(line)}, row.PurgeTimer: {0, uint64(line)}, row.ClaimTimer: {},
				row.JobLeaseTimer: {n / 7, uint64(line)}} {
				got := row.SplitTimer(row.TimerKey(startAt, kind, n, n/7, line))
				if want := (row.Timer{got.Key, startAt, kind, n, want[0], uint32(want[1])}); got != want {
					t.Errorf("timerKey kind %d: %+v, want %+v", kind, got, want)
				}
			}
		}
	}
	for _, name := range []string{"r", "r2", strings.Repeat("ü", 64)} {
		testkit.Equal(t, row.RunnerOfKey(row.RunnerKey(row.RunnerTable, name)), name)
		if got := row.SplitTimer(row.RunnerTimerKey(startAt, name)); got.At != startAt || got.Kind != row.RunnerTimer {
			t.Errorf("runnerTimerKey %q: %+v", name, got)
		}
		if key := row.RunnerTimerKey(startAt, name); row.RunnerOfTimer(key) != name || !row.WellFormed(key) || row.WellFormed(key[:len(key)-1]) {
			t.Errorf("runnerTimerKey %q: %x", name, key)
		}
		if key := row.HoldKey(row.HoldTable, name, 812); row.RunnerOfKey(key) != name || lsm.U64At(key, len(key)-8) != 812 {
			t.Errorf("holdKey %q: %x", name, key)
		}
	}
}

// TestKeysSort lists keys in the order in which they must be sorted.
func TestKeysSort(t *testing.T) {
	for name, keys := range map[string][]string{
		"a line's span is the first at or after it": {
			row.LineKey(row.SpanTable, 1, 9), row.LineKey(row.SpanTable, 1, 10), row.LineKey(row.SpanTable, 1, 1<<20), row.LineKey(row.SpanTable, 2, 0), row.LineKey(row.SpanTable, 256, 0),
		},
		"pages stand by their last line": {row.PageKey(1, 5, 0), row.PageKey(1, 6, 6), row.PageKey(1, 300, 7), row.PageKey(2, 0, 0)},
		"service: priority, class, order, id": {
			row.ReadyKey(1, row.LaneID{9, job.Returned}, 7, row.Position{7, 3}), row.ReadyKey(1, row.LaneID{9, job.Fresh}, 2, row.Position{2, 9}), row.ReadyKey(1, row.LaneID{4, job.Returned}, 3, row.Position{3, 1}), row.ReadyKey(1, row.LaneID{4, job.Returned}, 3, row.Position{3, 2}),
			row.ReadyKey(1, row.LaneID{4, job.Fresh}, 2, row.Position{2, 0}), row.ReadyKey(1, row.LaneID{4, job.Fresh}, 5, row.Position{1, 0}), row.ReadyKey(1, row.LaneID{4, job.Fresh}, 5, row.Position{2, 0}), row.ReadyKey(1, row.LaneID{0, job.Returned}, 1, row.Position{1, 0}),
			row.ReadyKey(2, row.LaneID{9, job.Returned}, 1, row.Position{1, 0}),
		},
		"a lane ends before the next": {
			row.LaneKey(1, row.LaneID{4, job.Returned}), row.ReadyKey(1, row.LaneID{4, job.Returned}, math.MaxUint64, row.Position{math.MaxUint64, math.MaxUint32}), lsm.After(row.LaneKey(1, row.LaneID{4, job.Returned})), row.ReadyKey(1, row.LaneID{4, job.Fresh}, 0, row.Position{0, 0}),
		},
		"lists stand by id": {row.ListKey(1, job.Pending, 2, 9), row.ListKey(1, job.Pending, 3, 1), row.ListKey(1, job.Active, 1, 0), row.ListKey(2, job.Deferred, 1, 0)},
		"timers stand by time, then kind": {
			row.TimerKey(6, row.RunAtTimer, 9, 0, 9), row.TimerKey(6, row.ClaimTimer, 1, 0, 0), row.TimerKey(6, row.JobLeaseTimer, 1, 1, 1),
			row.TimerKey(6, row.PurgeTimer, 1, 0, 0), row.TimerKey(256, row.RunAtTimer, 0, 0, 0),
		},
		"no runner's rows begin with another's": {
			row.HoldKey(row.HoldTable, "r", 1), row.HoldKey(row.HoldTable, "r", math.MaxUint64), lsm.After(row.RunnerKey(row.HoldTable, "r")), row.HoldKey(row.HoldTable, "r1", 0), row.HoldKey(row.HoldTable, "r\xff", 0),
		},
	} {
		if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Errorf("%s: %x", name, keys)
		}
	}
	a, b := row.ReadyKey(1, row.LaneID{4, job.Fresh}, 2, row.Position{2, 0}), row.ReadyKey(9, row.LaneID{9, job.Returned}, 7, row.Position{7, 0})
	if row.ReadyRank(b) > row.ReadyRank(a) {
		t.Errorf("rank compares queues before priorities")
	}
}

func TestAfter(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\xff\xff": "b", "ab\x00": "ab\x01"} {
		testkit.Equal(t, lsm.After(prefix), want, "after", prefix)
	}
	defer func() {
		if recover() == nil {
			t.Error("after 0xff has a result")
		}
	}()
	lsm.After("\xff\xff")
}

func TestShortKeysFail(t *testing.T) {
	for name, split := range map[string]func(){
		"span":   func() { row.LineOfKey("S1234567890") },
		"page":   func() { row.SplitPageKey("P123456789012") },
		"timer":  func() { row.SplitTimer("T123456789") },
		"ready":  func() { row.SplitReadyKey("R1234567890") },
		"number": func() { lsm.U64At("", 1) },
	} {
		err := func() (err error) {
			defer lsm.Catch(&err)
			split()
			return nil
		}()
		var broken *row.Error
		if !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
