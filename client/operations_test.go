package client_test

import (
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestMoves calls all operations on jobs, against a real server.
func TestMoves(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx := t.Context()
	must := func(j *client.Job, err error) *client.Job {
		t.Helper()
		testkit.NoError(t, err)
		return j
	}
	seven, nine := 7, 9
	late := client.TextJob("x", "late")
	late.DelayMs = 600_000
	late.Meta = map[string]string{"colour": "red"}
	late.TimeoutMs, late.ExpiresAt = 1000, 253402300799999
	late.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	j := must(c.Create(ctx, late))
	if j.Meta["colour"] != "red" || j.TimeoutMs != 1000 || j.ExpiresAt != 253402300799999 || j.Traceparent != late.Traceparent {
		t.Errorf("%+v", j)
	}
	if j = must(c.Patch(ctx, j.ID, client.Patch{Priority: &nine, MaxAttempts: &seven})); j.Priority != 9 || j.MaxAttempts != 7 || j.Status != "deferred" {
		t.Errorf("patched: %+v", j)
	}
	if j = must(c.RunNow(ctx, j.ID)); j.Status != "pending" {
		t.Errorf("run now: %+v", j)
	}
	if j = must(c.Cancel(ctx, j.ID)); j.Status != "cancelled" || j.Why != "cancelled" {
		t.Errorf("cancelled: %+v", j)
	}
	if _, err := c.Patch(ctx, j.ID, client.Patch{Priority: &nine}); !errors.Is(err, problem.ErrConflict) {
		t.Errorf("patch of a cancelled one: %v", err)
	}
	if j = must(c.Redrive(ctx, j.ID)); j.Status != "pending" || j.Redrives != 1 {
		t.Errorf("redriven: %+v", j)
	}
	testkit.Check(t, c.Delete(ctx, j.ID))
	if err := c.Delete(ctx, j.ID); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}

	unique := client.TextJob("u", "1")
	unique.UniqueKey = "k"
	first, second := must(c.Create(ctx, unique)), must(c.Create(ctx, unique))
	if first.Existing || !second.Existing || first.ID != second.ID || second.UniqueKey != "k" {
		t.Errorf("%+v, %+v", first, second)
	}
	created, err := c.CreateMany(ctx, []client.NewJob{client.TextJob("m", "1"), {Type: "no name"}, unique}, client.CreateOptions{Each: true, Key: client.NewKey()})
	if err != nil || created.Count != 1 || len(created.Results) != 3 || created.Results[0].JobID != created.FirstID || created.Results[1].Field != "type" ||
		!created.Results[2].Existing || created.Results[2].JobID != first.ID {
		t.Errorf("%+v, %v", created, err)
	}
	if _, err := c.CreateMany(ctx, []client.NewJob{client.TextJob("m", "1"), {Type: "no name"}}, client.CreateOptions{}); !errors.Is(err, problem.ErrBadRequest) {
		t.Errorf("all or nothing: %v", err)
	}
	if none, err := c.CreateMany(ctx, nil, client.CreateOptions{}); err != nil || none.Count != 0 || none.BatchID != "" {
		t.Errorf("none: %+v, %v", none, err)
	}

	for _, op := range []struct {
		name  string
		do    func() (client.Sweep, error)
		moved int64
	}{
		{"cancel batch", func() (client.Sweep, error) { return c.CancelBatch(ctx, created.BatchID, "") }, 1},
		{"redrive batch", func() (client.Sweep, error) { return c.RedriveBatch(ctx, created.BatchID, "cancelled") }, 1},
		{"cancel queue", func() (client.Sweep, error) { return c.CancelQueue(ctx, "default", "m", "pending") }, 1},
		{"redrive queue", func() (client.Sweep, error) { return c.RedriveQueue(ctx, "default", "m", "") }, 0},
		{"delete queue's", func() (client.Sweep, error) { return c.DeleteQueueJobs(ctx, "default", "m", "all") }, 1},
	} {
		w, err := op.do()
		if err == nil {
			w, err = c.WaitSweep(ctx, w, nil)
		}
		if err != nil || w.Moved != op.moved || !w.Done {
			t.Errorf("%s: %+v, %v", op.name, w, err)
		}
	}
	if _, err := c.DeleteBatch(ctx, created.BatchID, ""); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("delete batch: %v", err)
	}
	testkit.Must(c.Create(ctx, client.TextJob("kept", "x")))(t)
	if err := c.DeleteQueue(ctx, "default", "kept"); !errors.Is(err, problem.ErrConflict) {
		t.Errorf("delete a queue with a job: %v", err)
	}
	if err := c.DeleteQueue(ctx, "default", "m"); err != nil {
		t.Errorf("delete an empty queue: %v", err)
	}
	if err := c.DeleteQueue(ctx, "default", "m"); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("delete it again: %v", err)
	}
	if list, err := c.Sweeps(ctx); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := c.Sweep(ctx, first.ID); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("sweep: %v", err)
	}
	if offset, err := c.AcceptTime(ctx); err != nil || offset > time.Second || offset < -time.Second {
		t.Errorf("after the time was accepted it is %v ahead, %v", offset, err)
	}
	testkit.Check(t, errors.Join(c.Stop(ctx), c.Start(ctx)))
	if err := c.Quit(ctx); !errors.Is(err, problem.ErrForbidden) {
		t.Errorf("quit: %v", err)
	}
}

// TestKeysMakeRepeatsSafe: with a key, a request whose answer was lost is repeated, with the same key.
func TestKeysMakeRepeatsSafe(t *testing.T) {
	document := `{"job_id":"018c2b6e-7f00-7000-8000-000000400001","status":"pending"}`
	f := clienttest.InTurn(clienttest.Reply{Err: syscall.ECONNRESET}, clienttest.Reply{Status: http.StatusCreated, Body: document})
	j := client.TextJob("x", "p")
	j.Key = client.NewKey()
	if got, err := f.Client(client.Options{}).Create(t.Context(), j); err != nil || got.Status != "pending" {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(f.Calls) != 2 || f.Calls[0].Header.Get("Idempotency-Key") != j.Key || f.Calls[1].Header.Get("Idempotency-Key") != j.Key {
		t.Errorf("%d requests: %+v", len(f.Calls), f.Calls)
	}
}
