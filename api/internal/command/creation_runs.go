package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// CheckJoined refuses keys and numbers for jobs that belong to no batch. It also refuses too many of these jobs.
func CheckJoined(cmd *job.Create) error {
	if !cmd.Joined {
		return nil
	}
	if cmd.Once.Given() || len(cmd.Unique) > 0 {
		return web.BadRequest("batch", "jobs without a batch must not have an idempotency key, a number of a session or unique keys; send each as a request, or create a batch")
	}
	if n := cmd.Lines(); n > job.MaxRunJobs {
		return web.BadRequest("batch", fmt.Sprintf("the request has %d jobs without a batch; the maximum is %d; split it into several requests, or create a batch", n, job.MaxRunJobs))
	}
	return nil
}

// AppendJobs appends the answer to a create of several jobs without unique keys. If they belong to no batch and one is
// deferred, run_at has a time for each job.
func AppendJobs(b []byte, made *applied.Made, groups []job.Group, r ingest.Receipt) []byte {
	var first, last job.ID
	if made.Lines > 0 {
		first, last = made.Job(0), made.Job(made.Lines-1)
	}
	b = answer.AppendID(append(b, `{"batch_id":`...), made.Batch)
	b = strconv.AppendInt(append(b, `,"count":`...), int64(made.Lines), 10)
	b = answer.AppendID(append(b, `,"first_id":`...), first)
	b = answer.AppendID(append(b, `,"last_id":`...), last)
	if at := runAts(groups, r); at != nil && made.Batch.IsZero() {
		b = append(b, `,"run_at":[`...)
		for i, ms := range at {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, ms, 10)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// CreationInRuns returns the command that creates the jobs of a body in runs (package runs). It copies the payloads.
// Jobs without a traceparent get trace, if it is not nil.
func (s *Decoder) CreationInRuns(text []byte, trace *string, of *OpenBatch) (*job.Create, error) {
	from, now := runs.NewDecoder(text), s.Now()
	head, err := from.Creation()
	if err == nil && head.Runs > job.MaxGroups {
		err = web.BadRequest("runs", fmt.Sprintf("the request has %d runs; the maximum is %d; sort the jobs by attributes and kind of payload, or split the request", head.Runs, job.MaxGroups))
	}
	cmd := &job.Create{Joined: head.NoBatch}
	var parts []runs.NewRun
	for i := 0; i < head.Runs && err == nil; i++ {
		var r runs.NewRun
		if r, err = from.NewRun(); err != nil {
			break
		}
		parts = append(parts, r)
		if err = s.addNewRun(cmd, &r, trace, of, now); err != nil {
			err = refusal.Placed(fmt.Sprintf("run %d", i+1), err)
		}
	}
	if err == nil {
		err = from.End()
	}
	if malformed, ok := errors.AsType[*runs.Error](err); ok {
		return nil, web.BadRequest("", "the text is not a creation in runs: "+malformed.Error())
	}
	if err != nil {
		return nil, err
	}
	if err := setPayloads(cmd, parts); err != nil {
		return nil, err
	}
	return cmd, s.CheckPayloads(cmd, "job")
}

// addNewRun adds the group of a run to a command.
func (s *Decoder) addNewRun(cmd *job.Create, r *runs.NewRun, trace *string, of *OpenBatch, now int64) error {
	a := attributesOf(r)
	a.Traceparent = cmp.Or(a.Traceparent, trace)
	of.Defaults(&a)
	g, err := s.Group(&a, now)
	g.Meta, g.Kind, g.Lines = r.Meta, r.Kind, r.N
	if err == nil {
		err = of.Inherit(&g)
	}
	if err != nil {
		return err
	}
	if n := len(cmd.Groups); n > 0 && cmd.Groups[n-1] == withLines(g, cmd.Groups[n-1].Lines) {
		cmd.Groups[n-1].Lines += r.N
		return nil
	}
	cmd.Groups = append(cmd.Groups, g)
	return nil
}

// setPayloads copies the payloads of runs into a command, in one framing.
func setPayloads(cmd *job.Create, list []runs.NewRun) error {
	for i := range list {
		if r := &list[i]; r.Frame != job.NoFrame && cmd.Frame != job.LenFrame {
			cmd.Frame = r.Frame
		}
	}
	if cmd.Frame == job.NoFrame {
		return nil
	}
	size, err := framedSize(cmd, list)
	if err != nil {
		return err
	}
	cmd.Payloads = make([]byte, 0, size)
	for i := range list {
		r := &list[i]
		if r.Frame == cmd.Frame {
			cmd.Payloads = append(cmd.Payloads, r.Payloads...)
			continue
		}
		rest := r.Payloads
		for range r.N {
			var payload []byte
			if payload, rest, err = r.Frame.Next(rest); err != nil { // framedSize has read it
				return fmt.Errorf("frame a payload again: %w", err)
			}
			cmd.Payloads = cmd.Frame.Append(cmd.Payloads, payload)
		}
	}
	return nil
}

// framedSize checks the payloads of runs, and returns their size in the framing of the command. It refuses a body that
// would become much longer in the journal than in the request: a run creates any number of jobs without payloads from a
// few bytes, and another framing can make payloads three times as long.
func framedSize(cmd *job.Create, list []runs.NewRun) (size int, err error) {
	without := 0
	for i := range list {
		r := &list[i]
		if r.Frame == job.NoFrame {
			without += r.N
			size += r.N * cmd.Frame.Size(0)
			continue
		}
		rest := r.Payloads
		for line := range r.N {
			var payload []byte
			if payload, rest, err = r.Frame.Next(rest); err == nil {
				err = checkPayload(r.Kind, payload)
			}
			if err != nil {
				return 0, refusal.Placed(fmt.Sprintf("job %d of run %d", line+1, i+1), err)
			}
			cmd.Longest = max(cmd.Longest, len(payload))
			size += cmd.Frame.Size(len(payload))
		}
	}
	if without > job.MaxRunJobs {
		return 0, web.BadRequest("jobs", fmt.Sprintf("the request has %d jobs without payloads beside jobs with payloads; the maximum is %d; create them with a request of their own", without, job.MaxRunJobs))
	}
	if size > web.MaxBodyBytes {
		return 0, &web.Problem{Status: http.StatusRequestEntityTooLarge, Code: web.CodeTooLarge,
			Detail: fmt.Sprintf("the payloads have %d bytes in one framing; the maximum is %d; use the same frame for all runs, or split the request", size, web.MaxBodyBytes)}
	}
	return size, nil
}

// checkPayload checks a payload that was not sent in JSON.
func checkPayload(kind job.Kind, payload []byte) error {
	if len(payload) > job.MaxPayloadBytes {
		return PayloadTooLarge(len(payload))
	}
	if kind != job.WASI {
		return checkContent("payload", kind, payload)
	}
	binary, input, err := job.ParseWASI(payload)
	if err == nil && string(job.AppendWASI(nil, binary, input)) != string(payload) {
		err = fmt.Errorf("payload %q is not escaped as in a head line", web.Shortened(string(payload)))
	}
	if err != nil {
		return web.BadRequest("payload", err.Error())
	}
	if err := job.CheckText("binary_addr", binary, 1, job.MaxAddrBytes); err != nil {
		return web.BadField("binary_addr", err)
	}
	return web.BadField("input_addr", job.CheckText("input_addr", input, 0, job.MaxAddrBytes))
}

// checkContent checks a payload or output that was not sent in JSON.
func checkContent(field string, kind job.Kind, content []byte) error {
	switch value := jsontext.Value(content); {
	case kind == job.Text && !utf8.Valid(content):
		return web.BadRequest(field, "the "+field+" with kind=text is not valid UTF-8; send it with kind=bytes")
	case kind != job.JSON:
	case !value.IsValid():
		return web.BadRequest(field, fmt.Sprintf("the %s with kind=json is not a JSON value: %s", field, web.Shortened(string(content))))
	case value.Kind() == jsontext.KindString || web.Absent(value):
		return web.BadRequest(field, "the "+field+" with kind=json must not be a string or null; send a string with kind=text, and leave null out")
	}
	return nil
}

// runAts returns the time at which each job becomes pending, or 0 if the job was pending from the start. It returns nil
// if all were pending from the start.
func runAts(groups []job.Group, r ingest.Receipt) (at []int64) {
	line := 0
	for i := range groups {
		g := &groups[i]
		if runAt := DeferredTo(g, r); runAt > 0 {
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

// DeferredTo returns the time at which the new jobs of a group become pending, or 0 if they are pending from the start.
func DeferredTo(g *job.Group, r ingest.Receipt) int64 {
	if job.Admit(&g.Attributes, job.Now{Seq: r.Seq, At: r.At}).Status == job.Deferred {
		return g.RunAt
	}
	return 0
}

// Idempotency keys and session numbers of creates in a stream have the scope of this HTTP request.
const CreatePath, CreateKind = "/jobs/create", "create"
