package job

import (
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

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
			testkit.Equal(t, refusal, test.admits, "refusal", refusal.Code(), test.admits.Code())
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
			got := test.fence.Repeats(&test.state, test.holder, &test.outcome, refusal)
			testkit.Equal(t, got, test.repeats, "a repeated outcome is refused with", got.Code(), test.repeats.Code())
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
			got := test.fence.AllowsClaim(test.known, test.runner)
			testkit.Equal(t, got, test.want, "refusal", got.Code(), test.want.Code())
		})
	}
	got := HoldsNothing(false)
	testkit.Equal(t, got, ClaimLost, "a claim that holds nothing", got.Code())
	got = HoldsNothing(true)
	testkit.Equal(t, got, WasCancelled, "a claim of which something was cancelled, and that holds nothing", got.Code())
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
			got := test.s.LostTo(60)
			testkit.Equal(t, got, test.want, got.Code(), test.want.Code())
		})
	}
}

func TestDeadline(t *testing.T) {
	lease := Lease{Seq: 10, At: 5000, Ms: 1000}
	for name, test := range map[string]struct {
		promise Promise
		graceAt int64
		want    int64
	}{
		"the lease after the last tickle":                    {want: 6000},
		"the lease after the grace":                          {graceAt: 5500, want: 6500},
		"an earlier grace changes nothing":                   {graceAt: 4000, want: 6000},
		"the lease after a tickle of the runner":             {promise: Promise{From: 5800}, want: 6800},
		"the end that a tickle of the runner promised":       {promise: Promise{Until: 9000, Seq: 11}, want: 9000},
		"a promise that ends earlier":                        {promise: Promise{Until: 5500, Seq: 11}, want: 6000},
		"a promise from before the claim is not for it":      {promise: Promise{Until: 9000, Seq: 10}, want: 6000},
		"the latest of all":                                  {promise: Promise{From: 5100, Until: 6900, Seq: 11}, graceAt: 5900, want: 6900},
		"the latest of all, where the grace is that":         {promise: Promise{From: 5100, Until: 6800, Seq: 11}, graceAt: 5900, want: 6900},
		"the latest of all, where the runner's tickle is it": {promise: Promise{From: 5950, Until: 6800, Seq: 11}, graceAt: 5900, want: 6950},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Equal(t, lease.Deadline(&test.promise, test.graceAt), test.want, "deadline")
		})
	}
}

func TestUnder(t *testing.T) {
	own := Lease{Seq: 10, At: 5000, Ms: 1000}
	got, want := own.Under(Lease{Seq: 11, At: 5500, Ms: 9}), (Lease{Seq: 11, At: 5500, Ms: 1000})
	testkit.Holds(t, got == want, "after a later tickle of the claim", got, "want", want)
	testkit.Equal(t, own.Under(Lease{Seq: 9, At: 5500, Ms: 9}), own, "after an earlier tickle of the claim")
}

func TestExtendPromise(t *testing.T) {
	var p Promise
	p.Extend(0, at7)
	testkit.Equal(t, p, (Promise{From: 7000}), "without a lease")
	p.Extend(500, at7)
	testkit.Equal(t, p, (Promise{From: 7000, Until: 7500, Seq: 70}), "with a lease")
	p.Extend(100, Now{Seq: 71, At: 7100})
	testkit.Equal(t, p, (Promise{From: 7000, Until: 7500, Seq: 71}), "with a lease that ends earlier")
}
