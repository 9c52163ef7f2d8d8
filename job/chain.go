package job

import (
	"bytes"
	"fmt"
)

// A job can create further jobs when it ends. They are stored in the same record as its outcome, so they exist if and
// only if the outcome was accepted, and repeating a request creates them once. Either the runner lists them in the
// outcome (Outcome.Then), or the job's create named the next job (Attributes.OnComplete). The new jobs inherit client,
// meta and traceparent unless they are given.

// appendChained appends the jobs that an outcome creates, as a part of the outcome's text:
//
//	n=1 frame=len longest=5 type=mail kind=text max_attempts=3 lease_ms=300000
//	5
//	hello
//
// The first line has the fields of a create. The create's body follows.
func appendChained(body []byte, c *Create) []byte {
	fields, rest := c.Encode()
	body = append(append(body, fields...), '\n')
	return append(body, rest...)
}

func decodeChained(text []byte) (*Create, error) {
	line, body, ok := bytes.Cut(text, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("jobs to create: the fields do not end in a newline")
	}
	r := fieldReader{rest: string(line)}
	c, err := decodeJobs(&r, body, true)
	if r.err != nil {
		err = r.err
	}
	switch {
	case err != nil:
	case c.Once.Given() || c.Joined:
		err = fmt.Errorf("they have a key, a number, or are joined")
	case c.Lines() > MaxChained:
		err = fmt.Errorf("there are %d, and the maximum is %d", c.Lines(), MaxChained)
	case c.Frame != LenFrame:
		err = fmt.Errorf("their frame is %s, not %s", c.Frame, LenFrame)
	default:
		err = c.CheckPayloads()
	}
	if err != nil {
		return nil, fmt.Errorf("jobs to create: %w", err)
	}
	return c, nil
}

// Inherit fills in the attributes of a created job that were not given, from the job that created it, and counts the hop.
func (g *Group) Inherit(client string, from *Attributes) {
	if g.Client == "" {
		g.Client = client
	}
	if g.Meta == "" {
		g.Meta = from.Meta
	}
	if g.Traceparent == "" {
		g.Traceparent = from.Traceparent
	}
	g.Hops = from.Hops + 1
}

// FollowOn is the job that is created when another job completes, in canonical text form: the fields of a group without
// lines, and delay_ms. Equal jobs are equal texts, so that groups can be compared.
//
//	type=mail priority=4 max_attempts=3 lease_ms=300000 delay_ms=1000
type FollowOn string

// NewFollowOn returns the text form. The job waits for delayMs after its creation. The group must not set lines, kind,
// hops or times, because these follow from the previous job. Client, Meta and Traceparent may be empty; the job then
// inherits them.
func NewFollowOn(g *Group, delayMs int64) (FollowOn, error) {
	var f fields
	f.group(g)
	f.int("delay_ms", delayMs)
	_, _, err := FollowOn(f).Parse()
	return FollowOn(f), err
}

// Parse reads the canonical form and refuses every other.
func (f FollowOn) Parse() (g Group, delayMs int64, err error) {
	if len(f) > MaxFollowOnBytes {
		return g, 0, fmt.Errorf("on_complete has %d bytes in the journal; the maximum is %d", len(f), MaxFollowOnBytes)
	}
	r := fieldReader{rest: string(f)}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key == "delay_ms" {
			delayMs = r.int(key, raw, 0, MaxDelayMs)
		} else {
			r.group(&g, key, raw)
		}
	}
	var again fields
	again.group(&g)
	again.int("delay_ms", delayMs)
	switch {
	case r.err != nil:
		err = r.err
	case string(again) != string(f):
		err = fmt.Errorf("on_complete %q is not in its canonical form", string(f))
	case g.Type == "" || g.MaxAttempts == 0 || g.LeaseMs == 0:
		err = fmt.Errorf("on_complete %q: type, max_attempts or lease_ms is missing", string(f))
	case g.RunAt != 0 || g.ExpiresAt != 0 || g.Kind != Nothing || g.By != "":
		err = fmt.Errorf("on_complete %q has a kind, a time or an actor", string(f))
	}
	return g, delayMs, err
}

// Payload turns a result into the payload of the next job: the output or, if the output is stored elsewhere, its address
// as a text.
func (r *Result) Payload() (Kind, []byte) {
	switch {
	case r.OutputKind != Nothing:
		return r.OutputKind, r.Output
	case r.OutputAddr != "":
		return Text, []byte(r.OutputAddr)
	}
	return Nothing, nil
}
