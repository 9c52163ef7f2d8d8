package job

import "testing"

// fences are requests about a job, named as in docs/reference/api.md. Claim 60 of runner r1 holds the job, or held it.
var fences = []struct {
	name    string
	state   State
	outcome Outcome
	fence   Fence
	holder  Holder
	admits  Refusal
	repeats Refusal // the answer to a repeated outcome
	late    bool    // the outcome is accepted late
}{
	{name: "held by the claim", state: active, fence: named("r1"), holder: sixty},
	{name: "held, and the request names neither claim nor runner", state: active, holder: Holder{Runner: "r1"}},
	{name: "held, and the request names the runner only", state: active, fence: Fence{Runner: "r1"}, holder: Holder{Runner: "r1"}},
	{name: "held by another claim", state: active, fence: named(""), holder: Holder{Named: 61}, admits: ClaimLost, repeats: ClaimLost},
	{name: "held, and the request names a claim that does not exist", state: active, fence: named(""), admits: ClaimLost, repeats: ClaimLost},
	{name: "held by the claim of another runner", state: active, fence: named("r2"), holder: sixty, admits: RunnerDiffers, repeats: RunnerDiffers},
	{name: "held by another runner", state: active, fence: Fence{Runner: "r2"}, holder: Holder{Runner: "r1"}, admits: RunnerDiffers, repeats: RunnerDiffers},
	{name: "ended by the claim with the same outcome", state: completed, outcome: Outcome{Code: OK, ExitCode: 200}, fence: named("r1"), holder: sixty,
		admits: ClaimLost},
	{name: "ended by the claim with another outcome", state: completed, outcome: Outcome{Code: OK, ExitCode: 201}, fence: named(""), holder: sixty,
		admits: ClaimLost, repeats: OutcomeDiffers},
	{name: "ended by the claim, and another runner repeats it", state: completed, outcome: Outcome{Code: OK, ExitCode: 200}, fence: named("r2"),
		holder: sixty, admits: ClaimLost, repeats: RunnerDiffers},
	{name: "ended by another claim", state: completed, outcome: Outcome{Code: OK, ExitCode: 200}, fence: named(""), holder: Holder{Named: 61},
		admits: ClaimLost, repeats: ClaimLost},
	{name: "ended, and the request names no claim", state: completed, outcome: Outcome{Code: OK, ExitCode: 200}, admits: NotActive, repeats: NotActive},
	{name: "pending, and the request names no claim", state: pending, admits: NotActive, repeats: NotActive},
	{name: "deferred by the claim's retry, which is repeated", state: backedOff, outcome: Outcome{Code: Retry, ExitCode: 100}, fence: named(""),
		holder: sixty, admits: ClaimLost},
	{name: "returned to its queue by the claim's unget, which is repeated", state: givenBack, outcome: Outcome{Code: Unget}, fence: named(""),
		holder: sixty, admits: ClaimLost},
	{name: "returned to its queue, and the claim reports an outcome", state: givenBack, outcome: Outcome{Code: OK, ExitCode: 200}, fence: named("r1"),
		holder: sixty, admits: ClaimLost, repeats: ClaimLost},
	{name: "waiting since the claim's lease ended or its runner was lost, and claimed by nobody since", state: func() State { s := returned; s.Claim = 60; return s }(),
		outcome: Outcome{Code: OK, ExitCode: 200}, fence: named("r1"), holder: sixty, admits: ClaimLost, late: true},
	{name: "the same, of another runner", state: func() State { s := returned; s.Claim = 60; return s }(),
		outcome: Outcome{Code: OK, ExitCode: 200}, fence: named("r2"), holder: sixty, admits: ClaimLost, repeats: RunnerDiffers},
	{name: "cancelled under the claim", state: func() State { s := gone; s.Claim = 60; return s }(), fence: named("r1"), holder: sixty,
		admits: WasCancelled, repeats: WasCancelled},
	{name: "cancelled, and the request names no claim", state: gone, admits: WasCancelled, repeats: WasCancelled},
	{name: "cancelled while no claim held it", state: gone, fence: named(""), holder: Holder{Named: 60}, admits: ClaimLost, repeats: ClaimLost},
}

var sixty = Holder{Named: 60, Runner: "r1"}

func named(runner string) Fence { return Fence{Claim: NewID(6000, 60, 0), Runner: runner} }

func TestFence(t *testing.T) {
	for _, test := range fences {
		t.Run(test.name, func(t *testing.T) {
			refusal := test.fence.Allows(&test.state, test.holder)
			if refusal != test.admits {
				t.Errorf("refusal %q, want %q", refusal.Code(), test.admits.Code())
			}
			if refusal == Granted {
				return
			}
			run, late := test.fence.AllowsLate(&test.state, test.holder, &test.outcome, refusal)
			if (late == Granted) != test.late || test.late && (run.Status != Active || run.Claim != 60 || run.Attempts != test.state.Attempts) {
				t.Errorf("a late outcome is answered with %q: %+v", late.Code(), run)
			}
			if test.late {
				return
			}
			if got := test.fence.Repeats(&test.state, test.holder, &test.outcome, refusal); got != test.repeats {
				t.Errorf("a repeated outcome is refused with %q, want %q", got.Code(), test.repeats.Code())
			}
		})
	}
}

func TestFenceOfAClaim(t *testing.T) {
	for name, test := range map[string]struct {
		fence  Fence
		known  bool
		runner string
		want   Refusal
	}{
		"a claim":                         {fence: named(""), known: true, runner: "r1"},
		"a claim of the runner":           {fence: named("r1"), known: true, runner: "r1"},
		"a claim of another runner":       {fence: named("r2"), known: true, runner: "r1", want: RunnerDiffers},
		"a claim that does not exist":     {fence: named("r1"), want: ClaimLost},
		"an unknown claim, and no runner": {fence: named(""), want: ClaimLost},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.fence.AllowsClaim(test.known, test.runner); got != test.want {
				t.Errorf("refusal %q, want %q", got.Code(), test.want.Code())
			}
		})
	}
	if got := HoldsNothing(false); got != ClaimLost {
		t.Errorf("a claim that holds nothing: %q", got.Code())
	}
	if got := HoldsNothing(true); got != WasCancelled {
		t.Errorf("a claim of which something was cancelled, and that holds nothing: %q", got.Code())
	}
}

func TestLostTo(t *testing.T) {
	cancelledUnder := gone
	cancelledUnder.Claim = 60
	for name, test := range map[string]struct {
		s    State
		want Refusal
	}{
		"held":                          {active, Granted},
		"ended by the claim":            {completed, Granted},
		"deferred by the claim's retry": {backedOff, Granted},
		"pending again":                 {returned, ClaimLost},
		"held by another claim":         {func() State { s := active; s.Claim = 61; return s }(), ClaimLost},
		"cancelled under the claim":     {cancelledUnder, WasCancelled},
		"cancelled after the claim":     {gone, ClaimLost},
		"purged":                        {State{Status: Purged}, Granted},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.s.LostTo(60); got != test.want {
				t.Errorf("%q, want %q", got.Code(), test.want.Code())
			}
		})
	}
}
