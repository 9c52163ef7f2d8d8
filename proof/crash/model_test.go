package crash

import (
	"cmp"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/daybookq/daybook/internal/testkit"
)

const second = 1000 * ms

// at returns an event that was sent at the given millisecond and answered one millisecond later.
func at(when int64, k kind, a answer, more ...func(*event)) event {
	e := event{call: when * ms, ret: (when + 1) * ms, kind: k, answer: a, attempts: -1}
	if a == lost {
		e.ret = never
	}
	for _, f := range more {
		f(&e)
	}
	return e
}

func by(claim int32) func(*event)           { return func(e *event) { e.claim = claim } }
func afterRuns(attempts int32) func(*event) { return func(e *event) { e.attempts = attempts } }
func within(from, to int64) func(*event)    { return func(e *event) { e.call, e.ret = from*ms, to*ms } }
func is(s status) func(*event)              { return func(e *event) { e.status = s } }
func until(when int64) func(*event)         { return func(e *event) { e.ret = when * ms } }

func with(code string) func(*event) { return func(e *event) { e.outcome = outcome{code: code} } }

// chainedBy gives an outcome the first chain of the job.
func chainedBy(e *event) { e.then = 1 }

// madeAt returns an event that shows which jobs the job has created.
func madeAt(when int64, chains uint64, followed int32) event {
	return at(when, chained, done, func(e *event) { e.offspring = offspring{chains, followed} })
}

func claimedAt(when int64, claim, attempts int32) event {
	return at(when, handed, done, by(claim), afterRuns(attempts), func(e *event) { e.lease = second })
}

// openClaims returns n claims without an answer, one every 10 ms.
func openClaims(n int) (list []event) {
	for i := range n {
		list = append(list, at(int64(10+10*i), handed, lost, by(int32(-1-i)), func(e *event) { e.lease = second }))
	}
	return list
}

// openRequests returns n requests of claim 1 without an answer, of each kind, one every 10 ms.
func openRequests(n int) (list []event) {
	for i := range n {
		kinds := []event{at(0, tickled, lost, by(1)), at(0, ended, lost, by(1), with("ok")), at(0, returned, lost, by(1)), at(0, endedAll, lost, by(1), with("ok"))}
		e := kinds[i%len(kinds)]
		e.call = int64(10+10*i) * ms
		list = append(list, e)
	}
	return list
}

// openRedrives returns n redrives of the batch without an answer, one every 100 ms, which may continue for ever.
func openRedrives(n int) (list []event) {
	for i := range n {
		list = append(list, at(int64(100+100*i), redrivenAll, sweeping, is(failed), func(e *event) { e.ret = never }))
	}
	return list
}

// TestHistories: the checker accepts possible histories and refuses impossible ones. Otherwise its result for a run would
// be worthless. Leases last a second.
func TestHistories(t *testing.T) {
	forever := []life{{0, never}}
	create := at(0, created, done)
	for name, c := range map[string]struct {
		legal      bool
		follows    bool // the job has an on_complete
		lives      []life
		events     []event
		openClaims []event
		max        int32 // attempts; 0: 3

		emptyClaims []event
	}{
		"a plain run": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok"), is(completed)), at(30, observed, done, is(completed), afterRuns(1)),
		}},
		"a retry, and a second run": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("retry"), is(pending)), claimedAt(30, 2, 2),
			at(40, endedAll, done, by(2), with("failed")), at(50, observed, done, is(failed), afterRuns(2)),
		}},
		"handed out again after the lease":              {legal: true, events: []event{create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2)}},
		"handed out twice at once":                      {events: []event{create, claimedAt(10, 1, 1), claimedAt(500, 2, 2)}},
		"handed out twice at once, as the same attempt": {events: []event{create, claimedAt(10, 1, 1), claimedAt(500, 2, 1)}},
		"handed out again although it was tickled": {events: []event{
			create, claimedAt(10, 1, 1), at(900, tickled, done, by(1)), claimedAt(1500, 2, 2),
		}},
		"handed out again although a restart had renewed the lease": {lives: []life{{0, 500 * ms}, {600 * ms, never}}, events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1200, 2, 2),
		}},
		"handed out again after the lease that a restart renewed": {legal: true, lives: []life{{0, 500 * ms}, {600 * ms, never}}, events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1620, 2, 2),
		}},
		"a stale completion accepted": {events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2), at(1100, ended, done, by(1), with("ok"), is(completed)),
		}},
		"a stale completion refused": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2), at(1100, ended, stale, by(1), with("ok")), at(1200, observed, done, is(active), afterRuns(2), by(2)),
		}},
		"a late completion": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(1100, tickled, stale, by(1)), at(1110, ended, done, by(1), with("ok"), is(completed)),
			at(1120, ended, done, by(1), with("ok"), is(completed)), at(1200, observed, done, is(completed), afterRuns(1)),
		}},
		"a late completion of all": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(1100, tickled, stale, by(1)), at(1110, endedAll, done, by(1), with("ok")), at(1200, observed, done, is(completed), afterRuns(1)),
		}},
		"a late completion of a claim that did not hold the job": {events: []event{
			create, claimedAt(10, 1, 1), at(1100, tickled, stale, by(1)), at(1110, ended, done, by(2), with("ok"), is(completed)),
		}},
		"a late completion after another claim": {events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2), at(1030, returned, done, by(2)), at(1110, ended, done, by(1), with("ok"), is(completed)),
		}},
		"a late completion of a run that had been given back": {events: []event{
			create, claimedAt(10, 1, 1), at(20, returned, done, by(1)), at(1110, ended, done, by(1), with("ok"), is(completed)),
		}},
		"a late completion of a job that is cancelled": {events: []event{
			create, claimedAt(10, 1, 1), at(1100, tickled, stale, by(1)), at(1105, cancelledOne, done), at(1110, ended, done, by(1), with("ok"), is(completed)),
		}},
		"a late completion undone": {events: []event{
			create, claimedAt(10, 1, 1), at(1100, tickled, stale, by(1)), at(1110, ended, done, by(1), with("ok"), is(completed)), claimedAt(1200, 2, 2),
		}},
		"a late completion before the lease has ended": {events: []event{
			create, claimedAt(10, 1, 1), at(500, tickled, stale, by(1)), at(510, ended, done, by(1), with("ok"), is(completed)),
		}},
		"a completion refused although the claim holds": {events: []event{create, claimedAt(10, 1, 1), at(20, ended, stale, by(1), with("ok"))}},
		"an acknowledged completion undone": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok"), is(completed)), claimedAt(2000, 2, 2),
		}},
		"an acknowledged completion of all undone": {events: []event{
			create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("ok")), at(2000, observed, done, is(pending), afterRuns(1)),
		}},
		"a completion without an answer that did not happen": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("ok")), claimedAt(2000, 2, 2),
		}},
		"a completion without an answer that did happen": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("ok")), at(2000, observed, done, is(completed), afterRuns(1)),
		}},
		"a completion without an answer that happened and was undone": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("ok")), at(500, observed, done, is(completed), afterRuns(1)), claimedAt(2000, 2, 2),
		}},
		"a completion without an answer that happens after its server's end": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("ok"), until(100)), at(200, observed, done, is(active), afterRuns(1), by(1)),
			at(900, observed, done, is(completed), afterRuns(1)),
		}},
		"an acknowledged create lost":                  {events: []event{create, at(500, observed, absent)}},
		"an acknowledged create lost after it was run": {events: []event{create, claimedAt(10, 1, 1), at(500, observed, absent)}},
		"a create without an answer that did not happen": {legal: true, events: []event{
			at(0, created, lost), at(500, observed, absent),
		}},
		"a repeated completion": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok"), is(completed)), at(30, ended, done, by(1), with("ok"), is(completed)),
			at(40, ended, differs, by(1), with("failed")),
		}},
		"another outcome accepted": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok")), at(30, ended, done, by(1), with("failed")),
		}},
		"a document that is read after another claim has completed the retried job": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), claimedAt(92, 2, 2), at(105, endedAll, done, by(2), with("ok")),
			at(0, ended, done, by(1), with("retry"), is(pending), within(87, 114)), at(0, observed, done, is(completed), afterRuns(2), within(87, 114)),
			at(116, endedAll, done, by(1), with("ok")), at(189, observed, done, is(completed), afterRuns(2)),
		}},
		"a document after a retry that shows an end nobody made": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("retry")), at(20, observed, done, is(completed), afterRuns(1)),
		}},
		"a document after a completion that shows the job waiting again": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok")), at(20, observed, done, is(pending), afterRuns(1)),
		}},
		"cancelled, and its runner refused": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, cancelledOne, done), at(30, ended, stale, by(1), with("ok")), at(40, observed, done, is(cancelled), afterRuns(1)),
		}},
		"handed out after it was cancelled":        {events: []event{create, at(20, cancelledOne, done), claimedAt(30, 1, 1)}},
		"handed out after its batch was cancelled": {events: []event{create, at(20, cancelledAll, done), claimedAt(30, 1, 1)}},
		"handed out while its batch is cancelled by a sweep": {legal: true, events: []event{
			create, at(20, cancelledAll, done, until(100)), claimedAt(30, 1, 1), at(200, observed, done, is(cancelled), afterRuns(1)),
		}},
		"handed out after a cancel without an answer, which did not happen": {legal: true, events: []event{
			create, at(20, cancelledOne, lost), claimedAt(30, 1, 1), at(40, endedAll, done, by(1), with("ok")), at(50, observed, done, is(completed), afterRuns(1)),
		}},
		"completed after it was cancelled": {events: []event{
			create, claimedAt(10, 1, 1), at(20, cancelledOne, done), at(30, ended, done, by(1), with("ok")),
		}},
		"tickled after it was cancelled": {events: []event{create, claimedAt(10, 1, 1), at(20, cancelledOne, done), at(30, tickled, done, by(1))}},
		"a cancel undone":                {events: []event{create, at(20, cancelledOne, done), at(30, observed, done, is(pending), afterRuns(0))}},
		"a cancel of what had ended accepted": {events: []event{
			create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("ok")), at(30, cancelledOne, done),
		}},
		"a cancel of what had not ended refused": {events: []event{create, at(20, cancelledOne, stale)}},
		"given up for a retry while its batch is cancelled": {legal: true, events: []event{
			create, at(10, cancelledAll, done, until(100)), claimedAt(20, 1, 1), at(30, ended, done, by(1), with("retry"), is(cancelled)),
			at(200, observed, done, is(cancelled), afterRuns(1)),
		}},
		"redriven, and its attempts begin again": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("failed")), at(30, redrivenOne, done), claimedAt(40, 2, 1),
		}},
		"redriven, and its attempts go on": {events: []event{
			create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("failed")), at(30, redrivenOne, done), claimedAt(40, 2, 2),
		}},
		"redriven, and nothing happened": {events: []event{
			create, at(20, cancelledOne, done), at(30, redrivenOne, done), at(40, observed, done, is(cancelled), afterRuns(0)),
		}},
		"its batch redriven from another status": {events: []event{
			create, at(20, cancelledOne, done), at(30, redrivenAll, done, is(failed)), claimedAt(40, 1, 1),
		}},
		"its batch redriven": {legal: true, events: []event{
			create, at(20, cancelledOne, done), at(30, redrivenAll, done, is(cancelled)), claimedAt(40, 1, 1),
		}},
		"a redrive of what had not ended accepted": {events: []event{create, at(20, redrivenOne, done)}},
		"a claim without an answer shows in the attempts": {legal: true, events: []event{create, claimedAt(2000, 2, 2)},
			openClaims: []event{at(10, handed, lost, by(9), func(e *event) { e.lease = second })}},
		"attempts that no claim explains": {events: []event{create, claimedAt(2000, 2, 2)}},
		"a claim without an answer whose lease had not run out": {events: []event{create, claimedAt(500, 2, 2)},
			openClaims: []event{at(10, handed, lost, by(9), func(e *event) { e.lease = second })}},
		"a claim that was answered without jobs had it meanwhile": {legal: true,
			events:      []event{create, at(20, observed, done, is(active), afterRuns(1)), at(40, observed, done, is(pending), afterRuns(0)), claimedAt(50, 2, 1)},
			emptyClaims: []event{at(10, handed, done, until(30))},
		},
		"a claim that was answered without jobs has none after its answer": {
			events:      []event{create, at(40, observed, done, is(active), afterRuns(1)), claimedAt(50, 2, 1)},
			emptyClaims: []event{at(10, handed, done, until(30))},
		},
		"a claim that was answered without jobs costs no attempt": {
			events:      []event{create, claimedAt(9000, 2, 2)},
			emptyClaims: []event{at(10, handed, done, until(8000))},
		},
		"more attempts than claims without an answer explain": {events: []event{create, claimedAt(9000, 2, 3)}, openClaims: openClaims(1)},
		"attempts of claims without an answer":                {legal: true, events: []event{create, claimedAt(9000, 2, 3)}, openClaims: openClaims(2)},
		"a claim without an answer from before the job was pending": {events: []event{
			create, claimedAt(5000, 2, 1), at(5010, endedAll, done, by(2), with("retry")), claimedAt(9000, 3, 3),
		}, openClaims: []event{at(10, handed, lost, by(9), until(4000), func(e *event) { e.lease = second })}},
		"something else than many claims without an answer explain": {
			events:     []event{create, claimedAt(2000, 2, 1), at(2010, endedAll, done, by(2), with("retry")), at(9000, observed, done, is(completed), afterRuns(3))},
			openClaims: openClaims(14),
		},
		"forty claims without an answer": {legal: true, max: 40, openClaims: openClaims(40), events: []event{
			create, claimedAt(3000, 2, 3), at(3010, endedAll, lost, by(2), with("retry")), at(9000, cancelledAll, done), at(9100, observed, done, is(cancelled), afterRuns(9)),
		}},
		"something else than forty claims without an answer explain": {max: 40, openClaims: openClaims(40), events: []event{
			create, claimedAt(3000, 2, 3), at(3010, endedAll, lost, by(2), with("retry")), at(9000, cancelledAll, done), at(9100, observed, done, is(completed), afterRuns(9)),
		}},
		"something else than many requests without an answer explain": {
			events: append(slices.Concat(openRequests(14), openRequests(14)), create, claimedAt(5, 1, 1),
				at(9000, observed, done, is(failed), afterRuns(7))),
		},
		"many requests without an answer": {legal: true,
			events: append(slices.Concat(openRequests(14), openRequests(14)), create, claimedAt(5, 1, 1),
				at(8000, tickled, stale, by(1)), at(9000, observed, done, is(completed), afterRuns(1))),
		},
		"a redrive without an answer explains one": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok")), at(30, redrivenOne, lost), claimedAt(40, 2, 1),
		}},
		"a redrive without an answer explains no second one": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok")), at(30, redrivenOne, lost), claimedAt(40, 2, 1),
			at(50, ended, done, by(2), with("ok")), claimedAt(60, 3, 1),
		}},
		"something else than many redrives without an answer explain": {
			events: append(openRedrives(30), create, claimedAt(5, 1, 1), at(20, ended, done, by(1), with("failed")), at(9000, observed, done, is(active), afterRuns(2))),
		},
		"many redrives without an answer": {legal: true, events: append(openRedrives(30), create,
			claimedAt(5, 1, 1), at(20, ended, done, by(1), with("failed")), claimedAt(500, 2, 1), at(520, ended, done, by(2), with("failed")),
			claimedAt(1500, 3, 1), at(1520, ended, done, by(3), with("failed")), at(9000, observed, done, is(pending), afterRuns(0)),
		)},
		"fewer redrives without an answer than the runs need": {events: append(openRedrives(1), create,
			claimedAt(5, 1, 1), at(20, ended, done, by(1), with("failed")), claimedAt(500, 2, 1), at(520, ended, done, by(2), with("failed")),
			at(9000, observed, done, is(pending), afterRuns(0)),
		)},
		"more attempts than allowed": {events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2), claimedAt(2030, 3, 3), claimedAt(3040, 4, 4),
		}},
		"abandoned at its last attempt": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2), claimedAt(2030, 3, 3), at(4000, observed, done, is(failed), afterRuns(3)),
		}},
		"returned by unget": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, returned, done, by(1)), claimedAt(30, 2, 1),
		}},
		"returned twice by the same claim": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, returned, lost, by(1)), at(25, tickled, stale, by(1)), at(30, returned, done, by(1)), claimedAt(40, 2, 1),
		}},
		"returned by a claim after another one took the job": {events: []event{
			create, claimedAt(10, 1, 1), at(20, returned, done, by(1)), claimedAt(30, 2, 1), at(40, returned, done, by(1)),
		}},
		"an attempt that was returned by unget and counts": {events: []event{
			create, claimedAt(10, 1, 1), at(20, returned, done, by(1)), claimedAt(30, 2, 2),
		}},
		"handed out before its delay": {events: []event{
			at(0, created, done, func(e *event) { e.delay = second }), claimedAt(500, 1, 1),
		}},
		"an outcome with a chain, and its repeat": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok"), chainedBy), at(30, ended, done, by(1), with("ok"), chainedBy), madeAt(50, 1, 0),
		}},
		"a chain of an accepted outcome is lost": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok"), chainedBy), madeAt(50, 0, 0),
		}},
		"a chain of a refused outcome": {events: []event{
			create, claimedAt(10, 1, 1), claimedAt(1020, 2, 2), at(1100, ended, stale, by(1), with("ok"), chainedBy), madeAt(1200, 1, 0),
		}},
		"a chain of an outcome that repeats one without a chain": {events: []event{
			create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("ok")), at(30, ended, done, by(1), with("ok"), chainedBy), madeAt(50, 1, 0),
		}},
		"a chain of a completion without an answer that did happen": {legal: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("failed"), chainedBy, until(100)), at(200, observed, done, is(failed), afterRuns(1)), madeAt(300, 1, 0),
		}},
		"a lost chain of a completion without an answer that did happen": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("failed"), chainedBy, until(100)), at(200, observed, done, is(failed), afterRuns(1)), madeAt(300, 0, 0),
		}},
		"a chain of a completion without an answer that did not happen": {events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, lost, by(1), with("ok"), chainedBy, until(100)), at(200, observed, done, is(active), afterRuns(1), by(1)), madeAt(300, 1, 0),
		}},
		"a job that follows": {legal: true, follows: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, ended, done, by(1), with("ok")), at(30, endedAll, done, by(1), with("ok")), madeAt(50, 0, 1),
		}},
		"a job that follows is lost":    {follows: true, events: []event{create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("ok")), madeAt(50, 0, 0)}},
		"a job that follows is doubled": {follows: true, events: []event{create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("ok")), madeAt(50, 0, 2)}},
		"a job follows one that failed": {follows: true, events: []event{create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("failed")), madeAt(50, 0, 1)}},
		"a job follows both completions of a redriven job": {legal: true, follows: true, events: []event{
			create, claimedAt(10, 1, 1), at(20, endedAll, done, by(1), with("ok")), at(30, redrivenOne, done), claimedAt(40, 2, 1), at(50, endedAll, done, by(2), with("ok")), madeAt(60, 0, 2),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lives := c.lives
			if lives == nil {
				lives = forever
			}
			m := jobModel{max: cmp.Or(c.max, 3), lives: lives, follows: c.follows}
			want := porcupine.Illegal
			if c.legal {
				want = porcupine.Ok
			}
			testkit.Equal(t, m.check(c.events, c.openClaims, c.emptyClaims), want)
		})
	}
}
