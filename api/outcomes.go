package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// outcomeFields are how a runner reports what became of a run.
type outcomeFields struct {
	Status      *string        `json:"status"`
	Code        *string        `json:"code"`
	ExitCode    *int64         `json:"exit_code"`
	ProcessExit *int64         `json:"process_exit"`
	OutputAddr  *string        `json:"output_addr"`
	Output      jsontext.Value `json:"output"`
	OutputB64   *[]byte        `json:"output_b64"`
	Error       *string        `json:"error"`
	DelayMs     *int64         `json:"delay_ms"`
}

// fences name who must hold a job for a change to be accepted.
type fences struct {
	ClaimID  job.ID  `json:"claim_id"`
	RunnerID *string `json:"runner_id"`
}

// outcomeItem is an outcome in a list, which may have fences of its own.
type outcomeItem struct {
	JobID job.ID `json:"job_id"`
	outcomeFields
	fences
}

// exceptItem is an outcome that differs from the one given to the rest of its claim.
type exceptItem struct {
	JobID job.ID `json:"job_id"`
	outcomeFields
}

// runner returns the runner_id, checked; empty when not given.
func (f *fences) runner() (string, error) {
	if f.RunnerID == nil {
		return "", nil
	}
	return *f.RunnerID, badField("runner_id", job.CheckText("runner_id", *f.RunnerID, 1, job.MaxRunnerBytes))
}

// requireClaimID refuses a request of a runner that does not name its claim, on a server that requires it.
func (s *Server) requireClaimID(claim job.ID) error {
	if !s.fenced || !claim.IsZero() {
		return nil
	}
	return &problem{status: http.StatusBadRequest, code: "claim_id_required", field: "claim_id",
		detail: "this server was started with --require-claim-id: name the claim_id that handed the job out, so that a runner whose lease has ended cannot act on it"}
}

// requireClaimIDs is requireClaimID for all commands of a completion.
func (s *Server) requireClaimIDs(done *completion) error {
	for i := range done.commands {
		if err := s.requireClaimID(done.commands[i].Claim); err != nil {
			return err
		}
	}
	return nil
}

// given reports whether there is an outcome at all.
func (f *outcomeFields) given() bool { return f.Status != nil || f.Code != nil || f.ExitCode != nil }

// outcome checks the fields against each other and returns the outcome that they describe.
func (f *outcomeFields) outcome() (o job.Outcome, err error) {
	o.DelayMs = -1
	if !f.given() {
		return o, badRequest("code", "one of status, code and exit_code is required")
	}
	if f.Status != nil {
		switch *f.Status {
		case "completed":
			o.Code = job.OK
		case "failed":
			o.Code = job.Fail
		default:
			return o, badRequest("status", fmt.Sprintf("status %q is neither completed nor failed", shortened(*f.Status)))
		}
	}
	if f.Code != nil {
		code, err := job.ParseCode(*f.Code)
		if err != nil || code == job.Unget || code == job.Damaged {
			return o, badRequest("code", fmt.Sprintf("code %q is none of ok, failed, retry, error", shortened(*f.Code)))
		}
		if o.Code != job.NoCode && o.Code != code {
			return o, badRequest("code", fmt.Sprintf("code %s is not what status %s means", code, *f.Status))
		}
		o.Code = code
	}
	if f.ExitCode != nil {
		class := job.NoCode
		if *f.ExitCode >= 100 && *f.ExitCode <= 599 {
			class = job.ExitCodeClass(int(*f.ExitCode))
		}
		if class == job.NoCode {
			return o, badRequest("exit_code", fmt.Sprintf("exit_code must be 2xx (ok), 4xx (failed), 1xx (retry) or 5xx (error), not %d", *f.ExitCode))
		}
		if o.Code != job.NoCode && o.Code != class {
			return o, badRequest("exit_code", fmt.Sprintf("exit_code %d is of the class %s, not %s", *f.ExitCode, class, o.Code))
		}
		o.Code, o.ExitCode = class, int(*f.ExitCode)
	} else {
		o.ExitCode = o.Code.DefaultExitCode()
	}
	if f.ProcessExit != nil {
		// What the systems know: signed and unsigned 32 bits.
		if err := job.CheckRange("process_exit", *f.ProcessExit, -1<<31, 1<<32-1); err != nil {
			return o, badField("process_exit", err)
		}
		o.ProcessExit = f.ProcessExit
	}
	if f.DelayMs != nil {
		if o.Code != job.Retry && o.Code != job.Error {
			return o, badRequest("delay_ms", "delay_ms requires the code retry or error")
		}
		if err := job.CheckRange("delay_ms", *f.DelayMs, 0, job.MaxDelayMs); err != nil {
			return o, badField("delay_ms", err)
		}
		o.DelayMs = *f.DelayMs
	}
	if f.Error != nil {
		if err := job.CheckText("error", *f.Error, 0, job.MaxErrorBytes); err != nil {
			return o, badField("error", err)
		}
		o.Error = *f.Error
	}
	if f.OutputAddr != nil {
		if err := job.CheckText("output_addr", *f.OutputAddr, 0, job.MaxAddrBytes); err != nil {
			return o, badField("output_addr", err)
		}
		o.OutputAddr = *f.OutputAddr
	}
	return o, f.output(&o)
}

func (f *outcomeFields) output(o *job.Outcome) (err error) {
	if !absent(f.Output) {
		if f.OutputB64 != nil {
			return badRequest("output", "output and output_b64 exclude each other")
		}
		if o.OutputKind, o.Output, err = content("output", f.Output); err != nil {
			return err
		}
	} else if f.OutputB64 != nil {
		o.OutputKind, o.Output = job.Bytes, *f.OutputB64
	}
	if len(o.Output) > job.MaxOutputBytes {
		return badRequest("output", fmt.Sprintf("an output has at most %d bytes, not %d; larger ones go by output_addr", job.MaxOutputBytes, len(o.Output)))
	}
	return nil
}

// outcomeOf is outcome for an item of a list, which must name its job.
func (f *outcomeFields) outcomeOf(id job.ID) (job.Outcome, error) {
	if id.IsZero() {
		return job.Outcome{}, badRequest("job_id", "job_id is missing")
	}
	o, err := f.outcome()
	o.ID = id
	return o, err
}

// inside says where in a request the field of a problem is.
func inside(place string, err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		at := *p
		at.detail = place + ": " + p.detail
		if at.field != "" {
			at.field = place + "." + at.field
		}
		return &at
	}
	return err
}

func item(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
