package sim

import (
	"context"
	"fmt"
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
		t.lostClaim()
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
	t.w.account.kept(t.r.name, receipt, t.heardAt)
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
	switch {
	case err == nil:
		if err := t.w.account.completed(receipt, c, answer); err != nil {
			t.w.violation(err)
		}
	case !notStored(err):
		t.w.account.unanswered(c, h.jobs)
	}
}

// kept records that a stream sends its runner the jobs of a claim. The stream last heard of the runner no later than
// after the command heardAt.
func (a *account) kept(runner string, r ingest.Receipt, heardAt uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.figures.Pushes++
	a.note(r, fmt.Sprintf("a stream sends %s jobs", runner), func(*audit) error {
		for _, seq := range a.silences[runner] {
			if heardAt < seq && seq < r.Seq {
				return fmt.Errorf("%s gets jobs, and it has proved silent at %d since the stream heard of it at %d", runner, seq, heardAt)
			}
		}
		return nil
	})
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

// mayReportLate reports whether the runner of a claim may still report the outcome of a job: its stream had ended, and
// nobody has claimed the job since.
func (l *jobRecord) mayReportLate(claim job.ID) bool {
	return l.endedBy == claim && l.holder == claim && l.code == job.Lost && !l.status.Terminal()
}

// checkLost checks the lost runs in the document of a job.
func (u *audit) checkLost(doc *job.Job) error {
	l := u.of(doc.ID)
	rows := 0
	for i := range doc.Attempts {
		if doc.Attempts[i].Why == job.RunnerLost {
			rows++
		}
	}
	unsure := u.mayHaveEnded(doc.ID)
	switch {
	case rows < l.lost && !unsure && doc.RunAttempts <= job.MaxHistory:
		return fmt.Errorf("runs of job %v were lost %d times, and it remembers %d: %+v", doc.ID, l.lost, rows, *doc)
	case rows > 0 && l.lost == 0 && !unsure && !l.mayBeLost && u.a.lostClaims == 0:
		return fmt.Errorf("job %v remembers a lost run, and none had begun: %+v", doc.ID, *doc)
	}
	return nil
}

// refusedRepeat checks that the server still knows each outcome that it answered less than a minute ago.
func (u *audit) refusedRepeat(r ingest.Receipt, claim job.ID, o *job.Outcome, refusal job.Refusal) error {
	l := u.of(o.ID)
	known := l.status.Terminal() && l.endedBy == claim && !claim.IsZero() && !l.withoutClaim && o.Same(l.code, l.exitCode)
	if known && refusal == job.NotFound && r.At < l.at+job.RepeatMs && !u.mayHaveEnded(o.ID) {
		return fmt.Errorf("the outcome of job %v is repeated %d ms after its answer, and the job is not known", o.ID, r.At-l.at)
	}
	return nil
}

// streamOf returns the stream of a runner, or nil.
func streamOf(all []*stream, runner string) *stream {
	i := slices.IndexFunc(all, func(t *stream) bool { return t.r.name == runner })
	if i < 0 {
		return nil
	}
	return all[i]
}
