package files

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/blob"
)

// blobMetrics has the metrics of blobs.
type blobMetrics struct {
	blobsPut, blobBytesPut, blobsDamaged prometheus.Counter
}

func newBlobMetrics(blobs *Storage, registry *prometheus.Registry) blobMetrics {
	of := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	stats, used := func() blob.CollectorStats { return blob.CollectorStats{} }, func() int64 { return 0 }
	if blobs != nil {
		stats, used = blobs.Collector.Stats, blobs.Used
	}
	counter := func(name, help string, value func(blob.CollectorStats) int64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(stats())) }))
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "daybook_blob_bytes", Help: "Bytes of all blobs, including uploads under way."},
		func() float64 { return float64(used()) }))
	counter("daybook_blob_collections_total", "Collections of blobs that nothing names, which were carried out to the end.", func(s blob.CollectorStats) int64 { return s.Collections })
	counter("daybook_blob_collection_failures_total", "Collections of blobs that failed; the log has the reason.", func(s blob.CollectorStats) int64 { return s.Failures })
	counter("daybook_blobs_collected_total", "Blobs removed because nothing names them.", func(s blob.CollectorStats) int64 { return int64(s.Collected.Blobs) })
	counter("daybook_blob_collected_bytes_total", "Bytes of blobs removed because nothing names them.", func(s blob.CollectorStats) int64 { return s.Collected.Bytes })
	requests := func() map[string]blob.RequestStats { return nil }
	if blobs != nil && blobs.Requests != nil {
		requests = blobs.Requests
	}
	for name, of := range map[string]struct {
		help  string
		value func(blob.RequestStats) float64
	}{
		"daybook_blob_store_requests_total": {"Requests to the bucket of the blobs.", func(s blob.RequestStats) float64 { return float64(s.Requests) }},
		"daybook_blob_store_failures_total": {"Requests to the bucket of the blobs that got no answer, or a refusal.", func(s blob.RequestStats) float64 { return float64(s.Failures) }},
		"daybook_blob_store_seconds_total":  {"Time until the answers of the bucket of the blobs began.", func(s blob.RequestStats) float64 { return s.Seconds }},
	} {
		for _, method := range blob.RequestMethods {
			registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: of.help, ConstLabels: prometheus.Labels{"method": method}},
				func() float64 { return of.value(requests()[method]) }))
		}
	}
	return blobMetrics{
		blobsPut:     of("daybook_blobs_put_total", "Blobs uploaded, including those that were there."),
		blobBytesPut: of("daybook_blob_put_bytes_total", "Bytes of blobs uploaded."),
		blobsDamaged: of("daybook_blobs_damaged_total", "Reads that found a blob damaged. A repeated upload repairs it."),
	}
}
