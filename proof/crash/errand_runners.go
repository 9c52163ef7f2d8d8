package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest/registry"
)

// This file has the steps of an errand about a lost runner. A runner claims a job for an hour, sends one heartbeat, and
// falls silent. The server must declare it lost and return the job, but not early. Until then the user does other
// errands. Then the runner wakes up. The server must refuse its tickles. Every second time it reports its outcome while
// the job waits, and the server must accept this. Otherwise another runner claims and completes the job, and the server
// must refuse late outcomes. The steps need no random numbers.
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

// lossSteps begins this errand, and waitForLoss continues it.
func (e *errands) lossSteps() []step {
	return []step{e.createHeld(), e.claimHeld(), e.fallSilent()}
}

func (e *errands) createHeld() step {
	none := int64(0)
	e.losses++
	j := client.TextJob(e.heldType(), fmt.Sprintf("held %d", e.losses))
	j.RetentionMs, j.LeaseMs, j.MaxAttempts, j.Backoff = &none, ownLeaseMs, 3, &client.Backoff{InitialMs: &none}
	return e.underNumber("create a job for a runner that is lost", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		doc, err := c.Create(ctx, j)
		if err != nil {
			return "", err
		}
		e.heldJob = doc.ID
		return doc.ID, nil
	}, nil)
}

// claimHeld claims the job before the runner sends its first heartbeat, so the loss of the runner covers this claim.
func (e *errands) claimHeld() step {
	return e.claimOwn("claim as a runner that is lost later", func() string { return e.silentRunner().ID }, 1, &e.oldClaim)
}

// claimOwn claims the job, which must be the only one of its type. The claim must start its n-th run.
func (e *errands) claimOwn(what string, runner func() string, n int, claim *string) step {
	return e.underNumber(what, 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		got, err := c.Claim(ctx, client.ClaimRequest{RunnerID: runner(), Types: []string{e.heldType()}, Max: 10})
		switch {
		case err != nil:
			return "", err
		case got == nil || len(got.Jobs) != 1 || got.Jobs[0].ID != e.heldJob || got.Jobs[0].RunAttempts != n:
			return "", impossiblef("claim of the only job, %s, for run %d: %+v", e.heldJob, n, got)
		}
		*claim = got.ID
		return got.ID, nil
	}, nil)
}

func (e *errands) fallSilent() step {
	begun := false
	return step{"heartbeat", func(ctx context.Context) error {
		if !begun {
			begun, e.beaten, e.silent, e.heldIn = true, false, e.h.now(), 0
		}
		if err := e.beat(ctx); err != nil {
			return err
		}
		e.waiting = true
		return nil
	}}
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

// waitForLoss checks whether the server has returned the silent runner's job, and then adds the next steps. With wait, it
// waits until the job is returned. The server must be up.
func (e *errands) waitForLoss(wait bool) step {
	return step{"wait until a runner is lost", func(ctx context.Context) error {
		for began := time.Now(); e.waiting; pause(ctx, 20*time.Millisecond) {
			doc, err := e.c.Job(ctx, e.heldJob)
			if err != nil {
				return err
			}
			if doc.ClaimID != e.oldClaim || doc.Status != "active" {
				e.waiting = false
				rest := []step{e.tickleLate(), e.beatLate()}
				if e.losses%2 == 1 {
					rest = append(rest, e.completeHeld("complete late", &e.oldClaim), e.repeatEnd(&e.oldClaim))
				} else {
					rest = append(rest, e.claimReturned(), e.tickleLate(), e.completeLate(), e.completeHeld("complete the job of a lost runner", &e.newClaim),
						e.repeatEnd(&e.newClaim), e.tickleLate(), e.completeLate())
				}
				rest = append(rest, e.endLoss())
				e.todo = append([]step{e.todo[0]}, append(rest, e.todo[1:]...)...)
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
	}}
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

// tickleLate tickles the job under the lost runner's claim. The server must refuse this.
func (e *errands) tickleLate() step {
	return e.refused("tickle for a lost runner", func(ctx context.Context) (*client.Job, error) {
		return e.c.Tickle(ctx, e.heldJob, client.TickleOptions{ClaimID: e.oldClaim})
	})
}

// completeLate completes the job under the lost runner's claim, after another runner has claimed it. The server must
// refuse this.
func (e *errands) completeLate() step {
	return e.refused("outcome for a lost runner", func(ctx context.Context) (*client.Job, error) {
		return e.c.Complete(ctx, e.heldJob, e.oldClaim, client.TextOutput("late"))
	})
}

func (e *errands) refused(what string, report func(context.Context) (*client.Job, error)) step {
	return step{what, func(ctx context.Context) error {
		doc, err := report(ctx)
		switch {
		case err == nil:
			return impossiblef("a report under claim %s, whose runner is lost, is accepted: %+v", e.oldClaim, *doc)
		case !errors.Is(err, client.ErrUnknown) && (errors.Is(err, client.ErrClaimLost) || errors.Is(err, client.ErrNotFound)):
			return nil
		}
		return err
	}}
}

// beatLate sends a heartbeat of the lost process. The server must refuse it, unless the server was started since the
// loss. Then the process says goodbye, so that it is not lost a second time.
func (e *errands) beatLate() step {
	return step{"heartbeat of a lost runner", func(ctx context.Context) error {
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
	}}
}

// claimReturned claims the job for another runner, or for the same runner, which must not lose this claim as well.
func (e *errands) claimReturned() step {
	return e.claimOwn("claim the job of a lost runner", func() string {
		if e.losses%4 == 0 {
			return e.silentRunner().ID
		}
		return e.name
	}, 2, &e.newClaim)
}

// heldOutcome is the outcome of the last run of the job.
func heldOutcome() client.Outcome { return client.TextOutput("the end") }

// completeHeld completes the job under a claim, which is its last.
func (e *errands) completeHeld(what string, claim *string) step {
	return e.underNumber(what, 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		return completeJob(ctx, c, e.heldJob, *claim, heldOutcome())
	}, nil)
}

// repeatEnd reports the outcome again. The job is not retained and so is gone, but the server must give the answer of the
// first report, unless a minute has passed.
func (e *errands) repeatEnd(claim *string) step {
	began := e.h.now()
	return step{"repeat a completion of a job that is gone", func(ctx context.Context) error {
		_, err := completeJob(ctx, e.c, e.heldJob, *claim, heldOutcome())
		refused := errors.Is(err, client.ErrClaimLost) || errors.Is(err, client.ErrNotFound)
		switch {
		case !refused || errors.Is(err, client.ErrUnknown):
			return err
		case time.Duration(e.h.now()-began) < time.Minute:
			return impossiblef("the repeat of an outcome under claim %s within a minute of the loss is refused: %v", *claim, err)
		}
		return nil
	}}
}

// endLoss reads the job, which must be gone.
func (e *errands) endLoss() step {
	return step{"read the job of a lost runner", func(ctx context.Context) error {
		doc, err := e.c.Job(ctx, e.heldJob)
		if err == nil {
			return impossiblef("the job must be gone, and reads as %+v", *doc)
		} else if !errors.Is(err, client.ErrNotFound) {
			return err
		}
		e.h.mu.Lock()
		e.h.count.LostRunners++
		e.h.mu.Unlock()
		return nil
	}}
}
