package job

import (
	"bytes"
	"fmt"
)

// Command is a request to change state in the form in which it is journaled. Its text has two parts: the fields, one
// line of the record's header, and a body, which may hold anything. Whatever a decision depends on is in the command or
// in stored state. Times are unix milliseconds, durations milliseconds.
type Command interface {
	// Verb names the command in the journal.
	Verb() string
	// Encode returns the text form. The parts may share memory with the command.
	Encode() (fields, body []byte)
}

// Level is the version of what Apply decides. It changes only through a SetLevel command in the journal, so that a
// record leads to the same state whichever binary applies it.
const Level = 3

// Decode is the inverse of Encode. It is strict: unknown verbs and fields, values out of bounds and bodies that do not
// fit their fields are errors. The command may share memory with fields and body.
func Decode(verb string, fields, body []byte) (Command, error) {
	r := fieldReader{rest: string(fields)}
	var cmd Command
	var err error
	switch verb {
	case "create":
		cmd, err = decodeCreate(&r, body)
		body = nil
	case "claim":
		cmd = decodeClaim(&r)
	case "tickle":
		cmd, err = decodeTickle(&r, body)
		body = nil
	case "complete":
		cmd, err = decodeComplete(&r, body)
		body = nil
	case "pause", "resume":
		cmd = decodePause(&r, verb == "pause")
	case "deletequeue":
		cmd = decodeDeleteQueue(&r)
	case "deleteidle":
		cmd = decodeDeleteIdleQueues(&r)
	case "cancel":
		cmd = decodeMove(&r, Cancel)
	case "redrive":
		cmd = decodeMove(&r, Redrive)
	case "run":
		cmd = decodeMove(&r, Run)
	case "delete":
		cmd = decodeMove(&r, Delete)
	case "patch":
		cmd = decodePatch(&r)
	case "stop", "start":
		cmd = decodeBare(&r, Switch{Stopped: verb == "stop"})
	case "opensession":
		cmd = decodeOpenSession(&r)
	case "endsession":
		cmd = decodeEndSession(&r)
	case "tick":
		cmd = decodeTick(&r)
	case "grace":
		cmd = decodeBare(&r, Grace{})
	case "mark":
		cmd = decodeBare(&r, Mark{})
	case "level":
		cmd = decodeLevel(&r)
	default:
		return nil, fmt.Errorf("decode command: unknown verb %q", verb)
	}
	if r.err != nil { // it may be why something is missing
		err = r.err
	}
	if err == nil && len(body) > 0 {
		err = fmt.Errorf("unexpected body of %d bytes", len(body))
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", verb, err)
	}
	return cmd, nil
}

// Claim hands out waiting jobs to a runner under a new claim.
type Claim struct {
	Runner string
	Max    int // 1 … MaxClaimJobs
	// Clients and Types restrict the queues; an empty list allows all.
	Clients, Types []string
	LeaseMs        int64 // 0: the lease the jobs were created with
	MaxBytes       int64 // of payload; at least one job is handed out however long
	Strategy       Strategy
	Once           Once
}

func (Claim) Verb() string { return "claim" }

func (c Claim) Encode() (fieldText, body []byte) {
	var f fields
	f.text("runner", c.Runner)
	f.int("max", int64(c.Max))
	f.texts("clients", c.Clients)
	f.texts("types", c.Types)
	f.int("lease_ms", c.LeaseMs)
	f.int("max_bytes", c.MaxBytes)
	if c.Strategy != Oldest {
		f.text("strategy", c.Strategy.String())
	}
	f.once(&c.Once)
	return f, nil
}

func decodeClaim(r *fieldReader) Command {
	var c Claim
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "runner":
			c.Runner = r.bounded(key, raw, MaxRunnerBytes)
		case "max":
			c.Max = int(r.int(key, raw, 1, MaxClaimJobs))
		case "clients":
			c.Clients = r.names(key, raw)
		case "types":
			c.Types = r.names(key, raw)
		case "lease_ms":
			c.LeaseMs = r.int(key, raw, MinLeaseMs, MaxLeaseMs)
		case "max_bytes":
			c.MaxBytes = r.int(key, raw, 1, MaxClaimBytes)
		case "strategy":
			var err error
			if c.Strategy, err = ParseStrategy(raw); err != nil {
				r.fail(err)
			}
		default:
			if !r.once(&c.Once, key, raw) {
				r.unknown(key)
			}
		}
	}
	r.whole(&c.Once, false)
	if c.Runner == "" || c.Max == 0 || c.MaxBytes == 0 {
		r.fail(fmt.Errorf("runner, max or max_bytes is missing"))
	}
	return c
}

// Tickle reports that a runner is alive. It names jobs, a claim, or everything that a runner holds; a claim or
// runner named beside jobs must be the one that holds them.
type Tickle struct {
	IDs     []ID
	Claim   ID
	Runner  string
	LeaseMs int64 // 0: the lease they have
	// Step and Progress go with the jobs named. Progress is in millionths, negative if not reported.
	Step     string
	Progress int64
}

// ProgressUnit is the Progress of a job that is done.
const ProgressUnit = 1_000_000

func (Tickle) Verb() string { return "tickle" }

func (t Tickle) Encode() (fieldText, body []byte) {
	var f fields
	f.id("claim", t.Claim)
	f.text("runner", t.Runner)
	f.int("lease_ms", t.LeaseMs)
	f.text("step", t.Step)
	if t.Progress >= 0 {
		f.key("progress")
		f = fmt.Appendf(f, "%d", t.Progress)
	}
	for _, id := range t.IDs {
		body = append(id.AppendText(body), '\n')
	}
	return f, body
}

func decodeTickle(r *fieldReader, body []byte) (Command, error) {
	t := Tickle{Progress: -1}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "claim":
			t.Claim = r.id(raw)
		case "runner":
			t.Runner = r.bounded(key, raw, MaxRunnerBytes)
		case "lease_ms":
			t.LeaseMs = r.int(key, raw, MinLeaseMs, MaxLeaseMs)
		case "step":
			t.Step = r.bounded(key, raw, MaxStepBytes)
		case "progress":
			t.Progress = r.int(key, raw, 0, ProgressUnit)
		default:
			r.unknown(key)
		}
	}
	for len(body) > 0 {
		line, rest, ok := bytes.Cut(body, []byte("\n"))
		id, err := ParseID(line)
		if err != nil || !ok {
			return nil, fmt.Errorf("line %q: %w", line, ErrBadID)
		}
		t.IDs = append(t.IDs, id)
		body = rest
	}
	if len(t.IDs) > MaxTickleIDs {
		return nil, fmt.Errorf("%d jobs are named", len(t.IDs))
	}
	if len(t.IDs) == 0 && t.Claim.IsZero() && t.Runner == "" {
		return nil, fmt.Errorf("neither jobs nor claim nor runner are named")
	}
	if len(t.IDs) == 0 && (t.Step != "" || t.Progress >= 0) {
		return nil, fmt.Errorf("step and progress want jobs")
	}
	return t, nil
}

// Complete ends runs. All, where given, is for every job that Claim still holds and that Outcomes does not name.
type Complete struct {
	Claim    ID
	Runner   string
	All      *Outcome
	Outcomes []Outcome
	Once     Once
}

func (Complete) Verb() string { return "complete" }

func (c Complete) Encode() (fieldText, body []byte) {
	var f fields
	f.id("claim", c.Claim)
	f.text("runner", c.Runner)
	f.once(&c.Once)
	if c.All != nil {
		f.text("all", "true")
		body = appendOutcome(body, c.All)
	}
	for i := range c.Outcomes {
		body = appendOutcome(body, &c.Outcomes[i])
	}
	return f, body
}

// appendOutcome appends one line of fields. An inline output follows it, `output_bytes` long, with a newline of its
// own:
//
//	id=… code=ok exit_code=200 output_kind=text output_bytes=5
//	hello
func appendOutcome(body []byte, o *Outcome) []byte {
	var f fields
	f.id("id", o.ID)
	f.text("code", o.Code.String())
	f.int("exit_code", int64(o.ExitCode))
	if o.DelayMs >= 0 {
		f.key("delay_ms")
		f = fmt.Appendf(f, "%d", o.DelayMs)
	}
	f.text("error", o.Error)
	if o.ProcessExit != nil {
		f.key("process_exit")
		f = fmt.Appendf(f, "%d", *o.ProcessExit)
	}
	f.text("output_addr", o.OutputAddr)
	if o.OutputKind != Nothing {
		f.text("output_kind", o.OutputKind.String())
		f.int("output_bytes", int64(len(o.Output)))
	}
	body = append(append(body, f...), '\n')
	if o.OutputKind != Nothing {
		body = append(append(body, o.Output...), '\n')
	}
	return body
}

func decodeComplete(r *fieldReader, body []byte) (Command, error) {
	var c Complete
	all := false
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch {
		case key == "claim":
			c.Claim = r.id(raw)
		case key == "runner":
			c.Runner = r.bounded(key, raw, MaxRunnerBytes)
		case key == "all" && raw == "true":
			all = true
		default:
			if !r.once(&c.Once, key, raw) {
				r.unknown(key)
			}
		}
	}
	r.whole(&c.Once, true)
	for len(body) > 0 {
		o, rest, err := decodeOutcome(body)
		if err != nil {
			return nil, err
		}
		if o.ID.IsZero() != (all && c.All == nil) {
			return nil, fmt.Errorf("outcome %d: the job is missing, or there are two outcomes for all", len(c.Outcomes))
		}
		if o.ID.IsZero() {
			c.All = &o
		} else {
			c.Outcomes = append(c.Outcomes, o)
		}
		body = rest
	}
	if len(c.Outcomes) > MaxOutcomes {
		return nil, fmt.Errorf("%d outcomes", len(c.Outcomes))
	}
	if all && c.Claim.IsZero() {
		return nil, fmt.Errorf("an outcome for all wants a claim")
	}
	if c.All != nil && len(c.All.Output)+len(c.All.Error) > MaxForAllBytes {
		return nil, fmt.Errorf("output and error of an outcome for all have more than %d bytes", MaxForAllBytes)
	}
	if c.All == nil && (all || len(c.Outcomes) == 0) {
		return nil, fmt.Errorf("no outcome")
	}
	return c, nil
}

func decodeOutcome(body []byte) (o Outcome, rest []byte, err error) {
	line, rest, ok := bytes.Cut(body, []byte("\n"))
	if !ok {
		return o, nil, fmt.Errorf("outcome does not end in a newline")
	}
	r := fieldReader{rest: string(line)}
	o.DelayMs = -1
	length := 0
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "id":
			o.ID = r.id(raw)
		case "code":
			if o.Code, err = ParseCode(raw); err != nil {
				r.fail(err)
			}
		case "exit_code":
			o.ExitCode = int(r.int(key, raw, 100, 599))
		case "delay_ms":
			o.DelayMs = r.int(key, raw, 0, MaxDelayMs)
		case "error":
			o.Error = r.bounded(key, raw, MaxErrorBytes)
		case "process_exit":
			n := r.int(key, raw, -1<<31, 1<<32-1)
			o.ProcessExit = &n
		case "output_addr":
			o.OutputAddr = r.bounded(key, raw, MaxAddrBytes)
		case "output_kind":
			if o.OutputKind, err = parseName[Kind](key, raw, kindNames[:]); err != nil {
				r.fail(err)
			}
		case "output_bytes":
			length = int(r.int(key, raw, 1, MaxOutputBytes))
		default:
			r.unknown(key)
		}
	}
	if r.err != nil {
		return o, nil, fmt.Errorf("outcome %q: %w", line, r.err)
	}
	if o.Code == NoCode || o.ExitCode != 0 && o.Code.DefaultExitCode() == 0 || o.Code.DefaultExitCode() != 0 && ExitCodeClass(o.ExitCode) != o.Code {
		return o, nil, fmt.Errorf("outcome %q: code and exit_code do not fit", line)
	}
	if o.OutputKind == Nothing {
		if length > 0 {
			return o, nil, fmt.Errorf("outcome %q: output without its kind", line)
		}
		return o, rest, nil
	}
	if length >= len(rest) || rest[length] != '\n' {
		return o, nil, fmt.Errorf("outcome %q: output is cut off", line)
	}
	o.Output = rest[:length:length]
	return o, rest[length+1:], nil
}

// Pause stops (or resumes) handing out the jobs of a queue. Active jobs are not affected.
type Pause struct {
	Client, Type string
	Paused       bool
}

func (p Pause) Verb() string {
	if p.Paused {
		return "pause"
	}
	return "resume"
}

func (p Pause) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", p.Client)
	f.text("type", p.Type)
	return f, nil
}

func decodePause(r *fieldReader, paused bool) Command {
	p := Pause{Paused: paused}
	p.Client, p.Type = r.queue()
	return p
}

// Tick lets what is due at its time happen: deferred jobs become pending, claims without a tickle are abandoned, jobs
// past their retention are purged. One tick does a bounded share; another follows while something is left.
type Tick struct {
	// AsOf, where given, is the time up to which things are due, when that is before the command's own: a process that
	// is stopped between making a tick and writing it must not let leases run out in which nobody could tickle.
	AsOf int64
	// Rows bounds what the tick does, by about how many rows it writes; 0 is the store's own bound. Who proposes it
	// knows how fast the disk is and whether others wait.
	Rows int
}

// MaxTickRows bounds Tick.Rows: about ten milliseconds' work.
const MaxTickRows = 8000

// Grace gives every lease its full length again, because time passed in which nobody could tickle.
type Grace struct{}

// Mark changes nothing. The journal writes it when idle: its record proves that all before it was durable.
type Mark struct{}

// SetLevel raises the level of what Apply decides.
type SetLevel struct{ Level int }

func (Tick) Verb() string     { return "tick" }
func (Grace) Verb() string    { return "grace" }
func (Mark) Verb() string     { return "mark" }
func (SetLevel) Verb() string { return "level" }

func (t Tick) Encode() (fieldText, body []byte) {
	var f fields
	f.int("as_of", t.AsOf)
	f.int("rows", int64(t.Rows))
	return f, nil
}
func (Grace) Encode() (fieldText, body []byte) { return nil, nil }
func (Mark) Encode() (fieldText, body []byte)  { return nil, nil }
func (l SetLevel) Encode() (fieldText, body []byte) {
	var f fields
	f.int("level", int64(l.Level))
	return f, nil
}

func decodeBare(r *fieldReader, cmd Command) Command {
	if key, _, ok := r.next(); ok {
		r.unknown(key)
	}
	return cmd
}

func decodeTick(r *fieldReader) Command {
	var t Tick
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "as_of":
			t.AsOf = r.int(key, raw, 1, MaxTimeMs)
		case "rows":
			t.Rows = int(r.int(key, raw, 1, MaxTickRows))
		default:
			r.unknown(key)
		}
	}
	return t
}

func decodeLevel(r *fieldReader) Command {
	var l SetLevel
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key != "level" {
			r.unknown(key)
			continue
		}
		l.Level = int(r.int(key, raw, 1, 1<<31-1))
	}
	if l.Level == 0 {
		r.fail(fmt.Errorf("level is missing"))
	}
	return l
}
