package command

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/document"
)

// Decoder turns requests into commands.
type Decoder struct {
	Defaults Defaults
	// Fenced makes it refuse tickles, completions and releases without a claim_id.
	Fenced bool
	// CheckClient refuses a name that no client can have.
	CheckClient func(client string) error
	// Now returns the journal's time in unix ms.
	Now func() int64
	// HandlerFor returns the stored handler of a type.
	HandlerFor func(client, typ string) (document.Named, bool)
}

// Defaults are the attributes that a job gets if its create request does not give them. A zero field means the default
// of package job.
type Defaults struct {
	MaxAttempts int
	LeaseMs     int64
	RetentionMs int64 // negative: a job is purged when it ends
	Backoff     job.Backoff
}

func (d Defaults) Filled() (Defaults, error) {
	if d.MaxAttempts == 0 {
		d.MaxAttempts = job.DefaultMaxAttempts
	}
	if d.LeaseMs == 0 {
		d.LeaseMs = job.DefaultLeaseMs
	}
	if d.RetentionMs == 0 {
		d.RetentionMs = job.DefaultRetentionMs
	}
	d.RetentionMs = max(d.RetentionMs, 0)
	if d.Backoff == (job.Backoff{}) {
		d.Backoff = job.Backoff{InitialMs: job.DefaultBackoffMs, FactorMilli: job.DefaultBackoffMilli, MaxMs: job.DefaultBackoffMaxMs}
	}
	g := job.Group{Attributes: job.Attributes{MaxAttempts: d.MaxAttempts, LeaseMs: d.LeaseMs, RetentionMs: d.RetentionMs, Backoff: d.Backoff}}
	return d, checkGroup(&g)
}

// Attributes are the fields of a create request except payload and unique key. Nil means the default.
type Attributes struct {
	Client      *string `json:"client" schema:"Name"`
	Type        *string `json:"type" schema:"Name"`
	RunAt       *int64  `json:"run_at" minimum:"0" maximum:"253402300799999" doc:"when the job becomes pending, in unix ms; not with delay_ms"`
	DelayMs     *int64  `json:"delay_ms" minimum:"0" maximum:"3162240000000" doc:"how long after the request the job becomes pending; not with run_at"`
	Priority    *int64  `json:"priority" minimum:"0" maximum:"9" doc:"jobs with a higher priority are claimed first"`
	MaxAttempts *int64  `json:"max_attempts" minimum:"1" maximum:"1000" doc:"how often the job runs at most"`
	Backoff     backoff `json:"backoff" nullable:"true"`
	LeaseMs     *int64  `json:"lease_ms" minimum:"1000" maximum:"86400000" doc:"how long a claim can hold the job without a tickle"`
	RetentionMs *int64  `json:"retention_ms" minimum:"0" maximum:"3162240000000" doc:"how long the server keeps the job after its end; 0: it is purged at once"`
	ExpiresAt   *int64  `json:"expires_at" minimum:"0" maximum:"253402300799999" doc:"if the job was not started by this time, it is cancelled; in unix ms, after run_at"`
	TimeoutMs   *int64  `json:"timeout_ms" schema:"Timeout" doc:"how long a run can last; 0: no limit"`
	Traceparent *string `json:"traceparent" schema:"Traceparent"`

	Meta       map[string]string `json:"meta" type:"Meta" nullable:"true"`
	OnComplete *Attributes       `json:"on_complete" schema:"FollowOn"`
}

type backoff struct {
	InitialMs   *int64 `json:"initial_ms" minimum:"0" maximum:"3162240000000"`
	FactorMilli *int64 `json:"factor_milli" minimum:"1000" maximum:"100000" doc:"factor by which the wait grows after each attempt, in thousandths"`
	MaxMs       *int64 `json:"max_ms" minimum:"0" maximum:"3162240000000"`
}

// TraceOf returns the traceparent header of a request, or nil if there is no valid one. Jobs that give no traceparent
// get it. If its version is unknown, TraceOf returns only the part that version 00 defines, as W3C Trace Context
// requires.
func TraceOf(c echo.Context) *string {
	values := c.Request().Header["Traceparent"]
	if len(values) != 1 {
		return nil
	}
	text := values[0]
	if version, rest, ok := strings.Cut(text, "-"); ok && laterVersion(version) {
		rest = rest[:min(len(rest), knownTraceBytes)]
		if len(text) > len(version)+1+len(rest) && text[len(version)+1+len(rest)] != '-' {
			return nil
		}
		text = "00-" + rest
	}
	if job.CheckTraceparent(text) != nil {
		return nil
	}
	return &text
}

// knownTraceBytes is the length of a trace id, a parent id and flags, with the dashes between them.
const knownTraceBytes = 32 + 1 + 16 + 1 + 2

// laterVersion reports whether a version of W3C Trace Context is later than 00. There is no version ff.
func laterVersion(version string) bool {
	n, err := strconv.ParseUint(version, 16, 8)
	return err == nil && len(version) == 2 && version == strings.ToLower(version) && n > 0 && n < 0xff
}

// Group returns a group with the attributes of jobs that are created now. It fills in every default, because the
// applier knows no configuration.
func (s *Decoder) Group(a *Attributes, now int64) (job.Group, error) {
	g := job.Group{
		Client: job.DefaultName, Type: job.DefaultName, Attributes: job.Attributes{Priority: job.DefaultPriority,
			MaxAttempts: s.Defaults.MaxAttempts, LeaseMs: s.Defaults.LeaseMs, RetentionMs: s.Defaults.RetentionMs, Backoff: s.Defaults.Backoff},
	}
	set(&g.Client, a.Client)
	set(&g.Type, a.Type)
	set(&g.RunAt, a.RunAt)
	set(&g.LeaseMs, a.LeaseMs)
	set(&g.RetentionMs, a.RetentionMs)
	set(&g.ExpiresAt, a.ExpiresAt)
	set(&g.TimeoutMs, a.TimeoutMs)
	set(&g.Backoff.InitialMs, a.Backoff.InitialMs)
	set(&g.Backoff.FactorMilli, a.Backoff.FactorMilli)
	set(&g.Backoff.MaxMs, a.Backoff.MaxMs)
	if a.Priority != nil {
		if err := job.CheckRange("priority", *a.Priority, 0, job.MaxPriority); err != nil {
			return g, web.BadField("priority", err)
		}
		g.Priority = int(*a.Priority)
	}
	if a.MaxAttempts != nil {
		if err := job.CheckRange("max_attempts", *a.MaxAttempts, 1, job.MaxAttempts); err != nil {
			return g, web.BadField("max_attempts", err)
		}
		g.MaxAttempts = int(*a.MaxAttempts)
	}
	if err := job.CheckName("client", g.Client); err != nil {
		return g, web.BadField("client", err)
	}
	if err := s.CheckClient(g.Client); err != nil {
		return g, err
	}
	if err := job.CheckName("type", g.Type); err != nil {
		return g, web.BadField("type", err)
	}
	if a.DelayMs != nil {
		if a.RunAt != nil {
			return g, web.BadRequest("delay_ms", "a job must not have both delay_ms and run_at")
		}
		if err := job.CheckRange("delay_ms", *a.DelayMs, 0, job.MaxDelayMs); err != nil {
			return g, web.BadField("delay_ms", err)
		}
		if *a.DelayMs > 0 {
			g.RunAt = now + *a.DelayMs
		}
	}
	if a.Traceparent != nil {
		if err := job.CheckTraceparent(*a.Traceparent); err != nil {
			return g, web.BadField("traceparent", err)
		}
		g.Traceparent = *a.Traceparent
	}
	var err error
	if g.Meta, err = job.NewMeta(a.Meta); err != nil {
		return g, web.BadField("meta", err)
	}
	if g.TimeoutMs != 0 {
		if err := job.CheckRange("timeout_ms", g.TimeoutMs, job.MinTimeoutMs, job.MaxTimeoutMs); err != nil {
			return g, web.BadField("timeout_ms", err)
		}
	}
	// A delay_ms is not compared with expires_at. The result would depend on the time of the request, so a repeat with
	// an idempotency key could be refused although the first request succeeded.
	if a.RunAt != nil && g.ExpiresAt != 0 && g.ExpiresAt <= g.RunAt {
		return g, web.BadRequest("expires_at", "expires_at must be after run_at")
	}
	if g.OnComplete, err = s.followOn(a.OnComplete); err != nil {
		return g, err
	}
	return g, checkGroup(&g)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkGroup checks the numbers of a group that group has not checked.
func checkGroup(g *job.Group) error {
	for _, f := range [...]struct {
		name      string
		n, lo, hi int64
	}{
		{"run_at", g.RunAt, 0, job.MaxTimeMs},
		{"expires_at", g.ExpiresAt, 0, job.MaxTimeMs},
		{"max_attempts", int64(g.MaxAttempts), 1, job.MaxAttempts},
		{"lease_ms", g.LeaseMs, job.MinLeaseMs, job.MaxLeaseMs},
		{"retention_ms", g.RetentionMs, 0, job.MaxDelayMs},
		{"backoff.initial_ms", g.Backoff.InitialMs, 0, job.MaxDelayMs},
		{"backoff.factor_milli", g.Backoff.FactorMilli, 1000, job.MaxFactorMilli},
		{"backoff.max_ms", g.Backoff.MaxMs, 0, job.MaxDelayMs},
	} {
		if f.n < f.lo || f.n > f.hi {
			return web.BadField(f.name, job.CheckRange(f.name, f.n, f.lo, f.hi))
		}
	}
	return nil
}

// attributesOf returns the attributes of a run of new jobs. Meta is missing: it is in its text form already.
func attributesOf(r *runs.NewRun) (a Attributes) {
	if r.Client != "" {
		a.Client = &r.Client
	}
	if r.Type != "" {
		a.Type = &r.Type
	}
	for i := range r.Numbers {
		*a.number(r.Numbers[i].Key) = &r.Numbers[i].Value
	}
	if r.Traceparent != "" {
		a.Traceparent = &r.Traceparent
	}
	return a
}

// MetaPrefix is the prefix of query parameters that are labels.
const MetaPrefix = "meta."

// LineQuery describes the query parameters of a bulk post of lines, without those that name the queue.
type LineQuery struct {
	RunAt         int64             `query:"run_at" minimum:"0" maximum:"253402300799999" doc:"when the jobs become pending, in unix ms"`
	DelayMs       int64             `query:"delay_ms" minimum:"0" maximum:"3162240000000" doc:"how long after the request the jobs become pending; not with run_at"`
	Priority      int64             `query:"priority" minimum:"0" maximum:"9" doc:"jobs with a higher priority are claimed first"`
	MaxAttempts   int64             `query:"max_attempts" minimum:"1" maximum:"1000" doc:"how often a job runs at most"`
	BackoffFirst  int64             `query:"backoff_initial_ms" minimum:"0" maximum:"3162240000000" doc:"like backoff.initial_ms of POST /jobs/create"`
	BackoffFactor int64             `query:"backoff_factor_milli" minimum:"1000" maximum:"100000" doc:"like backoff.factor_milli of POST /jobs/create"`
	BackoffMax    int64             `query:"backoff_max_ms" minimum:"0" maximum:"3162240000000" doc:"like backoff.max_ms of POST /jobs/create"`
	LeaseMs       int64             `query:"lease_ms" minimum:"1000" maximum:"86400000" doc:"like lease_ms of POST /jobs/create"`
	RetentionMs   int64             `query:"retention_ms" minimum:"0" maximum:"3162240000000" doc:"like retention_ms of POST /jobs/create"`
	ExpiresAt     int64             `query:"expires_at" minimum:"0" maximum:"253402300799999" doc:"like expires_at of POST /jobs/create"`
	TimeoutMs     int64             `query:"timeout_ms" schema:"Timeout" doc:"like timeout_ms of POST /jobs/create"`
	Traceparent   string            `query:"traceparent" schema:"Traceparent" doc:"like traceparent of POST /jobs/create"`
	OnComplete    string            `query:"on_complete" doc:"like on_complete of POST /jobs/create, as JSON; or only its type"`
	SkipLines     int64             `query:"skip_lines" minimum:"0" maximum:"1000" doc:"how many lines at the beginning of the body the server ignores, such as a header"`
	StripCR       bool              `query:"strip_cr" doc:"whether the server removes a carriage return at the end of each line"`
	Meta          map[string]string `query:"meta." maxLength:"256" maxProperties:"16" doc:"labels; each is a separate parameter meta.<name>=<value>, at most 16"`
}

// LineForm describes how the lines of a bulk post become payloads.
type LineForm struct {
	skip    int  // number of lines to ignore at the beginning, such as a header
	stripCR bool // a carriage return at the end of each line is removed
}

// maxSkipLines bounds skip_lines.
const maxSkipLines = 1000

// QueryAttributes reads the query of a bulk post of lines.
func QueryAttributes(query []web.Parameter) (a Attributes, form LineForm, err error) {
	for _, p := range query {
		key, value := p.Key, p.Value
		switch name, meta := strings.CutPrefix(key, MetaPrefix); {
		case meta:
			if a.Meta == nil {
				a.Meta = map[string]string{}
			}
			a.Meta[name] = value
		case key == "traceparent":
			a.Traceparent = &value
		case key == "on_complete":
			a.OnComplete, err = queryOnComplete(value)
		case key == "client":
			a.Client = &value
		case key == "jobtype":
			a.Type = &value
		case key == "skip_lines":
			var n *int64
			if n, err = web.WholeNumber(key, value); err == nil {
				form.skip, err = int(*n), web.BadField(key, job.CheckRange(key, *n, 0, maxSkipLines))
			}
		case key == "strip_cr":
			form.stripCR, err = web.QueryBool(p)
		default:
			*a.number(key), err = web.WholeNumber(key, value)
		}
		if err != nil {
			return a, form, err
		}
	}
	return a, form, nil
}

// queryOnComplete reads the parameter on_complete: a type, or a JSON object as in POST /jobs/create.
func queryOnComplete(value string) (*Attributes, error) {
	if !strings.HasPrefix(value, "{") {
		return &Attributes{Type: &value}, nil
	}
	var c Attributes
	return &c, web.Inside("on_complete", web.DecodeObject([]byte(value), &c))
}

// number returns the field for the query parameter key.
func (a *Attributes) number(key string) **int64 {
	switch key {
	case "run_at":
		return &a.RunAt
	case "delay_ms":
		return &a.DelayMs
	case "priority":
		return &a.Priority
	case "max_attempts":
		return &a.MaxAttempts
	case "backoff_initial_ms":
		return &a.Backoff.InitialMs
	case "backoff_factor_milli":
		return &a.Backoff.FactorMilli
	case "backoff_max_ms":
		return &a.Backoff.MaxMs
	case "lease_ms":
		return &a.LeaseMs
	case "retention_ms":
		return &a.RetentionMs
	case "expires_at":
		return &a.ExpiresAt
	case "timeout_ms":
		return &a.TimeoutMs
	}
	panic("no attribute is called " + key) // LineQuery has a name that this function does not have
}

// Apply removes the first lines and the carriage returns, as the form says. It changes text in place.
func (f LineForm) Apply(text []byte) []byte {
	for range f.skip {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return nil
		}
		text = text[end+1:]
	}
	if !f.stripCR {
		return text
	}
	kept := text[:0]
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		kept = append(kept, bytes.TrimSuffix(line, []byte{'\r'})...)
		if ended {
			kept = append(kept, '\n')
		}
		text = rest
	}
	return kept
}
