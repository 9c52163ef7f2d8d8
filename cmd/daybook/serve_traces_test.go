package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/internal/trace/tracetest"
)

// servingWith is serving with variables of the environment.
func servingWith(t *testing.T, data string, environ []string, args ...string) *server {
	t.Helper()
	return servingAs(t, data, func(cmd *exec.Cmd) *exec.Cmd { cmd.Env = append(cmd.Env, environ...); return cmd }, args...)
}

// metric returns the value of a metric without a label, or with the labels that name includes.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(get(t, s.url+"/metrics"))
	testkit.MustHold(t, found != nil, "no metric", name)
	return testkit.Must(strconv.ParseFloat(found[1], 64))(t)
}

const producerTrace, producerSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// tracedJob creates a job of a sampled producer.
func tracedJob(t *testing.T, c *client.Client, typ string, attempts int) *client.Job {
	t.Helper()
	n := client.TextJob(typ, "x")
	n.Traceparent, n.MaxAttempts = "00-"+producerTrace+"-"+producerSpan+"-01", attempts
	return testkit.Must(c.Create(t.Context(), n))(t)
}

// claimOne claims the next job of a type.
func claimOne(t *testing.T, c *client.Client, typ string) *client.Job {
	t.Helper()
	claim := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "r1", Types: []string{typ}, Max: 1, Wait: 30 * time.Second}))(t)
	testkit.MustEqual(t, len(claim.Jobs), 1)
	return claim.Jobs[0]
}

func endAs(t *testing.T, c *client.Client, j *client.Job, o client.Outcome) {
	t.Helper()
	testkit.Must(c.Complete(t.Context(), j.ID, j.ClaimID, o))(t)
}

// TestTraces: a real server exports a span for each run, by the variables of OpenTelemetry. After kill -9 it exports
// none for the runs that it replays.
func TestTraces(t *testing.T) {
	var collector tracetest.Collector
	site := httptest.NewServer(&collector)
	defer site.Close()
	environ := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + site.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=topsecret", "OTEL_SERVICE_NAME=queue-1", "OTEL_BSP_SCHEDULE_DELAY=5"}
	data := filepath.Join(t.TempDir(), "data")
	s := servingWith(t, data, environ)
	c := client.New(s.url, client.Options{})
	want := map[string]string{} // by id and attempt: outcome, status, error

	ok := tracedJob(t, c, "ok", 1)
	endAs(t, c, claimOne(t, c, "ok"), client.Outcome{})
	want[ok.ID+" 1"] = "ok completed "
	failed := tracedJob(t, c, "failed", 3)
	endAs(t, c, claimOne(t, c, "failed"), client.Outcome{Code: "failed", Error: "no such address"})
	want[failed.ID+" 1"] = "failed failed no such address"
	retried, now := tracedJob(t, c, "retried", 3), int64(0)
	endAs(t, c, claimOne(t, c, "retried"), client.Outcome{Code: "retry", Error: "busy", DelayMs: &now})
	endAs(t, c, claimOne(t, c, "retried"), client.Outcome{Code: "error", Error: "broken", DelayMs: &now})
	endAs(t, c, claimOne(t, c, "retried"), client.Outcome{ExitCode: 201})
	want[retried.ID+" 1"], want[retried.ID+" 2"], want[retried.ID+" 3"] = "retry pending busy", "error pending broken", "ok completed "
	brief := client.TextJob("abandoned", "x")
	brief.Traceparent, brief.MaxAttempts, brief.LeaseMs = "00-"+producerTrace+"-"+producerSpan+"-01", 1, 1000
	abandoned := testkit.Must(c.Create(t.Context(), brief))(t)
	claimOne(t, c, "abandoned")
	want[abandoned.ID+" 1"] = "abandoned failed nobody tickled it within its lease"
	cancelled := tracedJob(t, c, "cancelled", 1)
	claimOne(t, c, "cancelled")
	testkit.Must(c.Cancel(t.Context(), cancelled.ID))(t)
	want[cancelled.ID+" 1"] = "cancelled cancelled "
	released := tracedJob(t, c, "released", 1)
	j := claimOne(t, c, "released")
	testkit.Must(c.Release(t.Context(), j.ID, j.ClaimID, client.Unget, nil))(t)
	endAs(t, c, claimOne(t, c, "released"), client.Outcome{}) // the run before it does not count
	want[released.ID+" 1"] = "ok completed "
	unsampled := client.TextJob("unsampled", "x")
	unsampled.Traceparent = "00-" + producerTrace + "-" + producerSpan + "-00"
	testkit.Must(c.Create(t.Context(), unsampled))(t)
	endAs(t, c, claimOne(t, c, "unsampled"), client.Outcome{})
	alone := testkit.Must(c.Create(t.Context(), client.TextJob("alone", "x")))(t) // without a producer
	endAs(t, c, claimOne(t, c, "alone"), client.Outcome{})
	want[alone.ID+" 1"] = "ok completed "

	collector.Wait(t, len(want))
	testkit.Eventually(t, "the spans are counted", func() bool { return s.metric(t, `daybook_trace_spans_total{result="exported"}`) >= float64(len(want)) })
	s.end(t, syscall.SIGKILL)
	s = servingWith(t, data, environ)
	testkit.Holds(t, s.metric(t, "daybook_replayed_commands_total") != 0, "the start has replayed nothing, so the test shows nothing")
	c = client.New(s.url, client.Options{})
	last := tracedJob(t, c, "last", 1)
	endAs(t, c, claimOne(t, c, "last"), client.Outcome{})
	want[last.ID+" 1"] = "ok completed "
	collector.Wait(t, len(want))
	testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")

	got := map[string]string{}
	for _, span := range collector.Spans() {
		key := span.Attributes["messaging.message.id"] + " " + span.Attributes["daybook.attempt"]
		testkit.Equal(t, got[key], "")
		got[key] = span.Attributes["daybook.outcome"] + " " + span.Attributes["daybook.status"] + " " + span.Error
		producer := []tracetest.Link{{TraceID: producerTrace, SpanID: producerSpan, Sampled: true}}
		testkit.Equal(t, !strings.HasPrefix(key, alone.ID), slices.Equal(span.Links, producer), "links of", key)
		testkit.Equal(t, span.Parent, "", "links of", key)
		if span.Name != "process "+span.Attributes["messaging.destination.name"] || span.Attributes["daybook.runner"] != "r1" || span.Attributes["daybook.client"] != "default" ||
			span.Resource["service.name"] != "queue-1" || span.End.Before(span.Start) || time.Since(span.Start) > time.Hour { // real time: its date is the date of the test
			t.Errorf("%+v", span)
		}
	}
	testkit.Holds(t, maps.Equal(got, want), "spans", got, "not", want)
	for _, r := range collector.Requests() {
		testkit.Equal(t, r.Path, "/v1/traces")
		testkit.Equal(t, r.Header.Get("Api-Key"), "topsecret")
	}
	testkit.Lacks(t, s.log.String(), "topsecret")
}

// TestTracesAtTheEnd: --otlp has precedence over the variable, and a clean stop exports the remaining spans, although
// the SDK would wait for a minute.
func TestTracesAtTheEnd(t *testing.T) {
	var collector tracetest.Collector
	site := httptest.NewServer(&collector)
	defer site.Close()
	s := servingWith(t, filepath.Join(t.TempDir(), "data"), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=60000"}, "--otlp", site.URL)
	c := client.New(s.url, client.Options{})
	for range 3 {
		tracedJob(t, c, "x", 1)
	}
	claim := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "r1", Max: 3}))(t)
	testkit.MustEqual(t, len(claim.Jobs), 3)
	n, _ := testkit.Must2(c.CompleteClaim(t.Context(), claim.ID, client.Outcome{}))(t)
	testkit.MustEqual(t, n, 3)
	testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")
	testkit.Equal(t, len(collector.Spans()), 3)
}

// TestTracesAreOff: without an endpoint, and with variables that switch traces off, nothing is exported.
func TestTracesAreOff(t *testing.T) {
	var collector tracetest.Collector
	site := httptest.NewServer(&collector)
	defer site.Close()
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=" + site.URL
	for name, environ := range map[string][]string{
		"no endpoint":      {"OTEL_SERVICE_NAME=x"},
		"disabled":         {endpoint, "OTEL_SDK_DISABLED=true"},
		"another exporter": {endpoint, "OTEL_TRACES_EXPORTER=none"},
		"bad endpoint":     {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=user:topsecret@collector", endpoint},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingWith(t, filepath.Join(t.TempDir(), "data"), environ)
			c := client.New(s.url, client.Options{})
			tracedJob(t, c, "x", 1)
			endAs(t, c, claimOne(t, c, "x"), client.Outcome{})
			testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")
			log := s.log.String()
			testkit.Equal(t, strings.Contains(log, "OTEL_"), name == "bad endpoint")
			testkit.Lacks(t, log, "topsecret")
		})
	}
	testkit.Equal(t, len(collector.Requests()), 0, "requests")
	execute(t, "", "serve", "--otlp", "collector:4318").ends(t, terminal.ExitUsage, "--otlp: ")
}

// TestHangingCollector: a collector that never answers delays neither the server nor its stop beyond the bound.
func TestHangingCollector(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	collector := tracetest.Collector{Answer: func(http.ResponseWriter, *http.Request) bool { <-release; return true }}
	site := httptest.NewServer(&collector)
	defer site.Close()
	defer close(release)
	s := servingWith(t, filepath.Join(t.TempDir(), "data"), []string{"OTEL_BSP_SCHEDULE_DELAY=1"}, "--otlp", site.URL)
	c := client.New(s.url, client.Options{})
	const jobs = 40_000 // more than all queues hold
	for range jobs / 10_000 {
		testkit.Must(c.AddLines(t.Context(), []byte(strings.Repeat("x\n", 10_000)), client.AddOptions{}))(t)
	}
	for done := 0; done < jobs; {
		claim := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "r1", Max: 1000}))(t)
		testkit.MustHold(t, len(claim.Jobs) != 0)
		testkit.Must2(c.CompleteClaim(t.Context(), claim.ID, client.Outcome{}))(t)
		done += len(claim.Jobs)
	}
	n := s.metric(t, `daybook_trace_spans_total{result="dropped"}`)
	testkit.Holds(t, n != 0 && n != jobs, n, "of", jobs, "spans are dropped")
	testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code", s.log) // a stop that waited for the collector would never end
	testkit.Equal(t, strings.Count(s.log.String(), "did not accept spans"), 1)
}
