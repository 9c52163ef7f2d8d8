package answer

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// claimForm is the format of the answer to a claim.
type claimForm uint8

const (
	claimInJSON  claimForm = iota // one document
	ClaimInLines                  // NDJSON: a line for the claim, and one for each job
	ClaimInRuns                   // package runs
)

// ChooseForm sets the format that the client prefers, and the fields of the job documents in it.
func (call *ClaimCall) ChooseForm(c echo.Context) (err error) {
	switch web.Preferred(c.Request(), web.MIMERuns, web.MIMENDJSON) {
	case web.MIMERuns:
		call.Form = ClaimInRuns
	case web.MIMENDJSON:
		call.Form = ClaimInLines
	}
	list := web.Parameters(c)
	switch {
	case len(list) == 0:
	case call.Form == ClaimInRuns:
		err = web.BadRequest("fields", "fields is for answers in JSON; an answer in runs has all fields of its jobs")
	default:
		call.Fields, err = SelectFields(list[0].Value) // the only parameter of the route
	}
	return err
}

// ClaimCall is a call of POST /jobs/claim: the claim, and its answer.
type ClaimCall struct {
	Cmd    job.Claim
	Wait   time.Duration
	Form   claimForm
	Fields Selection

	Claimed  applied.Claimed
	Handed   []runs.Run
	Handlers []runs.Handler // of the jobs
	Ended    *EndedJobs     // of a claim with outcomes
}

// EndedJobs is the additional part of the answer to a claim with outcomes.
type EndedJobs struct {
	applied.Ended
	ForAll bool         // the request had an outcome for all jobs of a claim
	Err    *web.Problem // why the claim was refused after the outcomes were applied
}

// Bytes is about the memory for the answer's jobs and for the part of its text that is in memory at a time.
func (call *ClaimCall) Bytes() int64 {
	var data int64
	for i := range call.Handed {
		data += runBytes(&call.Handed[i])
	}
	return data + min(int64(call.TextBytes()), web.MaxPooledAnswer)
}

func runBytes(r *runs.Run) int64 { return StateBytes(&r.First) + int64(r.Bytes()) }

// TextBytes is about the length of the jobs' text in an answer.
func (call *ClaimCall) TextBytes() (n int) {
	for i := range call.Handed {
		r := &call.Handed[i]
		if n += r.Bytes(); call.Form == ClaimInRuns {
			n += runHeadBytes + len(r.First.Meta) + len(r.First.Error)
		} else {
			n += r.N * JobTextBytes
		}
	}
	return n
}
