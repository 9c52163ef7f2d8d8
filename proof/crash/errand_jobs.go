package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
)

// The rows of an errand's job. It is alone in its queue, and has a unique key.

// ownJob is the state of the latest job that the server must show.
type ownJob struct {
	id, key, payload, errand string
	gone                     bool
	status                   string
	priority, runs, max      int
	claim, output            string
}

func (j *ownJob) String() string {
	return fmt.Sprintf("%s (key %q, gone %t, %s, priority %d, run %d of %d, claim %s)", j.id, j.key, j.gone, j.status, j.priority, j.runs, j.max, j.claim)
}

// jobFields are the fields of the job's document.
func (e *errands) jobFields() fields {
	j := &e.job
	return fields{
		"ID": j.id, "Client": ownClient, "Type": e.queue, "Status": j.status, "Priority": j.priority, "RunAttempts": j.runs, "MaxAttempts": j.max,
		"UniqueKey": j.key, "Payload": j.payload, "Meta.errand": j.errand, "ClaimID": j.claim, "Output": j.output,
	}
}

func (e *errands) jobAnswer() any { return e.jobFields() }

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
func (e *errands) create(key string, kept bool) row {
	var j *client.NewJob
	return e.random(row{
		verb: "create", late: true,
		request: func(c call) (any, error) {
			if j == nil { // the queue is known only now
				made := e.newJob(key, kept)
				j = &made
			}
			return c.Create(c, *j)
		},
		ids: ids{"ID": &e.job.id},
		change: func() {
			e.job = ownJob{id: e.job.id, key: key, payload: string(j.Payload), errand: j.Meta["errand"], status: "pending", priority: *j.Priority, max: j.MaxAttempts}
		},
		answer: fields{"Existing": false},
	})
}

// existing creates a job with the unique key of the existing job, under another number. The answer must name the existing
// job.
func (e *errands) existing() row {
	var j *client.NewJob
	return e.random(row{
		verb: "create with a unique key that is held", late: true,
		request: func(c call) (any, error) {
			if j == nil {
				other := e.newJob(e.job.key, false)
				j = &other
			}
			return c.Create(c, *j)
		},
		answer: func() any { return fields{"Existing": true, "ID": e.job.id} },
	})
}

// patch changes the job, and reads it with Daybook-Min-Seq.
func (e *errands) patch(deferred bool) row {
	priority, attempts := e.rng.IntN(10), 4+e.rng.IntN(5)
	patched := map[string]any{"priority": priority, "max_attempts": attempts}
	if deferred {
		patched["run_at"] = time.Now().Add(time.Hour).UnixMilli()
	}
	return row{
		verb: "patch",
		request: func(c call) (any, error) {
			body, err := json.Marshal(patched)
			if err != nil {
				return nil, err
			}
			path := "/jobs/" + e.job.id
			r, err := e.raw.sendWith(c, http.MethodPatch, path, map[string]string{"Content-Type": "application/json"}, body)
			if err := e.answered(r, err); err != nil {
				return nil, err
			}
			r, err = e.raw.sendWith(c, http.MethodGet, path, map[string]string{"Daybook-Min-Seq": r.seq}, nil)
			if err := e.answered(r, err); err != nil {
				return nil, err
			}
			doc := client.Job{Payload: []byte(e.job.payload)} // Unmarshal does not read it
			if err := json.Unmarshal(r.body, &doc); err != nil {
				return nil, impossiblef("%.300q: %v", r.body, err)
			}
			return &doc, nil
		},
		change: func() {
			e.job.priority, e.job.max = priority, attempts
			if deferred {
				e.job.status = "deferred"
			}
		},
		answer: e.jobAnswer,
	}
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
func (e *errands) runNow() row {
	return row{
		verb:    "run",
		request: func(c call) (any, error) { return c.RunNow(c, e.job.id) },
		change:  func() { e.job.status = "pending" },
		answer:  e.jobAnswer,
	}
}

// readJob reads the job, which must agree with the last answer.
func (e *errands) readJob() row {
	return row{
		verb:    "read",
		request: func(c call) (any, error) { return c.Job(c, e.job.id) },
		answer: func() any {
			if e.job.gone {
				return notFound
			}
			return e.jobFields()
		},
	}
}

// claim claims from the queue, and must get the job.
func (e *errands) claim() row {
	q := client.ClaimRequest{Max: 1 + e.rng.IntN(5), Strategy: []client.Strategy{"", client.Newest, client.Random, client.Fair}[e.rng.IntN(4)]}
	if e.done%2 == 1 { // not by rng: the tests with lying servers need its numbers
		q.Strategy = client.PreferDistinct("errand", q.Strategy)
	}
	return e.random(row{
		verb:    "claim",
		request: func(c call) (any, error) { return c.claims(q, e.name, e.queue) },
		ids:     ids{"ID": &e.job.claim},
		change:  func() { e.job.status, e.job.runs = "active", e.job.runs+1 },
		answer: func() any {
			job := e.jobFields()
			job["RunnerID"], job["LeaseMs"] = e.name, ownLeaseMs
			return fields{"Jobs": []fields{job}}
		},
	})
}

// claimNothing claims from the queue while no job is pending there.
func (e *errands) claimNothing() row {
	return e.claimNone("claim what is not pending", func() string { return e.queue })
}

// claimNone claims from a queue in which no job is pending.
func (e *errands) claimNone(verb string, typ func() string) row {
	return row{
		verb: verb,
		request: func(c call) (any, error) {
			return c.claims(client.ClaimRequest{}, e.name, typ())
		},
		answer: fields{"Jobs": []fields{}},
	}
}

// release returns the job by unget, as if it had not been claimed.
func (e *errands) release() row {
	return e.random(row{
		verb: "release",
		request: func(c call) (any, error) {
			return c.Release(c, e.job.id, e.job.claim, client.Unget, nil)
		},
		change: func() { e.job.status, e.job.claim, e.job.runs = "pending", "", e.job.runs-1 },
		answer: e.jobAnswer,
	})
}

// complete ends the job, in one of three ways. Unless the job is kept, the server then deletes it.
func (e *errands) complete() row {
	way, output := e.rng.IntN(3), fmt.Sprintf("output %d", e.rng.Uint64())
	o := client.TextOutput(output)
	var id, claim string // of the request, also when it is repeated later
	return e.random(row{
		verb: "complete", late: true,
		request: func(c call) (any, error) {
			if id == "" {
				id, claim, e.emptied = e.job.id, e.job.claim, e.h.now()
			}
			switch way {
			case 0:
				doc, err := c.Complete(c, id, claim, o)
				return doc, err
			case 1:
				return c.CompleteMany(c, claim, []client.JobOutcome{{JobID: id, Outcome: o}})
			}
			ended, _, err := c.CompleteClaim(c, claim, o)
			return ended, err
		},
		change: func() {
			e.job.status, e.job.output, e.job.gone = "completed", output, !strings.HasSuffix(e.job.key, lastKey)
		},
		answer: func() any {
			switch way {
			case 0:
				return fields{"ID": id, "Status": "completed"}
			case 1:
				return []fields{{"JobID": id, "Status": "completed", "Code": ""}}
			}
			return 1
		},
	})
}

// completeDeleted completes a job that was deleted while it was active. The server must refuse this.
func (e *errands) completeDeleted() row {
	return row{
		verb: "complete a deleted job",
		request: func(c call) (any, error) {
			return c.Complete(c, e.job.id, e.job.claim, client.TextOutput("late"))
		},
		answer: notHeld,
	}
}

func (e *errands) deleteJob() row {
	return row{
		verb: "delete the job", removes: neverRemoved,
		request: func(c call) (any, error) {
			if !e.open {
				e.emptied = e.h.now()
			}
			return nil, c.Delete(c, e.job.id)
		},
		change: func() { e.job.gone = true },
	}
}
