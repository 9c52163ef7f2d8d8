package handler

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// The kinds of handlers, and the languages of scripts.
const (
	Exec      = "exec"
	HTTP      = "http"
	Script    = "script"
	WASI      = "wasi"
	Container = "container"

	Node   = "node"
	Python = "python"
	PHP    = "php"
	Shell  = "sh"
)

// Kinds and Langs list all kinds and languages.
var (
	Kinds = []string{Exec, HTTP, Script, WASI, Container}
	Langs = []string{Node, Python, PHP, Shell}
)

// Document is a stored handler. Its Kind decides which fields it has.
type Document struct {
	Kind string `json:"kind" required:"true" enum:"exec,http,script,wasi,container"`

	// Fields of kind script. Source defines handle(payload, job). Before is source that runs once in each context.
	// BeforeEach and AfterEach are sources of functions that run before and after each batch. Handlers of one client with
	// the same EID share contexts.
	Lang       string `json:"lang,omitzero" enum:"node,python,php,sh"`
	Source     string `json:"source,omitzero"`
	Before     string `json:"before,omitzero" doc:"source that runs once in each context"`
	BeforeEach string `json:"before_each,omitzero" doc:"source of a function that runs before each batch"`
	AfterEach  string `json:"after_each,omitzero" doc:"source of a function that runs after each batch"`
	EID        string `json:"eid,omitzero" maxLength:"128" doc:"handlers of a client with the same eid share contexts"`

	// URL is for kind http. The runner posts payloads to it.
	URL string `json:"url,omitzero" maxLength:"2048" doc:"http or https, without a user, password or fragment"`

	// Program is for kind exec: the name of a handler in the runner's configuration.
	Program string `json:"program,omitzero" schema:"Name"`

	// Fields of kind wasi: the manifest of a guest. Binary is the address of a blob. CheckPermission describes the
	// permissions.
	Name                string   `json:"name,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9_.-]*$"`
	Namespace           string   `json:"namespace,omitzero" maxLength:"256" pattern:"^[A-Za-z0-9_.-]*$"`
	Version             string   `json:"version,omitzero" maxLength:"64"`
	Description         string   `json:"description,omitzero" maxLength:"4096"`
	Binary              string   `json:"binary,omitzero" schema:"Address"`
	RequiredExtensions  []string `json:"required_extensions,omitempty" maxItems:"100" minLength:"1" maxLength:"128" pattern:"^[A-Za-z0-9_.-]+$" doc:"extensions that a runner of the handler must have"`
	RequiredPermissions []string `json:"required_permissions,omitempty" maxItems:"100" minLength:"1" maxLength:"300" doc:"what the guest may do, and a runner must grant: proc:read:*, http:*, http:HOST, extension:* and extension:NAME"`

	// ChainTypes, for kinds exec, script and http, are the types of jobs that output lines `J: type|payload` may create,
	// or AnyType. Without ChainTypes, such lines create no jobs.
	ChainTypes []string `json:"chain_types,omitempty" maxItems:"100" pattern:"^(\\*|[A-Za-z0-9._:-]{1,128})$" doc:"of kind exec, script and http: the types of jobs that lines of output (J: type|payload) create; * stands for all types. Without it, such lines create no jobs"`

	Options *Options `json:"options,omitzero" nullable:"false"`
}

// AnyType in Document.ChainTypes allows all types.
const AnyType = "*"

// Options are settings of a handler. Zero selects the runner's default.
type Options struct {
	Batch       bool  `json:"batch,omitzero" doc:"of kind http: one request for all jobs of a claim"`
	BatchSize   int   `json:"batch_size,omitzero" minimum:"1" maximum:"1000" doc:"jobs in a batch, at most"`
	Concurrency int   `json:"concurrency,omitzero" minimum:"1" maximum:"1000" doc:"runs at a time in one runner"`
	Weight      int   `json:"weight,omitzero" minimum:"1" maximum:"1000" doc:"share of a runner beside other handlers"`
	Slots       int   `json:"slots,omitzero" minimum:"1" maximum:"1000" doc:"slots that a run takes"`
	TimeoutMs   int64 `json:"timeout_ms,omitzero" minimum:"10" maximum:"86400000" doc:"of a run"`
	IdleMs      int64 `json:"idle_ms,omitzero" minimum:"100" maximum:"86400000" doc:"of kind script: how long a context without jobs is kept"`
	MaxRuns     int   `json:"max_runs,omitzero" minimum:"1" maximum:"1000000000" doc:"of kind script: jobs in a context, at most"`
	MemoryBytes int64 `json:"memory_bytes,omitzero" minimum:"16777216" maximum:"1099511627776" doc:"of a process or container"`
	InlineBytes int64 `json:"inline_bytes,omitzero" minimum:"1" maximum:"4194304" doc:"of an output that is stored with its job, at most; a longer one is stored as a blob"`
	OutputBytes int64 `json:"output_bytes,omitzero" minimum:"1" maximum:"268435456" doc:"of an output, at most; of kinds exec, http and script"`
}

// The bounds of options.
const (
	MaxConcurrency = 1000
	MaxWeight      = 1000
	MaxSlots       = 1000
	MaxRuns        = 1_000_000_000
	MinIdleMs      = 100
	MinMemoryBytes = 16 << 20
	MaxMemoryBytes = 1 << 40
	MinTimeoutMs   = 10
	// MaxOutputBytes bounds an output, which the runner holds in memory.
	MaxOutputBytes = 256 << 20
	// The defaults of the bounds of outputs.
	DefaultInlineBytes = 256 << 10
	DefaultOutputBytes = 16 << 20
	// MaxURLBytes and MaxEIDBytes bound texts that runners use as keys.
	MaxURLBytes = 2 << 10
	MaxEIDBytes = 128
	// For kind wasi.
	MaxManifestNameBytes = 128
	MaxNamespaceBytes    = 256
	MaxVersionBytes      = 64
	MaxDescriptionBytes  = 4 << 10
	// MaxChainTypes bounds a list that is searched for each line.
	MaxChainTypes = 100
)

// FieldError names the field of a document that is invalid.
type FieldError struct {
	Field string // for example options.weight
	Text  string
}

func (e *FieldError) Error() string { return e.Text }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, field + " " + fmt.Sprintf(format, args...)}
}

// field is a text field and its value; for a list, the value of one element.
type field struct{ name, value string }

// of returns the field for a list.
func of(name string, list []string) field {
	if len(list) > 0 {
		return field{name, "[" + list[0] + "]"}
	}
	return field{name: name}
}

// Check returns a *FieldError for the first invalid field of a document, or nil.
func (d *Document) Check() error {
	var own, others []field
	script := []field{{"lang", d.Lang}, {"source", d.Source}, {"before", d.Before}, {"before_each", d.BeforeEach}, {"after_each", d.AfterEach}, {"eid", d.EID}}
	web, exec := []field{{"url", d.URL}}, []field{{"program", d.Program}}
	wasi := []field{{"binary", d.Binary}, {"name", d.Name}, {"namespace", d.Namespace}, {"version", d.Version}, {"description", d.Description},
		of("required_extensions", d.RequiredExtensions), of("required_permissions", d.RequiredPermissions)}
	switch d.Kind {
	case Script:
		own, others = script[:2], slices.Concat(web, exec, wasi)
	case HTTP:
		own, others = web, slices.Concat(script, exec, wasi)
	case Exec:
		own, others = exec, slices.Concat(script, web, wasi)
	case WASI:
		own, others = wasi[:1], slices.Concat(script, web, exec)
	case Container:
		others = slices.Concat(script, web, exec, wasi)
	case "":
		return wrong("kind", "is missing; it must be %s", oneOf(Kinds))
	default:
		return wrong("kind", "must be %s, not %q", oneOf(Kinds), d.Kind)
	}
	for _, f := range own {
		if f.value == "" {
			return wrong(f.name, "is missing, and a handler of kind %s requires it", d.Kind)
		}
	}
	for _, f := range others {
		if f.value != "" {
			return wrong(f.name, "must not be given for a handler of kind %s", d.Kind)
		}
	}
	if err := d.checkValues(); err != nil {
		return err
	}
	if err := d.checkChainTypes(); err != nil {
		return err
	}
	if d.Options != nil {
		return d.Options.check(d.Kind)
	}
	return nil
}

func (d *Document) checkChainTypes() error {
	const field = "chain_types"
	switch {
	case len(d.ChainTypes) > 0 && d.Kind != Exec && d.Kind != Script && d.Kind != HTTP:
		return wrong(field, "must not be given for a handler of kind %s", d.Kind)
	case len(d.ChainTypes) > MaxChainTypes:
		return wrong(field, "has %d elements; the maximum is %d", len(d.ChainTypes), MaxChainTypes)
	}
	for _, typ := range d.ChainTypes {
		if err := job.CheckName("type", typ); typ != AnyType && err != nil {
			return &FieldError{field, fmt.Sprintf("%s: %v; %q stands for all types", field, err, AnyType)}
		}
	}
	return nil
}

func (d *Document) checkValues() error {
	switch d.Kind {
	case Script:
		if !slices.Contains(Langs, d.Lang) {
			return wrong("lang", "must be %s, not %q", oneOf(Langs), d.Lang)
		}
		if len(d.EID) > MaxEIDBytes {
			return wrong("eid", "has %d bytes; the maximum is %d", len(d.EID), MaxEIDBytes)
		}
	case HTTP:
		if len(d.URL) > MaxURLBytes {
			return wrong("url", "has %d bytes; the maximum is %d", len(d.URL), MaxURLBytes)
		}
		u, err := url.Parse(d.URL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return wrong("url", "must be a URL with http or https and a host")
		case u.User != nil:
			return wrong("url", "must not have a user or password, which everybody who may read handlers would see")
		case u.Fragment != "":
			return wrong("url", "must not have a fragment")
		}
	case Exec:
		if err := job.CheckName("program", d.Program); err != nil {
			return &FieldError{"program", err.Error()}
		}
	case WASI:
		return d.checkManifest()
	}
	return nil
}

// check checks the options of a handler of the given kind.
func (o *Options) check(kind string) error {
	ofScript := func(name string) error {
		return wrong("options."+name, "is for handlers of kind script")
	}
	switch {
	case o.Batch && kind != HTTP:
		return wrong("options.batch", "is for handlers of kind http")
	case o.IdleMs != 0 && kind != Script:
		return ofScript("idle_ms")
	case o.MaxRuns != 0 && kind != Script:
		return ofScript("max_runs")
	case o.OutputBytes != 0 && (kind == WASI || kind == Container):
		return wrong("options.output_bytes", "is for handlers of kinds exec, http and script")
	case o.MemoryBytes != 0 && kind == HTTP:
		return wrong("options.memory_bytes", "is for handlers of kinds that run a process")
	}
	for _, n := range o.numbers() {
		if n.value != 0 && (n.value < n.lo || n.value > n.hi) {
			return n.wrong()
		}
	}
	return nil
}

// number is a numeric option and its bounds.
type number struct {
	name          string
	value, lo, hi int64
}

func (n *number) wrong() error {
	if n.name == "inline_bytes" && n.value > n.hi {
		return wrong("options."+n.name, "must be %d to %d, not %d; longer outputs are stored as blobs, up to options.output_bytes", n.lo, n.hi, n.value)
	}
	return wrong("options."+n.name, "must be %d to %d, not %d", n.lo, n.hi, n.value)
}

func (o *Options) numbers() []number {
	return []number{
		{"batch_size", int64(o.BatchSize), 1, job.MaxClaimJobs},
		{"concurrency", int64(o.Concurrency), 1, MaxConcurrency},
		{"weight", int64(o.Weight), 1, MaxWeight},
		{"slots", int64(o.Slots), 1, MaxSlots},
		{"timeout_ms", o.TimeoutMs, MinTimeoutMs, job.MaxTimeoutMs},
		{"idle_ms", o.IdleMs, MinIdleMs, job.MaxTimeoutMs},
		{"max_runs", int64(o.MaxRuns), 1, MaxRuns},
		{"memory_bytes", o.MemoryBytes, MinMemoryBytes, MaxMemoryBytes},
		{"inline_bytes", o.InlineBytes, 1, job.MaxOutputBytes},
		{"output_bytes", o.OutputBytes, 1, MaxOutputBytes},
	}
}

// Outputs returns two limits: the longest output that is stored with its job, and the longest output at all.
func (o *Options) Outputs() (inline, most int64) {
	inline = cmp.Or(o.InlineBytes, DefaultInlineBytes)
	return inline, max(inline, cmp.Or(o.OutputBytes, DefaultOutputBytes))
}

// CheckZero returns the *FieldError for an option that was given as 0, or nil if no numeric option has that name. Check
// cannot detect this case, because a zero in Options means that the option was not given.
func CheckZero(name string) error {
	for _, n := range (&Options{}).numbers() {
		if n.name == name {
			return n.wrong()
		}
	}
	return nil
}

func oneOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
