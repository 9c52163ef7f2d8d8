package runner

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/container"
)

var (
	containersRunning = prometheus.NewDesc("daybook_runner_containers_running", "Jobs that run as containers, with their steps before and after.", nil, nil)
	containersEnded   = prometheus.NewDesc("daybook_runner_containers_ended_total",
		"Runs of containers that have ended, by how: ok, failed, retry, error, or returned (to the queue).", []string{"code"}, nil)
	containerFailures = prometheus.NewDesc("daybook_runner_container_failures_total", "Runs of containers that did not end ok, by reason.", []string{"reason"}, nil)
	containerSteps    = prometheus.NewDesc("daybook_runner_container_steps_total", "Steps of the runs of containers, by result: ok or failed.", []string{"step", "result"}, nil)
	containerSeconds  = prometheus.NewDesc("daybook_runner_container_step_seconds_total", "How long the steps of the runs of containers took, together.", []string{"step"}, nil)
	containersRemoved = prometheus.NewDesc("daybook_runner_containers_removed_total", "Containers removed that ended runners had left.", nil, nil)
	logBytes          = prometheus.NewDesc("daybook_runner_log_bytes_total", "Bytes of the logs of jobs that have ended, by kind.", []string{"kind"}, nil)
	logBytesKept      = prometheus.NewDesc("daybook_runner_log_kept_bytes_total", "Bytes of logs of jobs that were stored as blobs, by kind.", []string{"kind"}, nil)
	filesetFiles      = prometheus.NewDesc("daybook_runner_fileset_files_total",
		"Files of filesets that were pulled and pushed, by result: moved, or skipped because they were there.", []string{"direction", "result"}, nil)
	filesetBytes = prometheus.NewDesc("daybook_runner_fileset_bytes_total", "Bytes of files of filesets that were moved.", []string{"direction"}, nil)
)

// collectContainers collects the metrics of logs and, if the runner has an engine, of containers.
func (r *Runner) collectContainers(to chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
	}
	printed, kept := r.kinds.logs.Bytes()
	counter(logBytes, float64(printed), handler.Exec)
	counter(logBytesKept, float64(kept), handler.Exec)
	if r.kinds.containers == nil {
		return
	}
	s := r.kinds.containers.Stats()
	to <- prometheus.MustNewConstMetric(containersRunning, prometheus.GaugeValue, float64(s.Running))
	for _, code := range []string{"ok", "failed", "retry", "error", "returned"} {
		counter(containersEnded, float64(s.Ended[code]), code)
	}
	for _, reason := range container.Reasons() {
		counter(containerFailures, float64(s.Failures[reason]), reason)
	}
	for _, step := range container.Steps() {
		n := s.Steps[step]
		counter(containerSteps, float64(n.OK), step, "ok")
		counter(containerSteps, float64(n.Failed), step, "failed")
		counter(containerSeconds, n.Took.Seconds(), step)
	}
	counter(containersRemoved, float64(s.LeftOvers))
	counter(logBytes, float64(s.LogBytes), handler.Container)
	counter(logBytesKept, float64(s.LogBytesKept), handler.Container)
	pulled, pushed := r.moved.sums()
	for direction, moved := range map[string]files.Moved{"pull": pulled, "push": pushed} {
		counter(filesetFiles, float64(moved.Files), direction, "moved")
		counter(filesetFiles, float64(moved.Skipped), direction, "skipped")
		counter(filesetBytes, float64(moved.Bytes), direction)
	}
}
