package api

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// createRequest is the body of POST /jobs/create.
type createRequest struct {
	attributes
	Payload    jsontext.Value `json:"payload"`
	PayloadB64 *[]byte        `json:"payload_b64"`
	BinaryAddr *string        `json:"binary_addr"`
	InputAddr  *string        `json:"input_addr"`
}

// create answers POST /jobs/create: one job, whose document is a function of the request and the receipt, so that nobody waits for the
// applier.
func (s *Server) create(c echo.Context) error {
	body, err := s.readJSON(c, s.bulk, false)
	if err != nil {
		return err
	}
	defer body.release()
	var r createRequest
	if err := decodeObject(body.bytes, &r); err != nil {
		return err
	}
	g, err := s.group(&r.attributes)
	if err != nil {
		return err
	}
	var payload []byte
	if g.Kind, payload, err = r.payload(); err != nil {
		return err
	}
	g.Lines = 1
	cmd := &job.Create{Groups: []job.Group{g}, Frame: frameOf(g.Kind, payload), Longest: len(payload)}
	cmd.Payloads = cmd.Frame.Append(nil, payload)

	receipt, err := s.engine.Create(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	id := job.NewID(receipt.At, receipt.Seq, 0)
	j := job.Job{
		ID: id, Batch: id, Client: g.Client, Type: g.Type, Status: job.Pending, Priority: g.Priority,
		Kind: g.Kind, Payload: payload, Progress: -1,
		MaxAttempts: g.MaxAttempts, LeaseMs: g.LeaseMs, RunAt: g.RunAt, CreatedAt: receipt.At, UpdatedAt: receipt.At,
	}
	if g.RunAt > receipt.At {
		j.Status = job.Deferred
	}
	setSeq(c, receipt.Seq)
	c.Response().Header().Set(echo.HeaderLocation, "/jobs/"+id.String())
	return answerJob(c, http.StatusCreated, &j)
}

// payload returns the stored form of the payload.
func (r *createRequest) payload() (kind job.Kind, payload []byte, err error) {
	given := 0
	if !absent(r.Payload) {
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
			return kind, nil, badField("binary_addr", err)
		}
		input := ""
		if r.InputAddr != nil {
			if err := job.CheckText("input_addr", *r.InputAddr, 1, job.MaxAddrBytes); err != nil {
				return kind, nil, badField("input_addr", err)
			}
			input = *r.InputAddr
		}
		kind, payload = job.WASI, job.AppendWASI(nil, *r.BinaryAddr, input)
	} else if r.InputAddr != nil {
		return kind, nil, badRequest("input_addr", "input_addr wants a binary_addr")
	}
	if given > 1 {
		return kind, nil, badRequest("payload", "payload, payload_b64 and binary_addr exclude each other")
	}
	if len(payload) > job.MaxPayloadBytes {
		return kind, nil, payloadTooLarge(len(payload))
	}
	return kind, payload, nil
}

func payloadTooLarge(n int) *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, code: "payload_too_large", field: "payload",
		detail: fmt.Sprintf("a payload has at most %d bytes, not %d", job.MaxPayloadBytes, n)}
}

// frameOf is the framing of a single payload: lines, unless it holds a newline itself.
func frameOf(kind job.Kind, payload []byte) job.Frame {
	switch {
	case kind == job.Nothing:
		return job.NoFrame
	case bytes.IndexByte(payload, '\n') >= 0:
		return job.LenFrame
	}
	return job.LineFrame
}
