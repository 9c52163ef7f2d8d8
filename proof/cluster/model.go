package cluster

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/daybookq/daybook/job"
)

// kind is the effect of one request on one job.
type kind uint8

const (
	handed   kind = iota // a claim handed it out
	tickled              // its claim was tickled
	ended                // a runner reported that it is completed
	observed             // a read showed it
)

var kindNames = [...]string{"claim", "tickle", "complete", "read"}

// status is the status of a job in the model.
type status uint8

const (
	other status = iota
	pending
	active
	completed
)

var statusNames = [...]string{"other", "pending", "active", "completed"}

func statusOf(name string) status { return status(max(slices.Index(statusNames[:], name), 0)) }

// event is the answer to one request about one job. Claimers repeat each request until it is answered, so the request was
// carried out at some time between call and ret. Times are ns since the ledger began.
type event struct {
	call, ret int64
	kind      kind
	refused   bool // of tickled and ended: the claim does not hold the job
	claim     string
	attempts  int   // of handed and observed: run_attempts
	lease     int64 // of handed, ns
	output    string
	status    status // of observed
}

func (e *event) String() string {
	s := fmt.Sprintf("[%.3f %.3f] %s", time.Duration(e.call).Seconds(), time.Duration(e.ret).Seconds(), kindNames[e.kind])
	switch e.kind {
	case handed:
		return s + fmt.Sprintf(" by %s, attempt %d, lease %v", e.claim, e.attempts, time.Duration(e.lease))
	case observed:
		return s + fmt.Sprintf(": %s, attempts %d, output %q", statusNames[e.status], e.attempts, e.output)
	case ended:
		s += fmt.Sprintf(" with %q", e.output)
	}
	if e.refused {
		s += " refused"
	}
	return s + " by " + e.claim
}

// state is all that the model knows of a job.
type state struct {
	status   status
	claim    string // that holds it, or held it last
	attempts int
	renewed  int64 // no earlier was the lease renewed last
	lease    int64
	output   string
	repeats  int   // how many repeated claims have taken it
	since    int64 // no earlier was the last request carried out
}

// model is the model of one job, with claims that may have taken the job, and whose answers do not show it, in the order of
// their calls.
type model struct {
	// repeated claims may have taken the job in an earlier try, until its lease ended.
	repeated []event
	// empty claims were answered without jobs. If their runner proved silent, they may have taken the job and returned it
	// before the answer, which costs no attempt.
	empty []event
}

// slack is how much earlier than a lease ends the server may act, since its times are whole milliseconds.
const slack = int64(10 * time.Millisecond)

// unprompted returns the states that s may have become by now without an answered request, with s.
func (m *model) unprompted(s state, now int64) []state {
	out := []state{s}
	if s.status == active && s.renewed+s.lease-slack <= now { // the lease ran out; the claim may still report
		s.status = pending
		out = append(out, s)
	}
	if s.status != pending {
		return out
	}
	// Other claims took it, and lost it again: the lease ran out, or the server took the job back, which costs no attempt.
	within := func(c event) bool { return c.call <= now && c.ret >= s.since }
	if slices.ContainsFunc(m.empty, within) || len(m.repeated) > 0 && m.repeated[0].call <= now {
		s.claim = "another"
		out = append(out, s)
	}
	for n := 0; n < len(m.repeated) && m.repeated[n].call <= now && s.repeats < len(m.repeated); n++ {
		s.attempts++
		s.repeats++
		s.claim = "another"
		out = append(out, s)
	}
	return out
}

// step returns the states that a job in state s may have after e. It returns none if no server can have given this answer.
func (m *model) step(s state, e *event) (out []state) {
	for _, s := range m.unprompted(s, e.ret) {
		next, ok := s.after(e)
		if next.since = max(s.since, e.call); ok && !slices.Contains(out, next) {
			out = append(out, next)
		}
	}
	return out
}

// after returns the state after e.
func (s state) after(e *event) (state, bool) {
	holds := s.status == active && s.claim == e.claim
	switch e.kind {
	case handed:
		if s.status != pending || e.attempts != s.attempts+1 {
			return s, false
		}
		return state{status: active, claim: e.claim, attempts: e.attempts, renewed: e.call, lease: e.lease, repeats: s.repeats}, true
	case tickled:
		if e.refused == holds {
			return s, false
		}
		if holds {
			s.renewed = max(s.renewed, e.call)
		}
		return s, true
	case ended:
		late := s.status == pending && s.claim == e.claim // its lease ran out, and nobody has taken the job since
		again := s.status == completed && s.claim == e.claim && s.output == e.output
		if e.refused {
			return s, !holds && !late && !again
		}
		if !holds && !late && !again {
			return s, false
		}
		s.status, s.output, s.renewed, s.lease = completed, e.output, 0, 0
		return s, true
	}
	return s, s.status == e.status && s.attempts == e.attempts && s.output == e.output
}

// checkTime bounds the check of one job, which takes exponential time in the worst case.
const checkTime = time.Minute

// check reports whether the events of one job may have happened in an order that agrees with their times. It uses other claims
// only if the events are impossible without them.
func check(events, repeated, empty []event) porcupine.CheckResult {
	operations := make([]porcupine.Operation, len(events))
	for i := range events {
		operations[i] = porcupine.Operation{Input: &events[i], Call: events[i].call, Return: events[i].ret}
	}
	run := func(m *model) porcupine.CheckResult {
		of := porcupine.NondeterministicModel{
			Init: func() []any { return []any{state{status: pending}} },
			Step: func(s, input, _ any) (out []any) {
				for _, next := range m.step(s.(state), input.(*event)) {
					out = append(out, next)
				}
				return out
			},
			Equal: func(a, b any) bool { return a.(state) == b.(state) },
		}
		return porcupine.CheckOperationsTimeout(of.ToModel(), operations, checkTime)
	}
	result := run(&model{})
	for _, m := range []model{{repeated, nil}, {repeated, empty}} {
		if result == porcupine.Illegal && len(m.repeated)+len(m.empty) > 0 {
			result = run(&m)
		}
	}
	return result
}

// judgeHistories checks the histories of all jobs of claimers. The caller holds l.mu.
func (l *ledger) judgeHistories() {
	byCall := func(a, b event) int { return cmp.Compare(a.call, b.call) }
	slices.SortFunc(l.repeated, byCall)
	for id, events := range l.events {
		slices.SortStableFunc(events, byCall)
		// The first claim of the job that was answered is in events. An earlier one, whose answer was lost, may have ended before it.
		first, last := min(events[0].call, l.madeAt(id)), events[len(events)-1].call
		during := func(claims []event) []event {
			return slices.DeleteFunc(slices.Clone(claims), func(c event) bool { return c.call > last || c.ret < first })
		}
		repeated := during(l.repeated)
		l.count.Histories++
		l.count.Operations += len(events)
		switch check(events, repeated, during(l.empty)) {
		case porcupine.Illegal:
			l.count.Violations++
			l.problemLocked("no order of these requests explains their answers (%d claims were repeated meanwhile):\n%s", len(repeated), describe(id, events))
		case porcupine.Unknown:
			l.count.Undecided++
			l.problemLocked("undecided, machine too slow: this history could not be checked within %v:\n%s", checkTime, describe(id, events))
		}
	}
}

// madeAt returns about when a job was made, by the clock of the ledger.
func (l *ledger) madeAt(id string) int64 {
	of, err := job.ParseID(id)
	if err != nil {
		return 0
	}
	return time.UnixMilli(of.At()).Add(-clockSlack).Sub(l.began).Nanoseconds()
}

// clockSlack is more than the time in ids differs from the clock of the ledger.
const clockSlack = time.Second

func describe(id string, events []event) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "job %s:\n", id)
	for i := range events {
		fmt.Fprintln(&b, "  ", &events[i])
	}
	return b.String()
}
