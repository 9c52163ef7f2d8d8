package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// The bounds for claims during sweeps of ten million jobs (docs/explanation/performance.md):
const (
	sweepJobs        = 10_000_000
	maxSweepP99Ratio = 2
	sweepRunners     = 4
	quietClaims      = 20_000
	sweepClaims      = 5000
	maxSweepRounds   = 8
)

// TestSweeps cancels, redrives and deletes ten million jobs while runners drain another queue: first in batches whose
// jobs all have the same state, then in batches in which each job is a separate group. It takes minutes and gigabytes, so
// it runs only with `make bench SET=sweeps`.
func TestSweeps(t *testing.T) {
	jobs := sweepJobs
	switch asked := os.Getenv("DAYBOOK_SWEEPS"); asked {
	case "":
		t.Skip("ten million jobs take some minutes: make bench SET=sweeps")
	default:
		if n, err := strconv.Atoi(asked); err == nil && n >= 1000 {
			jobs = n
		}
	}
	for _, kind := range []struct {
		name string
		kind string
		body []byte
	}{
		{"a thousand jobs a state", "text/plain", works.Lines(1000, 100)},
		{"each job a state", "application/json", singleJobGroups(1000)},
	} {
		t.Run(kind.name, func(t *testing.T) {
			l := NewLoad(serve(t).URL(), 16)
			defer l.Close()
			path := "/jobs/create"
			if kind.kind == "text/plain" {
				path = "/swept/job/default/add"
			}
			post(t, l, path, kind.kind, kind.body, jobs/1000)
			quiet := load.NewLatencies()
			work(t, l, quiet, func() bool { return quiet.Count() >= quietClaims })
			logTimes(t, "nothing else to do", quiet)

			ops := []*sweepOp{
				{name: "cancel", times: load.NewLatencies(), method: http.MethodPost, path: "/queues/swept/default/cancel"},
				{name: "redrive", times: load.NewLatencies(), method: http.MethodPost, path: "/queues/swept/default/redrive?status=cancelled"},
				{name: "delete", times: load.NewLatencies(), method: http.MethodDelete, path: "/queues/swept/default/jobs?status=all"},
			}
			for round := 1; ; round++ { // until there are enough claims for a 99th percentile
				enough := true
				for _, op := range ops {
					op.run(t, l, jobs)
					enough = enough && op.times.Count() >= sweepClaims
				}
				if enough || round == maxSweepRounds {
					break
				}
				post(t, l, path, kind.kind, kind.body, jobs/1000)
			}
			for _, op := range ops {
				logTimes(t, fmt.Sprintf("a %s under way (%d claims)", op.name, op.times.Count()), op.times)
				if ratio := float64(op.times.Quantile(0.99)) / float64(quiet.Quantile(0.99)); op.times.Count() >= 1000 && ratio > maxSweepP99Ratio {
					t.Errorf("claim p99 grew by a factor of %.2f during a %s, more than %d", ratio, op.name, maxSweepP99Ratio)
				}
			}
		})
	}
}

// sweepOp is an operation on all jobs of a queue, with the latencies of claims from another queue during the operation.
type sweepOp struct {
	name, method, path string
	times              *load.Latencies
}

// run starts the operation on jobs jobs, and lets runners work until it is done.
func (op *sweepOp) run(t *testing.T, l *Load, jobs int) {
	t.Helper()
	start := time.Now()
	place := l.sweep(t, op.method, op.path)
	var doc struct {
		Moved int64 `json:"moved"`
		Done  bool  `json:"done"`
	}
	next := time.Now()
	work(t, l, op.times, func() bool {
		if place == "" || doc.Done {
			return true
		}
		if time.Now().After(next) {
			next = time.Now().Add(100 * time.Millisecond)
			l.get(t, place, &doc)
		}
		return doc.Done
	})
	t.Logf("%s of %d jobs took %v", op.name, doc.Moved, time.Since(start).Round(10*time.Millisecond))
	testkit.Holds(t, place == "" || doc.Moved == int64(jobs), op.name, "moved", doc.Moved, "jobs, not", jobs)
}

// singleJobGroups returns a JSON body of n jobs. Neighbours have different priorities, so each job is a separate group.
func singleJobGroups(n int) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"client":"swept","priority":%d,"payload":"%s"}`, 4+i%2, works.Lines(1, 50)[:50])
	}
	b.WriteByte(']')
	return b.Bytes()
}

// post sends a body n times.
func post(t *testing.T, l *Load, path, kind string, body []byte, n int) {
	t.Helper()
	testkit.NoError(t, load.Share(t.Context(), fillers, n, func(ctx context.Context, _ int) error {
		return patiently(ctx, l, func() error { return l.post(ctx, path, kind, body, expect(http.StatusCreated)) })
	}))
}

// work lets runners claim and complete single jobs of another queue until done returns true.
func work(t *testing.T, l *Load, times *load.Latencies, done func() bool) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	var failed atomic.Bool
	body := works.Lines(1000, 100)
	for range sweepRunners {
		group.Go(func() {
			for n := 0; ; n++ {
				mu.Lock()
				over := done()
				mu.Unlock()
				if over || failed.Load() {
					return
				}
				var err error
				if n%1000 == 0 {
					err = l.Add(context.Background(), body)
				}
				claim := ""
				if err == nil {
					err = times.Time(func() (err error) {
						return l.post(context.Background(), "/jobs/claim", "application/json", []byte(`{"runner_id":"load","max":1,"clients":["default"]}`),
							func(status int, answer []byte) error {
								claim = claimID(answer)
								return expect(http.StatusOK)(status, answer)
							})
					})
				}
				if err == nil {
					err = l.Complete(context.Background(), claim)
				}
				if err != nil {
					failed.Store(true)
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// sweep starts a sweep and returns the path of its document, or "" if it is done.
func (l *Load) sweep(t *testing.T, method, path string) string {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), method, l.URL+path, nil))(t)
	answer := testkit.Must(l.HTTP.Do(req))(t)
	defer answer.Body.Close()
	testkit.MustHold(t, answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusAccepted, path, "status", answer.StatusCode)
	return answer.Header.Get("Location")
}

func (l *Load) get(t *testing.T, path string, into any) {
	t.Helper()
	answer, err := l.HTTP.Get(l.URL + path)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	testkit.Check(t, json.NewDecoder(answer.Body).Decode(into))
}
