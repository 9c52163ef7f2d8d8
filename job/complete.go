package job

import (
	"bytes"
	"fmt"
)

// Complete ends runs. Outcomes ends the jobs that it names. All, if given, ends every other job that Claim still holds.
//
// With Unclaimed, an outcome may also be for a job that waits for a run. Its run then ends as if the command had claimed
// the job before: it counts as an attempt, and the command becomes its claim, of a runner without a name. An active job
// ends whatever claim holds it, as it does without Unclaimed. If a job waits again after its outcome, the same command
// has no second outcome for it. An unclaimed command names neither a claim nor a runner, its codes are ok, failed, retry
// and error, and it creates no jobs. The Opsqueue protocol requires Unclaimed. HTTP does not offer it.
type Complete struct {
	Claim     ID
	Runner    string
	Unclaimed bool
	All       *Outcome
	Outcomes  []Outcome
	Once      Once
}

func (Complete) Verb() string { return "complete" }

func (c Complete) Encode() (fieldText, body []byte) {
	f := make(fields, 0, usualFields)
	f.id("claim", c.Claim)
	f.text("runner", c.Runner)
	if c.Unclaimed {
		f.text("unclaimed", "true")
	}
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

// appendOutcome appends one line of fields. If there is an inline output, it follows with `output_bytes` bytes and a
// newline:
//
//	id=… code=ok exit_code=200 output_kind=text output_bytes=5
//	hello
//
// The jobs that the outcome creates come last, with `then_bytes` bytes in the form of appendChained, and a newline.
func appendOutcome(body []byte, o *Outcome) []byte {
	f := make(fields, 0, usualFields)
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
	if o.OutputAddrKind != Nothing {
		f.text("output_addr_kind", o.OutputAddrKind.String())
	}
	f.text("log_addr", o.LogAddr)
	if o.OutputKind != Nothing {
		f.text("output_kind", o.OutputKind.String())
		f.int("output_bytes", int64(len(o.Output)))
	}
	var then []byte
	if o.Then != nil {
		then = appendChained(nil, o.Then)
		f.int("then_bytes", int64(len(then)))
	}
	body = append(append(body, f...), '\n')
	if o.OutputKind != Nothing {
		body = append(append(body, o.Output...), '\n')
	}
	if o.Then != nil {
		body = append(append(body, then...), '\n')
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
		case key == "unclaimed" && raw == "true":
			c.Unclaimed = true
		case key == "all" && raw == "true":
			all = true
		default:
			if !r.once(&c.Once, key, raw) {
				r.unknown(key)
			}
		}
	}
	r.whole(&c.Once)
	created := 0
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
		if o.Then != nil {
			created += o.Then.Lines()
		}
		body = rest
	}
	if c.Unclaimed {
		if err := c.checkUnclaimed(); err != nil {
			return nil, err
		}
	}
	if created > MaxChainedAtOnce {
		return nil, fmt.Errorf("%d jobs to create", created)
	}
	if c.All != nil && c.All.Then != nil {
		return nil, fmt.Errorf("an outcome for all creates jobs")
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

// checkUnclaimed fails if a completion with Unclaimed has a field that is not allowed there.
func (c *Complete) checkUnclaimed() error {
	if !c.Claim.IsZero() || c.Runner != "" || c.All != nil {
		return fmt.Errorf("an unclaimed completion has a claim, a runner or an outcome for all")
	}
	for i := range c.Outcomes {
		switch o := &c.Outcomes[i]; {
		case !o.Code.Reported():
			return fmt.Errorf("outcome %d of an unclaimed completion is %v", i, o.Code)
		case o.Then != nil:
			return fmt.Errorf("outcome %d of an unclaimed completion creates jobs", i)
		}
	}
	return nil
}

func decodeOutcome(body []byte) (o Outcome, rest []byte, err error) {
	line, rest, ok := bytes.Cut(body, []byte("\n"))
	if !ok {
		return o, nil, fmt.Errorf("outcome does not end in a newline")
	}
	r := fieldReader{rest: string(line)}
	o.DelayMs = -1
	length, thenBytes := 0, 0
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
		case "output_addr_kind":
			if o.OutputAddrKind, err = ParseKind(key, raw); err != nil {
				r.fail(err)
			}
		case "log_addr":
			o.LogAddr = r.bounded(key, raw, MaxAddrBytes)
		case "output_kind":
			if o.OutputKind, err = ParseKind(key, raw); err != nil {
				r.fail(err)
			}
		case "output_bytes":
			length = int(r.int(key, raw, 1, MaxOutputBytes))
		case "then_bytes":
			thenBytes = int(r.int(key, raw, 1, MaxBodyBytes))
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
	if err := o.CheckAddrKind(); err != nil {
		return o, nil, fmt.Errorf("outcome %q: %w", line, err)
	}
	if o.OutputKind == Nothing && length > 0 {
		return o, nil, fmt.Errorf("outcome %q: output without its kind", line)
	}
	if o.OutputKind != Nothing {
		if o.Output, rest, ok = cutPart(rest, length); !ok {
			return o, nil, fmt.Errorf("outcome %q: output is cut off", line)
		}
	}
	if thenBytes == 0 {
		return o, rest, nil
	}
	if o.Code != OK && o.Code != Fail {
		return o, nil, fmt.Errorf("outcome %q: creates jobs, and the job may run again", line)
	}
	then, rest, ok := cutPart(rest, thenBytes)
	if !ok {
		return o, nil, fmt.Errorf("outcome %q: jobs to create are cut off", line)
	}
	if o.Then, err = decodeChained(then); err != nil {
		return o, nil, fmt.Errorf("outcome %q: %w", line, err)
	}
	return o, rest, nil
}

// cutPart cuts n bytes and the newline after them from the beginning of a text.
func cutPart(text []byte, n int) (part, rest []byte, ok bool) {
	if n >= len(text) || text[n] != '\n' {
		return nil, nil, false
	}
	return text[:n:n], text[n+1:], true
}
