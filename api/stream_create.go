package api

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// beginCreate is POST /jobs/create. The server carries out a received create even if the connection ends.
func (t *stream) beginCreate(r *streamRequest) (finisher, error) {
	if r.runs {
		return t.beginCreateRuns(r)
	}
	if r.Create.Kind() == jsontext.KindBeginArray {
		return t.beginCreateMany(r)
	}
	if r.Batch != nil {
		return nil, web.BadRequest("batch", "batch is for a list of jobs; a single job without a key belongs to no batch")
	}
	return t.beginCreateOne(r)
}

// Idempotency keys and session numbers of creates in a stream have the scope of this HTTP request.
const createPath, createKind = "/jobs/create", "create"

// beginCreateMany creates a list of jobs: as a batch, or without a batch if the request says so.
func (t *stream) beginCreateMany(r *streamRequest) (finisher, error) {
	var b bulk
	if err := b.addAll(t.s, r.Create, itemArray); err != nil {
		return nil, err
	}
	if len(b.ends) == 0 {
		return encoded(b.document(&applied.Made{}))
	}
	cmd := b.command()
	var err error
	if cmd.Once, err = r.once(createPath, createKind, cmd.Groups[0].Client, r.Create); err != nil {
		return nil, err
	}
	if cmd.Joined = r.Batch != nil && !*r.Batch; !cmd.Joined {
		wait := t.s.engine.StartCreate(context.Background(), cmd)
		return func(text []byte) ([]byte, uint64, error) {
			made, receipt, err := wait()
			if err != nil {
				return nil, 0, err
			}
			return appendDocument(text, b.document(&made), receipt.Seq)
		}, nil
	}
	return t.startJobs(cmd)
}

// beginCreateRuns creates the jobs of a text in runs.
func (t *stream) beginCreateRuns(r *streamRequest) (finisher, error) {
	cmd, err := t.s.creationInRuns(r.Create, nil, nil)
	if err != nil {
		return nil, err
	}
	if cmd.Once, err = r.once(createPath, createKind, cmd.Groups[0].Client, r.Create); err != nil {
		return nil, err
	}
	return t.startJobs(cmd)
}

// startJobs begins to create several jobs without unique keys.
func (t *stream) startJobs(cmd *job.Create) (finisher, error) {
	if err := checkJoined(cmd); err != nil {
		return nil, err
	}
	groups := cmd.Groups
	wait := t.s.engine.StartCreate(context.Background(), cmd)
	return func(text []byte) ([]byte, uint64, error) {
		made, receipt, err := wait()
		if err != nil {
			return nil, 0, err
		}
		return appendJobs(text, &made, groups, receipt), receipt.Seq, nil
	}, nil
}

// runAts returns the time at which each job becomes pending, or 0 if the job was pending from the start. It returns nil
// if all were pending from the start.
func runAts(groups []job.Group, r ingest.Receipt) (at []int64) {
	line := 0
	for i := range groups {
		g := &groups[i]
		if runAt := deferredTo(g, r); runAt > 0 {
			if at == nil {
				lines := 0
				for j := range groups {
					lines += groups[j].Lines
				}
				at = make([]int64, lines)
			}
			for j := range g.Lines {
				at[line+j] = runAt
			}
		}
		line += g.Lines
	}
	return at
}

// deferredTo returns the time at which the new jobs of a group become pending, or 0 if they are pending from the start.
func deferredTo(g *job.Group, r ingest.Receipt) int64 {
	if job.Admit(&g.Attributes, job.Now{Seq: r.Seq, At: r.At}).Status == job.Deferred {
		return g.RunAt
	}
	return 0
}

// beginCreateOne creates a job. The answer has its id, not its document.
func (t *stream) beginCreateOne(r *streamRequest) (finisher, error) {
	var one createRequest
	if err := web.DecodeObject(r.Create, &one); err != nil {
		return nil, err
	}
	cmd, _, err := t.s.oneJob(&one)
	if err != nil {
		return nil, err
	}
	if cmd.Once, err = r.once(createPath, createKind, cmd.Groups[0].Client, r.Create); err != nil {
		return nil, err
	}
	cmd.Joined = len(cmd.Unique) == 0 && !cmd.Once.Given()
	wait := t.s.engine.StartCreate(context.Background(), cmd)
	return func(b []byte) ([]byte, uint64, error) {
		made, receipt, err := wait()
		if err != nil {
			return nil, 0, err
		}
		id, existing := made.Job(0), len(made.Existing) > 0
		if existing {
			id = made.Existing[0].Job
		}
		b = appendID(append(b, `{"job_id":`...), id)
		if one.UniqueKey != nil {
			b = strconv.AppendBool(append(b, `,"existing":`...), existing)
		}
		if runAt := deferredTo(&made.Group, receipt); runAt > 0 && !existing {
			b = strconv.AppendInt(append(b, `,"run_at":`...), runAt, 10)
		}
		return append(b, '}'), receipt.Seq, nil
	}, nil
}
