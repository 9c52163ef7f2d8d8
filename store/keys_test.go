package store

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

func TestKeysSplitIntoWhatMadeThem(t *testing.T) {
	for _, n := range []uint64{0, 1, 255, 256, 1<<40 - 1, math.MaxUint64} {
		for _, line := range []uint32{0, 1, 1<<22 - 1, math.MaxUint32} {
			for _, table := range []byte{spanTable, batchTable, countsTable} {
				if got := seqOfKey(seqKey(table, n)); got != n {
					t.Errorf("seqKey %d: %d", n, got)
				}
			}
			if key := lineKey(spanTable, n, line); seqOfKey(key) != n || lineOfKey(key) != line {
				t.Errorf("lineKey %d %d: %x", n, line, key)
			}
			if key := detailKey(n, line, resultDetail); seqOfKey(key) != n || lineOfKey(key) != line || key[13] != resultDetail {
				t.Errorf("detailKey %d %d: %x", n, line, key)
			}
			if key := pageKey(n, line, line/2); seqOfKey(key) != n {
				t.Errorf("pageKey %d: %x", n, key)
			} else if last, first := splitPageKey(key); last != line || first != line/2 {
				t.Errorf("pageKey %d %d: %d %d", line, line/2, last, first)
			}
			if claim, seq, l := splitJobLeaseKey(jobLeaseKey(n, n/3, line)); claim != n || seq != n/3 || l != line {
				t.Errorf("jobLeaseKey %d %d: %d %d %d", n, line, claim, seq, l)
			}
			lane, end := laneID{line, job.Fresh}, position{n, line}
			if queue, l, e := splitReadyKey(readyKey(7, lane, n/5, end)); queue != 7 || l != lane || e != end {
				t.Errorf("readyKey %d %d: %d %v %v", n, line, queue, l, e)
			}
			for kind, want := range map[byte][2]uint64{runAtTimer: {0, uint64(line)}, purgeTimer: {0, uint64(line)}, claimTimer: {},
				jobLeaseTimer: {n / 7, uint64(line)}} {
				got := splitTimer(timerKey(startAt, kind, n, n/7, line))
				if want := (timer{got.key, startAt, kind, n, want[0], uint32(want[1])}); got != want {
					t.Errorf("timerKey kind %d: %+v, want %+v", kind, got, want)
				}
			}
		}
	}
	for _, name := range []string{"r", "r2", strings.Repeat("ü", 64)} {
		if got := runnerOfKey(runnerKey(runnerTable, name)); got != name {
			t.Errorf("runnerKey %q: %q", name, got)
		}
		if got := splitTimer(runnerTimerKey(startAt, name)); got.at != startAt || got.kind != runnerTimer {
			t.Errorf("runnerTimerKey %q: %+v", name, got)
		}
		if key := runnerTimerKey(startAt, name); runnerOfTimer(key) != name || !wellFormed(key) || wellFormed(key[:len(key)-1]) {
			t.Errorf("runnerTimerKey %q: %x", name, key)
		}
		if key := holdKey(holdTable, name, 812); runnerOfKey(key) != name || lsm.U64At(key, len(key)-8) != 812 {
			t.Errorf("holdKey %q: %x", name, key)
		}
	}
}

// TestKeysSort lists keys in the order in which they must be sorted.
func TestKeysSort(t *testing.T) {
	for name, keys := range map[string][]string{
		"a line's span is the first at or after it": {
			lineKey(spanTable, 1, 9), lineKey(spanTable, 1, 10), lineKey(spanTable, 1, 1<<20), lineKey(spanTable, 2, 0), lineKey(spanTable, 256, 0),
		},
		"pages stand by their last line": {pageKey(1, 5, 0), pageKey(1, 6, 6), pageKey(1, 300, 7), pageKey(2, 0, 0)},
		"service: priority, class, order, id": {
			readyKey(1, laneID{9, job.Returned}, 7, position{7, 3}), readyKey(1, laneID{9, job.Fresh}, 2, position{2, 9}), readyKey(1, laneID{4, job.Returned}, 3, position{3, 1}), readyKey(1, laneID{4, job.Returned}, 3, position{3, 2}),
			readyKey(1, laneID{4, job.Fresh}, 2, position{2, 0}), readyKey(1, laneID{4, job.Fresh}, 5, position{1, 0}), readyKey(1, laneID{4, job.Fresh}, 5, position{2, 0}), readyKey(1, laneID{0, job.Returned}, 1, position{1, 0}),
			readyKey(2, laneID{9, job.Returned}, 1, position{1, 0}),
		},
		"a lane ends before the next": {
			laneKey(1, laneID{4, job.Returned}), readyKey(1, laneID{4, job.Returned}, math.MaxUint64, position{math.MaxUint64, math.MaxUint32}), lsm.After(laneKey(1, laneID{4, job.Returned})), readyKey(1, laneID{4, job.Fresh}, 0, position{0, 0}),
		},
		"lists stand by id": {listKey(1, job.Pending, 2, 9), listKey(1, job.Pending, 3, 1), listKey(1, job.Active, 1, 0), listKey(2, job.Deferred, 1, 0)},
		"timers stand by time, then kind": {
			timerKey(6, runAtTimer, 9, 0, 9), timerKey(6, claimTimer, 1, 0, 0), timerKey(6, jobLeaseTimer, 1, 1, 1),
			timerKey(6, purgeTimer, 1, 0, 0), timerKey(256, runAtTimer, 0, 0, 0),
		},
		"no runner's rows begin with another's": {
			holdKey(holdTable, "r", 1), holdKey(holdTable, "r", math.MaxUint64), lsm.After(runnerKey(holdTable, "r")), holdKey(holdTable, "r1", 0), holdKey(holdTable, "r\xff", 0),
		},
	} {
		if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Errorf("%s: %x", name, keys)
		}
	}
	a, b := readyKey(1, laneID{4, job.Fresh}, 2, position{2, 0}), readyKey(9, laneID{9, job.Returned}, 7, position{7, 0})
	if readyRank(b) > readyRank(a) {
		t.Errorf("rank compares queues before priorities")
	}
}

func TestAfter(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\xff\xff": "b", "ab\x00": "ab\x01"} {
		if got := lsm.After(prefix); got != want {
			t.Errorf("after %q is %q, want %q", prefix, got, want)
		}
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
		"span":   func() { lineOfKey("S1234567890") },
		"page":   func() { splitPageKey("P123456789012") },
		"timer":  func() { splitTimer("T123456789") },
		"ready":  func() { splitReadyKey("R1234567890") },
		"number": func() { lsm.U64At("", 1) },
	} {
		err := func() (err error) {
			defer lsm.Catch(&err)
			split()
			return nil
		}()
		var broken *Error
		if !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
