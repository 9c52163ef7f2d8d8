package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// jobs are read and changed by operators and producers.
type jobs struct{ reader }

func (s *jobs) routes(r operation.Rules) []route {
	move := func(op job.Op, id, summary string) route {
		return written(r, http.MethodPost, "/jobs/:id/"+id, operation.About{
			ID: id, Tag: "Moving", Summary: summary, Refusals: []int{404, 409, 503, 507},
			Replies: []operation.Reply{jobReply("The status of the job has changed. The answer is its document.")},
		}, func(c echo.Context, in *onlyID) error { return s.move(c, job.Move{Op: op, Job: in.ID}) })
	}
	return []route{
		written(r, http.MethodGet, "/jobs", operation.About{
			ID: "jobs", Tag: "Reading", Summary: "List jobs in the order of their ids",
			Text:    "A page can have fewer jobs than limit, or none, although more pages follow. Continue until next is null.\n",
			Replies: []operation.Reply{replied[jobsDocument](http.StatusOK, "a page of the list")}, Refusals: []int{503},
		}, s.list),
		written(r, http.MethodGet, "/jobs/:id", operation.About{
			ID: "job", Tag: "Reading", Summary: "Read a job", Refusals: []int{404, 503},
			Replies: []operation.Reply{{Status: http.StatusOK, Text: "the document", Headers: []string{"ETag"}, Content: map[string]openapi.Shape{
				web.MIMEJSON: openapi.OneOf(answered[answer.JobPart](), answered[statesDocument](), answered[placeDocument]()),
			}}, sameDocument},
		}, s.read).often(),
		written(r, http.MethodPatch, "/jobs/:id", operation.About{
			ID: "patch", Tag: "Moving", Summary: "Change a deferred or pending job", Refusals: []int{404, 409, 503, 507},
			Replies: []operation.Reply{jobReply("The job is changed. The answer is its document.")},
		}, s.patch),
		cold(r, http.MethodDelete, "/jobs/:id", operation.About{
			ID: "delete", Tag: "Moving", Summary: "Delete a job", Answers: answers{204: "The job is deleted."}, Refusals: []int{404, 503, 507},
		}, s.remove),
		move(job.Cancel, "cancel", "Cancel a job"),
		move(job.Redrive, "redrive", "Make an ended job pending again"),
		move(job.Run, "run", "Make a deferred job pending now"),
		written(r, http.MethodGet, "/claims/:id", operation.About{
			ID: "claimDocument", Tag: "Reading", Summary: "Read a claim", Refusals: []int{404, 503},
			Replies: []operation.Reply{replied[claimDocument](http.StatusOK, "the claim, and the jobs that it still holds")},
		}, s.claim),
	}
}

type jobQuery struct {
	onlyID
	selected
	View *string `query:"view" enum:"place,states" doc:"place: where the job is in its batch. states: the job as etcdq shows it, as the list of its states. Not with fields."`
	tagged
	caughtUp
}

func (s *jobs) read(c echo.Context, in *jobQuery) error {
	if in.View != nil && in.Fields != nil {
		return web.BadRequest("view", "a request must not have both view and fields")
	}
	if err := s.engine.CatchUp(c.Request().Context(), in.MinSeq); err != nil {
		return err
	}
	if in.View != nil && *in.View == placeView {
		return s.answerPlace(c, in.ID)
	}
	j, held, err := s.readJob(c, s.documents, in.ID)
	if err != nil {
		return err
	}
	defer held.Release()
	if in.View != nil {
		return s.answerStates(c, held, &j)
	}
	fields := in.selection()
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		b = append(fields.AppendJob(b, &j), '\n')
		if err := held.Resize(c.Request().Context(), int64(cap(b))); err != nil {
			return b, err
		}
		return b, web.AnswerTagged(c, web.MIMEJSON, b, b)
	})
}

// move applies an operation to a job.
func (s *jobs) move(c echo.Context, m job.Move) error {
	moved, receipt, err := s.engine.Move(c.Request().Context(), m)
	if err == nil {
		err = refusal.Err(moved.Refusal)
	}
	if err != nil {
		return err
	}
	return s.answerChanged(c, receipt, m.Job, moved.Status)
}

func (s *jobs) remove(ctx context.Context, in *onlyID) (removed, error) {
	moved, receipt, err := s.engine.Move(ctx, job.Move{Op: job.Delete, Job: in.ID})
	if err == nil {
		err = refusal.Err(moved.Refusal)
	}
	return removed{receipt.Seq}, err
}

type patchRequest struct {
	onlyID
	Body patchDocument `required:"true"`
}

// patchDocument has the changes of a job. At least one is required.
type patchDocument struct {
	Priority    *int   `json:"priority" minimum:"0" maximum:"9"`
	RunAt       *int64 `json:"run_at" minimum:"0" maximum:"253402300799999"`
	MaxAttempts *int   `json:"max_attempts" minimum:"1" maximum:"1000"`
}

func describePatch(s *openapi.Schemas) {
	openapi.Name[patchDocument](s, openapi.InRequest, "Patch")
	openapi.Rule[patchDocument](s, func(o *openapi.Schema) {
		o.Description = "changes of a job; at least one field is required"
		for _, p := range o.Properties {
			o.AnyOf = append(o.AnyOf, openapi.With(openapi.Property{Name: p.Name, Schema: openapi.Of("integer")}))
		}
	})
}

func (s *jobs) patch(c echo.Context, in *patchRequest) error {
	if in.Body == (patchDocument{}) {
		return web.BadRequest("", "the request changes nothing: priority, run_at or max_attempts is required")
	}
	moved, receipt, err := s.engine.Patch(c.Request().Context(), job.Patch{Job: in.ID, Priority: in.Body.Priority, RunAt: in.Body.RunAt, MaxAttempts: in.Body.MaxAttempts})
	if err == nil {
		err = refusal.Err(moved.Refusal)
	}
	if err != nil {
		return err
	}
	return s.answerChanged(c, receipt, in.ID, moved.Status)
}
