package container

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/task"
)

// Steps of a run, in order. A run skips the steps that it does not need.
const (
	pullImage   = "pull_image"
	pullFileset = "pull_fileset"
	create      = "create"
	start       = "start"
	running     = "run"
	pushFileset = "push_fileset"
)

// report is the output of a job, encoded as JSON.
type report struct {
	ExitCode *int64   `json:"exit_code,omitzero"` // of the container, if it has ended
	Image    string   `json:"image,omitzero"`     // the full reference
	ImageID  string   `json:"image_id,omitzero"`
	ID       string   `json:"container_id,omitzero"` // of the container, which is removed after the run
	Steps    []step   `json:"steps"`
	Input    *version `json:"input,omitzero"`
	Output   *version `json:"output,omitzero"`
	LogAddr  string   `json:"log_addr,omitzero"` // address of the blob with the log
	LogBytes int64    `json:"log_bytes"`         // bytes printed; the blob may leave out the middle
}

// step is a step of a run.
type step struct {
	Step       string `json:"step"`
	At         int64  `json:"at"` // unix ms
	DurationMs int64  `json:"duration_ms"`
	Error      string `json:"error,omitzero"`
}

// version is a version of a fileset.
type version struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// step runs a step, and records its duration and error. shown is etcdq's text for the step, or "" if etcdq does not show
// it.
func (r *run) step(ctx context.Context, name, shown string, f func() error) error {
	began := time.Now()
	r.reason = name
	if shown != "" && r.engine.Step != nil {
		r.engine.Step(ctx, r.job.ID, r.job.ClaimID, shown)
	}
	err := f()
	r.engine.counters.step(name, time.Since(began), err)
	s := step{Step: name, At: began.UnixMilli(), DurationMs: time.Since(began).Milliseconds()}
	if err != nil {
		s.Error = shortened(err.Error())
	}
	r.report.Steps = append(r.report.Steps, s)
	r.engine.Log.Debug("a step of a container", "job_id", r.job.ID, "step", name, "duration_ms", s.DurationMs, "error", s.Error)
	return err
}

// with adds the report to the end of a run.
func (r *run) with(end task.End) task.End {
	if end.Unget {
		return end
	}
	text, err := json.Marshal(&r.report)
	if err != nil { // cannot happen: all texts in it are valid UTF-8
		return task.Error("encode the report: " + err.Error())
	}
	end.Output, end.OutputKind = text, client.JSON
	end.ProcessExit, end.LogAddr = r.report.ExitCode, r.report.LogAddr
	return end
}
