package runner

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/runner/wasi"
)

var (
	guestRuns           = prometheus.NewDesc("daybook_runner_guest_runs_total", "Runs of WASI guests, by how they ended.", []string{"end"}, nil)
	guestSeconds        = prometheus.NewDesc("daybook_runner_guest_seconds_total", "How long these runs took, together.", nil, nil)
	guestKills          = prometheus.NewDesc("daybook_runner_guest_kills_total", "Processes that were ended because of a guest's run, by reason.", []string{"reason"}, nil)
	guestCompilations   = prometheus.NewDesc("daybook_runner_guest_compilations_total", "Compilations of modules, by how they ended.", []string{"end"}, nil)
	guestCompileSeconds = prometheus.NewDesc("daybook_runner_guest_compile_seconds_total", "How long these compilations took, together.", nil, nil)
	guestReturned       = prometheus.NewDesc("daybook_runner_guest_jobs_returned_total", "Jobs that went back to their queues because the runner's machine lacked something.", nil, nil)
	guestCacheBytes     = prometheus.NewDesc("daybook_runner_guest_cache_bytes", "Bytes of the cache of modules, when something was last added.", nil, nil)
	guestProcesses      = prometheus.NewDesc("daybook_runner_guest_processes", "Processes for guests, by state: busy or idle.", []string{"state"}, nil)
	guestRequests       = prometheus.NewDesc("daybook_runner_guest_requests", "HTTP requests of guests that are under way.", nil, nil)
)

// guestCollector collects the metrics of guests.
type guestCollector struct{ pool *wasi.Pool }

func (c guestCollector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

func (c guestCollector) Collect(to chan<- prometheus.Metric) {
	metric := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	counts := func(desc *prometheus.Desc, of map[string]int64) {
		for label, n := range of {
			metric(desc, prometheus.CounterValue, float64(n), label)
		}
	}
	s := c.pool.Stats()
	counts(guestRuns, s.Runs)
	counts(guestKills, s.Kills)
	counts(guestCompilations, s.Compilations)
	metric(guestSeconds, prometheus.CounterValue, s.Time.Seconds())
	metric(guestCompileSeconds, prometheus.CounterValue, s.Compiling.Seconds())
	metric(guestReturned, prometheus.CounterValue, float64(s.Returned))
	metric(guestCacheBytes, prometheus.GaugeValue, float64(s.CacheBytes))
	metric(guestProcesses, prometheus.GaugeValue, float64(s.Busy), "busy")
	metric(guestProcesses, prometheus.GaugeValue, float64(s.Idle), "idle")
	metric(guestRequests, prometheus.GaugeValue, float64(s.Requests))
}
