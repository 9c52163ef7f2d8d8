package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/api/internal/web"
)

// TLS makes a server speak TLS.
type TLS = web.TLS

// registerTLSMetrics registers the metrics of TLS. All are 0 without TLS.
func registerTLSMetrics(t *TLS, served *web.Server, registry *prometheus.Registry) {
	expires := func() float64 {
		if t == nil || t.Expires == nil {
			return 0
		}
		return float64(t.Expires().Unix())
	}
	failures := func() float64 {
		if t == nil || t.Failures == nil {
			return 0
		}
		return float64(t.Failures())
	}
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "daybook_tls_certificate_expires_timestamp_seconds", Help: "Unix time at which the certificate in use expires; 0 without TLS.",
		}, expires),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "daybook_tls_reload_failures_total", Help: "New files of --tls-cert, --tls-key or --tls-client-ca that could not be used, so the server continued with the old ones.",
		}, failures),
	)
	for result, of := range map[string]func(done, failed uint64) uint64{
		"done":   func(done, _ uint64) uint64 { return done },
		"failed": func(_, failed uint64) uint64 { return failed },
	} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "daybook_tls_handshakes_total", Help: "TLS handshakes, by whether they succeeded.", ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(of(served.Handshakes())) }))
	}
}
