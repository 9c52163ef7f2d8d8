package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// BenchmarkStream runs jobs one by one over streams: each stream creates a job, gets one, completes it, and creates the
// next when that is answered. Jobs in flight is how many of these a stream has at once.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct{ streams, inFlight int }{{1, 1}, {16, 1}, {64, 1}, {64, 16}, {256, 1}, {1, 256}} {
		b.Run(fmt.Sprintf("%dStreams/%dInFlight", c.streams, c.inFlight), func(b *testing.B) {
			s := serve(b)
			l := NewLoad(s.URL(), c.streams)
			defer l.Close()
			streams := make([]*streamLoad, c.streams)
			for i := range streams {
				streams[i] = openStream(b, s.URL(), c.inFlight)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			used, err := l.ServerTime(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			before, err := l.Stats(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var done atomic.Int64
			var times Latencies
			var group sync.WaitGroup
			b.ResetTimer()
			for _, w := range streams {
				group.Go(func() {
					err := w.run(ctx, &left, &times, func(n int) {
						if done.Add(int64(n)) >= int64(b.N) {
							stop()
						}
					})
					if err != nil && ctx.Err() == nil {
						b.Error(err)
						stop()
					}
				})
			}
			group.Wait()
			b.StopTimer()
			usedAfter, err := l.ServerTime(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			after, err := l.Stats(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			jobs := float64(b.N)
			b.ReportMetric((usedAfter-used).Seconds()*1e6/jobs, "server-µs/job")
			b.ReportMetric(jobs/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(times.Quantile(0.5).Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times.Quantile(0.99).Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(after.Journal.Syncs-before.Journal.Syncs)/jobs, "fsyncs/job")
		})
	}
}

// streamLoad is one stream, which does as little work as possible.
type streamLoad struct {
	conn     *websocket.Conn
	inFlight int
	n        int
	out      []byte
}

func openStream(b *testing.B, url string, credit int) *streamLoad {
	b.Helper()
	conn, _, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(url, "http")+"/stream", &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	w := &streamLoad{conn: conn, inFlight: credit}
	w.request(`"hello":{"runner_id":"load"}`)
	w.request(fmt.Sprintf(`"subscribe":{"credit":%d}`, credit))
	if err := w.flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return w
}

func (w *streamLoad) request(text string) {
	w.n++
	w.out = fmt.Appendf(w.out, "{\"n\":%d,%s}\n", w.n, text)
}

func (w *streamLoad) flush(ctx context.Context) error {
	if len(w.out) == 0 {
		return nil
	}
	err := w.conn.Write(ctx, websocket.MessageText, w.out)
	w.out = w.out[:0]
	return err
}

var streamCreate = `"create":{"payload":"` + string(Lines(1, 100)[:100]) + `"}`

var (
	jobIDKey  = []byte(`{"job_id":"`)
	jobsKey   = []byte(`"jobs":[`)
	statusKey = []byte(`"status":"completed"`)
)

// run creates, gets and completes jobs until ctx ends. It measures the time from a create to the answer to a completion
// that follows it.
func (w *streamLoad) run(ctx context.Context, left *atomic.Int64, times *Latencies, ended func(n int)) error {
	began := make([]time.Time, 0, w.inFlight)
	create := func() {
		if left.Add(-1) >= 0 {
			w.request(streamCreate)
			began = append(began, time.Now())
		}
	}
	for range w.inFlight {
		create()
	}
	for {
		if err := w.flush(ctx); err != nil {
			return err
		}
		_, text, err := w.conn.Read(ctx)
		if err != nil {
			return err
		}
		completed := 0
		for line := range bytes.Lines(text) {
			if bytes.Contains(line, []byte(`"problem"`)) {
				return errors.New(string(line))
			}
			_, jobs, pushed := bytes.Cut(line, jobsKey)
			switch {
			case pushed:
				claim := claimID(line)
				for {
					at := bytes.Index(jobs, jobIDKey)
					if at < 0 {
						break
					}
					jobs = jobs[at+len(jobIDKey):]
					w.request(`"complete":{"job_id":"` + string(jobs[:idBytes]) + `","claim_id":"` + claim + `","code":"ok"}`)
				}
			case bytes.Contains(line, statusKey):
				completed++
				if len(began) > 0 {
					times.Add(time.Since(began[0]))
					began = began[1:]
				}
				create()
			}
		}
		if completed > 0 {
			ended(completed)
		}
	}
}
