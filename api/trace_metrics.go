package api

import "github.com/prometheus/client_golang/prometheus"

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
