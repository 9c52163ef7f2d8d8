package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// Kind is the form of a payload or output.
type Kind string

// A payload is empty, a text, a JSON value exactly as it was sent, bytes, or the addresses of a WASI binary and its
// input. A job with a BinaryAddr has the kind WASI.
const (
	None  Kind = ""
	Text  Kind = "text"
	JSON  Kind = "json"
	Bytes Kind = "bytes"
	WASI  Kind = "wasi"
)

// Of returns the kind in which data is sent: k, or if k is None, Text for valid UTF-8 and otherwise Bytes, so that nothing
// is lost. Without data, None stays None.
func (k Kind) Of(data []byte) Kind {
	switch {
	case k != None || len(data) == 0:
		return k
	case utf8.Valid(data):
		return Text
	}
	return Bytes
}

// Attributes can be set for jobs by every form of create. The zero value of a field means the server's default. To add
// an attribute, add a field here and, if documents show it, one in Job, and convert it in inRun, setAttributes and
// setStored.
type Attributes struct {
	RunAt       int64             `json:"run_at,omitzero"` // unix ms; not together with DelayMs
	DelayMs     int64             `json:"delay_ms,omitzero"`
	Priority    *int              `json:"priority,omitzero"` // 0 to 9; the highest is claimed first
	MaxAttempts int               `json:"max_attempts,omitzero"`
	Backoff     *Backoff          `json:"backoff,omitzero"`
	LeaseMs     int64             `json:"lease_ms,omitzero"`
	RetentionMs *int64            `json:"retention_ms,omitzero"` // how long an ended job is kept; 0 means that it is purged when it ends
	ExpiresAt   int64             `json:"expires_at,omitzero"`   // unix ms; a job that has not started by then is cancelled; 0 means never
	TimeoutMs   int64             `json:"timeout_ms,omitzero"`   // how long a run may last, with or without tickles; 0 means no limit
	Traceparent string            `json:"traceparent,omitzero"`  // W3C Trace Context, version 00
	Meta        map[string]string `json:"meta,omitempty"`
	OnComplete  *FollowOn         `json:"on_complete,omitzero"` // the job that is created when the job completes
}

// FollowOn is a job that is created when its predecessor completes, in the same record as the outcome. Its payload is
// the output of the predecessor, or the predecessor's OutputAddr as a text. It inherits client, traceparent and meta if
// they are empty. DelayMs counts from the completion. RunAt and ExpiresAt must be 0. Its OnComplete continues the
// chain.
type FollowOn struct {
	Client string `json:"client,omitzero"`
	Type   string `json:"type"`
	Attributes
}

// Backoff is how long a job waits after a retry or error. The first wait is InitialMs. Each later wait is
// FactorMilli/1000 times as long as the previous one, up to MaxMs.
type Backoff struct {
	InitialMs   *int64 `json:"initial_ms,omitzero"`
	FactorMilli *int64 `json:"factor_milli,omitzero"`
	MaxMs       *int64 `json:"max_ms,omitzero"`
}

// inRun returns the attributes as a run of new jobs has them. It reports false if the server would refuse them.
func (a *Attributes) inRun() (r runs.NewAttributes, ok bool) {
	r.Traceparent = a.Traceparent
	if a.Meta != nil {
		meta, err := job.NewMeta(a.Meta)
		if err != nil {
			return r, false
		}
		r.Meta = meta
	}
	ok = true
	add := func(key string, value int64, given bool) {
		if given {
			r.Numbers = append(r.Numbers, runs.Number{Key: key, Value: value})
		}
		ok = ok && value >= 0
	}
	optional := func(key string, value *int64) {
		if value != nil {
			add(key, *value, true)
		}
	}
	add("run_at", a.RunAt, a.RunAt != 0)
	add("delay_ms", a.DelayMs, a.DelayMs != 0)
	if a.Priority != nil {
		add("priority", int64(*a.Priority), true)
	}
	add("max_attempts", int64(a.MaxAttempts), a.MaxAttempts != 0)
	if b := a.Backoff; b != nil {
		optional("backoff_initial_ms", b.InitialMs)
		optional("backoff_factor_milli", b.FactorMilli)
		optional("backoff_max_ms", b.MaxMs)
	}
	add("lease_ms", a.LeaseMs, a.LeaseMs != 0)
	optional("retention_ms", a.RetentionMs)
	add("expires_at", a.ExpiresAt, a.ExpiresAt != 0)
	add("timeout_ms", a.TimeoutMs, a.TimeoutMs != 0)
	return r, ok
}

// setAttributes sets what the document of a new job shows of the attributes that were given. The job has the defaults.
func (j *Job) setAttributes(a *Attributes) {
	j.ExpiresAt, j.TimeoutMs, j.Traceparent = a.ExpiresAt, a.TimeoutMs, a.Traceparent
	if a.Priority != nil {
		j.Priority = *a.Priority
	}
	j.MaxAttempts, j.LeaseMs = cmp.Or(a.MaxAttempts, j.MaxAttempts), cmp.Or(a.LeaseMs, j.LeaseMs)
	if len(a.Meta) > 0 {
		j.Meta = maps.Clone(a.Meta)
	}
}

// setStored sets the attributes of a job that was claimed in runs.
func (j *Job) setStored(a *job.Attributes) {
	j.Priority, j.MaxAttempts, j.LeaseMs = a.Priority, a.MaxAttempts, a.LeaseMs
	j.RunAt, j.ExpiresAt, j.TimeoutMs, j.Traceparent, j.CreatedBy = a.RunAt, a.ExpiresAt, a.TimeoutMs, a.Traceparent, a.By
	for name, value := range a.Meta.All() {
		if j.Meta == nil {
			j.Meta = map[string]string{}
		}
		j.Meta[name] = value
	}
}

// setQuery adds the attributes to the query of a bulk post. The parameters have the names of the JSON fields, except
// that backoff.initial_ms becomes backoff_initial_ms, and an entry of meta becomes meta.<name>. on_complete is JSON.
func (a *Attributes) setQuery(q url.Values) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for name, value := range fields {
		if name == "on_complete" {
			q.Set(name, string(value))
			continue
		}
		if value.Kind() != '{' {
			if err := setText(q, name, value); err != nil {
				return err
			}
			continue
		}
		separator := "_"
		if name == "meta" {
			separator = "."
		}
		var parts map[string]jsontext.Value
		if err := json.Unmarshal(value, &parts); err != nil {
			return err
		}
		for part, value := range parts {
			if err := setText(q, name+separator+part, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// setText adds a JSON number, or the text of a JSON string, to a query.
func setText(q url.Values, name string, value jsontext.Value) error {
	text := []byte(value)
	if value.Kind() == '"' {
		var err error
		if text, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	q.Set(name, string(text))
	return nil
}

// Job is the document of a job. It is one flat struct, so that users find its fields by the names that
// docs/reference/api.md lists. Times are unix milliseconds. 0, "" and nil mean null, or empty.
type Job struct {
	ID       string `json:"job_id"`
	BatchID  string `json:"batch_id"`
	Client   string `json:"client"`
	Type     string `json:"type"`
	Status   string `json:"status"` // deferred, pending, active, completed, failed or cancelled
	Priority int    `json:"priority"`

	Payload    []byte `json:"-"` // see Kind: the bytes of a text, the text of a JSON value, or bytes
	Kind       Kind   `json:"-"`
	BinaryAddr string `json:"binary_addr"`
	InputAddr  string `json:"input_addr"`

	Output     []byte `json:"-"`
	OutputKind Kind   `json:"-"`
	OutputAddr string `json:"output_addr"`
	// OutputAddrKind is the kind of the blob at OutputAddr; None if the runner has not given it.
	OutputAddrKind Kind   `json:"output_addr_kind"`
	LogAddr        string `json:"log_addr"` // of the text that the last run printed
	Code           string `json:"code"`     // ok, failed, retry or error
	ExitCode       int    `json:"exit_code"`
	ProcessExit    *int64 `json:"process_exit"`
	Error          string `json:"error"`

	Attempts    []Attempt `json:"attempts"` // the newest 20 runs that did not succeed, oldest first
	RunAttempts int       `json:"run_attempts"`
	MaxAttempts int       `json:"max_attempts"`

	Step     string   `json:"step"`
	Steps    []Step   `json:"steps"`    // that runners reported in all runs, oldest first, the newest 50; a claimed job has none
	Progress *float64 `json:"progress"` // 0 to 1

	RunnerID string `json:"runner_id"`
	ClaimID  string `json:"claim_id"`
	LeaseMs  int64  `json:"lease_ms"`

	RunAt       int64 `json:"run_at"`
	CreatedAt   int64 `json:"created_at"`
	UpdatedAt   int64 `json:"updated_at"` // when it was created, or last moved to another status, or patched
	TickledAt   int64 `json:"tickled_at"` // of an active job: when it was claimed or last tickled
	CompletedAt int64 `json:"completed_at"`
	DeadlineAt  int64 `json:"deadline_at"` // when an active job is abandoned unless it is tickled
	ExpiresAt   int64 `json:"expires_at"`  // when the job is cancelled unless it has started

	TimeoutMs   int64             `json:"timeout_ms"`
	Why         string            `json:"why"`      // reported (by its runner), abandoned, runner_lost, cancelled or expired, once the job has ended
	Redrives    int               `json:"redrives"` // how often the job was redriven
	UniqueKey   string            `json:"unique_key"`
	Traceparent string            `json:"traceparent"`
	Meta        map[string]string `json:"meta"`
	// OnComplete is the job that follows, and Hops counts the jobs before this one in its chain. A job that a Worker or
	// Claim gets in runs has neither.
	OnComplete *FollowOn `json:"on_complete"`
	Hops       int       `json:"hops"`
	// CreatedBy is the key that created the job; "": unknown.
	CreatedBy string `json:"created_by"`
	// Handler is the newest version of the handler of a job that a Worker has claimed; nil if there is none.
	Handler *ClaimHandler `json:"-"`
	// Existing is set if a create returned the unfinished job that has the same unique key.
	Existing bool `json:"existing"`

	// Undecodable is why Options.Codec could not decode the payload, the output or an error. A content that could not be
	// decoded is missing in the fields, and an error is as the server sent it.
	Undecodable error `json:"-"`

	// Text is the whole document as the server sent it, or as Options.Codec decoded it, in calls that return one job; nil
	// after creates that shared a request.
	Text []byte `json:"-"`
}

// Step is a part of a run that its runner has begun.
type Step struct {
	At   int64  `json:"at"`
	Name string `json:"step"`
}

// Attempt is a run that did not succeed. Why is reported (by the runner), abandoned, runner_lost (its runner vanished
// after the run had begun) or cancelled.
type Attempt struct {
	At       int64  `json:"at"`
	RunnerID string `json:"runner_id"`
	Code     string `json:"code"`
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error"`
	Why      string `json:"why"`
	// The fields below are not in the answer to a claim.
	ClaimID     string `json:"claim_id"`   // "": no claim had the job
	StartedAt   int64  `json:"started_at"` // when the claim got the job; 0: no claim had it
	ProcessExit *int64 `json:"process_exit"`
	LogAddr     string `json:"log_addr"` // of the text that the run printed
}

// Decode reads a payload of kind JSON into v.
func (j *Job) Decode(v any) error {
	if j.Kind != JSON {
		return fmt.Errorf("decode the payload of job %s: its kind is %q, not JSON", j.ID, j.Kind)
	}
	return json.Unmarshal(j.Payload, v)
}

// jobDocument is a Job as it is on the wire.
type jobDocument struct {
	Job
	Payload    jsontext.Value `json:"payload"`
	PayloadB64 []byte         `json:"payload_b64"`
	Output     jsontext.Value `json:"output"`
	OutputB64  []byte         `json:"output_b64"`
}

func (d *jobDocument) job() (*Job, error) {
	j := d.Job
	var err error
	if j.Payload, j.Kind, err = content(d.Payload, d.PayloadB64); err != nil {
		return nil, err
	}
	if j.BinaryAddr != "" {
		j.Kind = WASI
	}
	if j.Output, j.OutputKind, err = content(d.Output, d.OutputB64); err != nil {
		return nil, err
	}
	if len(j.Meta) == 0 {
		j.Meta = nil
	}
	if len(j.Attempts) == 0 {
		j.Attempts = nil
	}
	return &j, nil
}

func content(value jsontext.Value, b64 []byte) ([]byte, Kind, error) {
	switch {
	case b64 != nil:
		return b64, Bytes, nil
	case len(value) == 0 || value.Kind() == 'n':
		return nil, None, nil
	case value.Kind() == '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return nil, None, err
		}
		return text, Text, nil
	}
	return bytes.Clone(value), JSON, nil
}

func decodeJob(a transport.Answer) (*Job, error) {
	var d jobDocument
	if err := transport.Decode(a, &d); err != nil {
		return nil, err
	}
	j, err := d.job()
	if err == nil && j.ID == "" {
		err = errNoID
	}
	if err != nil {
		return nil, a.Unreadable(err)
	}
	j.Text = a.Body
	return j, nil
}

// Job returns the document of a job, or ErrNotFound if there is no such job, or it is purged. The document includes the
// effects of all requests that were answered before the call. Job is repeated when the answer is lost. If the payload, the
// output or an error cannot be decoded, Job returns the job and ErrUndecodable.
//
// fields names the fields that the document has, by their JSON names, as in JobsQuery.Fields; without fields it has all.
func (c *Client) Job(ctx context.Context, id string, fields ...string) (*Job, error) {
	r := about(http.MethodGet, "/jobs/", id, "")
	if len(fields) > 0 {
		r.Query = url.Values{"fields": {strings.Join(fields, ",")}}
	}
	j, err := c.askJob(ctx, r)
	if err == nil {
		err = j.Undecodable
	}
	return j, err
}

// JobPlace is the position of a job in its batch. Line counts over all requests that filled the batch, from 0 on, as in
// the results of the batch. BatchID is "" if the job belongs to no batch.
type JobPlace struct {
	JobID   string `json:"job_id"`
	BatchID string `json:"batch_id"`
	Line    int64  `json:"line"`
}

// JobPlace returns the position of a job in its batch. The error is ErrNotFound if there is no such job. JobPlace is
// repeated when the answer is lost.
func (c *Client) JobPlace(ctx context.Context, id string) (JobPlace, error) {
	r := about(http.MethodGet, "/jobs/", id, "")
	r.Query = url.Values{"view": {"place"}}
	return transport.Ask[JobPlace](ctx, &c.conn, r)
}
