package opsqueue

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/job"
)

// carrier is a producer's trace context in the form that consumers get: the text of a JSON object.
type carrier struct {
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate"`
	Baggage     string `json:"baggage,omitzero"`
}

const noTrace = "{}"

// carrierOf returns the trace context of a batch.
func carrierOf(s *job.Submission) string {
	if s.Traceparent == "" {
		return noTrace
	}
	text, err := json.Marshal(carrier{s.Traceparent, s.Tracestate, s.Baggage})
	if err != nil { // cannot happen: texts of a batch are valid UTF-8
		return noTrace
	}
	return string(text)
}

// readTrace sets the trace context of a batch from the headers of a request. It ignores invalid headers.
func readTrace(h http.Header, s *job.Submission) {
	if parent := h.Get("Traceparent"); job.CheckTraceparent(parent) == nil {
		s.Traceparent = parent
		s.Tracestate = within("tracestate", h.Get("Tracestate"), job.MaxTraceBytes)
		s.Baggage = within("baggage", h.Get("Baggage"), job.MaxBaggageBytes)
	}
}

func within(name, text string, most int) string {
	if job.CheckText(name, text, 0, most) != nil {
		return ""
	}
	return text
}
