package crash

import (
	"context"
	"fmt"
	"time"
)

// plan chooses the rows of the next errand.
func (e *errands) plan() {
	rng := e.rng
	add := func(rows ...row) { e.todo = append(e.todo, rows...) }
	if e.session == nil {
		add(e.openSession())
	}
	if e.queue == "" {
		e.newQueue()
	}
	key := fmt.Sprintf("%s %d é", e.name, e.jobs)
	add(e.create(key, false), e.existing())
	deferred := false
	if rng.IntN(2) == 0 {
		deferred = rng.IntN(3) == 0
		add(e.patch(deferred))
		if deferred {
			add(e.claimNothing(), e.runNow())
		}
	}
	if rng.IntN(3) == 0 {
		add(e.readJob())
	}
	if e.done%12 == 7 {
		add(e.backUp())
	}
	switch rng.IntN(4) {
	case 0:
		add(e.deleteJob())
	case 1:
		add(e.claim(), e.deleteJob(), e.completeDeleted())
	default:
		add(e.claim())
		if rng.IntN(3) == 0 {
			add(e.existing())
		}
		if rng.IntN(3) == 0 {
			add(e.release(), e.claim())
		}
		add(e.claimNothing(), e.complete())
	}
	add(e.readJob())
	if rng.IntN(2) == 0 { // the unique key is free again
		add(e.create(key, false))
		if rng.IntN(2) == 0 {
			add(e.deleteJob())
		} else {
			add(e.claim(), e.complete())
		}
		add(e.readJob())
	}
	add(e.repeatLate())
	switch n := rng.IntN(10); {
	case n < 3:
		add(e.countQueue(0))
		add(e.deleteQueue()...)
	case n < 5:
		add(e.leaveQueue())
	}
	if rng.IntN(10) == 0 {
		add(e.checkIdleQueue(false))
	}
	if e.done%3 == 1 {
		add(e.readHandler(), e.putHandler())
		if e.done%12 == 4 {
			add(e.readHandler(), e.deleteHandler(), e.readHandler())
		}
	}
	if e.done%3 == 0 {
		add(e.putBlob(), e.readBlobs())
	}
	if e.done%3 == 2 {
		add(e.readFileset(), e.putFileset())
		if e.done%12 == 5 {
			add(e.readFileset(), e.deleteFileset(), e.readFileset())
		}
	}
	if e.done%6 == 1 {
		add(e.createKey(), e.useKeys())
		if e.done%12 == 7 {
			add(e.revokeKey())
		}
	}
	if e.done%3 == 2 {
		add(e.useKeys())
	}
	if e.done%12 == 9 {
		add(e.chainRows()...)
	}
	if e.done%6 == 3 {
		add(e.batchRows()...)
	}
	if e.waiting {
		add(e.waitForLoss(false))
	} else if e.done%4 == 2 {
		add(e.lossRows()...)
	}
	switch n := rng.IntN(40); {
	case n < 4:
		add(e.checkSession())
	case n < 5:
		add(e.checkSession())
		add(e.endSession()...)
		add(e.openSession())
	}
	add(own("end an errand", func(ctx context.Context) error {
		e.done++
		pause(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		return nil
	}))
}
