package command

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// OutcomeFields are the fields in which a runner reports how a run ended.
type OutcomeFields struct {
	Status      *string        `json:"status" enum:"completed,failed,Completed,Failed"`
	Code        *string        `json:"code" enum:"ok,failed,retry,error"`
	ExitCode    *int64         `json:"exit_code" minimum:"100" maximum:"599" doc:"2xx ok, 4xx failed, 1xx retry, 5xx error"`
	ProcessExit *int64         `json:"process_exit" minimum:"-2147483648" maximum:"4294967295" doc:"exit status of a process"`
	OutputAddr  *string        `json:"output_addr" minLength:"0" maxLength:"4096" doc:"address of an output that is stored elsewhere"`
	AddrKind    *string        `json:"output_addr_kind" enum:"text,json,bytes" doc:"kind of what output_addr names; requires output_addr"`
	LogAddr     *string        `json:"log_addr" minLength:"0" maxLength:"4096" doc:"address of what the run printed"`
	Output      jsontext.Value `json:"output" doc:"a string, or any other JSON value, which is kept as it was sent"`
	OutputB64   *[]byte        `json:"output_b64"`
	Error       *string        `json:"error" minLength:"0" maxLength:"65536"`
	DelayMs     *int64         `json:"delay_ms" minimum:"0" maximum:"3162240000000" doc:"only with the code retry or error; replaces the backoff"`
	// Then is a list of CreateRequest.
	Then jsontext.Value `json:"then" items:"NewJob" maxItems:"100" nullable:"true" doc:"Only with the code ok or failed, and not in an outcome for all jobs of a claim: jobs that are created in the same record of the journal. They inherit client, traceparent and meta where these are absent."`
}

// Fences are the claim and the runner that must hold a job. Otherwise the server refuses the change.
type Fences struct {
	ClaimID  job.ID  `json:"claim_id" nullable:"true" doc:"The claim that must hold the job. Otherwise the server refuses the request. Always send the claim_id of the claim that handed out the job. A server that was started with --require-claim-id refuses requests without it."`
	RunnerID *string `json:"runner_id" schema:"RunnerId" doc:"the runner that must hold the job"`
}

// EndRequest is the body of POST /jobs/{id}/complete.
type EndRequest struct {
	OutcomeFields
	Fences
}

// outcomeItem is an outcome in a list. Its fences replace the request's fences.
type outcomeItem struct {
	JobID job.ID `json:"job_id" required:"true"`
	OutcomeFields
	Fences
}

// exceptItem is the outcome of a job that differs from the outcome for all jobs of the claim.
type exceptItem struct {
	JobID job.ID `json:"job_id" required:"true"`
	OutcomeFields
}

// Runner checks and returns the runner_id, or "" if the request names none.
func (f *Fences) Runner() (string, error) {
	if f.RunnerID == nil {
		return "", nil
	}
	return *f.RunnerID, web.BadField("runner_id", job.CheckText("runner_id", *f.RunnerID, 1, job.MaxRunnerBytes))
}

// RequireClaimID refuses a runner's request without a claim_id, if the server was started with --require-claim-id.
func (s *Decoder) RequireClaimID(claim job.ID) error {
	if !s.Fenced || !claim.IsZero() {
		return nil
	}
	return &web.Problem{Status: http.StatusBadRequest, Code: "claim_id_required", Field: "claim_id",
		Detail: "claim_id is missing, and this server was started with --require-claim-id; send the claim_id of the claim that handed out the job, so that a runner whose lease has ended cannot change it"}
}

// RequireClaimIDs calls RequireClaimID for each command of a completion.
func (s *Decoder) RequireClaimIDs(done *Completion) error {
	for i := range done.Commands {
		if err := s.RequireClaimID(done.Commands[i].Claim); err != nil {
			return err
		}
	}
	return nil
}

// given reports whether the fields contain an outcome.
func (f *OutcomeFields) given() bool { return f.Status != nil || f.Code != nil || f.ExitCode != nil }

// Outcome checks that the fields agree with each other, and returns the outcome.
func (f *OutcomeFields) Outcome() (o job.Outcome, err error) {
	o.DelayMs = -1
	if !f.given() {
		return o, web.BadRequest("code", "one of status, code and exit_code is required")
	}
	if f.Status != nil {
		switch *f.Status {
		case "completed", "Completed": // with a capital, as runners of queuey-queue write it
			o.Code = job.OK
		case "failed", "Failed":
			o.Code = job.Fail
		default:
			return o, web.BadRequest("status", fmt.Sprintf("status must be completed or failed, not %q", web.Shortened(*f.Status)))
		}
	}
	if f.Code != nil {
		code, err := job.ParseCode(*f.Code)
		if err != nil || !code.Reported() {
			return o, web.BadRequest("code", fmt.Sprintf("code must be ok, failed, retry or error, not %q", web.Shortened(*f.Code)))
		}
		if o.Code != job.NoCode && o.Code != code {
			return o, web.BadRequest("code", fmt.Sprintf("code %s contradicts status %s", code, *f.Status))
		}
		o.Code = code
	}
	if f.ExitCode != nil {
		class := job.NoCode
		if *f.ExitCode >= 100 && *f.ExitCode <= 599 {
			class = job.ExitCodeClass(int(*f.ExitCode))
		}
		if class == job.NoCode {
			return o, web.BadRequest("exit_code", fmt.Sprintf("exit_code must be 2xx (ok), 4xx (failed), 1xx (retry) or 5xx (error), not %d", *f.ExitCode))
		}
		if o.Code != job.NoCode && o.Code != class {
			return o, web.BadRequest("exit_code", fmt.Sprintf("exit_code %d means %s, which contradicts %s", *f.ExitCode, class, o.Code))
		}
		o.Code, o.ExitCode = class, int(*f.ExitCode)
	} else {
		o.ExitCode = o.Code.DefaultExitCode()
	}
	if f.ProcessExit != nil {
		// Operating systems use signed or unsigned numbers of 32 bits.
		if err := job.CheckRange("process_exit", *f.ProcessExit, -1<<31, 1<<32-1); err != nil {
			return o, web.BadField("process_exit", err)
		}
		o.ProcessExit = f.ProcessExit
	}
	if f.DelayMs != nil {
		if o.Code != job.Retry && o.Code != job.Error {
			return o, web.BadRequest("delay_ms", "delay_ms requires the code retry or error")
		}
		if err := job.CheckRange("delay_ms", *f.DelayMs, 0, job.MaxDelayMs); err != nil {
			return o, web.BadField("delay_ms", err)
		}
		o.DelayMs = *f.DelayMs
	}
	if f.Error != nil {
		if err := job.CheckText("error", *f.Error, 0, job.MaxErrorBytes); err != nil {
			return o, web.BadField("error", err)
		}
		o.Error = *f.Error
	}
	if f.OutputAddr != nil {
		if err := job.CheckText("output_addr", *f.OutputAddr, 0, job.MaxAddrBytes); err != nil {
			return o, web.BadField("output_addr", err)
		}
		o.OutputAddr = *f.OutputAddr
	}
	if f.AddrKind != nil {
		if o.OutputAddrKind, err = job.ParseKind("output_addr_kind", *f.AddrKind); err == nil && o.OutputAddrKind == job.Nothing {
			err = fmt.Errorf("output_addr_kind must be text, json or bytes, not %q", web.Shortened(*f.AddrKind))
		}
		if err == nil {
			err = o.CheckAddrKind()
		}
		if err != nil {
			return o, web.BadField("output_addr_kind", err)
		}
	}
	if f.LogAddr != nil {
		if err := job.CheckText("log_addr", *f.LogAddr, 0, job.MaxAddrBytes); err != nil {
			return o, web.BadField("log_addr", err)
		}
		o.LogAddr = *f.LogAddr
	}
	return o, f.output(&o)
}

func (f *OutcomeFields) output(o *job.Outcome) (err error) {
	if !web.Absent(f.Output) {
		if f.OutputB64 != nil {
			return web.BadRequest("output", "an outcome must not have both output and output_b64")
		}
		if o.OutputKind, o.Output, err = content("output", f.Output); err != nil {
			return err
		}
	} else if f.OutputB64 != nil {
		o.OutputKind, o.Output = job.Bytes, *f.OutputB64
	}
	return checkOutputBytes(o)
}

func checkOutputBytes(o *job.Outcome) error {
	if len(o.Output) > job.MaxOutputBytes {
		return web.BadRequest("output", fmt.Sprintf("the output has %d bytes; the maximum is %d; store larger outputs elsewhere and send output_addr", len(o.Output), job.MaxOutputBytes))
	}
	return nil
}

// OutcomeOf returns the outcome of an item of a list. The item must name its job.
func (f *OutcomeFields) OutcomeOf(d *Completion, id job.ID) (job.Outcome, error) {
	if id.IsZero() {
		return job.Outcome{}, web.BadRequest("job_id", "job_id is missing")
	}
	o, err := f.Outcome()
	o.ID = id
	if err == nil {
		err = f.CreateThen(d.Decoder, &o, d.Reserve)
	}
	return o, err
}
