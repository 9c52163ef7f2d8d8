package crash

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// grant has the jobs that a claim handed out.
type grant struct {
	id   job.ID
	call int64 // when the claim was sent
	n    int32 // its number in the history
	jobs []job.ID
	runs bool // it was claimed in runs, and its outcomes are reported in runs
}

func (g *grant) empty() bool { return g == nil || len(g.jobs) == 0 }

// claimRequest is one request for a claim.
type claimRequest struct {
	runner  string
	max     int   // 0: a single job
	leaseMs int64 // 0: each job has its own lease
	waitMs  int

	strategy client.Strategy
	runs     bool   // the answer is requested in runs
	ends     *grant // the request first ends all jobs of this grant
	with     outcome
}

// anyStrategy returns one of the strategies for claims. The jobs of the load have of in their meta.
func anyStrategy(rng *rand.Rand) client.Strategy {
	all := []client.Strategy{"", "", client.Newest, client.Random, client.Fair}
	s := all[rng.IntN(len(all))]
	for range []int{0, 0, 1, 2}[rng.IntN(4)] {
		s = client.PreferDistinct([]string{"of", "errand"}[rng.IntN(2)], s)
	}
	return s
}

const minLeaseMs = 1000

// fields adds the fields that claims and subscriptions share.
func (w *claimRequest) fields(u *user, fields map[string]any) map[string]any {
	fields["types"] = []string{u.queue, u.nextQueue()}
	if w.strategy != "" {
		fields["strategy"] = w.strategy
	}
	if w.leaseMs > 0 {
		fields["lease_ms"] = w.leaseMs
	}
	return fields
}

// claim sends a claim, and records the jobs that it got. An error means that the claim was not sent. A nil grant means
// that it got no answer, or no job.
func (u *user) claim(ctx context.Context, w claimRequest) (*grant, *reply, error) {
	fields := w.fields(u, map[string]any{"runner_id": w.runner, "wait_ms": w.waitMs})
	if w.max > 0 {
		fields["max"] = w.max
	}
	if w.ends != nil {
		fields["complete"] = outcomeFields(map[string]any{"claim_id": w.ends.id}, w.with)
	}
	accept := ""
	if w.runs {
		accept = runs.MediaType
	}
	r, err := u.sendWith(ctx, http.MethodPost, "/jobs/claim", map[string]string{"Content-Type": "application/json", "Accept": accept}, marshal(fields))
	if err != nil {
		return nil, nil, err
	}
	lease := w.leaseMs
	switch {
	case r.open():
		e := event{call: r.call, ret: r.ret, kind: handed, answer: lost, attempts: -1, lease: max(lease, minLeaseMs) * ms}
		u.h.addOpenClaim(e)
		if w.ends != nil {
			u.addAll(w.ends, event{call: r.call, ret: r.ret, kind: endedAll, answer: lost, attempts: -1, outcome: w.with})
		}
		return nil, r, nil
	case !r.ok() || r.status == http.StatusNoContent:
		u.h.addEmptyClaim(r.call, r.ret)
		return nil, r, nil
	}
	a, err := w.read(r.body)
	if err != nil {
		u.h.problem("claim: %.200q: %v", r.body, err)
		return nil, r, nil
	}
	if w.ends != nil {
		e := event{call: r.call, ret: r.ret, kind: endedAll, attempts: -1, outcome: w.with}
		if a.refused {
			e.answer = stale
		}
		if a.ended > len(w.ends.jobs) {
			u.h.problem("claim %s held %d jobs and ended %d", w.ends.id, len(w.ends.jobs), a.ended)
		}
		u.addAll(w.ends, e)
	}
	if a.claim.IsZero() {
		u.h.addEmptyClaim(r.call, r.ret)
		return nil, r, nil
	}
	return u.granted(&w, a, r.call, r.ret), r, nil
}

// granted records the jobs of a claim that was made at some time between call and ret.
func (u *user) granted(w *claimRequest, a claimed, call, ret int64) *grant {
	g := &grant{id: a.claim, call: call, n: u.h.claim(a.claim), runs: w.runs}
	for i := range a.jobs {
		d := &a.jobs[i]
		p := u.noteDocument(d)
		if p == nil {
			continue
		}
		if d.Status != "active" || d.ClaimID == nil || *d.ClaimID != g.id || d.RunnerID == nil || *d.RunnerID != w.runner {
			u.h.problem("job %s was handed out to %s by claim %s; its document says %s, %v, %v", d.JobID, w.runner, g.id, d.Status, d.ClaimID, d.RunnerID)
		}
		e := event{call: call, ret: ret, kind: handed, claim: g.n, attempts: d.RunAttempts, lease: w.leaseMs * ms}
		if w.leaseMs == 0 {
			e.lease = p.leaseMs * ms
		}
		u.h.add(d.JobID, e)
		g.jobs = append(g.jobs, d.JobID)
	}
	return g
}

func outcomeFields(fields map[string]any, o outcome) map[string]any {
	fields["code"] = o.code
	if o.delayMs >= 0 && !o.final() {
		fields["delay_ms"] = o.delayMs
	}
	return fields
}

func (u *user) post(ctx context.Context, path string, fields map[string]any) (*reply, error) {
	return u.send(ctx, http.MethodPost, path, "application/json", marshal(fields))
}

// marshal encodes a body of texts and numbers.
func marshal(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return text
}

// addAll records e for each job of a grant.
func (u *user) addAll(g *grant, e event) {
	e.claim = g.n
	for _, id := range g.jobs {
		u.h.add(id, e)
	}
}

// answerOf returns the meaning of a reply for one job, or for one claim. ok is false if the server did nothing.
func answerOf(r *reply) (a answer, ok bool) {
	switch {
	case r.open():
		return lost, true
	case r.ok():
		return done, true
	case r.problem.Code == "claim_lost" || r.problem.Code == "job_not_active" || r.problem.Code == "cancelled":
		return stale, true
	case r.problem.Code == "outcome_differs":
		return differs, true
	case r.status == http.StatusNotFound:
		return absent, true
	}
	return 0, false // 429, 503, 507: not stored
}

// decide sends a request about a grant. If the server has decided it, or may have, decided is true and a is the meaning of the answer.
func (u *user) decide(ctx context.Context, path string, fields map[string]any) (r *reply, a answer, decided bool, err error) {
	if r, err = u.post(ctx, path, fields); err != nil {
		return nil, 0, false, err
	}
	a, decided = answerOf(r)
	return r, a, decided, nil
}

// end reports the outcome of one job, which may create other jobs.
func (u *user) end(ctx context.Context, g *grant, id job.ID, o outcome, ch *chain) (*reply, error) {
	fields := outcomeFields(map[string]any{"claim_id": g.id}, o)
	u.addOutput(fields, g, id, o)
	ch.addTo(fields, u)
	r, a, decided, err := u.decide(ctx, "/jobs/"+id.String()+"/complete", fields)
	if !decided {
		return r, err
	}
	e := event{call: r.call, ret: r.ret, kind: ended, answer: a, claim: g.n, attempts: -1, outcome: o, then: int8(ch.then())}
	ch.answered(u.h, r, e.answer)
	if e.answer == absent {
		e.kind = observed
	}
	u.h.add(id, e)
	if e.answer == done && !r.streamed {
		u.readAfter(id, r)
	}
	return r, nil
}

// readAfter records the document in the answer to a change of one job. The server reads the document after it has applied
// the change, and other users may change the job in between. So the document counts as a separate observation, at some
// moment of the request, and says nothing about the change.
func (u *user) readAfter(id job.ID, r *reply) {
	var d document
	if err := json.Unmarshal(r.body, &d); err != nil {
		u.h.problem("the document of %s after a change: %.200q: %v", id, r.body, err)
		return
	}
	u.observe(id, r, &d)
}

// sendOutcomes sends an outcome for each job of a grant.
func (u *user) sendOutcomes(ctx context.Context, g *grant, outcomes []outcome, chains []*chain) (*reply, error) {
	if g.runs {
		return u.sendWith(ctx, http.MethodPost, "/jobs/complete", map[string]string{"Content-Type": runs.MediaType, "Accept": runs.MediaType}, g.outcomesInRuns(outcomes))
	}
	list := make([]map[string]any, len(g.jobs))
	for i, id := range g.jobs {
		list[i] = outcomeFields(map[string]any{"job_id": id}, outcomes[i])
		u.addOutput(list[i], g, id, outcomes[i])
		chains[i].addTo(list[i], u)
	}
	return u.post(ctx, "/jobs/complete", map[string]any{"claim_id": g.id, "outcomes": list})
}

// endEach reports an outcome for each job of a grant, in one request.
func (u *user) endEach(ctx context.Context, g *grant, outcomes []outcome, chains []*chain) (*reply, error) {
	r, err := u.sendOutcomes(ctx, g, outcomes, chains)
	if err != nil {
		return nil, err
	}
	a, ok := answerOf(r)
	if !ok {
		return r, nil
	}
	var results []result
	if a == done {
		if results, err = g.readResults(r.body); err != nil || len(results) != len(g.jobs) {
			u.h.problem("complete %d jobs of claim %s: %.300q: %v", len(g.jobs), g.id, r.body, err)
			return r, nil
		}
	}
	for i, id := range g.jobs {
		e := event{call: r.call, ret: r.ret, kind: ended, answer: a, claim: g.n, attempts: -1, outcome: outcomes[i], then: int8(chains[i].then())}
		if a == done {
			switch result := results[i]; {
			case result.JobID != id:
				u.h.problem("complete %s: the result is of %s", id, result.JobID)
				continue
			case result.Code == "claim_lost" || result.Code == "job_not_active" || result.Code == "cancelled":
				e.answer = stale
			case result.Code == "outcome_differs":
				e.answer = differs
			case result.Code == "job_not_found":
				e.answer, e.kind = absent, observed
			case result.Status != nil:
				// Apply decided this status together with the outcome.
				if e.status, err = parseStatus(*result.Status); err != nil {
					u.h.problem("complete %s: %v", id, err)
				}
			}
		}
		chains[i].answered(u.h, r, e.answer)
		u.h.add(id, e)
	}
	return r, nil
}

// endAll reports one outcome for all jobs that a claim holds.
func (u *user) endAll(ctx context.Context, g *grant, o outcome) (*reply, error) {
	r, a, decided, err := u.decide(ctx, "/jobs/complete", outcomeFields(map[string]any{"claim_id": g.id}, o))
	if !decided {
		return r, err
	}
	var result struct {
		Ended int `json:"ended"`
	}
	if a == done {
		if err := json.Unmarshal(r.body, &result); err != nil || result.Ended > len(g.jobs) || result.Ended == 0 {
			u.h.problem("complete all %d jobs of claim %s: %.200q: %v", len(g.jobs), g.id, r.body, err)
		}
	}
	u.addAll(g, event{call: r.call, ret: r.ret, kind: endedAll, answer: a, attempts: -1, outcome: o})
	return r, nil
}

// unget returns one job by unget.
func (u *user) unget(ctx context.Context, g *grant, id job.ID) (*reply, error) {
	r, a, decided, err := u.decide(ctx, "/jobs/"+id.String()+"/release", map[string]any{"how": "unget", "claim_id": g.id})
	if !decided {
		return r, err
	}
	u.h.add(id, event{call: r.call, ret: r.ret, kind: returned, answer: a, claim: g.n, attempts: -1})
	if a == done && !r.streamed {
		u.readAfter(id, r)
	}
	return r, nil
}

// tickle renews the lease of all jobs that a claim holds.
func (u *user) tickle(ctx context.Context, g *grant) (*reply, error) {
	r, a, decided, err := u.decide(ctx, "/jobs/tickle", map[string]any{"claim_id": g.id})
	if !decided {
		return r, err
	}
	if a == done {
		var result struct {
			Held int `json:"held"`
		}
		if err := json.Unmarshal(r.body, &result); err != nil || result.Held > len(g.jobs) {
			u.h.problem("tickle %d jobs of claim %s: %.200q: %v", len(g.jobs), g.id, r.body, err)
		}
		if result.Held < len(g.jobs) {
			a = lost // the server renewed some jobs, and the answer does not say which
		}
	}
	u.addAll(g, event{call: r.call, ret: r.ret, kind: tickled, answer: a, attempts: -1})
	return r, nil
}
