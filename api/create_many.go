package api

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
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// eachItem calls take with the JSON text of each item of a body, and with the item's place for error texts.
type eachItem func(body []byte, take func(place string, text []byte) error) error

// itemArray takes the elements of a JSON array.
func itemArray(body []byte, take func(place string, text []byte) error) error {
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

// itemLines takes each line that is not empty.
func itemLines(body []byte, take func(place string, text []byte) error) error {
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

// bulk collects the jobs for one create command. Consecutive jobs with equal attributes are a group.
type bulk struct {
	each      bool        // the client prefers a result for each position
	chained   bool        // the jobs inherit the attributes that they do not give; see chain.go
	trace     *string     // traceparent of jobs without one; nil: none
	of        *openBatch  // the batch that receives the jobs, or is created with them; nil: none
	headers   http.Header // of the request, for the batch
	cmd       job.Create
	raw       []byte // all payloads, without separators
	ends      []int  // the end of each payload in raw
	newline   bool   // a payload contains a newline
	payloads  bool   // at least one job has a payload
	positions []position
}

// hasResults reports whether the answer has a result for each position.
func (b *bulk) hasResults() bool { return b.each || len(b.cmd.Unique) > 0 }

// createMany answers POST /jobs/create with several jobs. It creates all of them or none, unless the client prefers a
// result for each position. Then it creates all jobs that are valid.
func (s *Server) createMany(c echo.Context, body []byte, items eachItem, of *openBatch) error {
	b := bulk{each: web.PrefersEach(c.Request()), trace: traceOf(c), of: of, headers: c.Request().Header}
	if of != nil {
		b.cmd.Into = of.id
	}
	return s.createBulk(c, &b, body, items)
}

// createBulk answers a create of the items of a body.
func (s *Server) createBulk(c echo.Context, b *bulk, body []byte, items eachItem) error {
	err := b.addAll(s, body, items)
	if err != nil {
		return err
	}
	if b.each {
		c.Response().Header().Set("Preference-Applied", "results=each")
	}
	var made applied.Made
	var receipt ingest.Receipt
	if b.cmd.Submission != nil && len(b.ends) == 0 {
		if b.cmd.Groups, err = s.groupOfNone(b.of); err != nil {
			return err
		}
	}
	if cmd := b.command(); len(b.ends) > 0 || cmd.Submission != nil {
		if cmd.Once, err = web.Once(c, "create", cmd.Groups[0].Client, body); err != nil {
			return err
		}
		if made, receipt, err = s.engine.Create(c.Request().Context(), cmd); err != nil {
			return err
		}
		web.SetSeq(c, receipt.Seq)
		web.SetReplayed(c, made.Replayed)
	}
	return answerMany(c, b, &made)
}

// addAll adds the jobs of a body.
func (b *bulk) addAll(s *Server, body []byte, items eachItem) error {
	now := s.engine.Now()
	return items(body, func(place string, text []byte) error {
		of := b.of
		err := b.add(s, text, now)
		if err == nil && b.of != of { // the item is the batch
			return nil
		}
		if b.hasResults() && len(b.positions) >= job.MaxResults {
			err = tooMany("", fmt.Sprintf("the request has too many jobs; the maximum is %d if each position has a result; split it into several requests", job.MaxResults))
		}
		p, ok := errors.AsType[*web.Problem](err)
		switch {
		case err == nil:
			b.positions = append(b.positions, position{})
		case b.each && ok && !p.Whole:
			b.positions = append(b.positions, position{p})
		case strings.HasPrefix(place, "line"):
			at := *problemOf(err)
			at.Detail = place + ": " + at.Detail
			return &at
		default:
			return web.Inside(place, err)
		}
		return nil
	})
}

// add adds the next job.
func (b *bulk) add(s *Server, text []byte, now int64) error {
	var r createRequest
	err := web.DecodeObject(text, &r)
	if isBatch := r.Batch != nil || r.Jobs != nil; isBatch || err != nil && bytes.Contains(text, []byte(`"batch"`)) {
		if err == nil {
			err = b.beginBatch(&r)
		}
		return forAll(err)
	}
	if err != nil {
		return err
	}
	r.Traceparent = cmp.Or(r.Traceparent, b.trace)
	b.of.defaults(&r.attributes)
	g, payload, err := s.newJob(&r, now)
	if err == nil {
		err = b.of.inherit(&g)
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
	line := len(b.ends)
	if r.UniqueKey != nil {
		if len(b.cmd.Unique) == job.MaxUniqueKeys {
			return tooMany("unique_key", fmt.Sprintf("the request has too many unique keys; the maximum is %d; split it into several requests", job.MaxUniqueKeys))
		}
		b.cmd.Unique = append(b.cmd.Unique, job.UniqueKey{Line: line, Key: *r.UniqueKey})
	}
	if n := len(b.cmd.Groups); n > 0 && b.cmd.Groups[n-1] == withLines(g, b.cmd.Groups[n-1].Lines) {
		b.cmd.Groups[n-1].Lines++
	} else if n == job.MaxGroups {
		return tooManyGroups()
	} else {
		b.cmd.Groups = append(b.cmd.Groups, withLines(g, 1))
	}
	b.raw = append(b.raw, payload...)
	b.ends = append(b.ends, len(b.raw))
	b.cmd.Longest = max(b.cmd.Longest, len(payload))
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

// command returns the command. It uses one framing for all payloads.
func (b *bulk) command() *job.Create {
	cmd := b.cmd
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
	cmd.Payloads = make([]byte, 0, len(b.raw)+8*len(b.ends))
	for _, end := range b.ends {
		cmd.Payloads = cmd.Frame.Append(cmd.Payloads, b.raw[start:end])
		start = end
	}
	return &cmd
}

// batchHead is the answer to a create of several jobs, without its list. BatchID is null if they belong to no batch.
type batchHead struct {
	BatchID *job.ID `json:"batch_id"`
	Count   int     `json:"count"`
	FirstID *job.ID `json:"first_id"`
	LastID  *job.ID `json:"last_id"`
}

// headOfMade returns the head of the answer to a create that made this number of jobs.
func headOfMade(made *applied.Made, jobs int) batchHead {
	if made.Lines == 0 {
		return batchHead{BatchID: web.OrNull(made.Batch)}
	}
	first, last := made.Job(0), made.Job(made.Lines-1)
	return batchHead{&made.Batch, jobs, &first, &last}
}

// createdDocument is the answer to a create of several jobs. It has a result for each position if the client prefers
// that, or if a job has a unique key.
type createdDocument struct {
	batchHead
	Results []positionResult `json:"results,omitzero"`
}

// positionResult is the result of a position: a new job, an existing job, or a refusal.
type positionResult struct {
	JobID    *job.ID `json:"job_id"`
	Existing *bool   `json:"existing,omitzero"`
	Code     string  `json:"code,omitzero"`
	Detail   string  `json:"detail,omitzero"`
	Field    string  `json:"field,omitzero"`
}

func answerMany(c echo.Context, b *bulk, made *applied.Made) error {
	text, err := web.EncodeDocument(b.document(made))
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusCreated, web.MIMEBatch, text)
}

// document returns the answer to a create of these jobs.
func (b *bulk) document(made *applied.Made) createdDocument {
	doc := createdDocument{batchHead: headOfMade(made, len(b.ends)-len(made.Existing))}
	if b.hasResults() {
		doc.Results = positionResults(b.positions, made)
	}
	return doc
}

// position is the place of a job in the body of a bulk create.
type position struct {
	refused *web.Problem // nil: the job is a line of the batch
}

// positionResults returns the result of each position.
func positionResults(positions []position, made *applied.Made) []positionResult {
	results := make([]positionResult, len(positions))
	line, existing := 0, made.Existing
	for i, p := range positions {
		if p.refused != nil {
			results[i] = positionResult{Code: p.refused.Code, Detail: p.refused.Detail, Field: p.refused.Field}
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
