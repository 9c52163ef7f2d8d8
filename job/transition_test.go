package job

import (
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

// at7 is the command in these tests: seq 70 at time 7000.
var at7 = Now{Seq: 70, At: 7000}

// A rule is one row of the tables below: a job in state from, with these attributes, changes to state to, or is refused.
type rule struct {
	name       string
	attributes Attributes
	from       State
	do         func(s State, a *Attributes) (State, Refusal)
	to         State
	refusal    Refusal
	// event and note describe the rule in docs/reference/api.md. The table there omits rules without an event.
	event, note string
}

// allowed adapts a function that never refuses to a rule.
func allowed(do func(s State, a *Attributes) State) func(State, *Attributes) (State, Refusal) {
	return func(s State, a *Attributes) (State, Refusal) { return do(s, a), Granted }
}

func ends(o Outcome) func(State, *Attributes) (State, Refusal) {
	return allowed(func(s State, a *Attributes) State { return s.End(a, &o, at7, 0) })
}

var (
	kept      = Changes{Priority: 10, MaxAttempts: 2, Redrives: 3} // no transition may lose these
	pending   = State{Status: Pending, Class: Fresh, Order: 50, UpdatedAt: 5000, Changes: kept}
	returned  = State{Status: Pending, Class: Returned, Attempts: 1, UpdatedAt: 5000, Changes: kept}
	givenBack = State{Status: Pending, Code: Unget, Order: 50, Claim: 60, UpdatedAt: 5000, Changes: kept}
	deferred  = State{Status: Deferred, Class: Fresh, UpdatedAt: 5000, At: 6000, Changes: kept}
	held      = State{Status: Deferred, Class: Fresh, UpdatedAt: 5000, At: MaxTimeMs, Changes: kept}
	backedOff = State{Status: Deferred, Class: Returned, Code: Retry, ExitCode: 100, Attempts: 1, Claim: 60, UpdatedAt: 5000, At: 6000, Changes: kept}
	aside     = State{Status: Deferred, Class: Returned, Code: Damaged, Claim: 60, UpdatedAt: 5000, At: MaxTimeMs, Changes: kept}
	active    = State{Status: Active, Attempts: 1, Claim: 60, UpdatedAt: 6000, At: 6500, Changes: kept}
	lastRun   = State{Status: Active, Attempts: 2, Claim: 60, UpdatedAt: 6000, At: 6500, Changes: kept}
	completed = State{Status: Completed, Code: OK, ExitCode: 200, Why: Reported, Attempts: 1, Claim: 60, UpdatedAt: 6000, At: 6000, Changes: kept}
	failed    = State{Status: Failed, Code: Error, ExitCode: 500, Why: Reported, Attempts: 2, Claim: 60, UpdatedAt: 6000, At: 6000, Changes: kept}
	gone      = State{Status: Cancelled, Why: Asked, Attempts: 1, UpdatedAt: 6000, At: 6000, Changes: kept}

	usual = Attributes{Priority: 4, MaxAttempts: 3, LeaseMs: 1000, Backoff: Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 60_000}}
)

func with(a Attributes, change func(a *Attributes)) Attributes { change(&a); return a }

func rules() []rule {
	after := func(s State, change func(s *State)) State {
		s.Changes = kept
		s.UpdatedAt = at7.At
		change(&s)
		return s
	}
	pointer := func(n int) *int { return &n }
	when := func(n int64) *int64 { return &n }
	admit := allowed(func(_ State, a *Attributes) State { return Admit(a, at7) })
	handOut := allowed(func(s State, a *Attributes) State { return s.HandOut(a, at7) })
	unclaimed := func(s State, a *Attributes) (State, Refusal) { return s.RunUnclaimed(a, at7) }
	abandon := allowed(func(s State, a *Attributes) State { return s.Abandon(a, at7) })
	due := allowed(func(s State, _ *Attributes) State { return s.Due(at7) })
	letGo := allowed(func(s State, a *Attributes) State { return s.LetGo(a, at7) })
	cancel := func(s State, _ *Attributes) (State, Refusal) { return s.Cancel(at7) }
	redrive := func(s State, _ *Attributes) (State, Refusal) { return s.Redrive(at7) }
	runNow := func(s State, _ *Attributes) (State, Refusal) { return s.RunNow(at7) }
	patch := func(p Patch) func(State, *Attributes) (State, Refusal) {
		return func(s State, a *Attributes) (State, Refusal) { return s.Patch(a, &p, at7) }
	}
	extend := func(graceAt, due int64) func(State, *Attributes) (State, Refusal) {
		return func(s State, a *Attributes) (State, Refusal) {
			next, ok := s.PutOff(a, graceAt, due)
			if !ok {
				return s, NotActive // any refusal: the time-out holds
			}
			return next, Granted
		}
	}
	const ms3 = 3000
	late := with(usual, func(a *Attributes) { a.RunAt = 8000 })
	past := with(usual, func(a *Attributes) { a.RunAt = 7000 })
	expired := with(usual, func(a *Attributes) { a.ExpiresAt = 7000 })
	fresh := State{Status: Pending, Class: Fresh, Order: 50, UpdatedAt: 5000}
	timed := with(usual, func(a *Attributes) { a.TimeoutMs = 500 })
	one := State{Status: Pending, Class: Fresh, Order: 70, UpdatedAt: 7000}
	return []rule{
		{name: "admit", event: "create", attributes: usual, do: admit, to: one},
		{name: "admit with a run_at that has come", attributes: past, do: admit, to: one},
		{name: "admit with a run_at in the future", event: "create", note: "`run_at` is in the future", attributes: late, do: admit,
			to: State{Status: Deferred, Class: Fresh, UpdatedAt: 7000, At: 8000}},
		{name: "hold", event: "create in a paused batch", attributes: usual, do: allowed(func(State, *Attributes) State { return Hold(at7) }),
			to: State{Status: Deferred, Class: Fresh, UpdatedAt: 7000, At: MaxTimeMs}},
		{name: "let go", event: "its batch is resumed", attributes: usual, from: held, do: letGo,
			to: after(pending, func(s *State) { s.Order = 70 })},
		{name: "let go before its run_at", event: "its batch is resumed", note: "`run_at` is in the future", attributes: late, from: held, do: letGo,
			to: after(deferred, func(s *State) { s.At = 8000 })},
		{name: "due", event: "`run_at` is reached", attributes: usual, from: deferred, do: due,
			to: after(pending, func(s *State) { s.Order = 70 })},
		{name: "due after a backoff", attributes: usual, from: backedOff, do: due,
			to: after(backedOff, func(s *State) { s.Status, s.At = Pending, 0 })},
		{name: "expire", event: "`expires_at` is reached before the first claim", attributes: usual, from: pending,
			do: allowed(func(s State, _ *Attributes) State { return s.Expire(at7) }),
			to: after(State{}, func(s *State) { s.Status, s.Why, s.At = Cancelled, Expired, 7000 })},
		{name: "expire while deferred", event: "`expires_at` is reached before the first claim", attributes: usual, from: deferred,
			do: allowed(func(s State, _ *Attributes) State { return s.Expire(at7) }),
			to: after(State{}, func(s *State) { s.Status, s.Why, s.At = Cancelled, Expired, 7000 })},

		{name: "hand out", event: "claim", attributes: usual, from: pending, do: handOut,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim = Active, 1, 70 })},
		{name: "hand out again", attributes: usual, from: returned, do: handOut,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim = Active, 2, 70 })},
		{name: "hand out with a time-out", attributes: timed, from: pending, do: handOut,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim, s.At = Active, 1, 70, 7500 })},
		{name: "run unclaimed", attributes: usual, from: pending, do: unclaimed,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim = Active, 1, 70 })},
		{name: "run unclaimed during a backoff", attributes: usual, from: backedOff, do: unclaimed,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim = Active, 2, 70 })},
		{name: "run unclaimed before its run_at", attributes: usual, from: deferred, do: unclaimed,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim = Active, 1, 70 })},
		{name: "run unclaimed what is damaged", attributes: usual, from: aside, do: unclaimed,
			to: after(State{}, func(s *State) { s.Status, s.Attempts, s.Claim = Active, 1, 70 })},
		{name: "run unclaimed in a paused batch", attributes: usual, from: held, do: unclaimed, to: held, refusal: NotActive},
		{name: "run unclaimed after expires_at", attributes: expired, from: fresh, do: unclaimed, to: fresh, refusal: WasCancelled},
		{name: "run unclaimed what is active", attributes: usual, from: active, do: unclaimed, to: active, refusal: NotActive},
		{name: "run unclaimed what has ended", attributes: usual, from: completed, do: unclaimed, to: completed, refusal: NotActive},

		{name: "ok", event: "outcome `ok`", attributes: usual, from: active, do: ends(Outcome{Code: OK, ExitCode: 201}),
			to: after(completed, func(s *State) { s.ExitCode, s.At = 201, 7000 })},
		{name: "failed", event: "outcome `failed`", attributes: usual, from: active, do: ends(Outcome{Code: Fail, ExitCode: 400}),
			to: after(failed, func(s *State) { s.Code, s.ExitCode, s.Attempts, s.At = Fail, 400, 1, 7000 })},
		{name: "retry", event: "outcome `retry` or `error`", note: "until the backoff has passed", attributes: usual, from: active,
			do: ends(Outcome{Code: Retry, ExitCode: 100, DelayMs: -1}), to: after(backedOff, func(s *State) { s.At = 7750 })},
		{name: "error", attributes: usual, from: active, do: ends(Outcome{Code: Error, ExitCode: 500, DelayMs: ms3}),
			to: after(backedOff, func(s *State) { s.Code, s.ExitCode, s.At = Error, 500, 10_000 })},
		{name: "retry without a delay", event: "outcome `retry` or `error`", note: "`delay_ms` is 0", attributes: usual, from: active,
			do: ends(Outcome{Code: Retry, ExitCode: 100}), to: after(backedOff, func(s *State) { s.Status, s.At = Pending, 0 })},
		{name: "retry of the last attempt", event: "outcome `retry` or `error`", note: "`max_attempts` claims have been counted", attributes: usual,
			from: lastRun, do: ends(Outcome{Code: Retry, ExitCode: 100, DelayMs: ms3}),
			to: after(failed, func(s *State) { s.Code, s.ExitCode, s.At = Retry, 100, 7000 })},
		{name: "unget", event: "unget", note: "the attempt does not count", attributes: usual, from: active, do: ends(Outcome{Code: Unget}),
			to: after(State{}, func(s *State) { s.Status, s.Code, s.Claim = Pending, Unget, 60 })},
		{name: "unget of the last attempt", attributes: usual, from: lastRun, do: ends(Outcome{Code: Unget}),
			to: after(State{}, func(s *State) { s.Status, s.Code, s.Claim, s.Attempts = Pending, Unget, 60, 1 })},
		{name: "damaged", event: "the server cannot read the payload", note: "until somebody runs it; the attempt does not count",
			attributes: usual, from: active, do: ends(Outcome{Code: Damaged}), to: after(aside, func(*State) {})},

		{name: "lost", event: "the runner [vanishes](stream.md#the-end) after the run had begun", note: "until the backoff has passed", attributes: usual, from: active,
			do: ends(Outcome{Code: Lost, DelayMs: -1}), to: after(backedOff, func(s *State) { s.Code, s.ExitCode, s.At = Lost, 0, 7750 })},
		{name: "lost in the last attempt", event: "the runner [vanishes](stream.md#the-end) after the run had begun", note: "`max_attempts` claims have been counted", attributes: usual,
			from: lastRun, do: ends(Outcome{Code: Lost, DelayMs: -1}),
			to: after(failed, func(s *State) { s.Code, s.ExitCode, s.Why, s.At = Lost, 0, RunnerLost, 7000 })},
		{name: "abandon", event: "the lease or `timeout_ms` passes", attributes: usual, from: active, do: abandon, to: after(returned, func(s *State) { s.Claim = 60 })},
		{name: "abandon of the last attempt", event: "the lease or `timeout_ms` passes", note: "`max_attempts` claims have been counted",
			attributes: usual, from: lastRun, do: abandon,
			to: after(State{}, func(s *State) { s.Status, s.Why, s.Attempts, s.At = Failed, Abandoned, 2, 7000 })},
		{name: "extend a time-out", attributes: usual, from: active, do: extend(6100, 7000),
			to: func() State { s := active; s.At = 7100; return s }()},
		{name: "extend no time-out that began after the grace", attributes: usual, from: active, do: extend(6000, 6900), to: active, refusal: NotActive},
		{name: "extend no time-out past the grace", attributes: usual, from: active, do: extend(6001, 7001), to: active, refusal: NotActive},

		{name: "cancel a pending job", event: "cancel", attributes: usual, from: pending, do: cancel,
			to: after(State{}, func(s *State) { s.Status, s.Why, s.At = Cancelled, Asked, 7000 })},
		{name: "cancel a deferred job", event: "cancel", attributes: usual, from: backedOff, do: cancel,
			to: after(State{}, func(s *State) { s.Status, s.Why, s.Attempts, s.At = Cancelled, Asked, 1, 7000 })},
		{name: "cancel an active job", event: "cancel", attributes: usual, from: active, do: cancel,
			to: after(State{}, func(s *State) { s.Status, s.Why, s.Attempts, s.At, s.Claim = Cancelled, Asked, 1, 7000, 60 })},
		{name: "cancel a cancelled job", attributes: usual, from: gone, do: cancel, to: gone},
		{name: "cancel a completed job", attributes: usual, from: completed, do: cancel, to: completed, refusal: HasEnded},

		{name: "redrive", event: "redrive", note: "attempts begin at 0 again", attributes: usual, from: failed, do: redrive,
			to: after(pending, func(s *State) { s.Order, s.Redrives = 70, 4 })},
		{name: "redrive a cancelled job", event: "redrive", note: "attempts begin at 0 again", attributes: usual, from: gone, do: redrive,
			to: after(pending, func(s *State) { s.Order, s.Redrives = 70, 4 })},
		{name: "redrive a completed job", event: "redrive", note: "attempts begin at 0 again", attributes: usual, from: completed, do: redrive,
			to: after(pending, func(s *State) { s.Order, s.Redrives = 70, 4 })},
		{name: "redrive an active job", attributes: usual, from: active, do: redrive, to: active, refusal: HasNotEnded},
		{name: "redrive a waiting job", attributes: usual, from: pending, do: redrive, to: pending, refusal: HasNotEnded},

		{name: "run now", event: "run", attributes: usual, from: deferred, do: runNow, to: after(pending, func(s *State) { s.Order = 70 })},
		{name: "run now during a backoff", attributes: usual, from: backedOff, do: runNow,
			to: after(backedOff, func(s *State) { s.Status, s.At = Pending, 0 })},
		{name: "run now what is damaged", attributes: usual, from: aside, do: runNow,
			to: after(State{}, func(s *State) { s.Status = Pending })},
		{name: "run now what is pending", attributes: usual, from: pending, do: runNow, to: pending},
		{name: "run now what is active", attributes: usual, from: active, do: runNow, to: active, refusal: IsActive},
		{name: "run now what has ended", attributes: usual, from: completed, do: runNow, to: completed, refusal: HasEnded},

		{name: "patch the priority", attributes: usual, from: returned, do: patch(Patch{Priority: pointer(0)}),
			to: after(returned, func(s *State) { s.Priority = 1 })},
		{name: "patch the priority to the group's", attributes: usual, from: pending, do: patch(Patch{Priority: pointer(4)}),
			to: after(pending, func(s *State) { s.Priority = 0 })},
		{name: "patch max_attempts", attributes: usual, from: returned, do: patch(Patch{MaxAttempts: pointer(9)}),
			to: after(returned, func(s *State) { s.MaxAttempts = 9 })},
		{name: "patch max_attempts to the group's", attributes: usual, from: returned, do: patch(Patch{MaxAttempts: pointer(3)}),
			to: after(returned, func(s *State) { s.MaxAttempts = 0 })},
		{name: "patch max_attempts to what is used", attributes: usual, from: returned, do: patch(Patch{MaxAttempts: pointer(1)}),
			to: returned, refusal: AttemptsUsed},
		{name: "patch run_at of a pending job", attributes: usual, from: pending, do: patch(Patch{RunAt: when(9000)}),
			to: after(pending, func(s *State) { s.Status, s.Order, s.At = Deferred, 0, 9000 }), event: "PATCH", note: "a new `run_at` is in the future"},
		{name: "patch run_at of a deferred job", attributes: usual, from: deferred, do: patch(Patch{RunAt: when(9000)}),
			to: after(deferred, func(s *State) { s.At = 9000 })},
		{name: "patch run_at to the past", attributes: usual, from: func() State { s := deferred; s.At = 9000; return s }(),
			do: patch(Patch{RunAt: when(7000)}), to: after(pending, func(s *State) { s.Order = 70 }), event: "PATCH", note: "a new `run_at` has passed"},
		{name: "patch run_at of a pending job to the past", attributes: usual, from: pending, do: patch(Patch{RunAt: when(0)}),
			to: after(pending, func(*State) {})},
		{name: "patch another attribute of a damaged job", attributes: usual, from: aside, do: patch(Patch{Priority: pointer(4)}),
			to: after(aside, func(s *State) { s.Priority = 0 })},
		{name: "patch run_at of a damaged job", attributes: usual, from: aside, do: patch(Patch{RunAt: when(9000)}),
			to: after(aside, func(s *State) { s.Code, s.Claim, s.At = NoCode, 0, 9000 })},
		{name: "patch an active job", attributes: usual, from: active, do: patch(Patch{Priority: pointer(1)}), to: active, refusal: IsActive},
		{name: "patch an ended job", attributes: usual, from: failed, do: patch(Patch{Priority: pointer(1)}), to: failed, refusal: HasEnded},
	}
}

func TestTransitions(t *testing.T) {
	names := map[string]bool{}
	for _, r := range rules() {
		testkit.Holds(t, !names[r.name], "rule", r.name, "is there twice")
		names[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			before := r.from
			to, refusal := r.do(r.from, &r.attributes)
			testkit.Holds(t, to == r.to && refusal == r.refusal, before, "goes to", to, refusal.Code(), "want", r.to, r.refusal.Code())
		})
	}
}

// TestExpires: only jobs that have not been claimed or redriven since their create expire.
func TestExpires(t *testing.T) {
	limited := with(usual, func(a *Attributes) { a.ExpiresAt = 7000 })
	fresh, later := pending, deferred
	fresh.Redrives, later.Redrives = 0, 0
	claimed, redriven := fresh, fresh
	claimed.Attempts, redriven.Redrives = 1, 1
	running := active
	running.Redrives, running.Attempts = 0, 0
	for name, test := range map[string]struct {
		s       State
		a       Attributes
		expires bool
	}{
		"a pending job":                {fresh, limited, true},
		"a deferred job":               {later, limited, true},
		"a job without an expires_at":  {fresh, usual, false},
		"a job that was claimed":       {claimed, limited, false},
		"a job that was redriven":      {redriven, limited, false},
		"a job that is not waiting":    {running, limited, false},
		"a job that expires in future": {fresh, with(limited, func(a *Attributes) { a.ExpiresAt = 7001 }), true},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Equal(t, test.s.Expires(&test.a), test.expires, "expires")
			got, want := test.s.Late(&test.a, at7), test.expires && test.a.ExpiresAt <= 7000
			testkit.Holds(t, got == want, "late", got)
		})
	}
}

// TestRemembered: the history of a job has its unsuccessful runs.
func TestRemembered(t *testing.T) {
	for code, want := range map[Code]bool{OK: false, Fail: true, Retry: true, Error: true, Unget: false, Damaged: false} {
		testkit.Equal(t, code.Remembered(), want, "a run that ended with", code, "is remembered")
	}
}

// TestChanges: values from a patch override the group's values.
func TestChanges(t *testing.T) {
	var none Changes
	p, m := none.PriorityIn(&usual), none.MaxAttemptsIn(&usual)
	testkit.Holds(t, p == 4 && m == 3, "without a patch: priority", p, "max_attempts", m)
	lowest := Changes{Priority: 1, MaxAttempts: 2}
	p, m = lowest.PriorityIn(&usual), lowest.MaxAttemptsIn(&usual)
	testkit.Holds(t, p == 0 && m == 2, "with a patch: priority", p, "max_attempts", m)
}

// TestShownClaim: documents of waiting jobs show no claim.
func TestShownClaim(t *testing.T) {
	for name, test := range map[string]struct {
		s    State
		want uint64
	}{"pending": {pending, 0}, "deferred after a retry": {backedOff, 0}, "active": {active, 60}, "completed": {completed, 60}, "cancelled while it waited": {gone, 0}} {
		testkit.Equal(t, test.s.ShownClaim(), test.want, name, "claim")
	}
}

// TestPurgeAt: an ended job is kept for its retention.
func TestPurgeAt(t *testing.T) {
	kept := with(usual, func(a *Attributes) { a.RetentionMs = 500 })
	at, atOnce := completed.PurgeAt(&kept)
	testkit.Holds(t, at == 6500 && !atOnce, "with a retention: at", at, "at once", atOnce)
	at, atOnce = completed.PurgeAt(&usual)
	testkit.Holds(t, at == 6000 && atOnce, "without: at", at, "at once", atOnce)
}

// TestUnfinished: waiting and active jobs own their unique keys.
func TestUnfinished(t *testing.T) {
	for status := range Status(NumStatus) {
		want := status == Deferred || status == Pending || status == Active
		testkit.Equal(t, status.Unfinished(), want, status, "unfinished", !want)
	}
}
