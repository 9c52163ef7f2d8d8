package opsqueue

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// metrics are the original's metrics, with the same names. As in the original, counters start at 0 when the server
// starts.
type metrics struct {
	s    *Server
	page http.Handler

	submissions, chunks                       prometheus.Counter
	submissionsCompleted, submissionsFailed   prometheus.Counter
	submissionsCancelled                      prometheus.Counter
	chunksCompleted, chunksFailed             prometheus.Counter
	chunksRetried, chunksSkipped              prometheus.Counter
	reservationsSucceeded, reservationsFailed prometheus.Counter
	reserved                                  prometheus.Gauge
	completeTook, failTook, cancelTook        prometheus.Observer // of submissions, from creation to the end
	chunkCompleted, chunkFailed               prometheus.Observer // of chunks, from the reservation to the end
	reserveTook                               *prometheus.SummaryVec
	completeChunkTook, failChunkTook          prometheus.Observer // from the arrival of the report until it is on disk
	requests                                  *prometheus.CounterVec
	requestsTook                              *prometheus.HistogramVec
	requestsPending                           *prometheus.GaugeVec
}

// quantiles are the quantiles that the original exports.
var quantiles = map[float64]float64{0: 0.001, 0.5: 0.01, 0.9: 0.01, 0.95: 0.005, 0.99: 0.001, 0.999: 0.0001, 1: 0.0001}

func newMetrics(s *Server) *metrics {
	registry := prometheus.NewRegistry()
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	summary := func(name, help string) prometheus.Observer {
		o := prometheus.NewSummary(prometheus.SummaryOpts{Name: name, Help: help, Objectives: quantiles})
		registry.MustRegister(o)
		return o
	}
	route := []string{"method", "endpoint"}
	m := &metrics{
		s: s,

		submissions:          counter("submissions_total_count", "Submissions that were inserted."),
		submissionsCompleted: counter("submissions_completed_count", "Submissions that have completed."),
		submissionsFailed:    counter("submissions_failed_count", "Submissions that have failed."),
		submissionsCancelled: counter("submissions_cancelled_count", "Submissions that were cancelled."),

		chunks:          counter("chunks_total_count", "Chunks that were inserted."),
		chunksCompleted: counter("chunks_completed_count", "Chunks that have completed."),
		chunksFailed:    counter("chunks_failed_count", "Chunks that have failed for good."),
		chunksRetried:   counter("chunks_retried_count", "Failures after which a chunk was available again."),
		chunksSkipped:   counter("chunks_skipped_count", "Chunks that had not ended when their submission failed or was cancelled."),

		reservationsSucceeded: counter("reserver_reservations_succeeded_count", "Requests of consumers that got chunks."),
		reservationsFailed:    counter("reserver_reservations_failed_count", "Requests of consumers that failed."),
		reserved:              prometheus.NewGauge(prometheus.GaugeOpts{Name: "reserver_chunks_reserved_count", Help: "Chunks that connections hold."}),

		completeTook: summary("submissions_complete_duration_seconds", "Time from the creation of a submission until it completed."),
		failTook:     summary("submissions_fail_duration_seconds", "Time from the creation of a submission until it failed."),
		cancelTook:   summary("submissions_cancel_duration_seconds", "Time from the creation of a submission until it was cancelled."),

		chunkCompleted:    summary("chunks_duration_completed_seconds", "Time from the reservation of a chunk until it completed."),
		chunkFailed:       summary("chunks_duration_failure_seconds", "Time from the reservation of a chunk until it failed."),
		completeChunkTook: summary("consumer_complete_chunk_duration_seconds", "Time from the report that a chunk completed until it was on disk."),
		failChunkTook:     summary("consumer_fail_chunk_duration_seconds", "Time from the report that a chunk failed until it was on disk."),
		reserveTook: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "consumer_fetch_and_reserve_chunks_duration_seconds", Objectives: quantiles,
			Help: "Time from a consumer's request until it got chunks, including the wait for some.",
		}, []string{"limit", "strategy"}),

		requests:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "axum_http_requests_total", Help: "Requests that were answered."}, append(route, "status")),
		requestsTook:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "axum_http_requests_duration_seconds", Help: "Time from a request to the end of its answer."}, append(route, "status")),
		requestsPending: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "axum_http_requests_pending", Help: "Requests that are not answered yet."}, route),
	}
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("consumers_connected_count", "Connections of consumers.", func() float64 { return float64(s.connected()) })
	gauge("chunks_in_backlog_count", "Chunks that have not ended, reserved ones too.", func() float64 { return float64(s.backlog()) })
	gauge("operations_in_backlog_count", "Sum of chunk_size over the chunks that have not ended.", func() float64 { return s.operations.get(s) })
	registry.MustRegister(m.reserved, m.reserveTook, m.requests, m.requestsTook, m.requestsPending)
	m.page = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	s.metrics.page.ServeHTTP(w, r)
	return nil
}

func (m *metrics) inserted(chunks int64) {
	m.submissions.Inc()
	m.chunks.Add(float64(chunks))
}

// ended counts the results of reports, which have the same order as list.
func (m *metrics) ended(list []ending, results []applied.JobResult) {
	now := time.Now()
	for i := range results {
		r, of := &results[i], &list[i]
		if r.Refusal != job.Granted || of.outcome.Code == job.Unget {
			continue
		}
		completed := of.outcome.Code == job.OK
		switch {
		case completed:
			m.chunksCompleted.Inc()
		case r.Status == job.Failed:
			m.chunksFailed.Inc()
		default:
			m.chunksRetried.Inc()
		}
		if !of.since.IsZero() {
			observe(m.chunkCompleted, m.chunkFailed, completed, now.Sub(of.since))
		}
		if !of.arrived.IsZero() {
			observe(m.completeChunkTook, m.failChunkTook, completed, now.Sub(of.arrived))
		}
	}
}

// BatchEnds counts ended submissions. It is meant for ingest.Options.OnBatchEnds, and does not block.
func (s *Server) BatchEnds(list []job.BatchEnd) {
	m := s.metrics
	for i := range list {
		e := &list[i]
		if e.Client != Client || e.Type != Type {
			continue
		}
		took := float64(e.EndedAt-e.CreatedAt) / 1000
		switch e.Status {
		case job.BatchCompleted:
			m.submissionsCompleted.Inc()
			m.completeTook.Observe(took)
		case job.BatchFailed:
			m.submissionsFailed.Inc()
			m.failTook.Observe(took)
		case job.BatchCancelled:
			m.submissionsCancelled.Inc()
			m.cancelTook.Observe(took)
		}
		m.chunksSkipped.Add(float64(e.Unfinished))
	}
}

func observe(good, bad prometheus.Observer, isGood bool, took time.Duration) {
	if !isGood {
		good = bad
	}
	good.Observe(took.Seconds())
}

// observeReserve records an answered request for chunks. Unusual values of max share a label, and so do all keys of
// strategies, so that a client cannot add labels without bound.
func (m *metrics) observeReserve(began time.Time, cmd *job.Claim) {
	limit, strategy := "1", cmd.Strategy.Base().String()
	if cmd.Max > 1 {
		limit = "more"
	}
	if len(cmd.Strategy.DistinctKeys()) > 0 {
		strategy = job.PreferDistinctName
	}
	m.reserveTook.WithLabelValues(limit, strategy).Observe(time.Since(began).Seconds())
}

// route measures requests of producers and connections of consumers, as the original does.
func (m *metrics) route(method, path string, next http.Handler) http.Handler {
	if path != "/consumer" && !strings.HasPrefix(path, "/producer/") {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			next.ServeHTTP(w, r)
			return
		}
		pending := m.requestsPending.WithLabelValues(method, path)
		pending.Inc()
		defer pending.Dec()
		began, seen := time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		status := strconv.Itoa(seen.status)
		m.requests.WithLabelValues(method, path, status).Inc()
		m.requestsTook.WithLabelValues(method, path, status).Observe(time.Since(began).Seconds())
	})
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Hijack lets a request become a WebSocket.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := w.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.ErrUnsupported
	}
	return h.Hijack()
}
