package tracetest_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// connectedProducer is the program on docs/reference/traces.md.
func connectedProducer(url string) *client.Client {
	c := client.New(url, client.Options{Traceparent: func(ctx context.Context) string {
		carrier := propagation.MapCarrier{} // go.opentelemetry.io/otel/propagation
		propagation.TraceContext{}.Inject(ctx, carrier)
		return carrier["traceparent"]
	}})
	return c
}

// TestConnectedProducer: the jobs of the program on docs/reference/traces.md carry the trace of its context, and the page
// contains the lines of connectedProducer.
func TestConnectedProducer(t *testing.T) {
	server := daybooktest.Start(t)
	c := connectedProducer(server.URL)
	ctx := oteltrace.ContextWithSpanContext(t.Context(), oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: oteltrace.TraceID{0: 1, 15: 2}, SpanID: oteltrace.SpanID{0: 3, 7: 4}, TraceFlags: oteltrace.FlagsSampled,
	}))
	for want, ctx := range map[string]context.Context{"": t.Context(), "00-01000000000000000000000000000002-0300000000000004-01": ctx} {
		created := testkit.Must(c.Create(ctx, client.NewJob{Type: "resize"}))(t)
		testkit.Equal(t, testkit.Must(c.Job(t.Context(), created.ID))(t).Traceparent, want, "the job has the trace")
	}
	page := testkit.Must(os.ReadFile("../../../docs/reference/traces.md"))(t)
	own := testkit.Must(os.ReadFile("producer_test.go"))(t)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	testkit.Holds(t, block != nil && strings.Contains(string(own), "\t"+strings.ReplaceAll(strings.TrimSpace(string(block[1])), "\n", "\n\t")+"\n"),
		"connectedProducer does not have the lines of the page", block)
}
