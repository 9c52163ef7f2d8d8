package runner

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var (
	heldJobs    = prometheus.NewDesc("daybook_runner_jobs_held", "Jobs that the runner holds.", nil, nil)
	slotsTotal  = prometheus.NewDesc("daybook_runner_slots", "Slots of the runner.", nil, nil)
	handlerSum  = prometheus.NewDesc("daybook_runner_handlers", "Handlers whose jobs the runner claims.", nil, nil)
	claimedJobs = prometheus.NewDesc("daybook_runner_jobs_claimed_total", "Jobs that were handed out to the runner.", nil, nil)
	endedJobs   = prometheus.NewDesc("daybook_runner_jobs_ended_total",
		"Runs that have ended, by type and by how: ok, failed, retry, error, returned (to the queue) or lost.", []string{"type", "code"}, nil)
	jobSeconds = prometheus.NewDesc("daybook_runner_job_seconds_total", "How long the jobs of a type were in the runner, together.", []string{"type"}, nil)
	reachable  = prometheus.NewDesc("daybook_runner_server_reachable", "1 if the last request to the server was answered.", nil, nil)
)

// collector collects a runner's metrics.
type collector struct{ *Runner }

func (c collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

func (c collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	up := 0.0
	if c.Healthy() == nil {
		up = 1
	}
	gauge(reachable, up)
	gauge(slotsTotal, float64(c.Concurrency))
	c.Runner.mu.Lock()
	lanes := len(c.lanes)
	c.Runner.mu.Unlock()
	gauge(handlerSum, float64(lanes))
	c.collectContainers(to)
	n := &c.counters
	n.mu.Lock()
	defer n.mu.Unlock()
	gauge(heldJobs, float64(n.held))
	to <- prometheus.MustNewConstMetric(claimedJobs, prometheus.CounterValue, float64(n.claimed))
	for e, count := range n.ended {
		to <- prometheus.MustNewConstMetric(endedJobs, prometheus.CounterValue, float64(count), e.typ, e.code)
	}
	for typ, took := range n.took {
		to <- prometheus.MustNewConstMetric(jobSeconds, prometheus.CounterValue, took.Seconds(), typ)
	}
}

// Handler serves /metrics and /healthz. /healthz answers 503 while the server is unreachable.
func (r *Runner) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{r}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if r.kinds.guests != nil {
		registry.MustRegister(guestCollector{r.kinds.guests})
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := r.Healthy(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
