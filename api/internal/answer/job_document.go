package answer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

// A job document has the fields of one table, in the order of docs/reference/api.md. A test compares the two. The
// document is encoded by hand, because the answer to a claim has up to a thousand jobs, and reflection would take more
// time than all other work for the claim.

// Field is a field of a job document: its name, the parts of the store that it needs, and a function that appends its
// value.
type Field struct {
	Name   string
	parts  query.Parts
	append func(b []byte, j *job.Job, f form) []byte
	comma  string // `,"name":`
}

var JobFields = table([]Field{
	{Name: "job_id", append: func(b []byte, j *job.Job, _ form) []byte { return AppendID(b, j.ID) }},
	{Name: "batch_id", append: func(b []byte, j *job.Job, _ form) []byte { return AppendID(b, j.Batch) }},
	{Name: "client", append: func(b []byte, j *job.Job, _ form) []byte { return appendName(b, j.Client) }},
	{Name: "type", append: func(b []byte, j *job.Job, _ form) []byte { return appendName(b, j.Type) }},
	{Name: "status", append: func(b []byte, j *job.Job, _ form) []byte { return appendName(b, j.Status.String()) }},
	{Name: "priority", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, int64(j.Priority), 10) }},
	{Name: "payload", parts: query.Payloads, append: func(b []byte, j *job.Job, f form) []byte { return appendValue(b, j.Kind, j.Payload, f) }},
	{Name: "payload_b64", parts: query.Payloads, append: func(b []byte, j *job.Job, _ form) []byte { return appendB64(b, j.Kind, j.Payload) }},
	{Name: "binary_addr", parts: query.Payloads, append: func(b []byte, j *job.Job, _ form) []byte { return appendBinaryAddr(b, j) }},
	{Name: "input_addr", parts: query.Payloads, append: func(b []byte, j *job.Job, _ form) []byte { return appendInputAddr(b, j) }},
	{Name: "output_addr", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.OutputAddr) }},
	{Name: "output_addr_kind", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendAddrKind(b, j.OutputAddrKind) }},
	{Name: "log_addr", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.LogAddr) }},
	{Name: "output", parts: query.Details, append: func(b []byte, j *job.Job, f form) []byte { return appendValue(b, j.OutputKind, j.Output, f) }},
	{Name: "output_b64", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendB64(b, j.OutputKind, j.Output) }},
	{Name: "code", append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.Code.String()) }},
	{Name: "exit_code", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, int64(j.ExitCode)) }},
	{Name: "process_exit", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendOptional(b, j.ProcessExit) }},
	{Name: "error", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.Error) }},
	{Name: "attempts", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendAttempts(b, j.Attempts) }},
	{Name: "step", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.Step) }},
	{Name: "steps", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendSteps(b, j.Steps) }},
	{Name: "progress", parts: query.Details, append: func(b []byte, j *job.Job, _ form) []byte { return appendProgress(b, j.Progress) }},
	{Name: "runner_id", append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.Runner) }},
	{Name: "claim_id", append: func(b []byte, j *job.Job, _ form) []byte { return AppendID(b, j.Claim) }},
	{Name: "run_attempts", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, int64(j.RunAttempts), 10) }},
	{Name: "max_attempts", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, int64(j.MaxAttempts), 10) }},
	{Name: "redrives", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, int64(j.Redrives), 10) }},
	{Name: "lease_ms", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, j.LeaseMs, 10) }},
	{Name: "run_at", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, j.RunAt) }},
	{Name: "created_at", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, j.CreatedAt, 10) }},
	{Name: "updated_at", append: func(b []byte, j *job.Job, _ form) []byte { return strconv.AppendInt(b, j.UpdatedAt, 10) }},
	{Name: "tickled_at", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, j.TickledAt) }},
	{Name: "completed_at", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, j.CompletedAt) }},
	{Name: "deadline_at", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, j.DeadlineAt) }},
	{Name: "expires_at", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, j.ExpiresAt) }},
	{Name: "timeout_ms", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, j.TimeoutMs) }},
	{Name: "why", append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.Why.String()) }},
	{Name: "unique_key", append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.UniqueKey) }},
	{Name: "traceparent", append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.Traceparent) }},
	{Name: "meta", append: func(b []byte, j *job.Job, _ form) []byte { return appendMeta(b, j.Meta) }},
	{Name: "on_complete", append: func(b []byte, j *job.Job, _ form) []byte { return appendFollowOn(b, j.OnComplete) }},
	{Name: "hops", append: func(b []byte, j *job.Job, _ form) []byte { return appendNumber(b, int64(j.Hops)) }},
	{Name: "created_by", append: func(b []byte, j *job.Job, _ form) []byte { return appendTextOrNull(b, j.By) }},
})

func table(fields []Field) []Field {
	for i := range fields {
		fields[i].comma = `,"` + fields[i].Name + `":`
	}
	return fields
}

// Jobs of one claim often differ only in their id and in ownFields, which are the fields of the payload. Most payloads
// are texts that need no escapes: plainBefore and plainAfter are the text of ownFields before and after such payloads.
var (
	fieldsBefore, ownFields, fieldsAfter = splitFields("payload", "output_addr")
	plainBefore, plainAfter              = plainText()
)

func plainText() (before, after string) {
	const text = "text"
	before, after, _ = strings.Cut(string(AppendFields(nil, ownFields, &job.Job{Attributes: job.Attributes{Kind: job.Text}, Payload: []byte(text)}, InJSON)), text)
	return before, after
}

func appendOwn(b []byte, j *job.Job, f form) []byte {
	if j.Kind == job.Text && isPlain(j.Payload) {
		b = append(b, plainBefore...)
		b = append(b, j.Payload...)
		return append(b, plainAfter...)
	}
	return AppendFields(b, ownFields, j, f)
}

func splitFields(own, after string) (first, middle, last []Field) {
	at := func(name string) int {
		for i := range JobFields {
			if JobFields[i].Name == name {
				return i
			}
		}
		panic("no field " + name)
	}
	return JobFields[1:at(own)], JobFields[at(own):at(after)], JobFields[at(after):]
}

func AppendFields(b []byte, fields []Field, j *job.Job, f form) []byte {
	for i := range fields {
		b = append(b, fields[i].comma...)
		b = fields[i].append(b, j, f)
	}
	return b
}

// AppendJob appends the document of a job.
func AppendJob(b []byte, j *job.Job, f form) []byte { return appendSelected(b, JobFields[1:], j, f) }

// appendSelected appends a document with the id and the given fields.
func appendSelected(b []byte, fields []Field, j *job.Job, f form) []byte {
	b = append(b, `{"job_id":"`...)
	b = j.ID.AppendText(b)
	b = append(b, '"')
	b = AppendFields(b, fields, j, f)
	return append(b, '}')
}

// Jobs appends the documents of an answer. Jobs of one claim mostly differ only in id and payload. The encoder then
// copies the remaining fields from the previous document, which takes a fraction of the time.
type Jobs struct {
	last *job.Job
	// The positions in the answer of the fields before and after ownFields of the last document.
	first, firstEnd   int
	second, secondEnd int
}

func (e *Jobs) Append(b []byte, j *job.Job, f form) []byte {
	b = append(b, `{"job_id":"`...)
	b = j.ID.AppendText(b)
	if e.last != nil && alike(e.last, j) {
		b = append(b, b[e.first:e.firstEnd]...)
		b = appendOwn(b, j, f)
		return append(b, b[e.second:e.secondEnd]...)
	}
	e.last, e.first = j, len(b)
	b = append(b, '"')
	b = AppendFields(b, fieldsBefore, j, f)
	e.firstEnd = len(b)
	b = AppendFields(b, ownFields, j, f)
	e.second = len(b)
	b = AppendFields(b, fieldsAfter, j, f)
	b = append(b, '}')
	e.secondEnd = len(b)
	return b
}

// alike reports whether the documents of two jobs can differ only in id and payload.
func alike(a, b *job.Job) bool {
	return a.Batch == b.Batch && a.Attributes == b.Attributes && a.CreatedAt == b.CreatedAt && a.UpdatedAt == b.UpdatedAt && a.TickledAt == b.TickledAt &&
		a.CompletedAt == b.CompletedAt && a.DeadlineAt == b.DeadlineAt && a.Claim == b.Claim && a.Status == b.Status && a.Code == b.Code &&
		a.ExitCode == b.ExitCode && a.RunAttempts == b.RunAttempts && a.Redrives == b.Redrives && a.Progress == b.Progress && a.Why == b.Why &&
		a.UniqueKey == b.UniqueKey && a.Client == b.Client && a.Type == b.Type && a.Runner == b.Runner && a.Error == b.Error && a.Step == b.Step &&
		len(a.Attempts)+len(b.Attempts) == 0 && a.Result.Empty() && b.Result.Empty()
}

// AppendGone appends the document of a job that was purged before the answer was made. All fields that are no longer
// known are null. A status of 0 means unknown.
func AppendGone(b []byte, id job.ID, status job.Status) []byte {
	known := job.Job{ID: id, Status: status}
	b = append(b, '{')
	for i := range JobFields {
		if comma := JobFields[i].comma; i == 0 {
			b = append(b, comma[1:]...)
		} else {
			b = append(b, comma...)
		}
		switch name := JobFields[i].Name; {
		case name == "status" && status == 0:
			b = append(b, "null"...)
		case slices.Contains([]string{"job_id", "batch_id", "status", "attempts", "meta"}, name):
			b = JobFields[i].append(b, &known, InJSON)
		default:
			b = append(b, "null"...)
		}
	}
	return append(b, '}')
}

// Selection is the fields that the parameter fields of a request names. The zero value selects all fields. The id is
// always included.
type Selection struct {
	some   bool
	Fields []Field
	Sparse bool // fields that are null are left out
}

// SelectFields reads the parameter fields, which has names of the table in any order, each at most once.
func SelectFields(text string) (s Selection, err error) {
	const parameter = "fields"
	s.some = true
	chosen := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		if chosen[name] {
			return s, web.BadRequest(parameter, fmt.Sprintf("fields names %s twice", web.Shortened(name)))
		}
		if len(chosen) == len(JobFields) {
			return s, web.BadRequest(parameter, "fields has more names than a job document has fields")
		}
		chosen[name] = true
	}
	for i := range JobFields {
		if f := &JobFields[i]; chosen[f.Name] {
			if delete(chosen, f.Name); i > 0 {
				s.Fields = append(s.Fields, *f)
			}
		}
	}
	for name := range chosen {
		return s, web.BadRequest(parameter, fmt.Sprintf("fields names %q, which is not a field of a job document", web.Shortened(name)))
	}
	return s, nil
}

// UnmarshalText is SelectFields.
func (s *Selection) UnmarshalText(text []byte) (err error) {
	*s, err = SelectFields(string(text))
	return err
}

// Parts returns the parts of the store that the selected fields need.
func (s *Selection) Parts() (parts query.Parts) {
	if !s.some {
		return query.Everything
	}
	for i := range s.Fields {
		parts |= s.Fields[i].parts
	}
	return parts
}

// split returns the selected fields before, in and after ownFields, which are the fields that need payloads.
func (s *Selection) split() (before, own, after []Field) {
	if !s.some {
		return fieldsBefore, ownFields, fieldsAfter
	}
	from := 0
	for from < len(s.Fields) && s.Fields[from].parts != query.Payloads {
		from++
	}
	to := from
	for to < len(s.Fields) && s.Fields[to].parts == query.Payloads {
		to++
	}
	return s.Fields[:from], s.Fields[from:to], s.Fields[to:]
}

// append appends some of the selected fields.
func (s *Selection) append(b []byte, fields []Field, j *job.Job, f form) []byte {
	if !s.Sparse {
		return AppendFields(b, fields, j, f)
	}
	for i := range fields {
		begin := len(b)
		b = append(b, fields[i].comma...)
		value := len(b)
		if b = fields[i].append(b, j, f); string(b[value:]) == "null" {
			b = b[:begin]
		}
	}
	return b
}

// Write appends a JSON list of documents to an answer.
func (s *Selection) Write(p *web.Pieces, list []job.Job) error {
	p.B = append(p.B, '[')
	err := AppendJobPieces(p, list, ",", "", func(b []byte, before *Jobs, j *job.Job) []byte {
		if s.some {
			return appendSelected(b, s.Fields, j, InJSON)
		}
		return before.Append(b, j, InJSON)
	})
	p.B = append(p.B, ']')
	return err
}

// Bytes returns the largest possible memory for the jobs of a page of n documents.
func (s *Selection) Bytes(n int) int64 {
	if s.Parts() == 0 {
		return int64(n) * JobStateBytes
	}
	return MaxDocumentsBytes
}

// AppendJob appends one document.
func (s *Selection) AppendJob(b []byte, j *job.Job) []byte {
	if s.some {
		return appendSelected(b, s.Fields, j, InJSON)
	}
	return AppendJob(b, j, InJSON)
}

// appendName appends a text that needs no escapes.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

func appendBinaryAddr(b []byte, j *job.Job) []byte {
	binary, _ := addrsOf(j)
	return appendTextOrNull(b, binary)
}

func appendAddrKind(b []byte, kind job.Kind) []byte {
	if kind == job.Nothing {
		return append(b, "null"...)
	}
	return appendName(b, kind.String())
}

func appendInputAddr(b []byte, j *job.Job) []byte {
	_, input := addrsOf(j)
	return appendTextOrNull(b, input)
}

// addrsOf returns the addresses of a WASI payload, and empty texts for other payloads.
func addrsOf(j *job.Job) (binary, input string) {
	if j.Kind != job.WASI {
		return "", ""
	}
	binary, input, err := job.ParseWASI(j.Payload)
	if err != nil {
		return "", ""
	}
	return binary, input
}

func appendMeta(b []byte, meta job.Meta) []byte {
	b = append(b, '{')
	first := true
	for name, value := range meta.All() {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendName(b, name), ':')
		b = AppendText(b, value)
	}
	return append(b, '}')
}

func appendAttempts(b []byte, attempts []job.Attempt) []byte {
	b = append(b, '[')
	for i := range attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAttempt(b, &attempts[i])
	}
	return append(b, ']')
}

// AppendJobPieces appends the document of each job, and clears the jobs of the list that are written. It puts separator between
// two documents, and end after each.
func AppendJobPieces(p *web.Pieces, list []job.Job, separator, end string, one func(b []byte, before *Jobs, j *job.Job) []byte) error {
	for at := 0; at < len(list); {
		from, made := at, int64(0)
		var before Jobs
		err := p.Turns.Do(p.Ctx, func() error {
			for ; at < len(list) && len(p.B) < web.PieceBytes; at++ {
				if at > 0 {
					p.B = append(p.B, separator...)
				}
				made += StateBytes(&list[at])
				p.B = append(one(p.B, &before, &list[at]), end...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(p.B) < web.PieceBytes {
			return nil // that was all
		}
		if err := p.Write(); err != nil {
			return err
		}
		clear(list[from:at])
		p.Held.Shrink(min(made, p.Held.Held))
	}
	return nil
}

// appendSteps appends the steps of a job, or null.
func appendSteps(b []byte, steps []job.Step) []byte {
	if len(steps) == 0 {
		return append(b, "null"...)
	}
	type step struct {
		At   int64  `json:"at"`
		Step string `json:"step"`
	}
	list := make([]step, len(steps))
	for i, s := range steps {
		list[i] = step{s.At, s.Name}
	}
	text, err := json.Marshal(list, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("api: encode steps: %v", err)) // cannot happen: texts and numbers
	}
	return append(b, text...)
}

// followOnDocument is an on_complete in the document of its job.
type followOnDocument struct {
	Client      string            `json:"client,omitzero"`
	Type        string            `json:"type"`
	DelayMs     int64             `json:"delay_ms,omitzero"`
	Priority    int               `json:"priority"`
	MaxAttempts int               `json:"max_attempts"`
	Backoff     backoffDocument   `json:"backoff"`
	LeaseMs     int64             `json:"lease_ms"`
	RetentionMs int64             `json:"retention_ms"`
	TimeoutMs   int64             `json:"timeout_ms,omitzero"`
	Traceparent string            `json:"traceparent,omitzero"`
	Meta        map[string]string `json:"meta,omitempty"`
	OnComplete  jsontext.Value    `json:"on_complete,omitzero"`
}

type backoffDocument struct {
	InitialMs   int64 `json:"initial_ms"`
	FactorMilli int64 `json:"factor_milli"`
	MaxMs       int64 `json:"max_ms"`
}

func appendFollowOn(b []byte, text job.FollowOn) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	g, delayMs, err := text.Parse()
	if err != nil {
		panic(fmt.Sprintf("api: on_complete %q was not checked: %v", string(text), err))
	}
	doc := followOnDocument{
		Client: g.Client, Type: g.Type, DelayMs: delayMs, Priority: g.Priority, MaxAttempts: g.MaxAttempts, Backoff: backoffDocument(g.Backoff),
		LeaseMs: g.LeaseMs, RetentionMs: g.RetentionMs, TimeoutMs: g.TimeoutMs, Traceparent: g.Traceparent,
	}
	if g.Meta != "" {
		doc.Meta = maps.Collect(g.Meta.All())
	}
	if g.OnComplete != "" {
		doc.OnComplete = appendFollowOn(nil, g.OnComplete)
	}
	value, err := json.Marshal(&doc, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("api: encode on_complete: %v", err)) // texts in the journal are valid UTF-8
	}
	return append(b, value...)
}
