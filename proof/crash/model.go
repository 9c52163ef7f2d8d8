package crash

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// kind is the effect that a request had, or was to have, on one job.
type kind uint8

const (
	created  kind = iota // a create made it
	handed               // a claim handed it out
	tickled              // its claim was tickled
	ended                // an outcome for this job
	endedAll             // an outcome for all jobs of a claim; the answer does not say which jobs the claim held
	returned             // an unget
	observed             // a GET showed it

	chained // at the end: the jobs that it has created

	// Requests of operators (operator.go), for the job alone or for its whole batch:
	cancelledOne
	redrivenOne
	cancelledAll
	redrivenAll
)

var kindNames = [...]string{"create", "claim", "tickle", "complete", "complete all", "unget", "get", "chained jobs", "cancel", "redrive", "cancel batch", "redrive batch"}

// answer is the kind of answer to a request.
type answer uint8

const (
	done answer = iota // 2xx
	lost               // no answer, or an answer of "unknown": the request was carried out or not
	// 409 claim_lost or cancelled, or 400 job_not_active: the claim does not hold the job. For operators: 409 job_ended
	// or job_not_ended.
	stale
	differs  // 409 outcome_differs: the claim ended the job in another way
	absent   // 404
	sweeping // no answer to a request that may continue as a sweep after the server has died
)

var answerNames = [...]string{"done", "no answer", "refused", "outcome differs", "not found", "no answer, perhaps a sweep"}

// outcome is the part of a runner's report that the model needs.
type outcome struct {
	code    string // ok, failed, retry, error; "" for none
	delayMs int64
}

func (o outcome) final() bool { return o.code == "ok" || o.code == "failed" }

// status is the status of a job.
type status uint8

const (
	nowhere status = iota
	deferred
	pending
	active
	completed
	failed
	cancelled
)

var statusNames = [...]string{"absent", "deferred", "pending", "active", "completed", "failed", "cancelled"}

func parseStatus(s string) (status, error) {
	for i, name := range statusNames {
		if name == s {
			return status(i), nil
		}
	}
	return 0, fmt.Errorf("unknown status %q", s)
}

// event is the effect of one request on one job. Times are ns since the history began.
type event struct {
	call, ret int64 // ret is infinite if there was no answer
	lease     int64 // of handed, ns
	delay     int64 // of created: ns until the job may run
	claim     int32 // the claim that takes, tickles, ends, ungets, or is seen to hold the job; 0: none
	attempts  int32 // run_attempts in the answer; -1: unknown
	outcome   outcome
	kind      kind
	answer    answer
	then      int8 // of ended: the number of the chain that the outcome has, from 1; 0: none
	unsure    bool // of cancelledAll: the job may not have existed when it was requested
	// Of observed: as read. Of ended: decided with the outcome. Of redrivenAll: the status that is redriven. nowhere:
	// unknown.
	status    status
	offspring // of chained
}

const never = math.MaxInt64

func (e *event) String() string {
	ret := "…"
	if e.ret != never {
		ret = fmt.Sprintf("%.3f", time.Duration(e.ret).Seconds())
	}
	s := fmt.Sprintf("[%.3f %s] %s: %s", time.Duration(e.call).Seconds(), ret, kindNames[e.kind], answerNames[e.answer])
	if e.claim != 0 {
		s += fmt.Sprintf(", claim %d", e.claim)
	}
	if e.outcome.code != "" {
		s += fmt.Sprintf(", %s after %d ms", e.outcome.code, e.outcome.delayMs)
	}
	if e.then != 0 {
		s += fmt.Sprintf(", with chain %d", e.then)
	}
	if e.kind == chained {
		s += fmt.Sprintf(", chains %b, %d jobs followed", e.chains, e.followed)
	}
	if e.status != nowhere {
		s += ", " + statusNames[e.status]
	}
	if e.answer == done && e.attempts >= 0 {
		s += fmt.Sprintf(", attempts %d", e.attempts)
	}
	if e.lease != 0 {
		s += fmt.Sprint(", lease ", time.Duration(e.lease))
	}
	return s
}

// state is the model's complete knowledge of a job.
type state struct {
	status     status
	unanswered bool  // the claim that holds it had no answer
	late       bool  // the lease of claim has ended, and nobody has taken the job since, so the claim may report an outcome
	claim      int32 // the claim that holds the job, or that ended its last run, or whose lease ended
	attempts   int32
	ended      outcome // of the last run, by that claim; empty: unknown
	renewed    int64   // the earliest time at which its lease can have begun
	lease      int64
	until      int64  // of deferred: the earliest time at which it can be pending; of a job that a claim without jobs has: the latest time
	opened     int    // how often claims without an answer took it
	since      int64  // when the latest answered request so far was sent; kept only beside requests without an answer
	used       uint64 // a bit for each claim and redrive of jobModel.open that was carried out
	offspring
}

func (s state) String() string {
	return fmt.Sprintf("%s, attempts %d, claim %d, ended %q, renewed %.3f", statusNames[s.status], s.attempts, s.claim, s.ended.code, time.Duration(s.renewed).Seconds())
}

// life is a period in which a server ran without a break. All leases begin again at its start.
type life struct{ start, end int64 }

// jobModel is the model's knowledge of a job before its first event.
type jobModel struct {
	max     int32 // max_attempts
	lives   []life
	follows bool // it has an on_complete
	// open are the requests about the job that got no answer. The server has carried out each of them at some time, or
	// never.
	//
	// They are sorted by call. Porcupine would try a dozen such operations in each order, for minutes. So the model
	// treats them as changes of the state, which may happen while the request can have been outstanding. It uses each
	// claim and each redrive once (of the first 64). It does not count other requests: a second time, they change
	// nothing, unless a claim or redrive took place in between.
	open []event
	// openClaims are claims without an answer that may have taken the job. Nobody knows their ids, so no event names them.
	openClaims []event
	// emptyClaims are claims that were answered without jobs. If their runner proved silent, they may have taken jobs and
	// returned them before the answer, which costs no attempt.
	emptyClaims []event
}

// slack is how much earlier than a lease or delay ends the server may act, since its times are whole milliseconds.
const slack = int64(10 * time.Millisecond)

// mayLapse reports whether a lease that was renewed at r, at the earliest, may have run out by now. This is possible only
// if the server ran for the whole lease in one life.
func (m *jobModel) mayLapse(r, lease, now int64) bool {
	i, _ := slices.BinarySearchFunc(m.lives, r, func(l life, r int64) int {
		if l.end < r {
			return -1
		}
		return 1
	})
	for ; i < len(m.lives) && m.lives[i].start <= now; i++ {
		if max(r, m.lives[i].start)+lease-slack <= min(m.lives[i].end, now) {
			return true
		}
	}
	return false
}

// unprompted returns the states that s may have become by now without an answered request, including s.
func (m *jobModel) unprompted(s state, now int64) []state {
	var reached states
	reached.add(s)
	for i := 0; i < len(reached.list); i++ {
		for _, next := range m.changes(reached.list[i], now) {
			reached.add(next)
		}
	}
	return reached.best()
}

// states is a set of states. If two of them differ only in how many claims without an answer they needed, it keeps the
// one that needed fewer, since it allows everything that the other state allows.
type states struct {
	list  []state
	least map[state]int // the fewest claims, by the state without their number
}

func (l *states) add(s state) {
	s = s.plain()
	key := s
	key.opened = 0
	if least, known := l.least[key]; known && least <= s.opened {
		return
	}
	if l.least == nil {
		l.least = map[state]int{}
	}
	l.least[key] = s.opened
	l.list = append(l.list, s)
}

// plain returns the state without the parts that no longer matter, so that equivalent states are equal.
func (s state) plain() state {
	if s.status != active {
		s.renewed, s.lease = 0, 0
	}
	if s.status != deferred && !s.unanswered {
		s.until = 0
	}
	return s
}

// best returns the states that no better state has replaced.
func (l *states) best() []state {
	return slices.DeleteFunc(l.list, func(s state) bool {
		key := s
		key.opened = 0
		return l.least[key] < s.opened
	})
}

// changes returns the states that directly follow s by now without an answered request.
func (m *jobModel) changes(s state, now int64) []state {
	out := m.carriedOut(s, now)
	switch {
	case s.status == deferred && now >= s.until-slack:
		s.status = pending
		return append(out, s)
	case s.status == pending:
		return append(out, m.taken(s, now)...)
	case s.status != active:
		return out
	}
	if s.unanswered { // the server ungets the job if the claim's connection is gone
		back := s
		back.status, back.unanswered, back.claim, back.attempts = pending, false, 0, s.attempts-1
		out = append(out, back)
	}
	if s.until == 0 && m.mayLapse(s.renewed, s.lease, now) {
		s.status, s.late, s.ended = pending, !s.unanswered, outcome{}
		if s.attempts >= m.max {
			s.status, s.late = failed, false
		}
		if s.unanswered = false; !s.late {
			s.claim = 0
		}
		out = append(out, s)
	}
	return out
}

// carriedOut returns the states in which a request without an answer was carried out by now.
func (m *jobModel) carriedOut(s state, now int64) (out []state) {
	for i := range m.open {
		e, bit := &m.open[i], uint64(1)<<i
		if e.call > now || e.ret < s.since || s.used&bit != 0 {
			continue
		}
		for _, next := range m.effect(s, e) {
			next.opened, next.since, next.used = s.opened, s.since, s.used
			if e.kind == handed || e.kind == redrivenOne || e.kind == redrivenAll && next.status != s.status {
				if m.mayWait(i, s.used, now) {
					continue
				}
				next.used |= bit
			}
			out = append(out, next)
		}
	}
	return out
}

// mayWait reports whether a request before the one with the given number has the same effect at any time from now on, and
// is not used yet. Then the model uses that one, and so has fewer states.
func (m *jobModel) mayWait(number int, used uint64, now int64) bool {
	e := &m.open[number]
	for i := range m.open[:number] {
		o := &m.open[i]
		if used&(1<<i) == 0 && o.ret == never && o.call <= now && o.kind == e.kind && o.status == e.status && o.claim == e.claim && o.unsure == e.unsure {
			return true
		}
	}
	return false
}

// usable returns the bits of the requests that may have been outstanding after the given time. The model can ignore the
// rest.
func (m *jobModel) usable(since int64) (bits uint64) {
	for i := range min(len(m.open), 64) {
		if m.open[i].ret >= since {
			bits |= 1 << i
		}
	}
	return bits
}

// taken returns the states in which a claim without an answer has taken a pending job by now. The model only counts these
// claims, so it can try one of them for all: for each length of a lease, the first claim, whose lease may end first.
func (m *jobModel) taken(s state, now int64) (out []state) {
	if s.attempts >= m.max {
		return nil
	}
	by := state{status: active, unanswered: true, claim: unknownClaim, attempts: s.attempts + 1, opened: s.opened, since: s.since, used: s.used, offspring: s.offspring}
	for i := range m.emptyClaims { // of these, the one that may have had it longest
		if c := &m.emptyClaims[i]; c.call <= now && c.ret >= s.since {
			by.until = max(by.until, c.ret)
		}
	}
	if by.until > 0 {
		out = append(out, by)
	}
	if s.opened == len(m.openClaims) {
		return out
	}
	by.until = 0
	by.opened++
	for i := range m.openClaims {
		c := &m.openClaims[i]
		if c.call > now || c.ret < s.since {
			continue
		}
		next := by
		next.renewed, next.lease = c.call, c.lease
		if at := slices.IndexFunc(out, func(o state) bool { return o.lease == c.lease }); at < 0 {
			out = append(out, next)
		} else if c.call < out[at].renewed {
			out[at] = next
		}
	}
	return out
}

// unknownClaim is the number of each claim without an answer.
const unknownClaim = -1

// afterOutcome returns the state after a run of s ended with outcome o.
func (m *jobModel) afterOutcome(s state, o outcome, call int64) state {
	s.ended, s.unanswered, s.late = o, false, false
	switch {
	case o.code == "ok":
		if s.status = completed; m.follows {
			s.followed++
		}
	case o.code == "failed" || s.attempts >= m.max:
		s.status = failed
	case o.delayMs == 0:
		s.status = pending
	default: // -1 means that the jitter of the backoff decides
		s.status, s.until = deferred, call+max(o.delayMs, 0)*int64(time.Millisecond)
	}
	return s
}

// step returns the states that a job in state s may be in after e. It returns none if the server cannot have given e's
// answer.
func (m *jobModel) step(s state, e *event) []state {
	var out states
	for _, s := range m.unprompted(s, e.ret) {
		for _, next := range m.effect(s, e) {
			next.opened, next.since, next.used = s.opened, s.since, s.used
			if len(m.open)+len(m.openClaims)+len(m.emptyClaims) > 0 {
				next.since = max(next.since, e.call)
				next.used &= m.usable(next.since)
			}
			out.add(next)
		}
	}
	return out.best()
}

func (m *jobModel) effect(s state, e *event) []state {
	holds := s.status == active && s.claim == e.claim && e.claim != 0
	late := s.late && s.claim == e.claim // then a refusal is possible, too: a cancel of everything may be in progress
	known := e.answer == done            // otherwise the answer is unknown
	switch e.kind {
	case created:
		if s.status != nowhere {
			return nil
		}
		s.status = pending
		if e.delay > 0 {
			s.status, s.until = deferred, e.call+e.delay
		}
		return []state{s}

	case handed:
		if s.status != pending || s.attempts >= m.max || known && e.attempts != s.attempts+1 {
			return nil
		}
		return []state{{status: active, unanswered: !known, claim: e.claim, attempts: s.attempts + 1, renewed: e.call, lease: e.lease, offspring: s.offspring}}

	case tickled:
		switch {
		case e.answer == stale && !holds:
			return []state{s}
		case e.answer == stale || !holds:
			return nil
		}
		s.renewed = max(s.renewed, e.call)
		return []state{s}

	case ended:
		again := s.claim == e.claim && e.claim != 0 && s.ended == e.outcome && s.status != active
		switch {
		case e.answer == stale && !holds && !again, e.answer == differs && !holds && !again && s.ended.code != "" && s.claim == e.claim:
			return []state{s}
		case e.answer == stale || e.answer == differs:
			return nil
		case holds, late:
			if s = m.afterOutcome(s, e.outcome, e.call); e.then > 0 {
				s.chains |= 1 << (e.then - 1)
			}
		case !again:
			return nil
		}
		if known && (holds || late) && e.status == cancelled && (s.status == pending || s.status == deferred) {
			// A cancel of everything was in progress. history.check looks for it.
			return []state{{status: cancelled, attempts: s.attempts, offspring: s.offspring}}
		}
		if known && e.status != nowhere && !slices.ContainsFunc(m.unprompted(s, e.ret), func(s state) bool { return s.status == e.status }) {
			return nil
		}
		return []state{s}

	case endedAll:
		switch {
		case e.answer == stale && holds:
			return nil
		case late && e.answer != stale:
			return []state{s, m.afterOutcome(s, e.outcome, e.call)}
		case e.answer == stale || !holds:
			return []state{s}
		}
		return []state{m.afterOutcome(s, e.outcome, e.call)}

	case returned:
		again := s.claim == e.claim && e.claim != 0 && s.ended.code == "unget" && s.status != active
		switch {
		case e.answer == stale && !holds, again: // the end of the claim's stream may have returned the job before
			return []state{s}
		case e.answer == stale || !holds:
			return nil
		}
		return []state{{status: pending, attempts: s.attempts - 1, claim: e.claim, ended: outcome{code: "unget"}, offspring: s.offspring}}

	case observed:
		switch {
		case e.answer == absent && s.status == nowhere:
			return []state{s}
		case e.answer == absent || s.status != e.status || s.attempts != e.attempts:
			return nil
		case s.status == active && (e.claim != 0 && e.claim != s.claim || s.until > 0 && e.call > s.until):
			return nil
		}
		return []state{s}
	}
	if e.kind != chained {
		return m.afterMove(s, e)
	}
	if s.offspring != e.offspring {
		return nil
	}
	return []state{s}
}

// model returns m for porcupine. The events are the inputs of porcupine's operations.
func (m *jobModel) model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, input, _ any) []any {
			next := m.step(s.(state), input.(*event))
			out := make([]any, len(next))
			for i := range next {
				out[i] = next[i]
			}
			return out
		},
		Equal: func(a, b any) bool { return a.(state) == b.(state) },
	}
	return nondeterministic.ToModel()
}

// checkTime bounds the check of one job, which takes exponential time in the worst case.
const checkTime = time.Minute

// check reports whether the events of one job may have happened in an order that agrees with their times. openClaims are
// claims without an answer that may have taken the job, and emptyClaims claims that were answered without jobs. check
// uses them only if the events are impossible without them.
func (m *jobModel) check(events, openClaims, emptyClaims []event) porcupine.CheckResult {
	of := *m
	var operations []porcupine.Operation
	for i := range events {
		if e := &events[i]; e.answer == lost || e.answer == sweeping {
			of.open = append(of.open, *e)
		} else {
			operations = append(operations, porcupine.Operation{Input: e, Call: e.call, Return: e.ret})
		}
	}
	slices.SortStableFunc(of.open, func(a, b event) int { return cmp.Compare(a.call, b.call) })
	result := porcupine.CheckOperationsTimeout(of.model(), operations, checkTime)
	if result != porcupine.Ok && len(openClaims) > 0 {
		of.openClaims = openClaims
		result = porcupine.CheckOperationsTimeout(of.model(), operations, checkTime)
	}
	if result != porcupine.Ok && len(emptyClaims) > 0 {
		of.emptyClaims = emptyClaims
		result = porcupine.CheckOperationsTimeout(of.model(), operations, checkTime)
	}
	return result
}
