package api

import (
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// docs/reference/metrics.md lists the metrics, and a test compares the two. The values of labels come from the source code:
// routes, statuses, classes. Only the metrics of queues, which are bounded, have the labels client and type. A runner is
// never a label, because there can be a million of them.

// metrics are the metrics that handlers count, and the page that shows all metrics.
type metrics struct {
	reader
	registry *prometheus.Registry
	page     echo.HandlerFunc
	*backupMetrics
}

func newMetrics(o *Options, r reader, served *web.Server, logs *jobLogs, registry *prometheus.Registry) *metrics {
	m := &metrics{reader: r, registry: registry}
	onLostFailures := o.OnLostFailures
	if onLostFailures == nil {
		onLostFailures = func() uint64 { return 0 }
	}
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&engineCollector{r.engine}, &queueCollector{r.engine},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "daybook_on_lost_failures_total", Help: "Lost runners for which the command or URL of --on-lost failed in all tries, or was given up.",
		}, func() float64 { return float64(onLostFailures()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "daybook_http_connections", Help: "Open connections, including idle ones.",
		}, func() float64 { open, _ := served.Connections(); return float64(open) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "daybook_http_connections_evicted_total", Help: "Connections without a request that the server closed to accept new ones, at the limit of open connections.",
		}, func() float64 { _, evicted := served.Connections(); return float64(evicted) }),
	)
	inMemory := func(name, help, label string, of *web.Budget) {
		for _, lane := range of.Lanes() {
			registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: lane.Name()}},
				func() float64 { return float64(lane.Used()) }))
		}
	}
	inMemory("daybook_http_body_bytes_in_flight", "Bytes of request bodies in memory.", "lane", &r.arriving)
	inMemory("daybook_http_answer_bytes_in_flight", "Bytes of answers in memory, including the data that they are made from.", "kind", &r.answered)
	inMemory("daybook_kept_bytes", "Bytes in memory for clients that wait: results of parked claims, requests in streams beside their bodies and answers, and the subscriptions and claims of streams.", "kind", &r.kept)
	m.backupMetrics = newBackupMetrics(registry)
	logs.registerMetrics(registry)
	registerSpanMetrics(o.Spans, registry)
	registerTLSMetrics(o.TLS, served, registry)
	m.page = echo.WrapHandler(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: promLog{o.Log}}))
	return m
}

// promLog logs the errors of promhttp.
type promLog struct{ log zerolog.Logger }

func (l promLog) Println(v ...any) { l.log.Error().Interface("error", v).Msg("metrics page") }

// engineCollector collects the metrics of the engine. All values of a scrape come from one call of Stats.
type engineCollector struct{ engine backend.Engine }

// figure is one metric of the engine: its description for Prometheus, and a function that reads its values.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	values func(*ingest.Stats, func(value float64, label ...string))
}

func gauge(name, help string, value func(*ingest.Stats) float64) figure {
	return single(prometheus.GaugeValue, name, help, value)
}

func counter(name, help string, value func(*ingest.Stats) float64) figure {
	return single(prometheus.CounterValue, name, help, value)
}

func single(kind prometheus.ValueType, name, help string, value func(*ingest.Stats) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), kind, func(s *ingest.Stats, emit func(float64, ...string)) { emit(value(s)) }}
}

func labelled(name, help, label string, values func(*ingest.Stats, func(float64, ...string))) figure {
	return figure{prometheus.NewDesc(name, help, []string{label}, nil), prometheus.GaugeValue, values}
}

var figures = []figure{
	labelled("daybook_watermark_seq", "Positions in the journal: appended ≥ synced ≥ applied ≥ flushed.", "mark",
		func(s *ingest.Stats, emit func(float64, ...string)) {
			emit(float64(s.Appended), "appended")
			emit(float64(s.Synced), "synced")
			emit(float64(s.Applied), "applied")
			emit(float64(s.Flushed), "flushed")
		}),
	labelled("daybook_jobs", "Jobs of all queues, by status.", "status",
		func(s *ingest.Stats, emit func(float64, ...string)) {
			for _, status := range job.Statuses {
				emit(float64(s.Jobs[status.String()]), status.String())
			}
		}),
	labelled("daybook_batches", "Batches with attributes, by status.", "status",
		func(s *ingest.Stats, emit func(float64, ...string)) {
			for status := job.BatchInProgress; int(status) < job.NumBatchStatus; status++ {
				emit(float64(s.Batches[status.String()]), status.String())
			}
		}),
	gauge("daybook_queues", "Queues that exist.", func(s *ingest.Stats) float64 { return float64(s.Queues) }),
	gauge("daybook_sessions", "Sessions that are open.", func(s *ingest.Stats) float64 { return float64(s.Sessions) }),
	labelled("daybook_runners", "Runners that sent heartbeats: those that are alive, and those that were lost or left in the last day.", "state",
		func(s *ingest.Stats, emit func(float64, ...string)) {
			emit(float64(s.Runners.Alive), "alive")
			emit(float64(s.Runners.Dead), "dead")
		}),
	counter("daybook_runners_lost_total", "Runners that were declared lost because they missed three heartbeats.", func(s *ingest.Stats) float64 { return float64(s.Runners.Lost) }),
	gauge("daybook_session_bytes", "About the bytes of the rows of sessions.", func(s *ingest.Stats) float64 { return float64(s.SessionBytes) }),
	gauge("daybook_idempotency_key_bytes", "Bytes of the rows of idempotency keys.", func(s *ingest.Stats) float64 { return float64(s.KeyBytes) }),
	gauge("daybook_idempotency_keys", "Idempotency keys that are kept.", func(s *ingest.Stats) float64 { return float64(s.Keys) }),
	gauge("daybook_parked_claims", "Claims that wait for a job.", func(s *ingest.Stats) float64 { return float64(s.Parked) }),
	gauge("daybook_ready", "1 while the server accepts changes.", func(s *ingest.Stats) float64 { return oneIf(s.Ready) }),
	gauge("daybook_lag_commands", "Commands that are synced but not applied yet.", func(s *ingest.Stats) float64 { return float64(s.LagCommands) }),
	gauge("daybook_lag_bytes", "Bytes of the commands that are synced but not applied yet.", func(s *ingest.Stats) float64 { return float64(s.LagBytes) }),
	gauge("daybook_clock_offset_seconds", "How far the journal's time is ahead of the wall clock.", func(s *ingest.Stats) float64 { return float64(s.ClockOffsetMs) / 1000 }),
	gauge("daybook_history_bytes", "Bytes of the rows that the history of jobs is read from.", func(s *ingest.Stats) float64 { return float64(s.History.Bytes) }),
	gauge("daybook_history_max_bytes", "The bound of daybook_history_bytes.", func(s *ingest.Stats) float64 { return float64(s.History.MaxBytes) }),
	gauge("daybook_history_reach_seconds", "How far the history of jobs reaches back.", func(s *ingest.Stats) float64 {
		if s.History.Since == 0 {
			return 0
		}
		return float64(max(s.Now-s.History.Since, 0)) / 1000
	}),
	gauge("daybook_disk_free_bytes", "Free bytes on the disk with the data.", func(s *ingest.Stats) float64 { return float64(s.DiskFree) }),
	gauge("daybook_disk_low", "1 while the server refuses creates because the disk is almost full.", func(s *ingest.Stats) float64 { return oneIf(s.DiskLow) }),
	counter("daybook_damaged_jobs_total", "Jobs that were deferred with the code damaged because their payloads could not be read.", func(s *ingest.Stats) float64 { return float64(s.Damaged) }),
	counter("daybook_creates_refused_overloaded_total", "Creates refused because too many commands waited to be applied.", func(s *ingest.Stats) float64 { return float64(s.Overloaded) }),
	counter("daybook_ticks_total", "Ticks written to the journal because a timer was due.", func(s *ingest.Stats) float64 { return float64(s.Ticks) }),
	counter("daybook_graces_total", "How often the server gave all leases their full length again.", func(s *ingest.Stats) float64 { return float64(s.Graces) }),
	counter("daybook_replayed_commands_total", "Commands applied when the server started.", func(s *ingest.Stats) float64 { return float64(s.Replayed) }),
	gauge("daybook_journal_bytes", "Bytes of the journal on disk.", func(s *ingest.Stats) float64 { return float64(s.Journal.Bytes) }),
	gauge("daybook_journal_volumes", "Volumes of the journal.", func(s *ingest.Stats) float64 { return float64(s.Journal.Volumes) }),
	gauge("daybook_journal_in_flight_bytes", "Bytes of commands that were proposed and not yet handed to the applier.", func(s *ingest.Stats) float64 { return float64(s.Journal.InFlight) }),
	counter("daybook_journal_records_total", "Records written to the journal.", func(s *ingest.Stats) float64 { return float64(s.Journal.Records) }),
	counter("daybook_journal_groups_total", "Groups of records, each written by one write.", func(s *ingest.Stats) float64 { return float64(s.Journal.Groups) }),
	counter("daybook_journal_syncs_total", "Fsyncs of the journal.", func(s *ingest.Stats) float64 { return float64(s.Journal.Syncs) }),
	counter("daybook_journal_syncing_seconds_total", "How long the fsyncs of the journal took in all; one is under way at a time.", func(s *ingest.Stats) float64 { return float64(s.Journal.SyncTotalUs) / 1e6 }),
	counter("daybook_journal_written_bytes_total", "Bytes written to the journal.", func(s *ingest.Stats) float64 { return float64(s.Journal.Written) }),
	counter("daybook_journal_failures_total", "Writes or fsyncs of the journal that failed.", func(s *ingest.Stats) float64 { return float64(s.Journal.Failures) }),
	counter("daybook_journal_repairs_total", "Repairs of the journal after a failed write.", func(s *ingest.Stats) float64 { return float64(s.Journal.Repairs) }),
	gauge("daybook_store_bytes", "Bytes of the store on disk.", func(s *ingest.Stats) float64 { return float64(s.Store.Bytes) }),
	counter("daybook_store_commits_total", "Commits of the store.", func(s *ingest.Stats) float64 { return float64(s.Store.Commits) }),
}

var journalSync = prometheus.NewDesc("daybook_journal_sync_seconds", "Duration of the fsyncs of the journal; the quantiles are those of the recent ones.", nil, nil)

// syncSummary returns the durations of the fsyncs of the journal.
func syncSummary(j *ingest.JournalStats) prometheus.Metric {
	return prometheus.MustNewConstSummary(journalSync, j.Syncs, float64(j.SyncTotalUs)/1e6,
		map[float64]float64{.5: float64(j.SyncP50Us) / 1e6, .99: float64(j.SyncP99Us) / 1e6, 1: float64(j.SyncMaxUs) / 1e6})
}

var commandSeconds = prometheus.NewDesc("daybook_command_seconds", "How long commands held the applier since the start.", []string{"verb"}, nil)

// commandHistogram returns the times for which commands of a verb occupied the applier.
func commandHistogram(verb string, t ingest.CommandTimes) prometheus.Metric {
	within := map[float64]uint64{}
	for i, bound := range ingest.CommandBounds {
		within[bound.Seconds()] = t.Within[i]
	}
	return prometheus.MustNewConstHistogram(commandSeconds, t.Commands, t.Total.Seconds(), within, verb)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (c *engineCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- journalSync
	ch <- commandSeconds
	for _, f := range figures {
		ch <- f.desc
	}
}

func (c *engineCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.engine.Stats()
	ch <- syncSummary(&stats.Journal)
	for verb, times := range c.engine.CommandTimes() {
		ch <- commandHistogram(verb, times)
	}
	for _, f := range figures {
		f.values(&stats, func(value float64, label ...string) {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, value, label...)
		})
	}
}

// SpanCounts are the spans of runs since the start: Exported ones were accepted by the collector of traces, Dropped
// ones found no room, and Failed ones were refused by the collector or could not be sent to it.
type SpanCounts struct{ Exported, Dropped, Failed uint64 }

// registerSpanMetrics registers the metrics of traces. All are 0 if no traces are exported.
func registerSpanMetrics(counts func() SpanCounts, registry *prometheus.Registry) {
	if counts == nil {
		counts = func() SpanCounts { return SpanCounts{} }
	}
	for result, of := range map[string]func(SpanCounts) uint64{
		"exported": func(c SpanCounts) uint64 { return c.Exported },
		"dropped":  func(c SpanCounts) uint64 { return c.Dropped },
		"failed":   func(c SpanCounts) uint64 { return c.Failed },
	} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "daybook_trace_spans_total", Help: "Spans of runs, by what became of them.", ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(of(counts())) }))
	}
}
