package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Users are goroutines that live as long as a server. Each has a random source of its own, and waits a random time of some
// microseconds before each request, so that no two things happen at once and a seed plays out the same way again.

// hurry is the chance in a hundred that a user does not wait for an answer: it hangs up, or the answer is lost on its way.
const hurry = 8

var errLost = errors.New("the answer was lost on its way")

// user is what all of them have.
type user struct {
	w      *world
	s      *server
	random *rand.Rand
}

func (s *server) user(id int) user {
	return user{s.w, s, rand.New(rand.NewPCG(s.w.seed, uint64(s.number)*100+uint64(id)))}
}

// rest waits up to most, to the microsecond, and reports whether the server is still there.
func (u *user) rest(most time.Duration) bool {
	time.Sleep(time.Duration(1+u.random.Int64N(int64(most/time.Microsecond))) * time.Microsecond)
	select {
	case <-u.s.gone:
		return false
	case <-u.s.quiet:
		return false
	default:
		return true
	}
}

// ask makes a request, as f does, and says whether its answer arrived.
func (u *user) ask(f func(ctx context.Context) error) error {
	ctx := context.Background()
	if u.random.IntN(100) < hurry {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(u.random.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	err := f(ctx)
	if u.s.isGone() {
		return errLost
	}
	if err == nil && u.random.IntN(100) < hurry {
		return errLost
	}
	return err
}

// notStored reports whether an error says that nothing was taken.
func notStored(err error) bool {
	if errors.Is(err, errLost) || errors.Is(err, ingest.ErrUnknown) || errors.Is(err, ingest.ErrApply) {
		return false
	}
	for _, known := range []error{
		ingest.ErrNotStored, ingest.ErrWritesFailed, ingest.ErrClosed, ingest.ErrNotReady, ingest.ErrOverloaded, ingest.ErrDiskFull, ingest.ErrStale,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// unexpected reports errors that no user should ever see.
func (u *user) unexpected(what string, err error) {
	if err == nil || notStored(err) || errors.Is(err, store.ErrClosed) || errors.Is(err, errLost) || errors.Is(err, ingest.ErrUnknown) || errors.Is(err, ingest.ErrApply) && u.s.injected() > 0 {
		return
	}
	u.w.violation(fmt.Errorf("%s: %w", what, err))
}

// produce posts batches.
func (s *server) produce(id int) {
	u := s.user(id)
	for u.rest(200 * time.Millisecond) {
		b := u.repeated()
		if b == nil {
			b = u.batch(s.w.producers[id])
			s.w.account.mu.Lock()
			s.w.account.batches[b.tag] = b
			s.w.account.mu.Unlock()
		}
		var made store.Made
		var receipt ingest.Receipt
		create := b.create // the engine takes the command for itself
		create.Payloads = append([]byte(nil), b.create.Payloads...)
		create.Groups = append([]job.Group(nil), b.create.Groups...)
		err := u.ask(func(ctx context.Context) (err error) {
			made, receipt, err = s.engine.Create(ctx, &create)
			return err
		})
		fate := unknown
		if err == nil {
			fate = stored
		} else if notStored(err) {
			fate = rejected
		}
		u.unexpected("create", err)
		if b.numbering != nil && (fate == stored || fate == rejected && !b.lost) {
			b.numbering.answered(&b.create.Once)
		}
		if err := s.w.account.created(b, made, receipt, fate); err != nil {
			s.w.violation(err)
		}
		s.log("create %s, %d jobs: %v %v", b.tag, len(b.payloads), receipt, err)
	}
}

// repeated returns a create whose answer was lost, to be asked for again with its key or number; or nil.
func (u *user) repeated() *batch {
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.repeats) == 0 || u.random.IntN(2) == 0 {
		return nil
	}
	b := a.repeats[0]
	a.repeats = a.repeats[1:]
	return b
}

// batch makes up a create.
func (u *user) batch(numbers *numbering) *batch {
	u.w.account.mu.Lock()
	u.w.posted++
	b := &batch{tag: fmt.Sprintf("batch-%d", u.w.posted)}
	u.w.account.mu.Unlock()
	b.create.Frame = pick(u.random, job.LineFrame, job.LenFrame)
	for range pick(u.random, 1, 1, 1, 2, 4) {
		g := job.Group{
			Lines: 1 + u.random.IntN(pick(u.random, 3, 10, 40)), Client: pick(u.random, "acme", "default"), Type: pick(u.random, "resize", "mail"), Attributes: job.Attributes{Kind: job.Text,
				Priority: pick(u.random, 4, 4, 0, 9), MaxAttempts: 1 + u.random.IntN(4), LeaseMs: int64(1000 + u.random.IntN(4000)),
				Backoff:     job.Backoff{InitialMs: int64(u.random.IntN(500)), FactorMilli: 2000, MaxMs: 2000},
				RetentionMs: pick(u.random, int64(1000), 1_000_000_000)},
		}
		if u.random.IntN(5) == 0 {
			g.RunAt = u.s.engine.Now() + int64(u.random.IntN(3000))
		}
		b.create.Groups = append(b.create.Groups, g)
	}
	switch u.random.IntN(20) {
	case 0, 1, 2, 3, 4:
		u.moved(b)
	case 5: // of queues that have no jobs every now and then, and can be deleted
		for i := range b.create.Groups {
			b.create.Groups[i].Type, b.create.Groups[i].RetentionMs = briefType, 1000
			b.create.Groups[i].Lines = 1 + u.random.IntN(2)
		}
	}
	if u.random.IntN(3) == 0 {
		b.create.Once = job.Once{Scope: "create", Key: b.tag}
	} else if u.random.IntN(2) == 0 {
		b.numbering = numbers
		u.number(numbers, &b.create.Once)
	}
	for i := range b.create.Groups {
		for range b.create.Groups[i].Lines {
			payload := fmt.Sprintf("%s/%d/%s", b.tag, len(b.payloads), u.text())
			if b.create.Frame == job.LineFrame {
				payload = strings.ReplaceAll(payload, "\n", " ")
			}
			b.payloads = append(b.payloads, payload)
			b.groups = append(b.groups, &b.create.Groups[i])
			b.create.Payloads = b.create.Frame.Append(b.create.Payloads, []byte(payload))
			b.create.Longest = max(b.create.Longest, len(payload))
		}
	}
	return b
}

// text makes up the rest of a payload; some try to look like a piece of a journal.
func (u *user) text() string {
	switch u.random.IntN(20) {
	case 0:
		return strings.Repeat("x", u.random.IntN(3000))
	case 1:
		return "\n#:create v=1 seq=7 at=1 synced=9 bytes=0\n#:end crc=00000000\n"
	case 2:
		return string(make([]byte, u.random.IntN(600)))
	}
	return fmt.Sprint(u.random.Uint64())
}

// runner claims, works, tickles and completes; or dies and forgets; or falls asleep and comes back late. It outlives servers.
type runner struct {
	name    string
	held    []hold
	claims  int // that it made with a key
	numbers *numbering
}

// hold is a claim as its runner remembers it.
type hold struct {
	claim job.ID
	jobs  []job.ID
	again *job.Complete // a request without an answer, to be repeated
}

func (s *server) run(id int, r *runner) {
	u := s.user(id)
	for u.rest(100 * time.Millisecond) {
		switch n := u.random.IntN(100); {
		case n < 40 || len(r.held) == 0:
			u.claim(r)
		case n < 60:
			u.tickle(r)
		case n < 95:
			u.complete(r)
		case n < 97: // dies, and forgets
			r.held, r.numbers = nil, newNumbering()
		default: // sleeps beyond its leases
			u.rest(8 * time.Second)
		}
	}
}

func (u *user) claim(r *runner) {
	c := job.Claim{Runner: r.name, Max: 1 + u.random.IntN(pick(u.random, 3, 30)), MaxBytes: job.MaxClaimBytes}
	switch u.random.IntN(6) {
	case 0, 1:
		c.Types = []string{pick(u.random, "resize", "mail", briefType)}
	case 2:
		c.Types = []string{movedType}
	default:
		c.Types = []string{"resize", "mail", briefType}
	}
	c.Strategy = pick(u.random, job.Oldest, job.Oldest, job.Newest, job.Random, job.Fair)
	switch u.random.IntN(3) {
	case 0:
		r.claims++
		c.Once = job.Once{Scope: "claim " + r.name, Key: fmt.Sprint(r.claims)}
	case 1:
		u.number(r.numbers, &c.Once)
	}
	defer r.numbers.answered(&c.Once) // or given up
	if u.random.IntN(5) == 0 {
		c.Clients = []string{pick(u.random, "acme", "default")}
	}
	if u.random.IntN(3) == 0 {
		c.LeaseMs = int64(1000 + u.random.IntN(3000))
	}
	wait := time.Duration(0)
	if u.random.IntN(2) == 0 {
		wait = time.Duration(u.random.IntN(1500)) * time.Millisecond
	}
	var claimed store.Claimed
	var docs []job.Job
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		claimed, docs, receipt, err = u.s.engine.Claim(ctx, c, wait)
		return err
	})
	lost := err != nil && !notStored(err)
	if lost && c.Once.Given() { // it asks again, with the same key or number; when that is refused, the first may have been carried out all the same
		u.s.log("%s claims, and asks again: %v", r.name, err)
		err = u.ask(func(ctx context.Context) (err error) {
			claimed, docs, receipt, err = u.s.engine.Claim(ctx, c, wait)
			return err
		})
	}
	u.unexpected("claim", err)
	u.s.log("%s claims: %v, %d jobs, %v", r.name, receipt, len(docs), err)
	if err != nil {
		if lost || !notStored(err) {
			u.w.account.mu.Lock()
			u.w.account.lostClaims++
			u.w.account.mu.Unlock()
		}
		return
	}
	if err := u.w.account.claimed(receipt, c, claimed, docs); err != nil {
		u.w.violation(err)
	}
	if len(docs) == 0 {
		return
	}
	h := hold{claim: claimed.Claim}
	for i := range docs {
		h.jobs = append(h.jobs, docs[i].ID)
	}
	r.held = append(r.held, h)
	if len(r.held) > 4 {
		if again := r.held[0].again; again != nil {
			r.numbers.answered(&again.Once)
		}
		r.held = r.held[1:]
	}
}

// some returns a few of the jobs.
func (u *user) some(jobs []job.ID) (few []job.ID) {
	for _, id := range jobs {
		if u.random.IntN(3) == 0 {
			few = append(few, id)
		}
	}
	return few
}

func (u *user) tickle(r *runner) {
	h := r.held[u.random.IntN(len(r.held))]
	t := job.Tickle{Claim: h.claim, Progress: -1}
	if u.random.IntN(2) == 0 {
		if t.IDs = u.some(h.jobs); len(t.IDs) > 0 {
			t.Step, t.Progress = "halfway", 500_000
		}
	}
	if u.random.IntN(10) == 0 {
		t = job.Tickle{Runner: r.name, Progress: -1}
	}
	if u.random.IntN(5) == 0 {
		t.LeaseMs = 6000 // longer than all others, and always the same, so that no lost answer leaves a shorter one in force
	}
	var answer store.Tickled
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		answer, receipt, err = u.s.engine.Tickle(ctx, t)
		return err
	})
	u.unexpected("tickle", err)
	u.s.log("%s tickles %v: %v, held %d, %v", r.name, t.Claim, receipt, answer.Held, err)
	if err == nil && !t.Claim.IsZero() {
		u.w.account.tickled(receipt, t, t.LeaseMs, answer)
	}
}

func (u *user) outcome(id job.ID) job.Outcome {
	o := job.Outcome{ID: id, Code: pick(u.random, job.OK, job.OK, job.OK, job.Fail, job.Retry, job.Error, job.Unget), DelayMs: -1}
	o.ExitCode = o.Code.DefaultExitCode()
	switch u.random.IntN(4) {
	case 0:
		o.Error = "something went wrong\nbadly"
	case 1:
		o.OutputKind, o.Output = job.Text, []byte(strings.Repeat("out\n", u.random.IntN(30)))
	case 2:
		o.DelayMs = int64(u.random.IntN(500))
	}
	if o.Code == job.Unget {
		o = job.Outcome{ID: id, Code: job.Unget, DelayMs: -1}
	}
	if o.Code == job.OK || o.Code == job.Fail {
		o.DelayMs = -1
	}
	return o
}

func (u *user) complete(r *runner) {
	i := u.random.IntN(len(r.held))
	h := &r.held[i]
	c := job.Complete{Claim: h.claim}
	switch {
	case h.again != nil:
		c = *h.again
	case u.random.IntN(2) == 0:
		o := u.outcome(job.ID{})
		c.All = &o
		for _, id := range u.some(u.some(h.jobs)) {
			c.Outcomes = append(c.Outcomes, u.outcome(id))
		}
	default:
		for _, id := range append(u.some(h.jobs), h.jobs[u.random.IntN(len(h.jobs))]) {
			c.Outcomes = append(c.Outcomes, u.outcome(id))
		}
		if n := len(c.Outcomes); n > 1 && c.Outcomes[n-1].ID == c.Outcomes[n-2].ID {
			c.Outcomes = c.Outcomes[:n-1]
		}
		seen := map[job.ID]bool{}
		for _, o := range c.Outcomes {
			if seen[o.ID] {
				c.Outcomes = c.Outcomes[:1]
				break
			}
			seen[o.ID] = true
		}
		if u.random.IntN(20) == 0 {
			c.Claim = job.ID{} // anybody may
		}
	}
	repeat := h.again != nil
	if !repeat && !c.Claim.IsZero() && u.random.IntN(4) == 0 {
		u.setAside(&c)
	}
	if !repeat && u.random.IntN(2) == 0 {
		u.number(r.numbers, &c.Once)
	}
	var answer store.Ended
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		answer, receipt, err = u.s.engine.Complete(ctx, c)
		return err
	})
	u.unexpected("complete", err)
	u.s.log("%s completes %v, %d and all %v: %v, %v, %v", r.name, c.Claim, len(c.Outcomes), c.All != nil, receipt, answer, err)
	switch {
	case err == nil:
		h.again = nil
		r.numbers.answered(&c.Once)
		if err := u.w.account.completed(receipt, c, answer); err != nil {
			u.w.violation(err)
		}
		if c.All != nil && u.random.IntN(4) > 0 {
			r.held = append(r.held[:i], r.held[i+1:]...)
		}
	case !notStored(err):
		u.w.account.unanswered(c, h.jobs)
		h.again = &c
	case !repeat:
		r.numbers.answered(&c.Once)
	}
}

// setAside has some jobs end as the engine ends those whose payloads it cannot read.
func (u *user) setAside(c *job.Complete) {
	for i := range c.Outcomes {
		u.w.account.mu.Lock()
		moved := u.w.account.isMoved(c.Outcomes[i].ID)
		u.w.account.mu.Unlock()
		if !moved && u.random.IntN(3) == 0 {
			c.Outcomes[i] = job.Outcome{ID: c.Outcomes[i].ID, Code: job.Damaged, DelayMs: -1}
		}
	}
}

// runAside runs a job that was set aside, as after a rebuild.
func (u *user) runAside() {
	a := u.w.account
	a.mu.Lock()
	if len(a.aside) == 0 {
		a.mu.Unlock()
		return
	}
	i := u.random.IntN(len(a.aside))
	m := job.Move{Op: job.Run, Job: a.aside[i]}
	a.aside = append(a.aside[:i], a.aside[i+1:]...)
	a.mu.Unlock()
	var moved store.Moved
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		moved, receipt, err = u.s.engine.Move(ctx, m)
		return err
	})
	u.unexpected(m.Verb(), err)
	u.s.log("%s %v, which was set aside: %v, %+v, %v", m.Verb(), m.Job, receipt, moved, err)
	if err == nil {
		a.movedOne(receipt, m, moved)
	}
}

// operate pauses and resumes queues, sets the clock, has the store flushed, and reads.
func (s *server) operate(id int) {
	u := s.user(id)
	for u.rest(400 * time.Millisecond) {
		switch u.random.IntN(20) {
		case 5, 6, 7, 8, 9, 10:
			u.move()
		case 11:
			u.stopAll()
		case 14:
			u.runAside()
		case 12, 13:
			u.deleteQueue(pick(u.random, "acme", "default"), pick(u.random, "mail", movedType, briefType, briefType, briefType))
		case 2, 3, 4:
			if err := s.engine.Flush(); err != nil {
				u.unexpected("flush", err)
			}
		case 0:
			u.pause(pick(u.random, "acme", "default"), pick(u.random, "resize", "mail", movedType, briefType), u.random.IntN(2) == 0)
		case 1:
			// Far less than the day that a start would refuse.
			s.w.wall.Store(int64(time.Duration(u.random.IntN(14_400)-7200) * time.Second))
			s.log("the wall clock is set %v off", time.Duration(s.w.wall.Load()))
		default:
			u.read()
		}
	}
}

// deleteQueue deletes a queue, which is refused while it has jobs.
func (u *user) deleteQueue(client, typ string) {
	d := job.DeleteQueue{Client: client, Type: typ}
	var answer store.QueueDeleted
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		answer, receipt, err = u.s.engine.DeleteQueue(ctx, d)
		return err
	})
	u.unexpected("delete queue", err)
	u.s.log("%s %s/%s: %v, %v %v", d.Verb(), client, typ, receipt, answer.Refusal, err)
	if err == nil {
		u.w.account.queueDeleted(receipt, d, answer.Refusal)
	}
}

func (u *user) pause(client, typ string, paused bool) {
	p := job.Pause{Client: client, Type: typ, Paused: paused}
	var answer store.Paused
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		answer, receipt, err = u.s.engine.Pause(ctx, p)
		return err
	})
	u.unexpected("pause", err)
	u.s.log("%s %s/%s: %v, %v %v", p.Verb(), client, typ, receipt, answer.Refusal, err)
	if err == nil {
		u.w.account.answered(receipt, p, answer.Refusal, nil)
	}
}

// read looks at a job whose end was answered: it must show.
func (u *user) read() {
	a := u.w.account
	a.mu.Lock()
	if len(a.ended) == 0 {
		a.mu.Unlock()
		return
	}
	id := a.ended[u.random.IntN(len(a.ended))]
	want := a.end[id]
	a.mu.Unlock()
	var doc job.Job
	err := u.ask(func(ctx context.Context) (err error) {
		if err = u.s.engine.CatchUp(ctx, 0); err == nil {
			doc, err = u.s.engine.Queries().Job(id)
		}
		return err
	})
	if errors.Is(err, job.NotFound) {
		return // purged, or lost: the audit knows
	}
	u.unexpected("read", err)
	if err == nil && doc.Status != want {
		u.w.violation(fmt.Errorf("job %v was answered as %v and reads as %+v", id, want, doc))
	}
}
