package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// maxLatency is the longest latency that a histogram records; longer latencies count as this.
	maxLatency = 10 * time.Minute
	// digits is the precision of histograms, in digits. Three digits take 150 KiB.
	digits = 3
)

// Latencies is a histogram of durations. Any goroutine may use it.
type Latencies struct {
	mu   sync.Mutex // guards the fields below
	hdr  *hdrhistogram.Histogram
	most time.Duration
}

// NewLatencies returns an empty histogram. Its resolution is a microsecond, or a thousandth of the duration if that is
// longer.
func NewLatencies() *Latencies {
	return &Latencies{hdr: hdrhistogram.New(1, maxLatency.Microseconds(), digits)}
}

// Add records a duration.
func (l *Latencies) Add(d time.Duration) { l.AddMany(d, 1) }

// AddMany records a duration n times.
func (l *Latencies) AddMany(d time.Duration, n int64) {
	us := max(1, min(d, maxLatency).Microseconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = max(l.most, d)
	if err := l.hdr.RecordValues(us, n); err != nil {
		panic(err) // cannot happen: d is within the bounds of the histogram
	}
}

// Time runs f, and records how long it took if it succeeded.
func (l *Latencies) Time(f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return err
	}
	l.Add(time.Since(began))
	return nil
}

// Count returns how many durations were recorded.
func (l *Latencies) Count() int64 { return l.Summary().Count }

// Quantile returns the q-quantile (0 … 1) of the durations, or 0 if there are none.
func (l *Latencies) Quantile(q float64) time.Duration {
	return time.Duration(l.Percentiles([]float64{100 * q})[0] * float64(time.Millisecond))
}

// Summary returns the quantiles.
func (l *Latencies) Summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Summary{Count: l.hdr.TotalCount(), P50: l.at(50), P90: l.at(90), P99: l.at(99), P999: l.at(99.9), Max: milliseconds(l.most)}
}

// at returns the latency at a percentage, in milliseconds. The histogram rounds up, but at returns no more than the
// maximum. The caller holds l.mu.
func (l *Latencies) at(percent float64) float64 {
	return min(float64(l.hdr.ValueAtPercentile(percent))/1000, milliseconds(l.most))
}

// Percentiles returns the latency at each percentage, in milliseconds.
func (l *Latencies) Percentiles(percents []float64) []float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]float64, len(percents))
	for i, p := range percents {
		out[i] = l.at(p)
	}
	return out
}

// Summary has the quantiles of latencies, in milliseconds.
type Summary struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
