package api

import (
	"bytes"
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// creation makes jobs of requests.
type creation struct {
	reader
	decode *command.Decoder
}

// keyedRequest has the headers by which the server carries out a repeated request only once. Function web.Once reads them.
type keyedRequest struct {
	Key     string `header:"Idempotency-Key" minLength:"1" maxLength:"256" doc:"The server carries out requests with the same key only once, for at least a day after the first one."`
	Session job.ID `header:"Daybook-Session" doc:"the session in which the request has a number; not with an Idempotency-Key"`
	Slot    int64  `header:"Daybook-Session-Slot" minimum:"0" maximum:"255" doc:"a slot of the session; default: 0. Requests at the same time must use different slots."`
	Number  int64  `header:"Daybook-Session-Number" minimum:"1" maximum:"9223372036854775807" doc:"The number of the request in its slot. It must be higher than the number of each request before. A repeat of a request has the same number."`
}

type tracedRequest struct {
	Context string `header:"traceparent" doc:"The trace context of the producer, in the form of W3C Trace Context. Jobs without a traceparent of their own get it. A header of another form is ignored. Of a version later than 00, the part that version 00 knows is taken."`
}

type eachRequest struct {
	Prefer string `header:"Prefer" doc:"With results=each, the server creates the valid jobs, and the answer has a result for each position."`
}

const (
	exampleCreate                 = "#:create v=1 jobs=2 runs=1\n#:run n=2 client=acme type=resize kind=text frame=line bytes=13\nfirst\nsecond\n"
	headerReplayed, headerApplied = web.HeaderReplayed, "Preference-Applied"
)

func (s *creation) routes() []route {
	refusals := []int{404, 409, 422, 503, 507}
	asked := openapi.InRequest
	item, one := openapi.JSON[command.NewItem](asked), openapi.JSON[command.CreateRequest](asked)
	text := openapi.Plain(openapi.Of("string"))
	ids := openapi.Plain(openapi.Of("string").As("ids, one per line"))
	added := operation.Reply{Status: http.StatusCreated, Text: "The jobs are stored on disk.", Headers: []string{"Daybook-Seq", headerReplayed},
		Content: map[string]openapi.Shape{web.MIMEJSON: answered[addedDocument](), web.MIMEText: ids}}
	lines := operation.About{
		ID: "add", Tag: "Creating", Summary: "Create a job per line",
		Text: "This is the fastest way to create jobs. Each line of the body that is not empty becomes the payload of a job. A\n" +
			"request must not have both `run_at` and `delay_ms`.\n",
		Bodies: map[string]openapi.Shape{"*/*": text}, BodyText: "payloads, each followed by a newline", Replies: []operation.Reply{added}, Refusals: refusals,
	}
	ofQueue := lines
	ofQueue.ID, ofQueue.Summary, ofQueue.Text = "addToQueue", "Create a job per line, in the queue of the path", "Like /add. The path names the queue."
	return []route{
		direct[struct {
			keyedRequest
			eachRequest
			tracedRequest
		}](http.MethodPost, "/jobs/create", operation.About{
			ID: "create", Tag: "Creating", Summary: "Create jobs",
			Text: "The body is one job, an array of jobs, NDJSON with one job per line, or jobs in runs (docs/reference/format-runs.md). The\n" +
				"server creates all jobs or none, unless the request has `Prefer: results=each`.\n" +
				"A body in runs has at most 1,000 runs, and at most 10,000 jobs if they belong to no batch. It creates all jobs or\n" +
				"none.\n" +
				"The first item of an array or of lines may be `{\"batch\": {…}}`: a batch with attributes, to which the jobs belong.\n" +
				"One object with `batch` and `jobs` says the same.\n",
			BodyRequired: true,
			Bodies: map[string]openapi.Shape{
				web.MIMEJSON: openapi.OneOf(one, openapi.ListOf(item), openapi.JSON[command.NewBatch](asked)), web.MIMENDJSON: openapi.ListOf(item),
				web.MIMERuns: inRuns(exampleCreate),
			},
			Replies: []operation.Reply{
				{Status: http.StatusCreated, Headers: []string{"Daybook-Seq", "Location", headerReplayed, headerApplied},
					Text: "The jobs are stored. The answer to a single job is its document. The answer to several jobs is the document\n" +
						"of the batch, whose batch_id is null if they belong to none.\n",
					Content: map[string]openapi.Shape{web.MIMEJSON: answered[answer.CreatedJob](), web.MIMEBatch: answered[command.CreatedDocument]()}},
				replied[answer.CreatedJob](http.StatusOK, "An unfinished job already has the unique key. The answer is the document of that job.", "Daybook-Seq", "Location"),
			},
			Refusals: refusals,
		}, s.create).often().once(),
		direct[struct {
			keyedRequest
			tracedRequest
			Client string `query:"client" schema:"Name" doc:"client of the jobs; default: default"`
			Type   string `query:"jobtype" schema:"Name" doc:"type of the jobs; default: default"`
			command.LineQuery
		}](http.MethodPost, "/add", lines, s.add).often().once(),
		direct[struct {
			namedQueue
			keyedRequest
			tracedRequest
			command.LineQuery
		}](http.MethodPost, "/:client/job/:type/add", ofQueue, s.addToQueue).often().once(),
		direct[struct {
			onlyID
			keyedRequest
			eachRequest
			Client string `query:"client" schema:"Name" doc:"of lines: client of the jobs; that of the batch without it"`
			Type   string `query:"jobtype" schema:"Name" doc:"of lines: type of the jobs; that of the batch without it"`
			command.LineQuery
		}](http.MethodPost, "/batches/:id/jobs", operation.About{
			ID: "addToBatch", Tag: "Creating", Summary: "Add jobs to an open batch",
			Text: "The body has jobs in any form of POST /jobs/create or, as text, of POST /add; the parameters are for text only. The\n" +
				"jobs inherit client, type, retention_ms, traceparent and meta from the batch where they give none. The answer comes\n" +
				"when the jobs are in the batch.\n",
			Bodies: map[string]openapi.Shape{
				web.MIMEJSON: openapi.OneOf(one, openapi.ListOf(one)), web.MIMENDJSON: openapi.ListOf(one), web.MIMERuns: inRuns(exampleCreate), web.MIMEText: text,
			},
			Replies: []operation.Reply{{Status: http.StatusCreated, Text: "The jobs are in the batch.", Headers: []string{"Daybook-Seq", headerReplayed, headerApplied},
				Content: map[string]openapi.Shape{web.MIMEJSON: answered[addedDocument](), web.MIMEBatch: answered[command.CreatedDocument](), web.MIMEText: ids}}},
			Refusals: refusals,
		}, s.addToBatch).often().once(),
	}
}

// create answers POST /jobs/create. A JSON object is one job. An array, lines or runs are several jobs.
func (s *creation) create(c echo.Context) error { return s.createIn(c, job.ID{}) }

// createIn creates jobs, and adds them to a batch if one is given.
func (s *creation) createIn(c echo.Context, batch job.ID) error {
	rule := &s.bodies.creates
	if !batch.IsZero() {
		rule = &s.bodies.added
	}
	body, err := web.ReadBody(c, rule)
	if err != nil {
		return err
	}
	defer body.Release()
	of, err := s.openBatch(c, batch)
	if err != nil {
		return err
	}
	switch web.FormOf(c.Request()) {
	case web.MIMENDJSON:
		return s.createMany(c, body.Bytes, command.ItemLines, of)
	case web.MIMERuns:
		return s.createRuns(c, body.Bytes, of)
	}
	if first := bytes.TrimLeft(body.Bytes, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		return s.createMany(c, body.Bytes, command.ItemArray, of)
	}
	if of != nil {
		return s.createMany(c, body.Bytes, command.ItemWhole, of)
	}
	return s.createOne(c, body.Bytes)
}

// createOne creates one job. A create without keys does not wait until it is applied, because the document of the job
// follows from the request and the receipt alone.
func (s *creation) createOne(c echo.Context, body []byte) error {
	var r command.CreateRequest
	if err := web.DecodeObject(body, &r); err != nil {
		return err
	}
	if r.Batch != nil || r.Jobs != nil {
		return s.createBatch(c, &r, body)
	}
	r.Traceparent = cmp.Or(r.Traceparent, command.TraceOf(c))
	cmd, payload, err := s.decode.OneJob(&r)
	if err != nil {
		return err
	}
	g, unique := cmd.Groups[0], ""
	if r.UniqueKey != nil {
		unique = *r.UniqueKey
	}
	if cmd.Once, err = web.Once(c, "create", g.Client, body); err != nil {
		return err
	}
	cmd.Joined = len(cmd.Unique) == 0 && !cmd.Once.Given()
	made, receipt, err := s.engine.Create(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	web.SetReplayed(c, made.Replayed)
	if len(made.Existing) > 0 {
		return s.answerExisting(c, receipt, made.Existing[0].Job)
	}
	g = made.Group // if the request is a repeat: the group that the first request created
	id := made.Job(0)
	first := job.Admit(&g.Attributes, job.Now{Seq: receipt.Seq, At: receipt.At})
	j := g.Document(&first)
	j.ID, j.Batch, j.Client, j.Type, j.CreatedAt = id, made.Batch, g.Client, g.Type, receipt.At
	j.Payload, j.UniqueKey = payload, unique
	c.Response().Header().Set(echo.HeaderLocation, "/jobs/"+id.String())
	held := web.ShareOf(c, s.changes)
	defer held.Release()
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		if b = answer.AppendJob(b, &j, answer.InJSON); unique != "" {
			b = withLastField(b, createdField)
		} else {
			b = append(b, '\n')
		}
		return b, answerStored(c, held, http.StatusCreated, b)
	})
}

// answerExisting answers a create that created no job, because an unfinished job has the unique key. The answer is the
// document of that job.
func (s *creation) answerExisting(c echo.Context, r ingest.Receipt, id job.ID) error {
	j, held, err := s.readJobAfter(c, r, id)
	defer held.Release()
	var b []byte
	switch {
	case err == job.NotFound: // the job has ended and was purged since, so its status is unknown
		b = answer.AppendGone(nil, id, 0)
	case err != nil:
		return refusal.After(err)
	default:
		b = answer.AppendJob(nil, &j, answer.InJSON)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/jobs/"+id.String())
	return answerStored(c, held, http.StatusOK, withLastField(b, existingField))
}

// The last field of the answer to a create with a unique key says whether an unfinished job had that key.
const (
	createdField  = `"existing":false`
	existingField = `"existing":true`
)

// withLastField adds a field to a document that ends in its closing brace.
func withLastField(document []byte, field string) []byte {
	document = append(document[:len(document)-1], ',')
	document = append(document, field...)
	return append(document, "}\n"...)
}
