package api

import (
	"context"
	"net/http"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

type sweepReader interface {
	Sweep(id job.ID) (document.Sweep, error)
	Sweeps() ([]document.Sweep, error)
}

// sweeps are operations on many jobs that continue after their request.
type sweeps struct{ engine backend }

func (w sweeps) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/sweeps", operation.About{
			ID: "sweeps", Tag: "Moving", Summary: "List sweeps",
			Answers:  answers{200: "The sweeps under way, and the newest sweeps that ended in the last day, at most 1000 together."},
			Refusals: []int{503},
		}, w.list),
		cold(r, http.MethodGet, "/sweeps/:id", operation.About{
			ID: "sweep", Tag: "Moving", Summary: "Read the progress of a sweep",
			Answers: answers{200: "the document"}, Refusals: []int{404, 503},
		}, w.read),
	}
}

type sweepsDocument struct {
	Sweeps []sweepDocument `json:"sweeps" maxItems:"1000"`
}

// list answers with the running sweeps, and the newest sweeps that ended in the last day.
func (w sweeps) list(ctx context.Context, in *caughtUp) (out found[sweepsDocument], err error) {
	if err := w.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	list, err := w.engine.Sweeps()
	out.Body.Sweeps = make([]sweepDocument, len(list))
	for i := range list {
		out.Body.Sweeps[i] = documentOfSweep(&list[i])
	}
	return out, err
}

func (w sweeps) read(ctx context.Context, in *withID) (out found[sweepDocument], err error) {
	if err := w.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	sweep, err := w.engine.Sweep(in.ID)
	return found[sweepDocument]{documentOfSweep(&sweep)}, err
}

// sweepDocument is the document of a sweep. It has either a batch_id, or a client and a type. Status is null if
// the request gave no status.
type sweepDocument struct {
	SweepID    *job.ID `json:"sweep_id" doc:"null if one command changed all jobs"`
	Operation  string  `json:"operation" enum:"cancel,redrive,delete"`
	BatchID    *job.ID `json:"batch_id"`
	Client     *string `json:"client" schema:"Name"`
	Type       *string `json:"type" schema:"Name"`
	Status     *string `json:"status" schema:"Status" doc:"only jobs with this status are changed; null: jobs with any status that the operation accepts"`
	Moved      int64   `json:"moved" minimum:"0" doc:"number of jobs that were changed"`
	Skipped    int64   `json:"skipped" minimum:"0" doc:"number of jobs that were not redriven, because another unfinished job has their unique key"`
	Done       bool    `json:"done"`
	CreatedAt  int64   `json:"created_at" minimum:"0"`
	FinishedAt *int64  `json:"finished_at" minimum:"0"`
}

func documentOfSweep(w *document.Sweep) sweepDocument {
	return sweepDocument{
		SweepID: web.OrNull(w.ID), Operation: w.Op.String(), BatchID: web.OrNull(w.Batch), Client: web.OrNull(w.Client), Type: web.OrNull(w.Type), Status: answer.StatusOrNull(w.Status),
		Moved: w.Moved, Skipped: w.Skipped, Done: w.FinishedAt != 0, CreatedAt: w.CreatedAt, FinishedAt: web.OrNull(w.FinishedAt),
	}
}
