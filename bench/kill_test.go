package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// account is what a killed server's users know: what was answered, and nothing else.
type account struct {
	mu        sync.Mutex
	batches   map[string]batch // by first id
	completed []string         // jobs whose completion was answered
}

type batch struct {
	id      string
	count   int
	payload string // of its first line
}

// producer posts batches until ctx ends. Each has a payload of its own.
func (a *account) producer(ctx context.Context, l *Load, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		first := fmt.Sprintf("%s/%d", name, n)
		lines := 1 + n*37%500
		body := first + "\n" + strings.Repeat("x\n", lines-1)
		err := l.post(ctx, "/add?jobtype=kill&lease_ms=1000&max_attempts=1000", "text/plain", []byte(body), func(status int, answer []byte) error {
			var receipt struct {
				BatchID string `json:"batch_id"`
				FirstID string `json:"first_id"`
				Count   int    `json:"count"`
			}
			if status != http.StatusCreated {
				return expect(http.StatusCreated)(status, answer)
			}
			if err := json.Unmarshal(answer, &receipt); err != nil {
				return err
			}
			a.mu.Lock()
			a.batches[receipt.FirstID] = batch{receipt.BatchID, lines, first}
			a.mu.Unlock()
			return nil
		})
		if err != nil {
			pause(ctx, 5*time.Millisecond) // the server is down, or about to be
		}
	}
}

// runner claims and completes until ctx ends or, when it is to drain the queue, nothing is unfinished.
func (a *account) runner(ctx context.Context, l *Load, drain bool) {
	for ctx.Err() == nil {
		var ids []string
		var claim string
		err := l.post(ctx, "/jobs/claim", "application/json", []byte(`{"runner_id":"kill","max":100,"types":["kill"],"wait_ms":100}`), func(status int, answer []byte) error {
			if status != http.StatusOK {
				return nil
			}
			var got struct {
				ClaimID string `json:"claim_id"`
				Jobs    []struct {
					ID string `json:"job_id"`
				} `json:"jobs"`
			}
			if err := json.Unmarshal(answer, &got); err != nil {
				return err
			}
			claim = got.ClaimID
			for _, j := range got.Jobs {
				ids = append(ids, j.ID)
			}
			return nil
		})
		if err != nil {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		if claim == "" {
			if s, err := l.Stats(ctx); drain && err == nil && s.Jobs["pending"]+s.Jobs["active"]+s.Jobs["deferred"] == 0 {
				return
			}
			continue
		}
		if l.Complete(ctx, claim) == nil {
			a.mu.Lock()
			a.completed = append(a.completed, ids...)
			a.mu.Unlock()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// get reads a document into doc.
func (l *Load) get(path string, doc any) error {
	answer, err := l.HTTP.Get(l.URL + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(doc)
}

// verify looks at what was acknowledged.
func (a *account) verify(t *testing.T, l *Load) {
	t.Helper()
	for first, b := range a.batches {
		var doc struct {
			Count  int              `json:"count"`
			Counts map[string]int64 `json:"counts"`
		}
		if err := l.get("/batches/"+b.id, &doc); err != nil || doc.Count != b.count {
			t.Fatalf("batch %s, acknowledged with %d jobs, has %d: %v", b.id, b.count, doc.Count, err)
		}
		var job struct {
			Payload string `json:"payload"`
		}
		if err := l.get("/jobs/"+first, &job); err != nil || job.Payload != b.payload {
			t.Fatalf("job %s, acknowledged with payload %q, has %q: %v", first, b.payload, job.Payload, err)
		}
	}
	for range min(len(a.completed), 2000) {
		id := a.completed[rand.IntN(len(a.completed))]
		var job struct {
			Status string `json:"status"`
		}
		if err := l.get("/jobs/"+id, &job); err != nil || job.Status != "completed" {
			t.Fatalf("job %s, whose completion was acknowledged, is %q: %v", id, job.Status, err)
		}
	}
}

// TestKillLoop kills the real server again and again under load, and holds what it has after each restart against what it had
// acknowledged before.
func TestKillLoop(t *testing.T) {
	kills := 6
	if testing.Short() {
		kills = 2
	}
	s := serve(t)
	l := NewLoad(s.URL(), 32)
	defer l.Close()
	a := &account{batches: map[string]batch{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() { a.producer(ctx, l, fmt.Sprint("producer ", i)) })
		group.Go(func() { a.runner(ctx, l, false) })
	}
	for kill := range kills {
		time.Sleep(time.Duration(100+rand.IntN(500)) * time.Millisecond) // of load: when the kill comes is the point
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx); err != nil {
			t.Fatalf("start after kill %d: %v", kill+1, err)
		}
	}
	cancel()
	group.Wait()
	a.verify(t, l)

	// Every job is worked off in the end, those of the dead runners' claims too.
	drain, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for range 4 {
		group.Go(func() { a.runner(drain, l, true) })
	}
	group.Wait()
	stats, err := l.Stats(drain)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := int64(0)
	for _, b := range a.batches {
		acknowledged += int64(b.count)
	}
	if stats.Jobs["completed"] < acknowledged || stats.Jobs["failed"] > 0 || stats.Jobs["pending"]+stats.Jobs["active"] > 0 {
		t.Errorf("%d jobs were acknowledged; the server has %v", acknowledged, stats.Jobs)
	}
	t.Logf("%d kills, %d jobs acknowledged, %d completions acknowledged, at the end %v", kills, acknowledged, len(a.completed), stats.Jobs)

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(s.Binary, "check", "--data", s.Data).CombinedOutput(); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	if err := s.Start(context.Background()); err != nil { // for the end of the test, which stops it
		t.Fatal(err)
	}
}
