package command

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// CreateRequest is a job in the body of POST /jobs/create: the whole body, an item of an array, or a line.
type CreateRequest struct {
	Attributes
	Payload    jsontext.Value `json:"payload" doc:"a string, or any other JSON value, which is kept as it was sent"`
	PayloadB64 *[]byte        `json:"payload_b64" doc:"base64 of arbitrary bytes"`
	BinaryAddr *string        `json:"binary_addr" minLength:"1" maxLength:"4096" doc:"address of a WASI program to run"`
	InputAddr  *string        `json:"input_addr" minLength:"1" maxLength:"4096" doc:"address of the input of the program; requires binary_addr"`
	UniqueKey  *string        `json:"unique_key" minLength:"1" maxLength:"256" doc:"While this job is unfinished, a create with the same unique key in its queue creates no other job."`

	// With Batch, the request describes the batch as a whole, and Jobs has its jobs; see batch_create.go.
	Batch *batchRequest    `json:"batch" describe:"no"`
	Jobs  []jsontext.Value `json:"jobs" describe:"no"`
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

// newJob returns the group of a single job, without a number of lines, and the stored form of the payload.
func (s *Decoder) newJob(r *CreateRequest, now int64) (g job.Group, payload []byte, err error) {
	if r.Batch != nil || r.Jobs != nil {
		return g, nil, web.BadRequest("batch", "a batch cannot be created here; POST /jobs/create creates it, and POST /batches/{id}/jobs adds jobs to it")
	}
	if g, err = s.Group(&r.Attributes, now); err != nil {
		return g, nil, err
	}
	if g.Kind, payload, err = r.StoredPayload(); err != nil {
		return g, nil, err
	}
	if r.UniqueKey != nil {
		err = web.BadField("unique_key", job.CheckText("unique_key", *r.UniqueKey, 1, job.MaxKeyBytes))
	}
	return g, payload, err
}

// OneJob returns the command that creates a single job, and the stored form of its payload.
func (s *Decoder) OneJob(r *CreateRequest) (cmd *job.Create, payload []byte, err error) {
	g, payload, err := s.newJob(r, s.Now())
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

// StoredPayload returns the stored form of the payload.
func (r *CreateRequest) StoredPayload() (kind job.Kind, payload []byte, err error) {
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
		return kind, nil, PayloadTooLarge(len(payload))
	}
	return kind, payload, nil
}

func PayloadTooLarge(n int) *web.Problem {
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
