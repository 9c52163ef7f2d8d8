package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// outcomeFields are how a runner tells what became of a run.
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

// named refuses a request of a runner that does not name its claim, on a server that requires it.
func (s *Server) named(claim job.ID) error {
	if !s.fenced || !claim.IsZero() {
		return nil
	}
	return &problem{status: http.StatusBadRequest, code: "claim_id_required", field: "claim_id",
		detail: "this server was started with --require-claim-id: name the claim_id that handed the job out, so that a runner whose lease has ended cannot act on it"}
}

// namedAll is named for all commands of a completion.
func (s *Server) namedAll(done *completion) error {
	for i := range done.commands {
		if err := s.named(done.commands[i].Claim); err != nil {
			return err
		}
	}
	return nil
}

// given reports whether there is an outcome at all.
func (f *outcomeFields) given() bool { return f.Status != nil || f.Code != nil || f.ExitCode != nil }

// outcome checks the fields against each other and returns the outcome they tell.
func (f *outcomeFields) outcome() (o job.Outcome, err error) {
	o.DelayMs = -1
	if !f.given() {
		return o, badRequest("code", "one of status, code and exit_code is wanted")
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
			return o, badRequest("delay_ms", "delay_ms goes only with the codes retry and error")
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

// inside says where in a request the field of a problem lies.
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

// completion is a request to end runs, as the commands that carry it out, in order. The last one has the outcome for all of a claim,
// where there is one.
type completion struct {
	commands []job.Complete
	all      bool
	bytes    int // of the last command
	count    int // of outcomes, without the one for all

	most    int                     // outcomes of a request; 0: as many as its body has
	reserve func(bytes int64) error // waits until these may be in memory
}

const (
	// outcomeBytes is about what an outcome takes beside its text in the body: decoded, as part of a command, and its result.
	outcomeBytes = 256
	// The shares of outcomes are taken for so many at a time. The first ones are counted with the body.
	outcomesPerShare = 100
)

// admit counts an outcome of a list before it is decoded.
func (d *completion) admit(list string) error {
	d.count++
	if d.most > 0 && d.count > d.most {
		return badRequest(list, fmt.Sprintf("%s of a claim has at most %d outcomes; send more with POST /jobs/complete", list, d.most))
	}
	if d.count%outcomesPerShare == 0 {
		return d.reserve(outcomesPerShare * outcomeBytes)
	}
	return nil
}

// completeRequest is the JSON body of POST /jobs/complete: an outcome for all of a claim with exceptions, or a list. The lists are decoded an item at a time.
type completeRequest struct {
	fences
	outcomeFields
	Except   jsontext.Value `json:"except"`   // of exceptItem
	Outcomes jsontext.Value `json:"outcomes"` // of outcomeItem
}

func (r *completeRequest) completion(done *completion) error {
	runner, err := r.runner()
	if err != nil {
		return err
	}
	if !absent(r.Outcomes) {
		if r.outcomeFields.any() || !absent(r.Except) {
			return badRequest("outcomes", "outcomes excludes an outcome for all and except")
		}
		return done.list("outcomes", r.Outcomes, r.ClaimID, runner)
	}
	if !r.given() {
		return badRequest("outcomes", "an outcome for all (status, code or exit_code) or a list of outcomes is wanted")
	}
	if r.ClaimID.IsZero() {
		return badRequest("claim_id", "an outcome for all jobs of a claim requires the claim_id")
	}
	all, err := r.outcome()
	if err != nil {
		return err
	}
	if n := len(all.Output) + len(all.Error); n > job.MaxForAllBytes {
		return badRequest("output", fmt.Sprintf("output and error of an outcome for all have at most %d bytes together, not %d, since each job keeps them; larger outputs go by output_addr", job.MaxForAllBytes, n))
	}
	if !absent(r.Except) {
		err := decodeEach(done, "except", r.Except, func(e *exceptItem) error {
			if done.count > job.MaxClaimJobs {
				return badRequest("except", fmt.Sprintf("except names at most %d jobs, as many as a claim can hold", job.MaxClaimJobs))
			}
			o, err := e.outcomeOf(e.JobID)
			if err != nil {
				return inside(item("except", done.count-1), err)
			}
			done.add(r.ClaimID, runner, o)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(done.commands) == 0 {
		done.commands = []job.Complete{{Claim: r.ClaimID, Runner: runner}}
	}
	done.all = true
	done.commands[len(done.commands)-1].All = &all
	return nil
}

// decodeEach decodes a list, one item after another.
func decodeEach[T any](d *completion, list string, text jsontext.Value, take func(it *T) error) error {
	if text.Kind() != jsontext.KindBeginArray {
		return badRequest(list, fmt.Sprintf("%s must be a list, not %s", list, kindText(text.Kind())))
	}
	items := jsontext.NewDecoder(bytes.NewBuffer(text))
	if _, err := items.ReadToken(); err != nil {
		return fmt.Errorf("read list %s: %w", list, err) // the text was read as JSON before
	}
	for items.PeekKind() != jsontext.KindEndArray {
		if err := d.admit(list); err != nil {
			return err
		}
		value, err := items.ReadValue()
		if err != nil {
			return fmt.Errorf("read list %s: %w", list, err)
		}
		var it T
		if err := decodeValue(item(list, d.count-1), value, &it); err != nil {
			return err
		}
		if err := take(&it); err != nil {
			return err
		}
	}
	return nil
}

// any reports whether any field is given.
func (f *outcomeFields) any() bool {
	return f.given() || f.ProcessExit != nil || f.OutputAddr != nil || !absent(f.Output) || f.OutputB64 != nil || f.Error != nil || f.DelayMs != nil
}

// list adds a list of outcomes, each item of which may name fences of its own instead of the request's.
func (d *completion) list(name string, items jsontext.Value, claim job.ID, runner string) error {
	return decodeEach(d, name, items, func(it *outcomeItem) error {
		if err := d.addItem(it, claim, runner); err != nil {
			return inside(item(name, d.count-1), err)
		}
		return nil
	})
}

func (d *completion) addItem(it *outcomeItem, claim job.ID, runner string) error {
	o, err := it.outcomeOf(it.JobID)
	if err != nil {
		return err
	}
	if !it.ClaimID.IsZero() {
		claim = it.ClaimID
	}
	own, err := it.runner()
	if err != nil {
		return err
	}
	if own != "" {
		runner = own
	}
	d.add(claim, runner, o)
	return nil
}

// maxCommandBytes bounds what one command takes in the journal, where a byte of text may stand as three: a single outcome that goes
// beyond it is still half a record.
const maxCommandBytes = job.MaxBodyBytes

// add appends an outcome to the last command, or begins one: for other fences, after job.MaxOutcomes, and when the command would
// become too long for a record.
func (d *completion) add(claim job.ID, runner string, o job.Outcome) {
	bytes := 256 + 3*(len(o.Error)+len(o.OutputAddr)) + len(o.Output)
	if n := len(d.commands); n > 0 {
		last := &d.commands[n-1]
		if last.Claim == claim && last.Runner == runner && len(last.Outcomes) < job.MaxOutcomes && d.bytes+bytes <= maxCommandBytes {
			last.Outcomes = append(last.Outcomes, o)
			d.bytes += bytes
			return
		}
	}
	d.commands = append(d.commands, job.Complete{Claim: claim, Runner: runner, Outcomes: []job.Outcome{o}})
	d.bytes = bytes
}

// lines adds the outcomes of NDJSON: one a line, empty lines ignored. Nothing is applied unless all of it is well-formed.
func (d *completion) lines(text []byte) error {
	for number := 1; len(text) > 0; number++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := d.admit(""); err != nil {
			return err
		}
		var it outcomeItem
		err := decodeObject(line, &it)
		if err == nil {
			err = d.addItem(&it, job.ID{}, "")
		}
		if err != nil {
			p := *problemOf(err)
			p.detail = fmt.Sprintf("line %d: %s", number, p.detail)
			return &p
		}
	}
	return nil
}
