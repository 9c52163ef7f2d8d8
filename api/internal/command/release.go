package command

import (
	"fmt"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// ReleaseRequest is the body of POST /jobs/{id}/release.
type ReleaseRequest struct {
	How     *string `json:"how" required:"true" nullable:"false" enum:"retry,unget,archive"`
	DelayMs *int64  `json:"delay_ms" minimum:"0" maximum:"3162240000000"`
	Fences
}

func (r *ReleaseRequest) Outcome() (o job.Outcome, err error) {
	o.DelayMs = -1
	if r.How == nil {
		return o, web.BadRequest("how", "how is missing: it must be retry, unget or archive")
	}
	switch *r.How {
	case "retry":
		o.Code = job.Retry
	case "unget":
		o.Code = job.Unget
	case "archive":
		o.Code = job.OK
	default:
		return o, web.BadRequest("how", fmt.Sprintf("how must be retry, unget or archive, not %q", web.Shortened(*r.How)))
	}
	o.ExitCode = o.Code.DefaultExitCode()
	if r.DelayMs != nil {
		if o.Code != job.Retry {
			return o, web.BadRequest("delay_ms", "delay_ms requires how to be retry")
		}
		if err := job.CheckRange("delay_ms", *r.DelayMs, 0, job.MaxDelayMs); err != nil {
			return o, web.BadField("delay_ms", err)
		}
		o.DelayMs = *r.DelayMs
	}
	return o, nil
}
