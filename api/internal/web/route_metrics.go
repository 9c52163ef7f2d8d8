package web

import (
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// RequestMetrics are the numbers and durations of requests, by route.
type RequestMetrics struct {
	routes    map[routeKey]*RouteMetrics
	unrouted  *RouteMetrics
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func NewRequestMetrics(registry *prometheus.Registry) *RequestMetrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "daybook_http_requests_total", Help: "Requests answered, by route and class of status.",
	}, []string{"method", "route", "class"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "daybook_http_request_duration_seconds", Help: "Time from the request's header to the end of its answer, including the wait of a claim.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"method", "route"})
	registry.MustRegister(requests, durations)
	m := &RequestMetrics{routes: map[routeKey]*RouteMetrics{}, requests: requests, durations: durations}
	m.unrouted = m.Of("none", "none", false)
	return m
}

// Of returns the series of requests with a method and a path.
func (m *RequestMetrics) Of(method, path string, hot bool) *RouteMetrics {
	r := &RouteMetrics{duration: sync.OnceValue(func() prometheus.Observer { return m.durations.WithLabelValues(method, path) }), hot: hot}
	for class := 1; class < len(r.classes); class++ {
		r.classes[class] = sync.OnceValue(func() prometheus.Counter { return m.requests.WithLabelValues(method, path, strconv.Itoa(class)+"xx") })
	}
	return r
}

type routeKey struct{ method, path string }

// RouteMetrics are the time series of one route. Each is made when it is first used, because clients never call most
// routes of a server.
type RouteMetrics struct {
	classes  [6]func() prometheus.Counter // by the first digit of the status
	duration func() prometheus.Observer
	hot      bool
}

// Observe counts a request.
func (r *RouteMetrics) Observe(status int, took time.Duration) {
	r.classes[min(max(status/100, 1), 5)]().Inc()
	r.duration().Observe(took.Seconds())
}

// ofRequest returns the series of the request's route.
func (m *RequestMetrics) ofRequest(c echo.Context) *RouteMetrics {
	if r := m.routes[routeKey{c.Request().Method, c.Path()}]; r != nil {
		return r
	}
	return m.unrouted
}
