package api

import (
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/store"
)

// otherQueues is the client and type in the metrics of all queues that are not counted separately. No name has
// parentheses.
const otherQueues = "(other)"

const (
	// scrapeBytes is the memory for a page without the metrics of queues. queueMetricsBytes is the memory for the
	// metrics of one queue.
	scrapeBytes       = 512 << 10
	queueMetricsBytes = 48 << 10
)

// show answers with all metrics.
func (m *metrics) show(c echo.Context) error {
	held, err := web.Hold(c, m.scrapes, scrapeBytes+int64(m.engine.QueueRows())*queueMetricsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	return m.page(c)
}

// queueCollector collects the metrics of queues.
type queueCollector struct{ engine backend.Engine }

var queueLabels = []string{"client", "type"}

// queueCounter is a counter of each queue.
type queueCounter struct {
	desc  *prometheus.Desc
	value func(*store.QueueFigures) uint64
}

func newQueueCounter(name, help string, value func(*store.QueueFigures) uint64) queueCounter {
	return queueCounter{prometheus.NewDesc(name, help, queueLabels, nil), value}
}

var queueCounters = []queueCounter{
	newQueueCounter("daybook_queue_created_jobs_total", "Jobs created.", func(f *store.QueueFigures) uint64 { return f.Created }),
	newQueueCounter("daybook_queue_claimed_jobs_total", "Jobs handed out to runners, once for each run.", func(f *store.QueueFigures) uint64 { return f.Claimed }),
	newQueueCounter("daybook_queue_completed_jobs_total", "Jobs that completed.", func(f *store.QueueFigures) uint64 { return f.Completed }),
	newQueueCounter("daybook_queue_failed_jobs_total", "Jobs that failed for good.", func(f *store.QueueFigures) uint64 { return f.Failed }),
	newQueueCounter("daybook_queue_retried_runs_total", "Runs that ended with retry or error, and whose jobs run again.", func(f *store.QueueFigures) uint64 { return f.Retried }),
	newQueueCounter("daybook_queue_abandoned_runs_total", "Runs that ended without a report: their lease or time-out ended, or their runner was lost.", func(f *store.QueueFigures) uint64 { return f.Abandoned }),
	newQueueCounter("daybook_queue_returned_runs_total", "Runs that ended without an attempt: the runner returned the job, or its payload was damaged.", func(f *store.QueueFigures) uint64 { return f.Returned }),
	newQueueCounter("daybook_queue_cancelled_jobs_total", "Jobs that were cancelled, also because they expired.", func(f *store.QueueFigures) uint64 { return f.Cancelled }),
	newQueueCounter("daybook_queue_expired_jobs_total", "Jobs that were cancelled because they were not started in time.", func(f *store.QueueFigures) uint64 { return f.Expired }),
	newQueueCounter("daybook_queue_deleted_jobs_total", "Jobs that were deleted before their end.", func(f *store.QueueFigures) uint64 { return f.Deleted }),
	newQueueCounter("daybook_queue_redriven_jobs_total", "Ended jobs that were made pending again.", func(f *store.QueueFigures) uint64 { return f.Redriven }),
}

var (
	queueWaiting = prometheus.NewDesc("daybook_queue_waiting_seconds", "How long claimed jobs had been pending.", queueLabels, nil)
	queueRunning = prometheus.NewDesc("daybook_queue_running_seconds", "How long runs took whose outcome was reported.", queueLabels, nil)
	queueJobs    = prometheus.NewDesc("daybook_queue_jobs", "Jobs that have not ended, by status.", append(queueLabels, "status"), nil)
	queueOldest  = prometheus.NewDesc("daybook_queue_oldest_pending_seconds", "For how long the job has been pending that has waited longest of those that are next in line; 0 if none is pending.", queueLabels, nil)
	queuePaused  = prometheus.NewDesc("daybook_queue_paused", "1 while the queue is paused.", queueLabels, nil)
)

// queueBounds are the upper bounds of the classic buckets, in seconds.
var queueBounds = func() (bounds [len(store.DurationBoundsMs)]float64) {
	for i, ms := range store.DurationBoundsMs {
		bounds[i] = float64(ms) / 1000
	}
	return bounds
}()

func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, counter := range queueCounters {
		ch <- counter.desc
	}
	for _, desc := range []*prometheus.Desc{queueWaiting, queueRunning, queueJobs, queueOldest, queuePaused} {
		ch <- desc
	}
}

func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	all := c.engine.QueueFigures()
	now := c.engine.Now()
	for i := range all {
		f := &all[i]
		client, typ := f.Client, f.Type
		others := i == len(all)-1
		if others {
			client, typ = otherQueues, otherQueues
		}
		since := time.UnixMilli(f.Since)
		for _, counter := range queueCounters {
			ch <- prometheus.MustNewConstMetricWithCreatedTimestamp(counter.desc, prometheus.CounterValue, float64(counter.value(f)), since, client, typ)
		}
		ch <- newDurations(queueWaiting, &f.Waiting, since, client, typ)
		ch <- newDurations(queueRunning, &f.Running, since, client, typ)
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{client, typ}, labels...)...)
		}
		gauge(queueJobs, float64(f.Deferred), "deferred")
		gauge(queueJobs, float64(f.Pending), "pending")
		gauge(queueJobs, float64(f.Active), "active")
		if others {
			continue
		}
		gauge(queuePaused, oneIf(f.Paused))
		switch {
		case f.PendingSince > 0:
			gauge(queueOldest, float64(max(0, now-f.PendingSince))/1000)
		case f.PendingSince == 0:
			gauge(queueOldest, 0)
		}
	}
}

// durations is a histogram in both forms: with classic buckets, and native.
type durations struct {
	desc  *prometheus.Desc
	value *dto.Histogram
	label []*dto.LabelPair
}

func (d durations) Desc() *prometheus.Desc { return d.desc }

func (d durations) Write(out *dto.Metric) error {
	out.Histogram, out.Label = d.value, d.label
	return nil
}

func newDurations(desc *prometheus.Desc, d *store.DurationCounts, since time.Time, labels ...string) durations {
	h := &dto.Histogram{
		SampleSum: new(float64(d.SumMs) / 1000), SampleCount: new(d.Count()), CreatedTimestamp: timestamppb.New(since),
		Schema: new(int32(store.NativeSchema)), ZeroThreshold: new(prometheus.DefNativeHistogramZeroThreshold), ZeroCount: new(d.Zero),
	}
	sum := uint64(0)
	for i, bound := range queueBounds {
		sum += d.Classic[i]
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: new(bound), CumulativeCount: new(sum)})
	}
	// A span is a range of native buckets, with its distance from the previous span. Up to two empty buckets are
	// shorter in a span than a new span.
	const gap = 2
	var span *dto.BucketSpan
	var before int64
	next := 0
	add := func(n uint64) {
		*span.Length++
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		before = int64(n)
		next++
	}
	for i, n := range d.Native {
		key := i + store.FirstNative
		if n == 0 {
			continue
		}
		if span == nil || key-next > gap {
			span = &dto.BucketSpan{Offset: new(int32(key - next)), Length: new(uint32(0))}
			h.PositiveSpan = append(h.PositiveSpan, span)
			next = key
		}
		for next < key {
			add(0)
		}
		add(n)
	}
	return durations{desc, h, prometheus.MakeLabelPairs(desc, labels)}
}
