package crash

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/daybookq/daybook/job"
)

// history is the knowledge of one server's users: their requests and the answers. It survives each kill of the server.
type history struct {
	began time.Time

	mu         sync.Mutex
	posts      map[string]*post    // by tag
	jobs       map[job.ID]*post    // by the id of their first job; see postOf
	chains     map[job.ID][]*chain // by the job whose outcomes have them
	next       map[job.ID][]*post  // the jobs that followed a job
	claims     map[job.ID]int32    // a number for each claim id, from 1
	openClaims []event             // claims without an answer
	// Claims that were answered without jobs.
	emptyClaims []event
	wholeQueue  []event // cancels and redrives of all jobs of the queue
	lives       []life  // the last one is open while the server runs
	deaths      []int64
	wrong       []string // problems that no order of the requests explains
	count       tally
}

// tally counts events. It is one flat list, since each field is a column of the report.
type tally struct {
	Requests, NoAnswer                    int
	Frozen                                int // runners with streams that were frozen
	Jobs, Claimed, Ended, Stale, Returned int // acknowledged jobs; jobs handed out, ended, refused as stale, ungotten
	// Jobs that were cancelled or redriven alone; sweeps that continued after their command.
	Moved, Sweeps int
	Deaths        int // of the server, for any reason
	// Jobs that outcomes created, and follow-on jobs.
	Chained, Followed int
	// Jobs whose histories were checked; claims without an answer; checks that took too long.
	Checked, OpenClaims, Undecided int
	Operations                     int
	// Finished errands; queues of errands that --queue-idle deleted; runners of errands that were declared lost.
	Errands, IdleQueues, LostRunners int
	Lost, Wrong, Violations          int
}

func newHistory() *history {
	return &history{began: time.Now(), posts: map[string]*post{}, jobs: map[job.ID]*post{}, chains: map[job.ID][]*chain{}, next: map[job.ID][]*post{}, claims: map[job.ID]int32{}}
}

// now returns the time since the history began.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

// serverStarted begins a period in which leases may run out. It must be called before the server can do anything.
func (h *history) serverStarted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lives = append(h.lives, life{h.now(), never})
}

// serverEnded ends that period. It must be called when the server can do nothing more.
func (h *history) serverEnded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := &h.lives[len(h.lives)-1]; last.end == never {
		last.end = h.now()
		h.deaths = append(h.deaths, last.end)
		h.count.Deaths++
	}
}

// serverFrozen ends that period for a server that will continue. It may still carry out requests that it has received.
func (h *history) serverFrozen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lives[len(h.lives)-1].end = h.now()
}

// life returns the number of the server's last life, from 1, or 0 before the first.
func (h *history) life() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lives)
}

// mayLapse is the model's mayLapse.
func (h *history) mayLapse(r, lease, now int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := jobModel{lives: h.lives}
	return m.mayLapse(r, lease, now)
}

// end returns the latest time at which a request that got no answer at t can have been carried out: the next death of the
// server.
func (h *history) end(t int64) int64 {
	for _, death := range h.deaths {
		if death >= t {
			return death
		}
	}
	return never
}

func (h *history) problem(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problemLocked(format, args...)
}

func (h *history) problemLocked(format string, args ...any) {
	h.count.Wrong++
	if len(h.wrong) < 100 {
		h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
	}
}

// claim returns the number of a claim that was answered.
func (h *history) claim(id job.ID) int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claims[id] == 0 {
		h.claims[id] = int32(len(h.claims) + 1)
	}
	return h.claims[id]
}

// known returns the number of a claim, or 0 if the claim got no answer. Then it is one of openClaims, and nobody knows
// which.
func (h *history) known(id job.ID) int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claims[id]
}

// bind records the first job of a post. A post can be stored only once.
func (h *history) bind(p *post, first job.ID) {
	switch {
	case p.first == first:
	case !p.first.IsZero():
		h.problemLocked("the post %s was stored twice, from job %s and from job %s on", p.tag, p.first, first)
	case h.jobs[first] != nil:
		h.problemLocked("job %s is the first one of the posts %s and %s", first, h.jobs[first].tag, p.tag)
	default:
		p.first = first
		h.jobs[first] = p
	}
}

// postOf returns the post of a job, or nil.
func (h *history) postOf(id job.ID) *post {
	if p := h.jobs[id]; p != nil && p.alone() {
		return p
	}
	if p := h.jobs[id.WithLine(0)]; p != nil && !p.alone() {
		return p
	}
	return nil
}

// receipt records the id of the first job in the answer to a create, or zero if the create got no answer.
func (h *history) receipt(p *post, call, ret int64, first job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.call, p.ret = call, ret
	if first.IsZero() {
		return
	}
	p.acknowledged = true
	h.count.Jobs += p.lines
	h.bind(p, first)
}

// seen finds the post of a job that the server showed, and compares the payload with the posted one.
func (h *history) seen(id job.ID, payload []byte) *post {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.postOf(id)
	if p == nil {
		if p = h.posts[tagOf(payload)]; p == nil {
			h.problemLocked("job %s with payload %.80q was never posted", id, payload)
			return nil
		}
		if p.alone() {
			h.bind(p, id)
		} else {
			h.bind(p, id.WithLine(0))
		}
	}
	if line := id.Line() - p.first.Line(); line < 0 || line >= p.lines || !bytes.Equal(payload, p.payload(line)) {
		h.problemLocked("job %s of post %s, %d lines, has payload %.80q", id, p.tag, p.lines, payload)
		return nil
	}
	return p
}

// add records an event of a job. If nobody posted the job, this was reported before.
func (h *history) add(id job.ID, e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.postOf(id)
	if p == nil {
		return
	}
	line := id.Line() - p.first.Line()
	if line >= p.lines {
		return
	}
	if p.events == nil {
		p.events = make([][]event, p.lines)
	}
	p.events[line] = append(p.events[line], e)
	if e.answer == stale {
		h.count.Stale++
	}
	if e.answer == done {
		switch e.kind {
		case handed:
			h.count.Claimed++
		case ended, endedAll:
			h.count.Ended++
		case returned:
			h.count.Returned++
		case cancelledOne, redrivenOne:
			h.count.Moved++
		}
	}
}

func (h *history) addOpenClaim(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.claim = unknownClaim
	h.openClaims = append(h.openClaims, e)
}

// addEmptyClaim records a claim that was answered without jobs.
func (h *history) addEmptyClaim(call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emptyClaims = append(h.emptyClaims, event{call: call, ret: ret, kind: handed, attempts: -1})
}

func (h *history) countRequest(answered bool) {
	h.tally(func(t *tally) {
		t.Requests++
		if !answered {
			t.NoAnswer++
		}
	})
}

// tally changes the counts.
func (h *history) tally(f func(*tally)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.count)
}

// settle gives each event without an answer the latest time at which it can have happened.
func (h *history) settle(events []event) []event {
	out := make([]event, 0, len(events)+1)
	for _, e := range events {
		if e.answer == lost {
			e.ret = h.end(e.ret)
		}
		out = append(out, e)
	}
	return out
}

// check checks the history of every job. No request may be outstanding. It returns descriptions of the first few
// impossible histories, and of the first few that take too long to check.
func (h *history) check() (impossible, tooLong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	openClaims := h.settle(h.openClaims)
	for _, p := range h.posts {
		if p.first.IsZero() {
			continue
		}
		model := jobModel{max: p.maxAttempts, lives: h.lives, follows: p.follows}
		ofQueue := h.ofQueue(p)
		for line := range p.lines {
			var events []event
			if p.events != nil {
				events = p.events[line]
			}
			first := event{kind: created, call: p.call, ret: p.ret, delay: p.delayMs * ms, attempts: -1}
			if !p.acknowledged {
				first.answer = lost
			}
			events = h.settle(append([]event{first}, events...))
			events = append(events, ofQueue...)
			for i := range events {
				if e := &events[i]; e.kind == ended && e.status == cancelled && !slices.ContainsFunc(events, func(c event) bool {
					return c.kind == cancelledAll && c.call <= e.ret && c.ret >= e.call
				}) {
					h.problemLocked("job %s: a complete was answered as cancelled, but no cancel of all jobs was under way at that time: %v", p.id(line), e)
				}
			}
			last := int64(0)
			for i := range events {
				last = max(last, events[i].call)
			}
			of := func(claims []event) (ofJob []event) {
				for i := range claims {
					if c := &claims[i]; c.ret >= p.call && c.call <= last {
						ofJob = append(ofJob, *c)
					}
				}
				return ofJob
			}
			maybe := of(openClaims)
			if e := h.offspringOf(p, line); e != nil {
				events = append(events, *e)
			}
			result := model.check(events, maybe, of(h.emptyClaims))
			h.count.Checked++
			h.count.Operations += len(events)
			switch result {
			case porcupine.Illegal:
				h.count.Violations++
				if len(impossible) < 5 {
					impossible = append(impossible, describe(p, line, events, maybe, h.lives))
				}
			case porcupine.Unknown:
				h.count.Undecided++
				if len(tooLong) < 2 {
					tooLong = append(tooLong, describe(p, line, events, maybe, h.lives))
				}
			}
		}
	}
	h.count.OpenClaims = len(openClaims)
	return impossible, tooLong
}

const ms = int64(time.Millisecond)

func describe(p *post, line int, events, openClaims []event, lives []life) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "job %s (post %s, max_attempts %d, lease %d ms):\n", p.id(line), p.tag, p.maxAttempts, p.leaseMs)
	for i := range events {
		fmt.Fprintln(&b, "  ", &events[i])
	}
	for i := range openClaims {
		fmt.Fprintln(&b, "   perhaps:", &openClaims[i])
	}
	for _, l := range lives {
		if len(events) > 0 && l.end >= events[0].call && l.start <= events[len(events)-1].call {
			end := "…"
			if l.end != never {
				end = fmt.Sprintf("%.3f", time.Duration(l.end).Seconds())
			}
			fmt.Fprintf(&b, "   life %.3f to %s\n", time.Duration(l.start).Seconds(), end)
		}
	}
	return b.String()
}
