package crash

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// kind is what an event did, or tried to do, to one job.
type kind uint8

const (
	created  kind = iota // by its create
	handed               // out by a claim
	tickled              // by its claim
	ended                // by an outcome told for this job
	endedAll             // by an outcome told for all that a claim holds, which does not say what it held
	returned             // back, by unget
	observed             // at, by a GET

	// By operators (operator.go): of the job alone, or of its whole batch.
	cancelledOne
	redrivenOne
	cancelledAll
	redrivenAll
)

var kindNames = [...]string{"create", "claim", "tickle", "complete", "complete all", "unget", "get", "cancel", "redrive", "cancel batch", "redrive batch"}

// answer is what came back.
type answer uint8

const (
	done     answer = iota // 2xx
	lost                   // no answer, or one that says "unknown": it may have happened or not
	stale                  // 409 claim_lost or cancelled, or 400 job_not_active: the claim does not hold the job; of operators: 409 job_ended, job_not_ended
	differ                 // 409 outcome_differs: the claim ended the job in another way
	absent                 // 404
	sweeping               // no answer, of what may go on as a sweep after the server has died
)

var answerNames = [...]string{"done", "no answer", "refused", "outcome differs", "not found", "no answer, perhaps a sweep"}

// outcome is what a runner tells, as far as the model wants to know.
type outcome struct {
	code    string // ok, failed, retry, error; "" for none
	delayMs int64
}

func (o outcome) final() bool { return o.code == "ok" || o.code == "failed" }

// status is where a job is.
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
	return 0, fmt.Errorf("status %q", s)
}

// event is one request as far as one job is concerned. Times are ns since the history began.
type event struct {
	call, ret int64 // ret is infinite where there was no answer
	lease     int64 // of handed: ns
	delay     int64 // of created: ns until it may run
	claim     int32 // which claims, tickles, ends, gives back, or is seen to hold the job; 0: none
	attempts  int32 // run_attempts as told; -1: not told
	outcome   outcome
	kind      kind
	answer    answer
	unsure    bool   // of cancelledAll: the job may not have been there when it was asked for
	status    status // of looked: as read; of ended: as decided together with the outcome; of redrivenAll: from which; nowhere: not told
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

// state is all that the model knows of a job.
type state struct {
	status     status
	unanswered bool  // the claim that holds it had no answer
	claim      int32 // that holds it, or that ended its last run
	attempts   int32
	ended      outcome // of the last run, by that claim; none where nobody told
	renewed    int64   // the earliest that its lease can have begun
	lease      int64
	until      int64 // of deferred: the earliest that it can be pending
}

func (s state) String() string {
	return fmt.Sprintf("%s, attempts %d, claim %d, ended %q, renewed %.3f", statusNames[s.status], s.attempts, s.claim, s.ended.code, time.Duration(s.renewed).Seconds())
}

// life is a stretch of time in which a server ran without a break: at its beginning all leases begin anew.
type life struct{ start, end int64 }

// job is what the model must know beforehand.
type jobModel struct {
	max   int32 // attempts
	lives []life
}

// slack is how much sooner than a lease or a delay says the server may act: its times are whole milliseconds.
const slack = int64(10 * time.Millisecond)

// mayLapse reports whether a lease that was renewed at the earliest at r may have run out by now. It can only where
// some life was long enough to see it through.
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

// silent returns what s may have become by now without anybody asking for it, s itself first.
func (m *jobModel) unprompted(s state, now int64) []state {
	out := []state{s}
	switch {
	case s.status == deferred && now >= s.until-slack:
		s.status = pending
		return append(out, s)
	case s.status != active:
		return out
	}
	if s.unanswered { // a claim for a connection that is gone is given back
		back := s
		back.status, back.unanswered, back.claim, back.attempts = pending, false, 0, s.attempts-1
		out = append(out, back)
	}
	if m.mayLapse(s.renewed, s.lease, now) {
		s.unanswered, s.claim, s.ended = false, 0, outcome{}
		s.status = pending
		if s.attempts >= m.max {
			s.status = failed
		}
		out = append(out, s)
	}
	return out
}

// run is s once a run of it had outcome o.
func (m *jobModel) run(s state, o outcome, call int64) state {
	s.ended, s.unanswered = o, false
	switch {
	case o.code == "ok":
		s.status = completed
	case o.code == "failed" || s.attempts >= m.max:
		s.status = failed
	case o.delayMs == 0:
		s.status = pending
	default: // without a delay of its own (-1) the backoff's jitter decides
		s.status, s.until = deferred, call+max(o.delayMs, 0)*int64(time.Millisecond)
	}
	return s
}

// step returns what a job in state s may be after e, and nothing where e cannot have been answered so.
func (m *jobModel) step(s state, e *event) []state {
	var out []state
	for _, s := range m.unprompted(s, e.ret) {
		out = append(out, m.effect(s, e)...)
	}
	if e.answer == lost || e.answer == sweeping {
		out = append(out, s) // it did not happen
	}
	return out
}

func (m *jobModel) effect(s state, e *event) []state {
	holds := s.status == active && s.claim == e.claim && e.claim != 0
	told := e.answer == done // else what was told is not known
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
		if s.status != pending || s.attempts >= m.max || told && e.attempts != s.attempts+1 {
			return nil
		}
		return []state{{status: active, unanswered: !told, claim: e.claim, attempts: s.attempts + 1, renewed: e.call, lease: e.lease}}

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
		case e.answer == stale && !holds && !again, e.answer == differ && !holds && !again && s.ended.code != "" && s.claim == e.claim:
			return []state{s}
		case e.answer == stale || e.answer == differ:
			return nil
		case holds:
			s = m.run(s, e.outcome, e.call)
		case !again:
			return nil
		}
		if told && holds && e.status == cancelled && (s.status == pending || s.status == deferred) {
			return []state{{status: cancelled, attempts: s.attempts}} // by a cancel of all that is under way (history.check looks for it)
		}
		if told && e.status != nowhere && !slices.ContainsFunc(m.unprompted(s, e.ret), func(s state) bool { return s.status == e.status }) {
			return nil
		}
		return []state{s}

	case endedAll:
		switch {
		case e.answer == stale && holds:
			return nil
		case e.answer == stale || !holds:
			return []state{s}
		}
		return []state{m.run(s, e.outcome, e.call)}

	case returned:
		switch {
		case e.answer == stale && !holds:
			return []state{s}
		case e.answer == stale || !holds:
			return nil
		}
		return []state{{status: pending, attempts: s.attempts - 1}}

	case observed:
		switch {
		case e.answer == absent && s.status == nowhere:
			return []state{s}
		case e.answer == absent || s.status != e.status || s.attempts != e.attempts:
			return nil
		case s.status == active && e.claim != 0 && e.claim != s.claim:
			return nil
		}
		return []state{s}
	}
	return m.moved(s, e)
}

// model is m for porcupine, which wants to see the events as operations' inputs.
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

// checkTime bounds one job's check, which in the worst case takes exponential time.
const checkTime = time.Minute

// check reports whether events, all of one job, may have happened in some order that agrees with their times. ghosts
// are claims that had no answer and may have handed the job out; they are only looked at when the events make no sense
// without.
func (m *jobModel) check(events []event, ghosts []event) porcupine.CheckResult {
	operations := make([]porcupine.Operation, 0, len(events)+len(ghosts))
	for _, list := range [][]event{events, ghosts} {
		for i := range list {
			operations = append(operations, porcupine.Operation{Input: &list[i], Call: list[i].call, Return: list[i].ret})
		}
		if len(list) == 0 {
			continue
		}
		if result := porcupine.CheckOperationsTimeout(m.model(), operations, checkTime); result == porcupine.Ok {
			return result
		} else if len(ghosts) == 0 || len(operations) > len(events) {
			return result
		}
	}
	return porcupine.Illegal
}
