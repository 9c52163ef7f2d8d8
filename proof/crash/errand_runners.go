package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest/registry"
)

// The rows of an errand about a lost runner. A runner claims a job for an hour, sends one heartbeat, and falls silent. The
// server must declare it lost and return the job, but not early. Until then the user does other errands. Then the runner
// wakes up. The server must refuse its tickles. Every second time it reports its outcome while the job waits, and the
// server must accept this. Otherwise another runner claims and completes the job, and the server must refuse late
// outcomes. The rows need no random numbers.
//
// The server knows runners in memory only. So after each start of the server, the runner sends another heartbeat.

// runnerHeartbeat is the shortest time that --runner-heartbeat accepts.
const runnerHeartbeat = registry.MinHeartbeat

// lossTime is the least time between the last heartbeat of a runner and its loss.
const lossTime = registry.MissedHeartbeats * runnerHeartbeat

// ownLoss is the runner and the job of this errand.
type ownLoss struct {
	every    time.Duration // between two heartbeats; 0: as the server's first answer says
	patience time.Duration // if a runner is not lost after this time, the result is undecided

	losses            int // such jobs so far
	heldJob, oldClaim string
	newClaim          string // of the runner that gets the job later
	waiting           bool   // the runner holds the job and is silent

	beaten bool // the runner has sent a heartbeat for this job, with or without an answer
	// silent is a time before the last heartbeat that counts. The server showed the job as held after that heartbeat.
	silent int64
	// beatIn is the life of the server in which the runner sent its last heartbeat.
	beatIn int
	// heldIn is the life of the server in which it accepted a heartbeat, and later showed the job as held, or 0. If the
	// server returns the job in the same life, it must refuse heartbeats from then on.
	heldIn int
}

// silentRunner is the runner that is lost, a new process each time.
func (e *errands) silentRunner() client.RunnerInfo {
	return client.RunnerInfo{ID: e.name + "-silent", Instance: fmt.Sprintf("process %d", e.losses)}
}

func (e *errands) heldType() string { return e.name + "-held" }

// lossRows begins this errand, and waitForLoss continues it. The job is claimed before the runner sends its first
// heartbeat, so the loss of the runner covers this claim.
func (e *errands) lossRows() []row {
	e.losses++
	none := int64(0)
	j := client.TextJob(e.heldType(), fmt.Sprintf("held %d", e.losses))
	j.RetentionMs, j.LeaseMs, j.MaxAttempts, j.Backoff = &none, ownLeaseMs, 3, &client.Backoff{InitialMs: &none}
	return append([]row{{
		verb: "create a job for a runner that is lost", numbered: true, ids: ids{"ID": &e.heldJob},
		request: func(c call) (any, error) { return c.Create(c, j) },
	}, e.claimHeld("claim as a runner that is lost later", e.silentRunner().ID, 1, &e.oldClaim)}, e.fallSilent())
}

// claimHeld claims the job, which must be the only one of its type. The claim must start its n-th run.
func (e *errands) claimHeld(verb, runner string, n int, claim *string) row {
	return row{
		verb: verb, numbered: true, ids: ids{"ID": claim},
		request: func(c call) (any, error) {
			return c.claims(client.ClaimRequest{Max: 10}, runner, e.heldType())
		},
		answer: func() any { return fields{"Jobs": []fields{{"ID": e.heldJob, "RunAttempts": n}}} },
	}
}

func (e *errands) fallSilent() row {
	begun := false
	return own("heartbeat", func(ctx context.Context) error {
		if !begun {
			begun, e.beaten, e.silent, e.heldIn = true, false, e.h.now(), 0
		}
		if err := e.beat(ctx); err != nil {
			return err
		}
		e.waiting = true
		return nil
	})
}

// beat sends one heartbeat.
func (e *errands) beat(ctx context.Context) error {
	sent, life, before := e.h.now(), e.h.life(), e.beaten
	e.beaten = true
	every, err := e.once.Heartbeat(ctx, e.silentRunner())
	switch {
	case errors.Is(err, client.ErrRunnerLost) && before: // it was lost since an earlier heartbeat
		e.beatIn = life
		return nil
	case errors.Is(err, client.ErrRunnerLost):
		return impossiblef("the first heartbeat of a process was answered with: %v", err)
	case err != nil:
		return err
	case e.every == 0:
		e.every = every
	case every != e.every:
		return impossiblef("the next heartbeat must be due after %v, and the answer says %v", e.every, every)
	}
	e.beatIn = life
	// The job may have been returned before the heartbeat, in an earlier life of the server, which knew older heartbeats.
	doc, err := e.c.Job(ctx, e.heldJob)
	if err != nil {
		return err
	}
	if doc.ClaimID == e.oldClaim && e.h.life() == life {
		e.silent, e.heldIn = sent, life
	}
	return nil
}

// waitForLoss checks whether the server has returned the silent runner's job, and then adds the next rows. With wait, it
// waits until the job is returned. The server must be up.
func (e *errands) waitForLoss(wait bool) row {
	return own("wait until a runner is lost", func(ctx context.Context) error {
		for began := time.Now(); e.waiting; pause(ctx, 20*time.Millisecond) {
			doc, err := e.c.Job(ctx, e.heldJob)
			if err != nil {
				return err
			}
			if doc.ClaimID != e.oldClaim || doc.Status != "active" {
				e.waiting = false
				e.next(e.afterLoss()...)
				return e.checkReturned(doc)
			}
			if e.h.life() != e.beatIn {
				if err := e.beat(ctx); err != nil {
					return err
				}
				began = time.Now()
			}
			if !wait {
				return nil
			}
			if time.Since(began) > e.patience {
				return undecided("runner %s sent its last heartbeat %v ago, and still holds job %s", e.silentRunner().ID, time.Duration(e.h.now()-e.silent), e.heldJob)
			}
		}
		return nil
	})
}

// checkReturned checks the document of the job that was returned.
func (e *errands) checkReturned(doc *client.Job) error {
	if doc.Status != "pending" && doc.Status != "deferred" || doc.ClaimID != "" || doc.RunAttempts != 1 || len(doc.Attempts) != 1 ||
		doc.Attempts[0].Why != "runner_lost" || doc.Attempts[0].Error != "its runner was lost" || doc.Attempts[0].RunnerID != e.silentRunner().ID {
		return impossiblef("the job of a silent runner must be returned by its loss, and reads as %+v", *doc)
	}
	if now := e.h.now(); !e.h.mayLapse(e.silent, int64(registry.MissedHeartbeats*e.every), now) {
		return impossiblef("runner %s was lost early: it sent a heartbeat %v ago, and the server did not run for %d times %v since then", e.silentRunner().ID,
			time.Duration(now-e.silent), registry.MissedHeartbeats, e.every)
	}
	return nil
}

// afterLoss returns the rest of the errand: the runner wakes up.
func (e *errands) afterLoss() []row {
	read := func(c call) (any, error) { return c.Job(c, e.heldJob) }
	tickle := row{
		verb: "tickle for a lost runner",
		request: func(c call) (any, error) {
			return c.Tickle(c, e.heldJob, client.TickleOptions{ClaimID: e.oldClaim})
		},
		answer: notHeld,
	}
	late := row{
		verb: "outcome for a lost runner",
		request: func(c call) (any, error) {
			return c.Complete(c, e.heldJob, e.oldClaim, client.TextOutput("late"))
		},
		answer: notHeld,
	}
	complete := func(verb string, claim *string) row {
		return row{
			verb: verb, numbered: true, answer: isCompleted,
			request: func(c call) (any, error) {
				return c.Complete(c, e.heldJob, *claim, client.TextOutput("the end"))
			},
		}
	}
	// The job is not retained and so is gone, but the server must give the answer of the first report for a minute.
	began := e.h.now()
	repeat := func(claim *string) row {
		again := complete("repeat a completion of a job that is gone", claim)
		report := again.request
		again.numbered = false
		again.request = func(c call) (any, error) {
			doc, err := report(c)
			if notHeld.is(err) && time.Duration(e.h.now()-began) >= time.Minute {
				return isCompleted, nil
			}
			return doc, err
		}
		return again
	}
	rows := []row{tickle, e.beatLate()}
	if e.losses%2 == 1 {
		rows = append(rows, complete("complete late", &e.oldClaim), repeat(&e.oldClaim))
	} else {
		other := e.name
		if e.losses%4 == 0 {
			other = e.silentRunner().ID // it must not lose this claim as well
		}
		rows = append(rows, e.claimHeld("claim the job of a lost runner", other, 2, &e.newClaim), tickle, late,
			complete("complete the job of a lost runner", &e.newClaim), repeat(&e.newClaim), tickle, late)
	}
	return append(rows, row{
		verb: "read the job of a lost runner", request: read, answer: notFound,
		change: func() { e.h.tally(func(t *tally) { t.LostRunners++ }) },
	})
}

// beatLate sends a heartbeat of the lost process. The server must refuse it, unless the server was started since the
// loss. Then the process says goodbye, so that it is not lost a second time.
func (e *errands) beatLate() row {
	return own("heartbeat of a lost runner", func(ctx context.Context) error {
		r := e.silentRunner()
		_, err := e.once.Heartbeat(ctx, r)
		switch {
		case errors.Is(err, client.ErrRunnerLost):
			return nil
		case err != nil:
			return err
		case e.h.life() == e.heldIn:
			return impossiblef("the server has declared %s of runner %s lost, and accepts its heartbeat", r.Instance, r.ID)
		}
		err = e.c.Goodbye(ctx, r.ID, r.Instance)
		if errors.Is(err, client.ErrRunnerLost) || errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrUnknown) {
			return nil
		}
		return err
	})
}
