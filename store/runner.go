package store

import "github.com/daybookq/daybook/job"

// runner is what is known of a runner while it holds something, and its row for some time after.
type runner struct {
	name      string
	claims    int
	held      int
	tickledAt int64 // of the last tickle of all it holds
	promise   job.Promise
	// idleSince is when it last came to hold nothing; 0 while it holds something. A runner that holds nothing is as one that was never
	// seen, but for its row: it stays for a while, since most runners claim again at once, and a key that is deleted and set again many
	// times a second makes every read of it walk over all those versions.
	idleSince int64
	timerAt   int64 // time of its timer row, at or before the end of that while; 0: no timer row
	dirty     bool  // on the Store's list of that name
	gone      bool  // its row has been deleted
}

func (r *runner) encode() []byte {
	e := make(encoder, 0, 24)
	e.uint(uint64(r.claims))
	e.uint(uint64(r.held))
	e.int(r.tickledAt)
	e.int(r.promise.From)
	e.int(r.promise.Until)
	e.uint(r.promise.Seq)
	e.int(r.idleSince)
	e.int(r.timerAt)
	return e
}

func decodeRunner(name string, value []byte) *runner {
	d := decoder(value)
	return &runner{name: name, claims: int(d.uint()), held: int(d.uint()), tickledAt: d.int(),
		promise: job.Promise{From: d.int(), Until: d.int(), Seq: d.uint()}, idleSince: d.int(), timerAt: d.int()}
}

// readRunner returns what is stored of a runner; nothing of one that has no row.
func readRunner(r rows, name string) *runner {
	if value := r.get(runnerKey(runnerTable, name)); value != nil {
		return decodeRunner(name, value)
	}
	return &runner{name: name}
}

func (r *runner) flush(o *overlay) {
	r.dirty = false
	if !r.gone {
		o.set(runnerKey(runnerTable, r.name), r.encode())
	}
}

func (s *Store) runner(name string) *runner {
	r := s.runners.get(name)
	if r == nil {
		r = readRunner(&s.o, name)
		s.runners.set(name, r)
	}
	return r
}

// hold counts claims and held lines of a runner up or down.
func (s *Store) hold(name string, claims, held int) *runner {
	r := s.runner(name)
	r.claims += claims
	r.held += held
	if r.claims > 0 {
		r.idleSince = 0
	}
	s.touch(&r.dirty, r)
	return r
}

// runnerIdleMs is how long the row of a runner stays that holds nothing. Invariant: part of the level, since it decides which rows
// there are.
const runnerIdleMs = 60_000

// rest forgets what was said of a runner that now holds nothing, and has its row deleted unless it claims again soon. The timer row stays
// where it is when there is one: it may be early.
func (s *Store) rest(r *runner) {
	r.tickledAt, r.promise = 0, job.Promise{}
	r.idleSince = s.now.At
	if r.timerAt == 0 {
		r.timerAt = s.now.At + runnerIdleMs
		s.setTimer(runnerTimerKey(r.timerAt, r.name))
	}
}

// checkIdle deletes the row of a runner that has held nothing for long, and otherwise moves its timer.
func (s *Store) checkIdle(name string) {
	r := s.runner(name)
	s.dropTimer(runnerTimerKey(r.timerAt, name))
	r.timerAt = 0
	switch end := r.idleSince + runnerIdleMs; {
	case r.claims > 0: // the next rest sets it
	case end > s.due:
		r.timerAt = end
		s.setTimer(runnerTimerKey(end, name))
	default:
		s.o.del(runnerKey(runnerTable, name))
		r.gone = true
		s.runners.del(name)
		return
	}
	s.touch(&r.dirty, r)
}
