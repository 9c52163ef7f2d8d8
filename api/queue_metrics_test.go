package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// families scrapes the metrics like a Prometheus that takes native histograms.
func (r *rig) families() map[string]*dto.MetricFamily {
	r.Helper()
	req := testkit.Must(http.NewRequest(http.MethodGet, r.url+"/metrics", nil))(r)
	req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	resp := testkit.Must(http.DefaultClient.Do(req))(r)
	defer resp.Body.Close()
	all := map[string]*dto.MetricFamily{}
	for d := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)); ; {
		f := &dto.MetricFamily{}
		if err := d.Decode(f); err == io.EOF {
			return all
		} else if err != nil {
			r.Fatal(err)
		}
		all[f.GetName()] = f
	}
}

// ofQueue returns the metric of a queue of the client default, and of a status or "".
func ofQueue(all map[string]*dto.MetricFamily, name, typ, status string) *dto.Metric {
	for _, m := range all[name].GetMetric() {
		of := map[string]string{}
		for _, l := range m.GetLabel() {
			of[l.GetName()] = l.GetValue()
		}
		if of["type"] == typ && of["status"] == status && (of["client"] == "default" || of["client"] == otherQueues) {
			return m
		}
	}
	return nil
}

// TestQueueMetrics: everything that happens to jobs over HTTP is counted for their queues.
func TestQueueMetrics(t *testing.T) {
	r := start(t)
	claim := func(typ string, n int) (claimID string, jobs []string) {
		t.Helper()
		o := r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","types":[%q],"max":%d}`, typ, n)).object(http.StatusOK)
		return o["claim_id"].(string), ids(o)
	}
	r.add("/add?jobtype=lines", "1\n2\n3\n").object(http.StatusCreated)
	r.post("/jobs/create", `{"type":"one","payload":"x","delay_ms":3600000}`).object(http.StatusCreated)
	r.post("/jobs/create", `{"type":"one","payload":"x","unique_key":"u","max_attempts":1}`).object(http.StatusCreated)
	r.post("/jobs/create", `{"type":"one","payload":"y","unique_key":"u"}`).object(http.StatusOK) // it exists
	_, one := claim("one", 1)
	r.post("/jobs/"+one[0]+"/complete", `{"runner_id":"r","code":"error","exit_code":500}`).object(http.StatusOK) // its last attempt
	c, lines := claim("lines", 3)
	r.post("/jobs/"+lines[0]+"/complete", `{"runner_id":"r","code":"ok"}`).object(http.StatusOK)
	r.post("/jobs/"+lines[1]+"/complete", `{"runner_id":"r","code":"retry","delay_ms":0}`).object(http.StatusOK)
	r.post("/jobs/"+lines[2]+"/release", `{"claim_id":"`+c+`","how":"unget"}`).object(http.StatusOK)
	r.post("/jobs/"+lines[2]+"/cancel", `{}`).object(http.StatusOK)
	r.post("/jobs/"+lines[0]+"/redrive", `{}`).object(http.StatusOK)
	r.do(http.MethodDelete, "/jobs/"+lines[0], nil)
	r.post("/queues/default/lines/pause", `{}`).object(http.StatusOK)

	all := r.families()
	for _, c := range []struct {
		name, typ string
		want      float64
	}{
		{"created_jobs", "lines", 3}, {"created_jobs", "one", 2},
		{"claimed_jobs", "lines", 3}, {"claimed_jobs", "one", 1},
		{"completed_jobs", "lines", 1}, {"failed_jobs", "one", 1}, {"failed_jobs", "lines", 0},
		{"retried_runs", "lines", 1}, {"retried_runs", "one", 0}, {"returned_runs", "lines", 1},
		{"cancelled_jobs", "lines", 1}, {"redriven_jobs", "lines", 1}, {"deleted_jobs", "lines", 1},
		{"abandoned_runs", "lines", 0}, {"expired_jobs", "lines", 0}, {"created_jobs", otherQueues, 0},
	} {
		m := ofQueue(all, "daybook_queue_"+c.name+"_total", c.typ, "")
		testkit.Holds(t, m != nil && m.GetCounter().GetValue() == c.want, c.name, "of", c.typ, m, "want", c.want)
		testkit.Holds(t, !m.GetCounter().GetCreatedTimestamp().AsTime().Before(time.Now().Add(-time.Hour)), c.name, "of", c.typ, "began", m)
	}
	for _, c := range []struct {
		typ, status string
		want        float64
	}{{"lines", "pending", 1}, {"lines", "active", 0}, {"one", "deferred", 1}, {otherQueues, "pending", 0}} {
		m := ofQueue(all, "daybook_queue_jobs", c.typ, c.status)
		testkit.Holds(t, m != nil && m.GetGauge().GetValue() == c.want, c.status, "jobs of", c.typ, m, "want", c.want)
	}
	m := ofQueue(all, "daybook_queue_paused", "lines", "")
	testkit.Equal(t, m.GetGauge().GetValue(), 1, "paused:", m)
	m = ofQueue(all, "daybook_queue_oldest_pending_seconds", "one", "")
	testkit.Holds(t, m != nil && m.GetGauge().GetValue() == 0, "oldest of a queue without pending jobs", m)
	m = ofQueue(all, "daybook_queue_waiting_seconds", "lines", "")
	testkit.Equal(t, m.GetHistogram().GetSampleCount(), 3, "waiting:", m)
	m = ofQueue(all, "daybook_queue_running_seconds", "lines", "")
	testkit.Equal(t, m.GetHistogram().GetSampleCount(), 2, "running:", m)
}

// TestQueueDurationsAreHistogramsOfTheLibrary: both forms equal a histogram of the library after the same observations.
func TestQueueDurationsAreHistogramsOfTheLibrary(t *testing.T) {
	library := prometheus.NewHistogram(prometheus.HistogramOpts{Buckets: queueBounds[:], NativeHistogramBucketFactor: 1.1})
	var d store.DurationCounts
	for ms := int64(0); ms < 1<<30; ms += 1 + ms/7 {
		for range 1 + ms%5 {
			library.Observe(float64(ms) / 1000)
		}
		d.Add(ms, uint64(1+ms%5))
	}
	var want, got dto.Metric
	testkit.NoError(t, library.Write(&want))
	testkit.NoError(t, newDurations(queueWaiting, &d, want.Histogram.CreatedTimestamp.AsTime(), "a", "b").Write(&got))
	diff := got.Histogram.GetSampleSum() - want.Histogram.GetSampleSum()
	testkit.Holds(t, diff <= 1 && diff >= -1, "sum", got.Histogram.GetSampleSum(), "want", want.Histogram.GetSampleSum())
	want.Histogram.SampleSum = got.Histogram.SampleSum // the order of additions
	testkit.Holds(t, proto.Equal(got.Histogram, want.Histogram), got.Histogram, "want", want.Histogram)
}

// TestNoQueueMetrics: with 0 queues, no queue has metrics.
func TestNoQueueMetrics(t *testing.T) {
	r := startWith(t, ingest.Options{})
	r.add("/add", "1\n").object(http.StatusCreated)
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	text := r.get("/metrics").body
	testkit.Holds(t, !strings.Contains(text, "daybook_queue_") && strings.Contains(text, "\ndaybook_queues 1\n"), text)
}

// TestMetricsFollowTheConventions of Prometheus for names, units and help texts.
func TestMetricsFollowTheConventions(t *testing.T) {
	r := start(t)
	r.add("/add", "1\n").object(http.StatusCreated)
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	problems := testkit.Must(promlint.New(strings.NewReader(r.get("/metrics").body)).Lint())(t)
	for _, p := range problems {
		testkit.Holds(t, !strings.HasPrefix(p.Metric, "daybook_"), p.Metric, p.Text)
	}
}

// TestPageOfMetricsHasItsMemory: the metrics of many queues take at most the memory that their pages reserve.
func TestPageOfMetricsHasItsMemory(t *testing.T) {
	testkit.OneByOne(t)
	r := startWith(t, ingest.Options{MetricsQueues: job.MaxMetricsQueues})
	const queues = 500
	var lines strings.Builder
	for i := range queues {
		fmt.Fprintf(&lines, `{"client":"%0128d","type":"%0128d","payload":""}`+"\n", i, i)
	}
	r.add("/jobs/create", lines.String(), "Content-Type", "application/x-ndjson").object(http.StatusCreated)
	for r.server.engine.QueueRows() < queues {
		r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			families, err := r.server.metrics.registry.Gather()
			if err != nil || len(families) == 0 {
				b.Fatal(err)
			}
		}
	})
	var d store.DurationCounts // in all buckets
	for ms := int64(1); ms < 1<<40; ms += 1 + ms/20 {
		d.Add(ms, 1<<30)
	}
	full := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var m dto.Metric
			testkit.NoError(b, newDurations(queueWaiting, &d, time.Now(), "a", "b").Write(&m))
		}
	})
	got := result.AllocedBytesPerOp() + 2*queues*full.AllocedBytesPerOp()
	testkit.Holds(t, got <= scrapeBytes+queues*queueMetricsBytes,
		"a page of", queues, "queues takes", got, "bytes, and counts for", scrapeBytes+queues*queueMetricsBytes)
	t.Logf("%d bytes a queue", got/queues)
}
