package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

type creator interface {
	Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error)
	StartCreate(ctx context.Context, c *job.Create) (wait func() (applied.Made, ingest.Receipt, error))
}

// createRequest is a job in the body of POST /jobs/create: the whole body, an item of an array, or a line.
type createRequest struct {
	attributes
	Payload    jsontext.Value `json:"payload"`
	PayloadB64 *[]byte        `json:"payload_b64"`
	BinaryAddr *string        `json:"binary_addr"`
	InputAddr  *string        `json:"input_addr"`
	UniqueKey  *string        `json:"unique_key"`

	// With Batch, the request describes the batch as a whole, and Jobs has its jobs; see batch_create.go.
	Batch *batchRequest    `json:"batch"`
	Jobs  []jsontext.Value `json:"jobs"`
}

// create answers POST /jobs/create. A JSON object is one job. An array, lines or runs are several jobs.
func (s *Server) create(c echo.Context) error { return s.createIn(c, job.ID{}) }

// createIn creates jobs, and adds them to a batch if one is given.
func (s *Server) createIn(c echo.Context, batch job.ID) error {
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
		return s.createMany(c, body.Bytes, itemLines, of)
	case web.MIMERuns:
		return s.createRuns(c, body.Bytes, of)
	}
	if first := bytes.TrimLeft(body.Bytes, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		return s.createMany(c, body.Bytes, itemArray, of)
	}
	if of != nil {
		return s.createMany(c, body.Bytes, itemWhole, of)
	}
	return s.createOne(c, body.Bytes)
}

// createOne creates one job. A create without keys does not wait until it is applied, because the document of the job
// follows from the request and the receipt alone.
func (s *Server) createOne(c echo.Context, body []byte) error {
	var r createRequest
	if err := web.DecodeObject(body, &r); err != nil {
		return err
	}
	if r.Batch != nil || r.Jobs != nil {
		return s.createBatch(c, &r, body)
	}
	r.Traceparent = cmp.Or(r.Traceparent, traceOf(c))
	cmd, payload, err := s.oneJob(&r)
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
		if b = appendJob(b, &j, inJSON); unique != "" {
			b = withLastField(b, createdField)
		} else {
			b = append(b, '\n')
		}
		return b, answerStored(c, held, http.StatusCreated, b)
	})
}

// oneJob returns the command that creates a single job, and the stored form of its payload.
func (s *Server) oneJob(r *createRequest) (cmd *job.Create, payload []byte, err error) {
	g, payload, err := s.newJob(r, s.engine.Now())
	if err == nil {
		err = s.checkPayload(g.Client, g.Type, payload)
	}
	if err != nil {
		return nil, nil, err
	}
	g.Lines = 1
	cmd = &job.Create{Groups: []job.Group{g}, Frame: frameOf(g.Kind, payload), Longest: len(payload)}
	cmd.Payloads = cmd.Frame.Append(nil, payload)
	if r.UniqueKey != nil {
		cmd.Unique = []job.UniqueKey{{Key: *r.UniqueKey}}
	}
	return cmd, payload, nil
}

// answerExisting answers a create that created no job, because an unfinished job has the unique key. The answer is the
// document of that job.
func (s *Server) answerExisting(c echo.Context, r ingest.Receipt, id job.ID) error {
	j, held, err := s.readJobAfter(c, r, id)
	defer held.Release()
	var b []byte
	switch {
	case err == job.NotFound: // the job has ended and was purged since, so its status is unknown
		b = appendGone(nil, id, 0)
	case err != nil:
		return after(err)
	default:
		b = appendJob(nil, &j, inJSON)
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

// newJob returns the group of a single job, without a number of lines, and the stored form of the payload.
func (s *Server) newJob(r *createRequest, now int64) (g job.Group, payload []byte, err error) {
	if r.Batch != nil || r.Jobs != nil {
		return g, nil, web.BadRequest("batch", "a batch cannot be created here; POST /jobs/create creates it, and POST /batches/{id}/jobs adds jobs to it")
	}
	if g, err = s.group(&r.attributes, now); err != nil {
		return g, nil, err
	}
	if g.Kind, payload, err = r.payload(); err != nil {
		return g, nil, err
	}
	if r.UniqueKey != nil {
		err = web.BadField("unique_key", job.CheckText("unique_key", *r.UniqueKey, 1, job.MaxKeyBytes))
	}
	return g, payload, err
}

// payload returns the stored form of the payload.
func (r *createRequest) payload() (kind job.Kind, payload []byte, err error) {
	given := 0
	if !web.Absent(r.Payload) {
		given++
		if kind, payload, err = content("payload", r.Payload); err != nil {
			return kind, nil, err
		}
	}
	if r.PayloadB64 != nil {
		given++
		kind, payload = job.Bytes, *r.PayloadB64
	}
	if r.BinaryAddr != nil {
		given++
		if err := job.CheckText("binary_addr", *r.BinaryAddr, 1, job.MaxAddrBytes); err != nil {
			return kind, nil, web.BadField("binary_addr", err)
		}
		input := ""
		if r.InputAddr != nil {
			if err := job.CheckText("input_addr", *r.InputAddr, 1, job.MaxAddrBytes); err != nil {
				return kind, nil, web.BadField("input_addr", err)
			}
			input = *r.InputAddr
		}
		kind, payload = job.WASI, job.AppendWASI(nil, *r.BinaryAddr, input)
	} else if r.InputAddr != nil {
		return kind, nil, web.BadRequest("input_addr", "input_addr requires a binary_addr")
	}
	if given > 1 {
		return kind, nil, web.BadRequest("payload", "a job has only one of payload, payload_b64 and binary_addr")
	}
	if len(payload) > job.MaxPayloadBytes {
		return kind, nil, payloadTooLarge(len(payload))
	}
	return kind, payload, nil
}

func payloadTooLarge(n int) *web.Problem {
	return &web.Problem{Status: http.StatusRequestEntityTooLarge, Code: "payload_too_large", Field: "payload",
		Detail: fmt.Sprintf("the payload has %d bytes; the maximum is %d", n, job.MaxPayloadBytes)}
}

// frameOf returns the framing of a single payload. A payload that contains a newline needs a length prefix.
func frameOf(kind job.Kind, payload []byte) job.Frame {
	switch {
	case kind == job.Nothing:
		return job.NoFrame
	case bytes.IndexByte(payload, '\n') >= 0:
		return job.LenFrame
	}
	return job.LineFrame
}

// content returns the stored form of a payload or output that was sent as a JSON value: the text of a string, and any
// other value unchanged.
func content(field string, v jsontext.Value) (job.Kind, []byte, error) {
	if v.Kind() != jsontext.KindString {
		return job.JSON, v, nil
	}
	text, err := jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
	if err != nil {
		return job.Nothing, nil, web.BadRequest(field, fmt.Sprintf("%s is not a valid string: %s", field, web.Shortened(err.Error())))
	}
	return job.Text, text, nil
}
