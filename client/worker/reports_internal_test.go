package worker

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestEndsSoon: the ended jobs of a claim wait for its running jobs only if these most likely end in time, and if the
// claim can then be reported as a whole.
func TestEndsSoon(t *testing.T) {
	began := time.Now()
	claim := func(jobs, ended int, o client.Outcome) *heldClaim {
		c := &heldClaim{tasks: make([]task, jobs), unended: jobs - ended, since: began}
		for i := range ended {
			c.tasks[i].how.outcome = o
			c.toReport = append(c.toReport, &c.tasks[i])
		}
		return c
	}
	reported := claim(100, 50, client.Outcome{})
	reported.toReport = reported.toReport[1:] // one is in a report
	lost := claim(100, 50, client.Outcome{})
	lost.toReport[7].how.err = ErrLeaseLost
	for name, c := range map[string]struct {
		claim *heldClaim
		after time.Duration
		want  bool
	}{
		"half of the claim in 10 ms":      {claim(100, 50, client.Outcome{}), 10 * time.Millisecond, true},
		"half of the claim in 25 ms":      {claim(100, 50, client.Outcome{}), 25 * time.Millisecond, true},
		"half of the claim in 26 ms":      {claim(100, 50, client.Outcome{}), 26 * time.Millisecond, false},
		"one job at once":                 {claim(100, 1, client.Outcome{}), 0, true},
		"all jobs":                        {claim(100, 100, client.Outcome{}), time.Millisecond, false},
		"a small claim":                   {claim(wholeFrom-1, 5, client.Outcome{}), time.Millisecond, false},
		"the exit code of ok":             {claim(100, 50, client.Outcome{Code: "ok", ExitCode: 200}), time.Millisecond, true},
		"another exit code":               {claim(100, 50, client.Outcome{Code: "ok", ExitCode: 201}), time.Millisecond, false},
		"outputs":                         {claim(100, 50, client.TextOutput("x")), time.Millisecond, false},
		"errors":                          {claim(100, 50, client.Outcome{Code: "error"}), time.Millisecond, false},
		"a part is reported already":      {reported, time.Millisecond, false},
		"a job of the claim is lost":      {lost, time.Millisecond, false},
		"nothing has ended for a second":  {claim(100, 99, client.Outcome{}), time.Second, false},
		"nearly all ended within 49.5 ms": {claim(100, 99, client.Outcome{}), 49500 * time.Microsecond, true},
	} {
		testkit.Equal(t, c.claim.endsSoon(began.Add(c.after)), c.want, name)
	}
}
