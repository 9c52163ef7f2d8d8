package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"

	"github.com/daybookq/daybook/job"
)

// This file has the chained jobs of the load: outcomes create them, or they follow jobs that complete. They have their
// own type, so that all of them can be listed at the end. Then each job must have created exactly the jobs that its
// history explains (jobModel).

// nextQueue is the type of chained jobs.
func (u *user) nextQueue() string { return u.queue + "-next" }

// chain has the jobs that one outcome creates. Each of them has its own post.
type chain struct {
	posts []*post
	index int // among the chains of their job
}

// maxChains bounds the chains of one job: offspring has a bit for each.
const maxChains = 64

// newChain makes a chain for an outcome of a job, or returns nil: the outcome then creates no jobs.
func (u *user) newChain(rng *rand.Rand, source job.ID, o outcome) *chain {
	if !o.final() || rng.IntN(3) > 0 {
		return nil
	}
	n, size := 1+rng.IntN(3), rng.IntN(200)
	u.h.mu.Lock()
	defer u.h.mu.Unlock()
	before := u.h.postOf(source)
	if before == nil || len(u.h.chains[source]) == maxChains {
		return nil
	}
	ch := &chain{index: len(u.h.chains[source])}
	for i := range n {
		p := &post{
			tag: fmt.Sprintf("then-%s-%d-%d", source, ch.index, i), form: asText, lines: 1, size: size, chained: true,
			maxAttempts: 20, leaseMs: before.leaseMs, call: u.h.now(), ret: never,
		}
		ch.posts = append(ch.posts, p)
		u.h.posts[p.tag] = p
	}
	u.h.chains[source] = append(u.h.chains[source], ch)
	return ch
}

// addTo adds the jobs to the fields of an outcome.
func (ch *chain) addTo(fields map[string]any, u *user) {
	if ch == nil {
		return
	}
	list := make([]map[string]any, len(ch.posts))
	for i, p := range ch.posts {
		list[i] = map[string]any{
			"type": u.nextQueue(), "payload": string(p.payload(0)), "lease_ms": p.leaseMs, "max_attempts": p.maxAttempts,
			"meta": map[string]string{"then": p.tag}, // otherwise it would inherit the meta of a job that has an on_complete
		}
	}
	fields["then"] = list
}

// then returns the number of a chain in an event, or 0 without a chain.
func (ch *chain) then() int {
	if ch == nil {
		return 0
	}
	return ch.index + 1
}

// answered records the answer to an outcome with a chain. The jobs are proven to exist only if the outcome was accepted,
// or if it repeats an accepted one.
func (ch *chain) answered(h *history, r *reply, a answer) {
	if ch == nil || a != done && a != lost {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range ch.posts {
		if !p.acknowledged {
			p.acknowledged, p.ret = a == done, r.ret
		}
	}
}

// followOn returns the on_complete and the meta of the job in a line. The job that follows inherits the meta, which names
// the job before it.
func (p *post) followOn(queue string, line int) (onComplete map[string]any, meta map[string]string) {
	return map[string]any{"type": queue + "-next", "lease_ms": p.leaseMs, "max_attempts": p.maxAttempts}, map[string]string{"of": fmt.Sprintf("%s %d", p.tag, line)}
}

// addOutput gives an outcome an output if another job follows. The output becomes that job's payload, which so names the
// run.
func (u *user) addOutput(fields map[string]any, g *grant, id job.ID, o outcome) {
	u.h.mu.Lock()
	defer u.h.mu.Unlock()
	if p := u.h.postOf(id); o.code == "ok" && p != nil && p.follows {
		fields["output"] = fmt.Sprintf("<out>%s %d", id, g.n)
	}
}

// seenNext finds the post of a job that follows an earlier job. of is the meta that it has inherited.
func (h *history) seenNext(id job.ID, of string, payload []byte) *post {
	if string(payload) == "null" { // the earlier job had no output
		payload = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.postOf(id); p != nil {
		if !bytes.Equal(p.text, payload) {
			h.problemLocked("job %s has payload %.80q, and had %.80q", id, payload, p.text)
			return nil
		}
		return p
	}
	tag, line := "", 0
	_, err := fmt.Sscanf(of, "%s %d", &tag, &line)
	before := h.posts[tag]
	if err != nil || before == nil || !before.follows || before.first.IsZero() || line >= before.lines {
		h.problemLocked("job %s follows %q, which has no on_complete", id, of)
		return nil
	}
	source := before.id(line)
	if len(payload) > 0 && !strings.HasPrefix(string(payload), fmt.Sprintf("<out>%s ", source)) {
		h.problemLocked("job %s follows job %s, and has payload %.80q, which is no output of that job", id, source, payload)
		return nil
	}
	for _, p := range h.next[source] {
		if len(payload) > 0 && bytes.Equal(p.text, payload) {
			h.problemLocked("jobs %s and %s follow the same run of job %s: %q", p.first, id, source, payload)
			return nil
		}
	}
	p := &post{
		tag: fmt.Sprintf("next-%s", id), form: asText, lines: 1, chained: true, text: payload,
		maxAttempts: before.maxAttempts, leaseMs: before.leaseMs, call: before.call, ret: never,
	}
	h.bind(p, id)
	h.posts[p.tag] = p
	h.next[source] = append(h.next[source], p)
	return p
}

// readNext lists all chained jobs, since some may have ended before anybody saw them. It checks that every job of an
// accepted outcome was seen.
func (u *user) readNext(ctx context.Context) error {
	for after := ""; ; {
		r, err := u.send(ctx, http.MethodGet, "/jobs?client=default&limit=1000&type="+url.QueryEscape(u.nextQueue())+after, "", nil)
		if err != nil {
			return err
		}
		var page struct {
			Jobs []document `json:"jobs"`
			Next *job.ID    `json:"next"`
		}
		if !r.ok() {
			return fmt.Errorf("list chained jobs: %d %s", r.status, r.problem.Detail)
		}
		if err := json.Unmarshal(r.body, &page); err != nil {
			return fmt.Errorf("list chained jobs: %w", err)
		}
		for i := range page.Jobs {
			u.noteDocument(&page.Jobs[i])
		}
		if page.Next == nil {
			u.h.countChains()
			return nil
		}
		after = "&after=" + page.Next.String()
	}
}

// countChains counts the chained jobs that were seen, and reports lost and torn chains.
func (h *history) countChains() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for source, chains := range h.chains {
		for _, ch := range chains {
			n := ch.seen()
			h.count.Chained += n
			if n < len(ch.posts) && (n > 0 || ch.posts[0].acknowledged) {
				h.count.Lost += len(ch.posts) - n
				h.problemLocked("an outcome of job %s that creates %d jobs was accepted (%t), and %d of them exist", source, len(ch.posts), ch.posts[0].acknowledged, n)
			}
		}
	}
	for _, next := range h.next {
		h.count.Followed += len(next)
	}
}

// seen counts the jobs of a chain that exist.
func (ch *chain) seen() (n int) {
	for _, p := range ch.posts {
		if !p.first.IsZero() {
			n++
		}
	}
	return n
}

// offspring describes the chained jobs that a job has created.
type offspring struct {
	chains   uint64 // a bit for each chain of its outcomes
	followed int32  // jobs that followed its completions; it may have been redriven in between
}

// offspringOf returns the event that shows, at the end of a history, which jobs a job has created; nil: it has no chains.
func (h *history) offspringOf(p *post, line int) *event {
	id := p.id(line)
	if len(h.chains[id]) == 0 && !p.follows {
		return nil
	}
	e := &event{kind: chained, call: h.now(), ret: never, attempts: -1, offspring: offspring{followed: int32(len(h.next[id]))}}
	for i, ch := range h.chains[id] {
		if ch.seen() > 0 {
			e.chains |= 1 << i
		}
	}
	return e
}
