package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// EachItem calls take with the JSON text of each item of a body, and with the item's place for error texts.
type EachItem func(body []byte, take func(place string, text []byte) error) error

// ItemArray takes the elements of a JSON array.
func ItemArray(body []byte, take func(place string, text []byte) error) error {
	// This decoder accepts mistakes inside an element. The decoding of the element reports them with its place.
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	unreadable := func(err error) error {
		if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return web.BadRequest("", fmt.Sprintf("the JSON is not valid: %s at byte %d", web.Shortened(e.Err.Error()), e.ByteOffset))
		}
		return web.BadRequest("", "the JSON is not valid: "+web.Shortened(err.Error()))
	}
	if _, err := d.ReadToken(); err != nil {
		return unreadable(err)
	}
	for i := 0; d.PeekKind() != jsontext.KindEndArray; i++ {
		text, err := d.ReadValue()
		if err != nil {
			return unreadable(err)
		}
		if err := take(web.Item("jobs", i), text); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return unreadable(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return web.BadRequest("", "the body has text after the end of the list")
	}
	return nil
}

// ItemLines takes each line that is not empty.
func ItemLines(body []byte, take func(place string, text []byte) error) error {
	for number := 1; len(body) > 0; number++ {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := take("line "+strconv.Itoa(number), line); err != nil {
			return err
		}
	}
	return nil
}

// Bulk collects the jobs for one create command. Consecutive jobs with equal attributes are a group.
type Bulk struct {
	Each      bool        // the client prefers a result for each position
	chained   bool        // the jobs inherit the attributes that they do not give; see chain.go
	Trace     *string     // traceparent of jobs without one; nil: none
	Of        *OpenBatch  // the batch that receives the jobs, or is created with them; nil: none
	Headers   http.Header // of the request, for the batch
	Cmd       job.Create
	raw       []byte // all payloads, without separators
	Ends      []int  // the end of each payload in raw
	newline   bool   // a payload contains a newline
	payloads  bool   // at least one job has a payload
	positions []Position
}

// hasResults reports whether the answer has a result for each position.
func (b *Bulk) hasResults() bool { return b.Each || len(b.Cmd.Unique) > 0 }

// AddAll adds the jobs of a body.
func (b *Bulk) AddAll(s *Decoder, body []byte, items EachItem) error {
	now := s.Now()
	return items(body, func(place string, text []byte) error {
		of := b.Of
		err := b.add(s, text, now)
		if err == nil && b.Of != of { // the item is the batch
			return nil
		}
		if b.hasResults() && len(b.positions) >= job.MaxResults {
			err = tooMany("", fmt.Sprintf("the request has too many jobs; the maximum is %d if each position has a result; split it into several requests", job.MaxResults))
		}
		p, ok := errors.AsType[*web.Problem](err)
		switch {
		case err == nil:
			b.positions = append(b.positions, Position{})
		case b.Each && ok && !p.Whole:
			b.positions = append(b.positions, Position{p})
		case strings.HasPrefix(place, "line"):
			at := *refusal.Of(err)
			at.Detail = place + ": " + at.Detail
			return &at
		default:
			return web.Inside(place, err)
		}
		return nil
	})
}

// add adds the next job.
func (b *Bulk) add(s *Decoder, text []byte, now int64) error {
	var r CreateRequest
	err := web.DecodeObject(text, &r)
	if isBatch := r.Batch != nil || r.Jobs != nil; isBatch || err != nil && bytes.Contains(text, []byte(`"batch"`)) {
		if err == nil {
			err = b.BeginBatch(&r)
		}
		return forAll(err)
	}
	if err != nil {
		return err
	}
	r.Traceparent = cmp.Or(r.Traceparent, b.Trace)
	b.Of.Defaults(&r.Attributes)
	g, payload, err := s.newJob(&r, now)
	if err == nil {
		err = b.Of.Inherit(&g)
	}
	if err == nil && !b.chained { // a faulty follow-on job must not lose the outcome of a run
		err = s.checkPayload(g.Client, g.Type, payload)
	}
	if err != nil {
		return err
	}
	if b.chained {
		r.inherited(&g)
	}
	line := len(b.Ends)
	if r.UniqueKey != nil {
		if len(b.Cmd.Unique) == job.MaxUniqueKeys {
			return tooMany("unique_key", fmt.Sprintf("the request has too many unique keys; the maximum is %d; split it into several requests", job.MaxUniqueKeys))
		}
		b.Cmd.Unique = append(b.Cmd.Unique, job.UniqueKey{Line: line, Key: *r.UniqueKey})
	}
	if n := len(b.Cmd.Groups); n > 0 && b.Cmd.Groups[n-1] == withLines(g, b.Cmd.Groups[n-1].Lines) {
		b.Cmd.Groups[n-1].Lines++
	} else if n == job.MaxGroups {
		return tooManyGroups()
	} else {
		b.Cmd.Groups = append(b.Cmd.Groups, withLines(g, 1))
	}
	b.raw = append(b.raw, payload...)
	b.Ends = append(b.Ends, len(b.raw))
	b.Cmd.Longest = max(b.Cmd.Longest, len(payload))
	b.newline = b.newline || bytes.IndexByte(payload, '\n') >= 0
	b.payloads = b.payloads || g.Kind != job.Nothing
	return nil
}

// forAll turns a problem of the batch into a problem of the whole body, whose jobs must not be created without the
// batch.
func forAll(err error) error {
	p, ok := errors.AsType[*web.Problem](err)
	if !ok {
		return err
	}
	whole := *p
	whole.Whole = true
	return &whole
}

// tooMany refuses the whole body, even if each position has a result.
func tooMany(field, detail string) *web.Problem {
	p := web.BadRequest(field, detail)
	p.Whole = true
	return p
}

func tooManyGroups() *web.Problem {
	return tooMany("", fmt.Sprintf("the request has too many groups of consecutive jobs with equal attributes and kind of payload; the maximum is %d; sort the jobs by attributes and kind of payload, or split the request", job.MaxGroups))
}

func withLines(g job.Group, lines int) job.Group {
	g.Lines = lines
	return g
}

// Command returns the command. It uses one framing for all payloads.
func (b *Bulk) Command() *job.Create {
	cmd := b.Cmd
	switch {
	case b.chained:
		cmd.Frame = job.LenFrame
	case !b.payloads:
		cmd.Frame = job.NoFrame
		return &cmd
	case b.newline:
		cmd.Frame = job.LenFrame
	default:
		cmd.Frame = job.LineFrame
	}
	start := 0
	cmd.Payloads = make([]byte, 0, len(b.raw)+8*len(b.Ends))
	for _, end := range b.Ends {
		cmd.Payloads = cmd.Frame.Append(cmd.Payloads, b.raw[start:end])
		start = end
	}
	return &cmd
}

// BatchHead is the answer to a create of several jobs, without its list. BatchID is null if they belong to no batch.
type BatchHead struct {
	BatchID *job.ID `json:"batch_id"`
	Count   int     `json:"count" minimum:"0" maximum:"4194304"`
	FirstID *job.ID `json:"first_id"`
	LastID  *job.ID `json:"last_id"`
}

// HeadOfMade returns the head of the answer to a create that made this number of jobs.
func HeadOfMade(made *applied.Made, jobs int) BatchHead {
	if made.Lines == 0 {
		return BatchHead{BatchID: web.OrNull(made.Batch)}
	}
	first, last := made.Job(0), made.Job(made.Lines-1)
	return BatchHead{&made.Batch, jobs, &first, &last}
}

// CreatedDocument is the answer to a create of several jobs. It has a result for each position if the client prefers
// that, or if a job has a unique key.
type CreatedDocument struct {
	BatchHead
	Results []positionResult `json:"results,omitzero"`
}

// positionResult is the result of a position: a new job, an existing job, or a refusal.
type positionResult struct {
	JobID    *job.ID `json:"job_id"`
	Existing *bool   `json:"existing,omitzero" nullable:"false" doc:"whether job_id is an unfinished job that already had the unique key"`
	Code     string  `json:"code,omitzero" schema:"Code"`
	Detail   string  `json:"detail,omitzero"`
	Field    string  `json:"field,omitzero"`
}

// Document returns the answer to a create of these jobs.
func (b *Bulk) Document(made *applied.Made) CreatedDocument {
	doc := CreatedDocument{BatchHead: HeadOfMade(made, len(b.Ends)-len(made.Existing))}
	if b.hasResults() {
		doc.Results = PositionResults(b.positions, made)
	}
	return doc
}

// Position is the place of a job in the body of a bulk create.
type Position struct {
	Err *web.Problem // nil: the job is a line of the batch
}

// PositionResults returns the result of each position.
func PositionResults(positions []Position, made *applied.Made) []positionResult {
	results := make([]positionResult, len(positions))
	line, existing := 0, made.Existing
	for i, p := range positions {
		if p.Err != nil {
			results[i] = positionResult{Code: p.Err.Code, Detail: p.Err.Detail, Field: p.Err.Field}
			continue
		}
		id, is := made.Job(line), false
		if len(existing) > 0 && existing[0].Line == line {
			id, is = existing[0].Job, true
			existing = existing[1:]
		}
		line++
		results[i] = positionResult{JobID: &id, Existing: &is}
	}
	return results
}
