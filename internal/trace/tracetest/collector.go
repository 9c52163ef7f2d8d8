package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that a collector received. Ids are hexadecimal. Numeric attributes are in decimal.
type Span struct {
	Name, TraceID, SpanID string
	Parent                string // the parent's id; "" if there is none
	Kind                  string // as in trace.proto, for example SPAN_KIND_CONSUMER
	Links                 []Link
	Start, End            time.Time
	Failed                bool
	Error                 string
	Attributes            map[string]string
	Resource              map[string]string
	Scope                 string
}

// Link is a link of a span.
type Link struct {
	TraceID, SpanID string
	Sampled         bool
}

// Collector collects spans. The zero value is ready to use. Any goroutine may call its methods.
type Collector struct {
	// Answer, if not nil, can answer a request instead of the collector, and then returns true. The spans of that request
	// do not count.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex // guards the fields below
	spans    []Span
	requests []Request
	changed  chan struct{}
}

// Request is a request that the collector received.
type Request struct {
	Path   string
	Header http.Header
}

// ServeHTTP stores the spans of a request. It refuses anything except OTLP in protobuf.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests = append(c.requests, Request{r.URL.Path, r.Header.Clone()})
	c.mu.Unlock()
	if c.Answer != nil && c.Answer(w, r) {
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzip, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzip
	}
	text, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &request)
	}
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not spans in protobuf", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				span := spanOf(s)
				span.Resource, span.Scope = attributesOf(of.Resource.Attributes), scope.Scope.Name
				c.spans = append(c.spans, span)
			}
		}
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func spanOf(s *trace.Span) Span {
	span := Span{
		Name: s.Name, TraceID: hex.EncodeToString(s.TraceId), SpanID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Kind: s.Kind.String(), Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
		Failed: s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR, Error: s.Status.GetMessage(), Attributes: attributesOf(s.Attributes),
	}
	for _, l := range s.Links {
		span.Links = append(span.Links, Link{hex.EncodeToString(l.TraceId), hex.EncodeToString(l.SpanId), l.Flags&1 != 0})
	}
	return span
}

func attributesOf(list []*common.KeyValue) map[string]string {
	attributes := map[string]string{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			attributes[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			attributes[a.Key] = strconv.FormatInt(v.IntValue, 10)
		default:
			attributes[a.Key] = a.Value.String()
		}
	}
	return attributes
}

// Spans returns the spans received until now, in the order of their arrival.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Requests returns the requests received until now, in the order of their arrival.
func (c *Collector) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// patience is how long Wait waits.
const patience = time.Minute

// Wait returns the spans as soon as there are at least n. It fails the test if they do not arrive within a minute.
func (c *Collector) Wait(t testing.TB, n int) []Span {
	t.Helper()
	late := time.After(patience)
	for {
		c.mu.Lock()
		if len(c.spans) >= n {
			c.mu.Unlock()
			return c.Spans()
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			t.Fatalf("after %v the collector has %d spans, not %d", patience, len(c.Spans()), n)
		}
	}
}
