package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
)

func (e *errands) newQueue() {
	e.queues++
	e.queue = fmt.Sprintf("%s-%d", e.name, e.queues)
}

// plan chooses the steps of the next errand.
func (e *errands) plan() {
	rng := e.rng
	add := func(steps ...step) { e.todo = append(e.todo, steps...) }
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
		add(e.countQueue(0), e.deleteQueue())
	case n < 5:
		add(step{"leave the queue to --queue-idle", func(context.Context) error {
			e.idle = append(e.idle, idleQueue{e.queue, e.emptied})
			e.newQueue()
			return nil
		}})
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
	if e.done%12 == 9 {
		add(e.chainSteps()...)
	}
	if e.done%6 == 3 {
		add(e.batchSteps()...)
	}
	if e.waiting {
		add(e.waitForLoss(false))
	} else if e.done%4 == 2 {
		add(e.lossSteps()...)
	}
	switch n := rng.IntN(40); {
	case n < 4:
		add(e.checkSession())
	case n < 5:
		add(e.checkSession(), e.endSession(), e.openSession())
	}
	add(step{"end an errand", func(ctx context.Context) error {
		e.done++
		pause(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		return nil
	}})
}

// numbered makes a request, with a number of the session, until it is answered. Now and then it repeats the request
// immediately. With late, it may also keep the number, so that the request is repeated after later requests in other
// slots. Each repeat must get the same answer.
func (e *errands) numbered(what string, ask, late func(context.Context, *client.Client) (string, error)) step {
	times := 1
	if e.rng.IntN(3) == 0 {
		times++
	}
	hold := late != nil && e.rng.IntN(4) == 0
	return e.underNumber(what, times, hold, ask, late)
}

// underNumber makes a request, with a number of the session, until it was answered this many times. With hold, it may
// keep the number for late.
func (e *errands) underNumber(what string, times int, hold bool, ask, late func(context.Context, *client.Client) (string, error)) step {
	var n client.Number
	var answers []string
	return step{what, func(ctx context.Context) (err error) {
		if n == (client.Number{}) {
			if n, err = e.session.Take(ctx); err != nil {
				return err
			}
		}
		for len(answers) < times {
			answer, err := ask(ctx, e.c.Numbered(n))
			if err != nil {
				return err
			}
			if answers = append(answers, answer); answer != answers[0] {
				return impossiblef("%+v was answered with %q, and its repeat with %q", n, answers[0], answer)
			}
		}
		e.last[n.Slot] = n.Number
		if hold && len(e.held) < 3 {
			e.held = append(e.held, heldNumber{n, late, answers[0]})
		} else {
			e.session.Answered(n)
		}
		return nil
	}}
}

// repeatLate repeats the requests whose numbers were kept, and frees the numbers.
func (e *errands) repeatLate() step {
	return step{"repeat late", func(ctx context.Context) error {
		for len(e.held) > 0 {
			held := e.held[0]
			if answer, err := held.ask(ctx, e.c.Numbered(held.n)); err != nil {
				return err
			} else if answer != held.answer {
				return impossiblef("%+v was answered with %q, and its late repeat with %q", held.n, held.answer, answer)
			}
			e.session.Answered(held.n)
			e.held = e.held[1:]
		}
		return nil
	}}
}
