package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func mustDistinct(key string, underlying Strategy) Strategy {
	s, err := PreferDistinct(key, underlying)
	if err != nil {
		panic(err)
	}
	return s
}

func TestStrategy(t *testing.T) {
	for _, base := range []Strategy{Oldest, Newest, Random, Fair} {
		s := base
		var keys []string
		for _, key := range []string{"", "a", "b:c", "d", "e"} {
			if key != "" {
				s = mustDistinct(key, s)
				keys = append([]string{key}, keys...)
			}
			again, err := ParseStrategy(s.String())
			testkit.Holds(t, again == s && err == nil, s, "is read as", again, err)
			testkit.Holds(t, s.Base() == base && slices.Equal(s.DistinctKeys(), keys), s, "has base", s.Base(), "and keys",
				s.DistinctKeys(), "not", base, "and", keys)
		}
		_, err := PreferDistinct("f", s)
		testkit.Holds(t, err != nil, s, "is nested again")
		_, err = ParseStrategy(distinctPrefix + "f/" + s.String())
		testkit.Holds(t, err != nil, s, "is read when nested again")
	}
	testkit.Equal(t, mustDistinct("user", mustDistinct("region", Random)).String(), "prefer_distinct:user/prefer_distinct:region/random")
	long := strings.Repeat("k", MaxMetaNameBytes)
	mustDistinct(long, Oldest)
	for _, key := range []string{"", "a/b", "a b", "ü", long + "k"} {
		_, err := PreferDistinct(key, Oldest)
		testkit.Holds(t, err != nil, key, "is taken for a key")
	}
}

// FuzzStrategy: a text is refused, or it is the only text of its strategy.
func FuzzStrategy(f *testing.F) {
	for _, seed := range []string{"", "oldest", "fair", "prefer_distinct:a/oldest", "prefer_distinct:a/prefer_distinct:b/newest", "prefer_distinct:a/", "/random"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStrategy(text)
		if err != nil {
			return
		}
		rebuilt := s.Base()
		for _, key := range slices.Backward(s.DistinctKeys()) {
			rebuilt = mustDistinct(key, rebuilt)
		}
		testkit.MustHold(t, s.String() == text && rebuilt == s, text, "is read as", s, "which rebuilt is", rebuilt)
	})
}

func TestSweepMoves(t *testing.T) {
	cancelAll := &Sweep{Op: Cancel, Now: at7}
	cancelPending := &Sweep{Op: Cancel, Status: Pending, Now: at7}
	redriveAll := &Sweep{Op: Redrive, Now: at7}
	deleteAll := &Sweep{Op: Delete, Now: at7}
	deleteFailed := &Sweep{Op: Delete, Status: Failed, Now: at7}
	at := func(w *Sweep, seq uint64) *Sweep {
		other := *w
		other.Seq = seq
		return &other
	}
	moved := func(s State) State { s.UpdatedAt = 7001; return s }
	for name, test := range map[string]struct {
		sweep  *Sweep
		s      State
		others []*Sweep
		want   bool
	}{
		"cancel takes what waits":                                {sweep: cancelAll, s: pending, want: true},
		"cancel takes what is active":                            {sweep: cancelAll, s: active, want: true},
		"cancel leaves what has ended":                           {sweep: cancelAll, s: failed},
		"cancel takes what has changed since":                    {sweep: cancelAll, s: moved(pending), want: true},
		"cancel with a status leaves other statuses":             {sweep: cancelPending, s: active},
		"cancel with a status leaves what has changed since":     {sweep: cancelPending, s: moved(pending)},
		"redrive takes what has ended":                           {sweep: redriveAll, s: failed, want: true},
		"redrive leaves what has not ended":                      {sweep: redriveAll, s: active},
		"redrive leaves what has changed since":                  {sweep: redriveAll, s: moved(failed)},
		"redrive leaves what a delete takes":                     {sweep: redriveAll, s: failed, others: []*Sweep{at(deleteAll, 1)}},
		"redrive leaves what a later cancel takes":               {sweep: redriveAll, s: failed, others: []*Sweep{at(cancelAll, 71)}},
		"redrive takes what an earlier cancel left":              {sweep: redriveAll, s: failed, others: []*Sweep{at(cancelAll, 1)}, want: true},
		"redrive takes what a cancel or delete of some may take": {sweep: redriveAll, s: failed, others: []*Sweep{at(cancelPending, 71), at(deleteFailed, 71)}, want: true},
		"delete takes every status":                              {sweep: deleteAll, s: moved(active), want: true},
		"delete with a status takes that":                        {sweep: deleteFailed, s: failed, want: true},
		"other sweeps concern redrives only":                     {sweep: cancelAll, s: pending, others: []*Sweep{at(deleteAll, 71)}, want: true},
	} {
		t.Run(name, func(t *testing.T) { testkit.Equal(t, test.sweep.Moves(&test.s, test.others), test.want, "moves") })
	}
}

func TestSweepOfAll(t *testing.T) {
	for name, test := range map[string]struct {
		sweep                 Sweep
		takes                 []Status
		all, deletes, return_ bool
	}{
		"cancel":                {Sweep{Op: Cancel}, []Status{Deferred, Pending, Active}, true, false, true},
		"cancel with a status":  {Sweep{Op: Cancel, Status: Active}, []Status{Active}, false, false, false},
		"redrive":               {Sweep{Op: Redrive}, []Status{Failed, Cancelled, Completed}, false, false, false},
		"delete":                {Sweep{Op: Delete}, []Status{Deferred, Pending, Active, Completed, Failed, Cancelled}, true, true, true},
		"delete with a status":  {Sweep{Op: Delete, Status: Failed}, []Status{Failed}, false, false, false},
		"redrive with a status": {Sweep{Op: Redrive, Status: Failed}, []Status{Failed}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.sweep
			testkit.DeepEqual(t, w.Takes(), test.takes, "takes")
			testkit.Holds(t, w.TakesAll() == test.all && w.Deletes() == test.deletes && w.TakesBack(&returned) == test.return_,
				"takes all", w.TakesAll(), "deletes", w.Deletes(), "takes back", w.TakesBack(&returned))
			testkit.Holds(t, !w.TakesBack(&active) && !w.TakesBack(&failed), "takes back a job that does not wait")
		})
	}
}
