package stream

import (
	"github.com/prometheus/client_golang/prometheus"
)

// register registers the metrics of streams.
func (l *Streams) register(registry *prometheus.Registry) {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
	}
	gauge("daybook_streams", "Open streams.", nil, func() float64 { open, _ := l.Count(); return float64(open) })
	gauge("daybook_streams_lingering", "Streams whose connection has ended and whose claims wait for their client.", nil, func() float64 { _, lingering := l.Count(); return float64(lingering) })
	gauge("daybook_streams_limit", "How many streams can be open at once.", nil, func() float64 { return float64(l.room.most) })
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "daybook_streams_evicted_total", Help: "Streams without a request, a subscription and jobs that the server closed to make room for other streams and connections.",
	}, func() float64 { return float64(l.room.evictions()) }))
	const held = "Bytes in memory for requests in streams beside their bodies and answers, and for the subscriptions and claims of streams."
	gauge("daybook_stream_bytes", held, prometheus.Labels{"kind": "requests"}, func() float64 { return float64(l.room.requests.Used()) })
	gauge("daybook_stream_bytes", held, prometheus.Labels{"kind": "jobs"}, func() float64 { return float64(l.room.jobs.Used()) })
}
