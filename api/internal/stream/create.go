package stream

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
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

// beginCreateMany creates a list of jobs: as a batch, or without a batch if the request says so.
func (t *stream) beginCreateMany(r *streamRequest) (finisher, error) {
	var b command.Bulk
	if err := b.AddAll(t.s.Decode, r.Create, command.ItemArray); err != nil {
		return nil, err
	}
	if len(b.Ends) == 0 {
		return encoded(b.Document(&applied.Made{}))
	}
	cmd := b.Command()
	var err error
	if cmd.Once, err = t.once(r, command.CreatePath, command.CreateKind, cmd.Groups[0].Client, r.Create); err != nil {
		return nil, err
	}
	if cmd.Joined = r.Batch != nil && !*r.Batch; !cmd.Joined {
		wait := t.s.Engine.StartCreate(t.ctx, cmd)
		return func(text []byte) ([]byte, uint64, error) {
			made, receipt, err := wait()
			if err != nil {
				return nil, 0, err
			}
			return appendDocument(text, b.Document(&made), receipt.Seq)
		}, nil
	}
	return t.startJobs(cmd)
}

// beginCreateRuns creates the jobs of a text in runs.
func (t *stream) beginCreateRuns(r *streamRequest) (finisher, error) {
	cmd, err := t.s.Decode.CreationInRuns(r.Create, nil, nil)
	if err != nil {
		return nil, err
	}
	if cmd.Once, err = t.once(r, command.CreatePath, command.CreateKind, cmd.Groups[0].Client, r.Create); err != nil {
		return nil, err
	}
	return t.startJobs(cmd)
}

// startJobs begins to create several jobs without unique keys.
func (t *stream) startJobs(cmd *job.Create) (finisher, error) {
	if err := command.CheckJoined(cmd); err != nil {
		return nil, err
	}
	groups := cmd.Groups
	wait := t.s.Engine.StartCreate(t.ctx, cmd)
	return func(text []byte) ([]byte, uint64, error) {
		made, receipt, err := wait()
		if err != nil {
			return nil, 0, err
		}
		return command.AppendJobs(text, &made, groups, receipt), receipt.Seq, nil
	}, nil
}

// beginCreateOne creates a job. The answer has its id, not its document.
func (t *stream) beginCreateOne(r *streamRequest) (finisher, error) {
	var one command.CreateRequest
	if err := web.DecodeObject(r.Create, &one); err != nil {
		return nil, err
	}
	cmd, _, err := t.s.Decode.OneJob(&one)
	if err != nil {
		return nil, err
	}
	if cmd.Once, err = t.once(r, command.CreatePath, command.CreateKind, cmd.Groups[0].Client, r.Create); err != nil {
		return nil, err
	}
	cmd.Joined = len(cmd.Unique) == 0 && !cmd.Once.Given()
	wait := t.s.Engine.StartCreate(t.ctx, cmd)
	return func(b []byte) ([]byte, uint64, error) {
		made, receipt, err := wait()
		if err != nil {
			return nil, 0, err
		}
		id, existing := made.Job(0), len(made.Existing) > 0
		if existing {
			id = made.Existing[0].Job
		}
		b = answer.AppendID(append(b, `{"job_id":`...), id)
		if one.UniqueKey != nil {
			b = strconv.AppendBool(append(b, `,"existing":`...), existing)
		}
		if runAt := command.DeferredTo(&made.Group, receipt); runAt > 0 && !existing {
			b = strconv.AppendInt(append(b, `,"run_at":`...), runAt, 10)
		}
		return append(b, '}'), receipt.Seq, nil
	}, nil
}
