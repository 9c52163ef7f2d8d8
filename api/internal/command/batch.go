package command

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// batchRequest is the part of a create that describes its batch.
type batchRequest struct {
	Name        *string                   `json:"name" maxLength:"256" doc:"need not be unique"`
	Client      *string                   `json:"client" schema:"Name" doc:"client of jobs that give none"`
	Type        *string                   `json:"type" schema:"Name" doc:"type of jobs that give none"`
	RetentionMs *int64                    `json:"retention_ms" minimum:"0" maximum:"3162240000000" doc:"how long the batch is kept after its end, and retention_ms of jobs that give none"`
	Meta        map[string]jsontext.Value `json:"meta" schema:"MetaValue" maxProperties:"16" nullable:"true" doc:"texts and whole numbers of 64 bits; jobs inherit what they do not give, as texts"`
	Metadata    *string                   `json:"metadata" doc:"a text that the server does not look into; 1 MiB at most"`
	MetadataB64 *[]byte                   `json:"metadata_b64" doc:"the same for bytes"`
	OnFailure   *string                   `json:"on_failure" enum:"continue,cancel_rest" doc:"what happens to the other jobs when one fails for good; default: continue"`
	ChunkSize   *int64                    `json:"chunk_size" minimum:"1" doc:"how many operations of the producer a job has"`
	Open        bool                      `json:"open" doc:"other requests may add jobs until the batch is closed"`
	Paused      bool                      `json:"paused" doc:"no job is handed out until the batch is resumed"`
	Traceparent *string                   `json:"traceparent" doc:"traceparent of jobs that give none; default: that of the request"`
	Tracestate  *string                   `json:"tracestate" maxLength:"512"`
	Baggage     *string                   `json:"baggage" maxLength:"8192"`
}

// submission returns the submission of a request with the headers h.
func (r *batchRequest) submission(h http.Header) (s *job.Submission, err error) {
	s = &job.Submission{Open: r.Open, Paused: r.Paused, Tracestate: h.Get("Tracestate"), Baggage: h.Get("Baggage")}
	if r.Name != nil {
		s.Name = *r.Name
		err = web.BadField("name", job.CheckBatchName(s.Name))
	}
	if r.OnFailure != nil && err == nil {
		s.OnFailure, err = job.ParseOnFailure(*r.OnFailure)
		err = web.BadField("on_failure", err)
	}
	if err == nil {
		s.Meta, err = r.meta()
	}
	if r.ChunkSize != nil && err == nil {
		if s.ChunkSize = *r.ChunkSize; s.ChunkSize < 1 {
			err = web.BadRequest("chunk_size", fmt.Sprintf("chunk_size must be 1 or more, not %d", s.ChunkSize))
		}
	}
	set(&s.Tracestate, r.Tracestate)
	set(&s.Baggage, r.Baggage)
	for _, f := range [...]struct {
		name string
		text *string
		most int
		own  bool
	}{{"tracestate", &s.Tracestate, job.MaxTraceBytes, r.Tracestate != nil}, {"baggage", &s.Baggage, job.MaxBaggageBytes, r.Baggage != nil}} {
		if wrong := job.CheckText(f.name, *f.text, 0, f.most); wrong != nil && f.own && err == nil {
			err = web.BadField(f.name, wrong)
		} else if wrong != nil {
			*f.text = "" // an invalid header is ignored
		}
	}
	if r.Traceparent != nil && err == nil {
		s.Traceparent = *r.Traceparent
		err = web.BadField("traceparent", job.CheckTraceparent(s.Traceparent))
	}
	switch {
	case err != nil:
	case r.Metadata != nil && r.MetadataB64 != nil:
		err = web.BadRequest("metadata", "a batch has only one of metadata and metadata_b64")
	case r.Metadata != nil:
		s.Metadata = []byte(*r.Metadata)
	case r.MetadataB64 != nil:
		s.Metadata = *r.MetadataB64
	}
	if n := len(s.Metadata); err == nil && n > job.MaxBatchMetadataBytes {
		err = web.BadRequest("metadata", fmt.Sprintf("metadata has %d bytes; the maximum is %d", n, job.MaxBatchMetadataBytes))
	}
	return s, err
}

// meta returns the meta of a batch: texts and whole numbers of 64 bits.
func (r *batchRequest) meta() (job.BatchMeta, error) {
	values := map[string]job.MetaValue{}
	for name, raw := range r.Meta {
		var v job.MetaValue
		switch ok := false; raw.Kind() {
		case '"':
			text, err := jsontext.AppendUnquote(nil, raw)
			if err != nil {
				return "", web.BadRequest("meta", "meta."+web.Shortened(name)+" is not valid UTF-8")
			}
			v.Text = string(text)
		case '0':
			if v, ok = job.ParseMetaInteger(string(raw)); ok {
				break
			}
			fallthrough
		default:
			return "", web.BadRequest("meta", fmt.Sprintf("meta.%s must be a text or a whole number of 64 bits", web.Shortened(name)))
		}
		values[name] = v
	}
	meta, err := job.NewBatchMeta(values)
	return meta, web.BadField("meta", err)
}

func CheckBatchName(key, name string) error {
	if name == "" {
		return web.BadRequest(key, key+" has no value")
	}
	return web.BadField(key, job.CheckBatchName(name))
}
