package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/api/joblog"
)

// registerLogMetrics makes the metrics of the logs of jobs.
func registerLogMetrics(logs *jobLogs, registry *prometheus.Registry) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func(joblog.Stats) int64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(logs.Stats())) }))
	}
	gauge("daybook_job_logs", "Logs of jobs in memory.", func() float64 { return float64(logs.Stats().Logs) })
	gauge("daybook_job_log_bytes", "Bytes of the logs in memory.", func() float64 { return float64(logs.Stats().Bytes) })
	gauge("daybook_job_log_readers", "Requests that follow the log of a job.", func() float64 { return float64(logs.readers.Load()) })
	counter("daybook_job_log_appended_bytes_total", "Bytes of logs that runners have sent.", func(s joblog.Stats) int64 { return s.AppendedBytes })
	counter("daybook_job_log_missing_bytes_total", "Bytes of logs that runners could not send in time.", func(s joblog.Stats) int64 { return s.MissingBytes })
	counter("daybook_job_logs_dropped_total", "Logs dropped from memory before the end of their jobs to make room.", func(s joblog.Stats) int64 { return s.Dropped })
}
