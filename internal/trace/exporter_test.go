package trace

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/internal/trace/tracetest"
	"github.com/daybookq/daybook/job"
)

// logText is a log that can be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startExporter starts an exporter, which runs until end is called.
func startExporter(t testing.TB, url string, o Options) (e *Exporter, log *logText, end func()) {
	t.Helper()
	log = &logText{}
	var err error
	o.Settings, err = NewSettings(url, environment())
	testkit.MustHold(t, err == nil && o.Settings.Warning == "", o.Settings.Warning, err)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	e = testkit.Must(New(o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { e.Run(ctx); close(ended) }()
	return e, log, func() { cancel(); <-ended }
}

const startedAt, endedAt = 1_700_000_000_000, 1_700_000_001_500

func ended(line, jobs int, outcome string, change func(*job.RunEnd)) job.RunEnd {
	e := job.RunEnd{
		First: job.NewID(startedAt-1000, 5, line), Jobs: jobs, Client: "acme", Type: "mail", Claim: job.NewID(startedAt, 6, 0), Runner: "r1", Attempt: 2,
		StartedAt: startedAt, EndedAt: endedAt, Outcome: outcome, Status: job.Completed,
	}
	if change != nil {
		change(&e)
	}
	return e
}

// TestSpans: each outcome of a run becomes the right span.
func TestSpans(t *testing.T) {
	var c tracetest.Collector
	server := httptest.NewServer(&c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%20value")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	e, log, end := startExporter(t, server.URL, Options{})
	e.Ended([]job.RunEnd{
		ended(0, 2, "ok", func(e *job.RunEnd) { e.ExitCode, e.Traceparent = 200, sampled }),
		ended(2, 1, "failed", func(e *job.RunEnd) {
			e.ExitCode, e.Status, e.Error, e.Traceparent = 404, job.Failed, "no such address", sampled
		}),
		ended(3, 1, "retry", func(e *job.RunEnd) { e.ExitCode, e.Status = 100, job.Deferred }),
		ended(4, 1, "error", func(e *job.RunEnd) { e.ExitCode, e.Status, e.Error = 500, job.Failed, "panic" }),
		ended(5, 1, job.RunAbandoned, func(e *job.RunEnd) { e.Status, e.Error = job.Pending, "nobody tickled it" }),
		ended(6, 1, job.RunCancelled, func(e *job.RunEnd) { e.Status, e.Error = job.Cancelled, "it was cancelled" }),
		ended(7, 1, job.RunDeleted, func(e *job.RunEnd) { e.Status, e.Runner = job.Purged, "" }),
		ended(8, 1, "unget", func(e *job.RunEnd) { e.Status = job.Pending }),
		ended(9, 1, "damaged", func(e *job.RunEnd) { e.Status = job.Deferred }),
		ended(10, 1, "ok", func(e *job.RunEnd) { e.Traceparent = unsampled }),
	})
	end()
	spans := c.Spans()
	slices.SortFunc(spans, func(x, y tracetest.Span) int {
		return strings.Compare(x.Attributes["messaging.message.id"], y.Attributes["messaging.message.id"])
	})
	outcomes, statuses := "ok ok failed retry error abandoned cancelled deleted", "completed completed failed deferred failed pending cancelled "
	codes, errors := "200 200 404 100 500   ", "||no such address||panic|nobody tickled it||"
	of := func(list, separator string, i int) string { return strings.Split(list, separator)[i] }
	testkit.MustEqual(t, len(spans), len(strings.Fields(outcomes)), "spans", spans)
	traces := map[string]bool{}
	for i, s := range spans {
		outcome := of(outcomes, " ", i)
		want := map[string]string{
			"messaging.system": "daybook", "messaging.operation.type": "process", "messaging.operation.name": "process", "messaging.destination.name": "mail",
			"messaging.message.id": job.NewID(startedAt-1000, 5, i).String(), "messaging.client.id": "r1", "daybook.runner": "r1", "daybook.client": "acme",
			"daybook.claim_id": job.NewID(startedAt, 6, 0).String(), "daybook.attempt": "2", "daybook.outcome": outcome,
		}
		failed := strings.Contains("failed retry error abandoned", outcome)
		if failed {
			want["error.type"] = outcome
		}
		if code := of(codes, " ", i); code != "" {
			want["daybook.exit_code"] = code
		}
		if status := of(statuses, " ", i); status != "" {
			want["daybook.status"] = status
		}
		if outcome == "deleted" {
			delete(want, "messaging.client.id")
			delete(want, "daybook.runner")
		}
		testkit.Holds(t, maps.Equal(s.Attributes, want), outcome, "attributes", s.Attributes, "not", want)
		testkit.Holds(t, s.Name == "process mail" && s.Kind == "SPAN_KIND_CONSUMER" && s.Parent == "" && s.Start.UnixMilli() == startedAt &&
			s.End.UnixMilli() == endedAt && s.Failed == failed && s.Error == of(errors, "|", i) && !traces[s.TraceID], outcome, s)
		traces[s.TraceID] = true
		if linked := i < 3; linked != slices.Equal(s.Links, []tracetest.Link{{TraceID: sampled[3:35], SpanID: sampled[36:52], Sampled: true}}) || !linked && len(s.Links) > 0 {
			t.Errorf("%s: links %v", outcome, s.Links)
		}
		testkit.Holds(t, s.Resource["service.name"] == "daybook" && s.Resource["deployment.environment.name"] == "test" &&
			s.Resource["telemetry.sdk.language"] == "go", "resource", s.Resource)
	}
	r := c.Requests()
	testkit.Holds(t, r[0].Path == "/v1/traces" && r[0].Header.Get("Api-Key") == "secret value", "requests", r)
	testkit.Equal(t, e.Counts(), (Counts{Exported: 8}), "counts")
	testkit.Equal(t, log.String(), "", log)
}

// TestSampling: a sampler's ratio applies to runs without a producer. If the producer was sampled, all its runs are
// sampled if the sampler follows the producer. Otherwise its trace id decides, so that all or none are.
func TestSampling(t *testing.T) {
	for name, c := range map[string]struct{ unlinkedLeast, unlinkedMost, linked, unsampled int }{
		"parentbased_always_on":    {200, 200, 200, 0},
		"parentbased_always_off":   {0, 0, 200, 0},
		"parentbased_traceidratio": {65, 135, 200, 0},
		"always_on":                {200, 200, 200, 200},
		"always_off":               {0, 0, 0, 0},
		// A ratio of 0.5 samples the traces whose last eight bytes are a number below 2^63. The producer's trace is one.
		"traceidratio": {65, 135, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var c2 tracetest.Collector
			server := httptest.NewServer(&c2)
			defer server.Close()
			settings, err := NewSettings(server.URL, environment(envSampler, name, envSamplerArg, "0.5"))
			testkit.MustHold(t, err == nil && settings.Warning == "", settings.Warning, err)
			e := testkit.Must(New(Options{Settings: settings, Logger: slog.New(slog.DiscardHandler)}))(t)
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // Run exports the rest, and returns
			e.Ended([]job.RunEnd{
				ended(0, 200, "ok", nil),
				ended(200, 200, "ok", func(e *job.RunEnd) { e.Traceparent = "00-0af7651916cd43dd0448eb211c80319c-b7ad6b7169203331-01" }),
				ended(400, 200, "ok", func(e *job.RunEnd) { e.Traceparent = "00-0af7651916cd43dd0448eb211c80319c-b7ad6b7169203331-00" }),
			})
			e.Run(ctx)
			got := map[string]int{}
			for _, s := range c2.Spans() {
				got[fmt.Sprint(s.Links)]++
			}
			link := func(sampled bool) int {
				return got[fmt.Sprint([]tracetest.Link{{TraceID: "0af7651916cd43dd0448eb211c80319c", SpanID: sampledSpan, Sampled: sampled}})]
			}
			if n := got["[]"]; n < c.unlinkedLeast || n > c.unlinkedMost || link(true) != c.linked || link(false) != c.unsampled {
				t.Errorf("spans by link: %v", got)
			}
		})
	}
}

const sampledSpan = "b7ad6b7169203331"

// TestCollectorHangs: neither Ended nor the end of Run waits for a collector that never answers. Spans that do not fit
// are counted.
func TestCollectorHangs(t *testing.T) {
	release := make(chan struct{})
	c := tracetest.Collector{Answer: func(http.ResponseWriter, *http.Request) bool { <-release; return true }}
	server := httptest.NewServer(&c)
	defer server.Close()
	defer close(release)
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	e, log, end := startExporter(t, server.URL, Options{Flush: 100 * time.Millisecond, maxQueued: 1000})
	const most = 1000 + 64 + 2*16 // in our queue, in the SDK's queue, and in its batches
	for line := 0; line < 100_000; line += 100 {
		e.Ended([]job.RunEnd{ended(line, 100, "ok", nil)})
	}
	dropped := e.Counts().Dropped
	testkit.Holds(t, dropped >= 100_000-most, dropped, "of 100,000 spans are dropped")
	end() // does not wait for the collector, which answers after the test
	got := e.Counts()
	testkit.Holds(t, got.Exported == 0 && got.Failed != 0 && got.Failed+got.Dropped == 100_000, "counts", got)
	e.Ended([]job.RunEnd{ended(0, 3, "ok", nil)})
	got = e.Counts()
	testkit.Equal(t, got.Failed+got.Dropped, 100_003, "counts after the end", got)
	testkit.Equal(t, strings.Count(log.String(), "did not accept spans"), 1, "messages", log)
}

// TestCollectorRefuses: errors are counted, and logged at most once a minute, without secrets.
func TestCollectorRefuses(t *testing.T) {
	c := tracetest.Collector{Answer: func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "go away", http.StatusForbidden)
		return true
	}}
	server := httptest.NewServer(&c)
	defer server.Close()
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=topsecret")
	e, log, end := startExporter(t, server.URL, Options{})
	e.Ended([]job.RunEnd{ended(0, 100, "ok", nil)})
	end()
	testkit.Equal(t, e.Counts(), (Counts{Failed: 100}), "counts")
	text := log.String()
	testkit.Holds(t, strings.Count(text, "did not accept spans") == 1 && strings.Contains(text, "403") && !strings.Contains(text, "topsecret"), text)
}

// TestHeadersAreNotLogged: the SDK's messages about invalid headers do not contain any part of them.
func TestHeadersAreNotLogged(t *testing.T) {
	for _, headers := range []string{"api-key topsecret", "api key=topsecret", "api-key=topsecret%zz"} {
		t.Run(headers, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
			_, log, end := startExporter(t, "http://127.0.0.1:1", Options{})
			end()
			text := log.String()
			testkit.Holds(t, text != "" && !strings.Contains(text, "secret") && !strings.Contains(text, "zz"), "log", text)
		})
	}
}

// TestCollectorIsAway: spans that cannot be sent are counted, and the exporter continues when the collector is reachable.
func TestCollectorIsAway(t *testing.T) {
	var c tracetest.Collector
	server := httptest.NewUnstartedServer(&c)
	address := server.Listener.Addr().String()
	server.Listener.Close()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	e, _, end := startExporter(t, "http://"+address, Options{})
	e.Ended([]job.RunEnd{ended(0, 5, "ok", nil)})
	testkit.Eventually(t, "five exports fail", func() bool { return e.Counts().Failed >= 5 })
	listener := testkit.Must(net.Listen("tcp", address))(t)
	go http.Serve(listener, &c)
	defer listener.Close()
	e.Ended([]job.RunEnd{ended(5, 7, "ok", nil)})
	c.Wait(t, 7)
	end()
	testkit.Equal(t, e.Counts(), (Counts{Failed: 5, Exported: 7}), "counts")
}

// BenchmarkEnded measures the applier's cost for 100 runs that end together.
func BenchmarkEnded(b *testing.B) {
	for name, traceparent := range map[string]string{"sampled": sampled, "unsampled": unsampled} {
		b.Run(name, func(b *testing.B) {
			q := newQueue(maxQueuedRuns)
			s, _ := newSampling("", "")
			ends := []job.RunEnd{ended(0, 100, "ok", func(e *job.RunEnd) { e.Traceparent = traceparent })}
			done, cancel := context.WithCancel(context.Background())
			cancel()
			for b.Loop() {
				if q.put(ends, s.never) > 0 || q.runs == maxQueuedRuns/100*100 {
					q.take(done)
					q.runs, q.closed = 0, false
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/run")
		})
	}
}

// BenchmarkSpans measures how many spans per second can be created, batched and sent to a collector on this machine.
func BenchmarkSpans(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	e, _, end := startExporter(b, server.URL, Options{Flush: time.Minute, maxQueued: 1 << 40})
	for line := 0; line < b.N; line += 100 {
		e.Ended([]job.RunEnd{ended(line%1_000_000, 100, "ok", func(e *job.RunEnd) { e.Traceparent = sampled })})
	}
	end()
	got := e.Counts()
	testkit.MustHold(b, got.Failed == 0 && got.Exported >= uint64(b.N), "counts", got)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spans/s")
}
