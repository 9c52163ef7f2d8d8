package api

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// maxListedIDs is the largest number of ids that the answer to a bulk post lists. The ids of a batch are consecutive,
// so the first and the last id are enough for longer batches.
const maxListedIDs = 1000

// add answers POST /add, whose query names the queue.
func (s *creation) add(c echo.Context) error {
	a, form, err := command.QueryAttributes(web.Parameters(c))
	if err != nil {
		return err
	}
	return s.addLines(c, &a, form, job.ID{})
}

// addToQueue answers POST /{client}/job/{type}/add.
func (s *creation) addToQueue(c echo.Context) error {
	a, form, err := command.QueryAttributes(web.Parameters(c))
	if err != nil {
		return err
	}
	client, typ := c.Param("client"), c.Param("type")
	a.Client, a.Type = &client, &typ
	return s.addLines(c, &a, form, job.ID{})
}

// addLines is the fastest way to create jobs. It reads the body into one buffer, which becomes part of the journal
// record. The only work per line is the search for the newline. The jobs are added to a batch if one is given.
func (s *creation) addLines(c echo.Context, a *command.Attributes, form command.LineForm, batch job.ID) error {
	a.Traceparent = cmp.Or(a.Traceparent, command.TraceOf(c))
	of, err := s.openBatch(c, batch)
	if err != nil {
		return err
	}
	of.Defaults(a)
	g, err := s.decode.Group(a, s.engine.Now())
	if err == nil {
		err = of.Inherit(&g)
	}
	if err != nil {
		return err
	}
	body, err := web.ReadBody(c, &s.bodies.lines)
	if err != nil {
		return err
	}
	defer body.Release()
	key, err := web.Once(c, "add", g.Client, body.Bytes) // before form.apply changes the bytes
	if err != nil {
		return err
	}
	lines, n, longest := job.TrimLines(form.Apply(body.Bytes))
	if longest > job.MaxPayloadBytes {
		return command.PayloadTooLarge(longest)
	}
	if n == 0 {
		return answerAdded(c, job.ID{}, ingest.Receipt{}, 0)
	}
	g.Lines, g.Kind = n, job.Text
	cmd := &job.Create{Groups: []job.Group{g}, Into: batch, Once: key, Frame: job.LineFrame, Longest: longest, Payloads: lines}
	if err := s.decode.CheckPayloads(cmd, "line"); err != nil {
		return err
	}
	made, receipt, err := s.engine.Create(c.Request().Context(), cmd)
	body.Release() // the client may be slow to read
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	web.SetReplayed(c, made.Replayed)
	return answerAdded(c, made.Batch, receipt, n)
}

// addedDocument describes the answer to a bulk post, which is encoded by hand.
type addedDocument struct {
	command.BatchHead
	JobIDs []job.ID `json:"job_ids,omitzero" maxItems:"1000"`
}

// answerAdded answers with the ids of n jobs that the command of a receipt created in a batch.
func answerAdded(c echo.Context, batch job.ID, r ingest.Receipt, n int) error {
	if web.Prefers(c.Request(), web.MIMEText) {
		return answerIDs(c, r, n)
	}
	head := command.BatchHead{}
	if n > 0 {
		first, last := job.NewID(r.At, r.Seq, 0), job.NewID(r.At, r.Seq, n-1)
		head = command.BatchHead{BatchID: &batch, Count: n, FirstID: &first, LastID: &last}
	}
	text, err := web.EncodeHead(head)
	if err != nil {
		return err
	}
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		b = append(b, text...)
		if n <= maxListedIDs {
			b = append(b, `,"job_ids":[`...)
			for i := range n {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(b, '"')
				b = job.NewID(r.At, r.Seq, i).AppendText(b)
				b = append(b, '"')
			}
			b = append(b, ']')
		}
		b = append(b, "}\n"...)
		return b, web.Answer(c, http.StatusCreated, web.MIMEJSON, b)
	})
}

// answerIDs writes the ids, one per line, in pieces, because the ids of the longest batch take 150 MB.
func answerIDs(c echo.Context, r ingest.Receipt, n int) error {
	const lineBytes, piece = 37, 1000
	w := c.Response()
	h := w.Header()
	h.Set(echo.HeaderContentType, web.MIMEText)
	h.Set(echo.HeaderContentLength, strconv.Itoa(n*lineBytes))
	w.WriteHeader(http.StatusCreated)
	var b bytes.Buffer
	b.Grow(min(n, piece) * lineBytes)
	for i := 0; i < n; {
		b.Reset()
		for end := min(i+piece, n); i < end; i++ {
			b.Write(append(job.NewID(r.At, r.Seq, i).AppendText(b.AvailableBuffer()), '\n'))
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
