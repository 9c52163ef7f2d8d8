package api

import (
	"context"
	"net/http"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// sweeps are operations on many jobs that continue after their request.
type sweeps struct{ engine backend.Engine }

func (w sweeps) routes(r operation.Rules) []route {
	about := func(id, summary string, refusals ...int) operation.About {
		return operation.About{
			ID: id, Tag: "Moving", Summary: summary, Refusals: append(refusals, 404, 429, 503, 507),
			Answers: answers{
				200: "The operation has changed all jobs. The answer has their number.",
				202: "The operation has changed the first jobs, and a sweep continues with the rest.",
			},
		}
	}
	return []route{
		cold(r, http.MethodPost, "/batches/:id/cancel", about("cancelBatch", "Cancel jobs of a batch", 409), func(ctx context.Context, in *struct {
			onlyID
			toCancel
		}) (started, error) {
			return w.start(ctx, job.Move{Op: job.Cancel, Batch: in.ID}, in.Status)
		}),
		cold(r, http.MethodPost, "/batches/:id/redrive", about("redriveBatch", "Redrive jobs of a batch", 409), func(ctx context.Context, in *struct {
			onlyID
			toRedrive
		}) (started, error) {
			return w.start(ctx, job.Move{Op: job.Redrive, Batch: in.ID}, &in.Status)
		}),
		cold(r, http.MethodDelete, "/batches/:id", about("deleteBatch", "Delete jobs of a batch"), func(ctx context.Context, in *struct {
			onlyID
			toDelete
		}) (started, error) {
			return w.start(ctx, job.Move{Op: job.Delete, Batch: in.ID}, in.Status)
		}),
		cold(r, http.MethodPost, "/queues/:client/:type/cancel", about("cancelQueue", "Cancel jobs of a queue"), func(ctx context.Context, in *struct {
			namedQueue
			toCancel
		}) (started, error) {
			return w.start(ctx, job.Move{Op: job.Cancel, Client: in.Client, Type: in.Type}, in.Status)
		}),
		cold(r, http.MethodPost, "/queues/:client/:type/redrive", about("redriveQueue", "Redrive jobs of a queue"), func(ctx context.Context, in *struct {
			namedQueue
			toRedrive
		}) (started, error) {
			return w.start(ctx, job.Move{Op: job.Redrive, Client: in.Client, Type: in.Type}, &in.Status)
		}),
		cold(r, http.MethodDelete, "/queues/:client/:type/jobs", about("deleteQueueJobs", "Delete jobs of a queue"), func(ctx context.Context, in *struct {
			namedQueue
			Status string `query:"status" required:"true" enum:"deferred,pending,active,completed,failed,cancelled,all" doc:"the status of the jobs to delete, or all"`
		}) (started, error) {
			return w.start(ctx, job.Move{Op: job.Delete, Client: in.Client, Type: in.Type}, &in.Status)
		}),
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

// These parameters select the jobs that an operation changes. Their values are the statuses of job.Op.Takes.
type (
	toCancel struct {
		Status *string `query:"status" enum:"deferred,pending,active" doc:"only jobs with this status; without it, jobs with any status that the operation accepts"`
	}
	toRedrive struct {
		Status string `query:"status" enum:"failed,cancelled,completed" default:"failed" doc:"only jobs with this status; default: failed"`
	}
	toDelete struct {
		Status *string `query:"status" enum:"deferred,pending,active,completed,failed,cancelled,all" doc:"only jobs with this status; without it, jobs with any status that the operation accepts"`
	}
)

// started is the answer to an operation. Location is the path of the sweep, or of the batch whose jobs it continues to
// change.
type started struct {
	Status   int
	Seq      uint64 `header:"Daybook-Seq"`
	Location string `header:"Location" status:"202"`
	Body     sweepDocument
}

// start applies an operation to the jobs of a batch or queue that have a status. If one command can change all of them, the
// answer is 200 with their number. Otherwise a sweep changes the rest, and the answer is 202 with the path of the sweep.
func (w sweeps) start(ctx context.Context, m job.Move, status *string) (out started, err error) {
	if status != nil && *status != "all" {
		if m.Status, err = job.ParseStatus(*status); err != nil {
			return out, web.BadField("status", err)
		}
	}
	swept, receipt, err := w.engine.MoveAll(ctx, m)
	if err == nil {
		err = refusal.Err(swept.Refusal)
	}
	if err != nil {
		return out, err
	}
	sweep := document.Sweep{Op: m.Op, Batch: m.Batch, Moved: swept.Moved, CreatedAt: receipt.At}
	more, location := swept.More, "/batches/"+m.Batch.String()
	if swept.Status == 0 { // the request did not end a batch
		more, location = !swept.Sweep.IsZero(), "/sweeps/"+swept.Sweep.String()
		sweep.ID, sweep.Client, sweep.Type, sweep.Status, sweep.Skipped = swept.Sweep, m.Client, m.Type, m.Status, swept.Skipped
	}
	out.Status, out.Seq = http.StatusAccepted, receipt.Seq
	if more {
		out.Location = location
	} else {
		out.Status, sweep.FinishedAt = http.StatusOK, receipt.At
	}
	out.Body = documentOfSweep(&sweep)
	return out, nil
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
	out.Body.Sweeps = make([]sweepDocument, 0, len(list))
	scope := &job.KeyOf(ctx).By().Scope
	for i := range list {
		in := scope.All()
		if !in && err == nil {
			in, err = w.engine.SweepInScope(scope, &list[i])
		}
		if in {
			out.Body.Sweeps = append(out.Body.Sweeps, documentOfSweep(&list[i]))
		}
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
