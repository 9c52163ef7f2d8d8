package job

import (
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

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
		t.Run(name, func(t *testing.T) {
			testkit.Equal(t, test.sweep.Moves(&test.s, test.others), test.want, "moves")
		})
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
			if w.TakesAll() != test.all || w.Deletes() != test.deletes || w.TakesBack(&returned) != test.return_ {
				t.Errorf("takes all %v, deletes %v, takes back %v", w.TakesAll(), w.Deletes(), w.TakesBack(&returned))
			}
			testkit.Holds(t, !w.TakesBack(&active) && !w.TakesBack(&failed), "takes back a job that does not wait")
		})
	}
}
