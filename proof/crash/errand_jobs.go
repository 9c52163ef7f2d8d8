package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
)

// This file has the steps of an errand that concern its job.

// newJob returns the job of a create. With kept, the server keeps the job after its end.
func (e *errands) newJob(key string, kept bool) client.NewJob {
	e.jobs++
	j := client.TextJob(e.queue, fmt.Sprintf("<%s>%d %s", e.name, e.jobs, strings.Repeat("#:end crc=00000000\n", e.rng.IntN(20))))
	priority, none := e.rng.IntN(10), int64(0)
	j.Priority, j.MaxAttempts, j.UniqueKey, j.LeaseMs = &priority, 2+e.rng.IntN(5), key, ownLeaseMs
	j.Meta = map[string]string{"errand": fmt.Sprint(e.jobs)}
	if !kept {
		j.RetentionMs = &none
	}
	return j
}

// create makes a job with a unique key that no unfinished job has.
func (e *errands) create(key string, kept bool) step {
	var j *client.NewJob
	var id string
	ask := func(ctx context.Context, c *client.Client) (string, error) {
		if j == nil { // the queue is known only now
			made := e.newJob(key, kept)
			j = &made
		}
		doc, err := c.Create(ctx, *j)
		switch {
		case err != nil:
			return "", err
		case doc.Existing:
			return "", impossiblef("the unique key is free, and the create was answered with job %s", doc.ID)
		case doc.ID == e.job.id && id == "":
			return "", impossiblef("the create was answered with the earlier job %s", doc.ID)
		}
		id = doc.ID
		return doc.ID, nil
	}
	s := e.numbered("create", ask, ask)
	return step{s.what, func(ctx context.Context) error {
		if err := s.do(ctx); err != nil {
			return err
		}
		e.job = ownJob{id: id, key: key, payload: string(j.Payload), errand: j.Meta["errand"], status: "pending", priority: *j.Priority, max: j.MaxAttempts}
		return nil
	}}
}

// existing creates a job with the unique key of the existing job, under another number. The answer must name the existing
// job.
func (e *errands) existing() step {
	var j *client.NewJob
	var id string
	ask := func(ctx context.Context, c *client.Client) (string, error) {
		if j == nil {
			other := e.newJob(e.job.key, false)
			j, id = &other, e.job.id
		}
		doc, err := c.Create(ctx, *j)
		switch {
		case err != nil:
			return "", err
		case !doc.Existing || doc.ID != id:
			return "", impossiblef("a create with the unique key of job %s was answered with %+v", id, *doc)
		}
		return doc.ID, nil
	}
	return e.numbered("create with a unique key that is held", ask, ask)
}

// patch changes the job, and reads it with Daybook-Min-Seq.
func (e *errands) patch(deferred bool) step {
	fields := map[string]any{"priority": e.rng.IntN(10), "max_attempts": 4 + e.rng.IntN(5)}
	if deferred {
		fields["run_at"] = time.Now().Add(time.Hour).UnixMilli()
	}
	return step{"patch", func(ctx context.Context) error {
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		path := "/jobs/" + e.job.id
		r, err := e.raw.sendWith(ctx, http.MethodPatch, path, map[string]string{"Content-Type": "application/json"}, body)
		if err := e.answered(r, err); err != nil {
			return err
		}
		e.job.priority, e.job.max = fields["priority"].(int), fields["max_attempts"].(int)
		if deferred {
			e.job.status = "deferred"
		}
		r, err = e.raw.sendWith(ctx, http.MethodGet, path, map[string]string{"Daybook-Min-Seq": r.seq}, nil)
		if err := e.answered(r, err); err != nil {
			return err
		}
		var doc client.Job // the answer has no payload
		if err := json.Unmarshal(r.body, &doc); err != nil {
			return impossiblef("%.300q: %v", r.body, err)
		}
		doc.Payload = []byte(e.job.payload)
		return e.compare(&doc)
	}}
}

// answered returns nil for an answer of 2xx, and errNoAnswer if the request must be repeated.
func (e *errands) answered(r *reply, err error) error {
	switch {
	case err != nil || r.open():
		return errNoAnswer
	case r.ok():
		return nil
	case r.status == http.StatusServiceUnavailable, r.status == http.StatusTooManyRequests, r.status == http.StatusInsufficientStorage,
		r.status == http.StatusInternalServerError && e.raw.badDisk:
		return errNoAnswer
	}
	return impossiblef("%d %s: %s", r.status, r.problem.Code, r.problem.Detail)
}

// runNow makes the deferred job pending.
func (e *errands) runNow() step {
	return step{"run", func(ctx context.Context) error {
		doc, err := e.c.RunNow(ctx, e.job.id)
		if err != nil {
			return err
		}
		e.job.status = "pending"
		return e.compare(doc)
	}}
}

// readJob reads the job, which must agree with the last answer.
func (e *errands) readJob() step {
	return step{"read", func(ctx context.Context) error {
		doc, err := e.c.Job(ctx, e.job.id)
		switch {
		case errors.Is(err, client.ErrNotFound) && e.job.gone:
			return nil
		case errors.Is(err, client.ErrNotFound):
			return impossiblef("the job is lost")
		case err != nil:
			return err
		case e.job.gone:
			return impossiblef("the job must be gone, and reads as %+v", *doc)
		}
		return e.compare(doc)
	}}
}

// compare compares a document of the job with the expected state.
func (e *errands) compare(doc *client.Job) error {
	j := &e.job
	if doc.ID != j.id || doc.Client != ownClient || doc.Type != e.queue || doc.Status != j.status || doc.Priority != j.priority || doc.RunAttempts != j.runs ||
		doc.MaxAttempts != j.max || doc.UniqueKey != j.key || string(doc.Payload) != j.payload || doc.Meta["errand"] != j.errand ||
		doc.ClaimID != j.claim || string(doc.Output) != j.output {
		return impossiblef("in queue %s it reads as %+v, with payload %q and output %q", e.queue, *doc, doc.Payload, doc.Output)
	}
	return nil
}

// claim claims from the queue, and must get the job.
func (e *errands) claim() step {
	q := client.ClaimRequest{RunnerID: e.name, Max: 1 + e.rng.IntN(5), Strategy: []client.Strategy{"", client.Newest, client.Random, client.Fair}[e.rng.IntN(4)]}
	if e.done%2 == 1 { // not by rng: the tests with lying servers need its numbers
		q.Strategy = client.PreferDistinct("errand", q.Strategy)
	}
	var claim string
	var doc *client.Job
	s := e.numbered("claim", func(ctx context.Context, c *client.Client) (string, error) {
		q.Types = []string{e.queue}
		got, err := c.Claim(ctx, q)
		switch {
		case err != nil:
			return "", err
		case got == nil || len(got.Jobs) != 1:
			return "", impossiblef("claim of the only job: %+v", got)
		}
		claim, doc = got.ID, got.Jobs[0]
		return fmt.Sprint(got.ID, " hands out ", doc.ID), nil
	}, nil)
	return step{s.what, func(ctx context.Context) error {
		if err := s.do(ctx); err != nil {
			return err
		}
		e.job.status, e.job.claim, e.job.runs = "active", claim, e.job.runs+1
		if doc.RunnerID != e.name || doc.LeaseMs != ownLeaseMs {
			return impossiblef("claim of %s hands out %+v", e.name, *doc)
		}
		return e.compare(doc)
	}}
}

// claimNothing claims from the queue while no job is pending there.
func (e *errands) claimNothing() step {
	return step{"claim what is not pending", func(ctx context.Context) error {
		got, err := e.c.Claim(ctx, client.ClaimRequest{RunnerID: e.name, Types: []string{e.queue}})
		if err == nil && got != nil {
			err = impossiblef("it was handed out: %+v, %+v", *got, *got.Jobs[0])
		}
		return err
	}}
}

// release returns the job by unget, as if it had not been claimed.
func (e *errands) release() step {
	var doc *client.Job
	s := e.numbered("release", func(ctx context.Context, c *client.Client) (string, error) {
		var err error
		if doc, err = c.Release(ctx, e.job.id, e.job.claim, client.Unget, nil); err != nil {
			return "", err
		}
		return doc.ID, nil
	}, nil)
	return step{s.what, func(ctx context.Context) error {
		if err := s.do(ctx); err != nil {
			return err
		}
		e.job.status, e.job.claim, e.job.runs = "pending", "", e.job.runs-1
		return e.compare(doc)
	}}
}

// complete ends the job, in one of three ways. Unless the job is kept, the server then deletes it.
func (e *errands) complete() step {
	way, output := e.rng.IntN(3), fmt.Sprintf("output %d", e.rng.Uint64())
	o := client.TextOutput(output)
	var id, claim string // of the request, also when it is repeated later
	ask := func(ctx context.Context, c *client.Client) (string, error) {
		if id == "" {
			id, claim, e.emptied = e.job.id, e.job.claim, e.h.now()
		}
		switch way {
		case 0:
			doc, err := c.Complete(ctx, id, claim, o)
			if err != nil {
				return "", err
			}
			return doc.ID + " is " + doc.Status, nil
		case 1:
			results, err := c.CompleteMany(ctx, claim, []client.JobOutcome{{JobID: id, Outcome: o}})
			if err != nil || len(results) != 1 {
				return fmt.Sprint(results), err
			}
			return results[0].JobID + " is " + results[0].Status + results[0].Code, nil
		default:
			ended, _, err := c.CompleteClaim(ctx, claim, o)
			if ended == 1 {
				return id + " is completed", err
			}
			return fmt.Sprint(ended), err
		}
	}
	s := e.numbered("complete", func(ctx context.Context, c *client.Client) (string, error) {
		answer, err := ask(ctx, c)
		if err == nil && answer != id+" is completed" {
			err = impossiblef("way %d was answered with %q", way, answer)
		}
		return answer, err
	}, ask)
	return step{s.what, func(ctx context.Context) error {
		if err := s.do(ctx); err != nil {
			return err
		}
		kept := strings.HasSuffix(e.job.key, lastKey)
		e.job.status, e.job.output, e.job.gone = "completed", output, !kept
		return nil
	}}
}

// completeDeleted completes a job that was deleted while it was active. The server must refuse this.
func (e *errands) completeDeleted() step {
	return step{"complete a deleted job", func(ctx context.Context) error {
		doc, err := e.c.Complete(ctx, e.job.id, e.job.claim, client.TextOutput("late"))
		switch {
		case err == nil:
			return impossiblef("it was answered with %+v", *doc)
		case errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrClaimLost) && !errors.Is(err, client.ErrUnknown):
			return nil
		}
		return err
	}}
}

// removes is a step that removes something. An answer of 404 is right only if an earlier try got no answer, or if
// mayBeGone returns true.
func (e *errands) removes(what string, ask func(context.Context) error, mayBeGone func() bool, then func()) step {
	lost := false
	return step{what, func(ctx context.Context) error {
		err := ask(ctx)
		var refused *client.Error
		switch {
		case err == nil, errors.Is(err, client.ErrNotFound) && (lost || mayBeGone()):
			then()
			return nil
		case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrConflict):
			return impossiblef("it was answered with: %v", err)
		// These errors prove that the server did nothing.
		case errors.Is(err, client.ErrUnavailable), errors.As(err, &refused) && refused.Outcome == "not_stored":
		default:
			lost = true
		}
		return err
	}}
}

func (e *errands) deleteJob() step {
	return e.removes("delete the job", func(ctx context.Context) error {
		if !e.open {
			e.emptied = e.h.now()
		}
		return e.once.Delete(ctx, e.job.id)
	}, func() bool { return false }, func() { e.job.gone = true })
}
