package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// streams is the number of runners that get their jobs through streams.
const streams = 2

// stream is the server's end of a stream, as in package api, and the runner at the other end. It claims for the runner,
// and keeps in memory alone which runs have begun. When the connection ends, it takes the jobs from the runner: begun
// runs are lost, and the other jobs count as never run. After its runner proved silent, it claims nothing until it hears
// of the runner.
type stream struct {
	user
	r *runner

	silence uint64    // of the runner, when the stream heard of it last
	heardAt uint64    // no later command can be the reason of that silence
	frozen  time.Time // until this time
	mu      sync.Mutex
	losing  []chan struct{} // to be closed when the stream has ended; mu guards it
}

// lose ends the stream of a runner that was declared lost, as api.Server.lose does.
func (t *stream) lose() (returned <-chan struct{}) {
	c := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.losing = append(t.losing, c)
	return c
}

func (t *stream) takeLosing() (losing []chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	losing, t.losing = t.losing, nil
	return losing
}

// hear records that the runner shows life.
func (t *stream) hear() {
	t.silence = t.s.engine.Silence(t.r.name)
	t.heardAt = t.s.engine.Stats().Appended
}

// run plays the stream and its runner for as long as the server lives.
func (t *stream) run() {
	r := t.r
	t.hear()
	for t.rest(100 * time.Millisecond) {
		if losing := t.takeLosing(); losing != nil {
			t.end()
			for _, c := range losing {
				close(c)
			}
		}
		if time.Now().Before(t.frozen) { // the server still sends jobs
			t.push()
			continue
		}
		t.hear()
		t.heartbeat(r)
		switch n := t.random.IntN(100); {
		case n < 30 || len(r.held) == 0:
			t.push()
		case n < 60:
			t.begin()
		case n < 65:
			t.tickle(r)
		case n < 78:
			t.complete(r)
		case n < 94:
			t.end()
			if t.random.IntN(3) == 0 { // the runner has ended, too
				r.held, r.numbers = nil, newNumbering()
			} else { // it reports its outcomes
				t.complete(r)
			}
		default:
			t.frozen = time.Now().Add(time.Duration(1+t.random.IntN(8)) * time.Second)
		}
	}
}

// push claims jobs for the stream. If its runner proves silent before they are sent, the jobs are returned.
func (t *stream) push() {
	if t.s.engine.Silence(t.r.name) != t.silence {
		return
	}
	c, wait := t.wish(t.r)
	c.Announced, c.Begins = true, 0
	var claimed applied.Claimed
	var docs []job.Job
	var receipt ingest.Receipt
	err := t.request(func(ctx context.Context) (err error) {
		stop := make(chan struct{})
		defer time.AfterFunc(wait, func() { close(stop) }).Stop()
		answer, handed, at, err := t.s.engine.ClaimUntil(ctx, c, stop, admitAll)
		if claimed, receipt = answer, at; err == nil {
			docs, err = documents(c.Runner, &claimed, handed)
		}
		return err
	})
	t.unexpected("claim of a stream", err)
	t.s.log("%s claims in a stream: %v, %d jobs, %v", t.r.name, receipt, len(docs), err)
	if err != nil {
		return
	}
	t.got(t.r, c, receipt, claimed, docs)
	if len(docs) == 0 {
		return
	}
	h := &t.r.held[len(t.r.held)-1]
	h.begun = map[job.ID]bool{}
	if t.s.engine.Silence(t.r.name) != t.silence {
		t.s.log("%s proved silent", t.r.name)
		t.giveBack(h)
		return
	}
	t.w.account.kept(push{t.r.name, receipt.Seq, t.heardAt})
}

// begin reports that the runs of some jobs begin.
func (t *stream) begin() {
	h := &t.r.held[t.random.IntN(len(t.r.held))]
	if h.begun != nil && !h.returned {
		for _, id := range h.jobs {
			if t.random.IntN(2) == 0 {
				h.begun[id] = true
			}
		}
	}
}

// end ends the connection without a goodbye.
func (t *stream) end() {
	for i := range t.r.held {
		t.giveBack(&t.r.held[i])
	}
}

// giveBack takes the jobs of a claim from the runner.
func (t *stream) giveBack(h *heldClaim) {
	if h.returned || t.s.isGone() {
		return
	}
	h.returned = true
	c := job.Complete{Claim: h.claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	for _, id := range h.jobs {
		if h.begun[id] {
			c.Outcomes = append(c.Outcomes, job.Outcome{ID: id, Code: job.Lost, DelayMs: -1})
		}
	}
	answer, receipt, err := t.s.engine.Complete(context.Background(), c)
	if t.s.isGone() {
		err = errLost
	}
	t.unexpected("the end of a stream", err)
	t.s.log("the stream of %s ends: %v with %d begun runs: %v, %v, %v", t.r.name, h.claim, len(c.Outcomes), receipt, answer, err)
	if err == nil {
		t.violated(t.w.account.completed(t.key, receipt, c, answer))
	}
}

// kept records that a stream sends its runner the jobs of a claim.
func (a *account) kept(p push) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.figures.Pushes++
	a.pushes = append(a.pushes, p)
}

// silent records that a command of the journal ended leases of these runners that nobody had tickled.
func (a *account) silent(seq uint64, runners []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range runners {
		a.silences[r] = append(a.silences[r], seq)
		a.figures.Silences++
	}
}

// streamOf returns the stream of a runner, or nil.
func streamOf(all []*stream, runner string) *stream {
	i := slices.IndexFunc(all, func(t *stream) bool { return t.r.name == runner })
	if i < 0 {
		return nil
	}
	return all[i]
}
