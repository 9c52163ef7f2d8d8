package works

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestFigures: Figures parses the text of the metrics. A counter that the server does not report is 0.
func TestFigures(t *testing.T) {
	text := "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 12.5\ngo_sched_gomaxprocs_threads 8\ndaybook_journal_syncs_total 1e+03\n" +
		"daybook_journal_syncing_seconds_total 0.25\ndaybook_journal_sync_seconds{quantile=\"0.5\"} 3\nno value\n"
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testkit.Equal(t, r.Header.Get("Authorization"), "Bearer secret")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the test compares what was read
	}))
	defer s.Close()
	target := NewTarget(s.URL+"/", client.Options{Key: "secret"})
	defer target.Close()
	f, err := target.Figures(t.Context())
	want := (Figures{Processor: 12500 * time.Millisecond, Processors: 8, Syncs: 1000, Syncing: 250 * time.Millisecond})
	testkit.Holds(t, err == nil && f == want, f, err, "want", want)
	since := f.Since(Figures{Processor: time.Second, Syncs: 10})
	testkit.Holds(t, since.Processor == 11500*time.Millisecond && since.Syncs == 990 && since.Processors == 8, since)
	status = http.StatusBadGateway
	testkit.Fails(target.Figures(t.Context()))(t, "502")
	other := NewTarget(s.URL, client.Options{})
	testkit.Holds(t, other.Name != target.Name && strings.HasPrefix(other.Name, "bench-"), "names", other.Name, target.Name)
}

// TestPayloads: a body has lines of equal length, without a line feed inside.
func TestPayloads(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(string(bulkBody), "\n"), "\n")
	testkit.Holds(t, len(lines) == bulkJobs && lines[0] != lines[1], len(lines), "lines")
	for _, line := range lines {
		testkit.MustEqual(t, len(line), payloadBytes, line)
	}
}

// TestArrivals: a job's latency counts from its due time. Uncompleted jobs count as unsent, and jobs of another
// measurement do not count.
func TestArrivals(t *testing.T) {
	start := time.Now().Add(-time.Minute)
	a := arrivals{start: start, latencies: load.NewLatencies(), all: make(chan struct{}, 1)}
	body := a.lines(load.Arrival{N: 3, Due: start.Add(50 * time.Second)})
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	testkit.MustHold(t, len(lines) == arrivingJobs && len(lines[0]) == payloadBytes, len(lines), "lines, the first", lines[0])
	a.created(3)
	a.completed(&client.Job{Payload: []byte(lines[0])})
	a.completed(&client.Job{Payload: bulkBody[:payloadBytes]})
	a.completed(&client.Job{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.wait(ctx, time.Now().Add(time.Hour))
	s := a.latencies.Summary()
	testkit.Holds(t, s.Count == 1 && s.Max >= 10_000 && s.Max <= 60_000, s)
	o := &load.Outcome{Due: 1, Done: 1, Start: start}
	a.count(o)
	testkit.Holds(t, o.Due == arrivingJobs && o.Done == 1 && o.Unsent == 2 && o.Latencies.Summary().Count == 3 && o.Took >= time.Second, o)
	a.completed(&client.Job{Payload: []byte(lines[1])})
	a.completed(&client.Job{Payload: []byte(lines[2])})
	a.wait(t.Context(), time.Now().Add(time.Hour)) // returns immediately: all are completed
}

// TestDelete: Delete also deletes jobs that the server creates late, for cancelled calls.
func TestDelete(t *testing.T) {
	target := NewTarget(daybooktest.Start(t).URL, client.Options{})
	defer target.Close()
	add := func(typ string) { t.Helper(); testkit.NoError(t, target.add(t.Context(), typ, bulkBody)) }
	add("bulk")
	late := []string{"bulk", "single"}
	var deleted int64
	err := target.Delete(t.Context(), func(jobs int64) {
		deleted = jobs
		if len(late) > 0 {
			add(late[0])
			late = late[1:]
		}
	})
	testkit.Holds(t, err == nil && deleted == 3*bulkJobs, deleted, "jobs deleted", err)
	for q, err := range target.client.Queues(t.Context(), target.Name) {
		t.Errorf("%+v, %v", q, err)
	}
}
