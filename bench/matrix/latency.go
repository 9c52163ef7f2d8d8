package matrix

import (
	"slices"
	"time"
)

// Latencies are durations that one goroutine collects.
type Latencies []time.Duration

// Time runs f, and records how long it took if it succeeded.
func (l *Latencies) Time(f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return err
	}
	*l = append(*l, time.Since(began))
	return nil
}

// Quantile returns the q-quantile (0 … 1) of the durations, which it sorts; 0 if there are none.
func (l Latencies) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[min(int(q*float64(len(l))), len(l)-1)]
}
