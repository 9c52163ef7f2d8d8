package ingest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// TestDamagedPage: a page of payloads that cannot be read holds up no other job. Its jobs are set aside and listed, and a rebuild mends them.
func TestDamagedPage(t *testing.T) {
	const n = 3000
	ctx, dir := t.Context(), t.TempDir()
	e, stop := start(t, dir)
	random := rand.New(rand.NewPCG(1, 2))
	c := lines(n)
	c.Payloads, c.Longest = nil, 0
	c.Groups[0].RetentionMs, c.Groups[0].MaxAttempts = 0, 1 // neither ends a job whose payload cannot be read
	want := map[job.ID]string{}
	var payloads []string
	for range n {
		payload := fmt.Sprintf("%016x%016x%016x", random.Uint64(), random.Uint64(), random.Uint64())
		payloads = append(payloads, payload)
		c.Payloads = c.Frame.Append(c.Payloads, []byte(payload))
		c.Longest = max(c.Longest, len(payload))
	}
	_, receipt, err := e.Create(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for line, payload := range payloads {
		want[job.NewID(receipt.At, receipt.Seq, line)] = payload
	}
	stop() // flushes the store
	spoil(t, StoreDir(dir))

	e, err = Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	end := serve(t, e)
	// work claims everything, completes it, and returns how many jobs there were.
	work := func() (jobs int) {
		for {
			claimed, docs, _, err := e.Claim(ctx, claimOf(700), 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(docs) == 0 {
				return jobs
			}
			for i := range docs {
				if want[docs[i].ID] != string(docs[i].Payload) || docs[i].RunAttempts != 1 {
					t.Fatalf("job %s has attempt %d and payload %q, want %q", docs[i].ID, docs[i].RunAttempts, docs[i].Payload, want[docs[i].ID])
				}
				delete(want, docs[i].ID)
			}
			if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}); err != nil {
				t.Fatal(err)
			}
			jobs += len(docs)
		}
	}
	healthy := work()
	if healthy == 0 || healthy == n || e.Stats().Damaged != uint64(n-healthy) {
		t.Fatalf("%d of %d jobs were handed out, %d set aside", healthy, n, e.Stats().Damaged)
	}
	listed := func() (ids []job.ID) {
		for after := (job.ID{}); ; {
			docs, next, err := e.List(ctx, 0, store.Filter{Status: job.Deferred, Limit: 1000, After: after, Parts: store.Everything})
			if err != nil {
				t.Fatal(err)
			}
			for i := range docs {
				if d := &docs[i]; d.Code != job.Damaged || d.Error != job.DamagedText || d.Payload != nil || d.RunAttempts != 0 || d.RunAt != job.MaxTimeMs {
					t.Fatalf("set aside: %+v", d)
				}
				ids = append(ids, docs[i].ID)
			}
			if after = next; next.IsZero() {
				return ids
			}
		}
	}
	aside := listed()
	if len(aside) != n-healthy {
		t.Errorf("%d jobs are listed as damaged, want %d", len(aside), n-healthy)
	}
	if _, _, err := e.Move(ctx, job.Move{Op: job.Run, Job: aside[0]}); err != nil {
		t.Fatal(err)
	}
	if jobs := work(); jobs != 0 {
		t.Errorf("%d damaged jobs were handed out before the store was mended", jobs)
	}
	end()

	if _, err := Rebuild(ctx, dir, "", func(uint64, uint64) {}); err != nil {
		t.Fatal(err)
	}
	e, _ = start(t, dir)
	for _, id := range aside {
		if _, _, err := e.Move(ctx, job.Move{Op: job.Run, Job: id}); err != nil {
			t.Fatal(err)
		}
	}
	if jobs := work(); jobs != len(aside) || len(want) > 0 {
		t.Errorf("%d of %d mended jobs were handed out", jobs, len(aside))
	}
}

// spoil flips a bit in the middle of the largest table of a store, which is a page of payloads.
func spoil(t *testing.T, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	var largest []byte
	name := ""
	for _, table := range tables {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > len(largest) {
			largest, name = data, table
		}
	}
	largest[len(largest)/2] ^= 1
	if err := os.WriteFile(name, largest, 0o600); err != nil {
		t.Fatal(err)
	}
}
