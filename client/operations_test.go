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
	testkit.Holds(t, j.Meta["colour"] == "red" && j.TimeoutMs == 1000 && j.ExpiresAt == 253402300799999 &&
		j.Traceparent == late.Traceparent, j)
	j = must(c.Patch(ctx, j.ID, client.Patch{Priority: &nine, MaxAttempts: &seven}))
	testkit.Holds(t, j.Priority == 9 && j.MaxAttempts == 7 && j.Status == "deferred", "patched", j)
	j = must(c.RunNow(ctx, j.ID))
	testkit.Equal(t, j.Status, "pending", "run now", j)
	j = must(c.Cancel(ctx, j.ID))
	testkit.Holds(t, j.Status == "cancelled" && j.Why == "cancelled", "cancelled", j)
	testkit.Fails(c.Patch(ctx, j.ID, client.Patch{Priority: &nine}))(t, problem.ErrConflict)
	j = must(c.Redrive(ctx, j.ID))
	testkit.Holds(t, j.Status == "pending" && j.Redrives == 1, "redriven", j)
	testkit.Check(t, c.Delete(ctx, j.ID))
	testkit.Failed(t, c.Delete(ctx, j.ID), problem.ErrNotFound)

	unique := client.TextJob("u", "1")
	unique.UniqueKey = "k"
	first, second := must(c.Create(ctx, unique)), must(c.Create(ctx, unique))
	testkit.Holds(t, !first.Existing && second.Existing && first.ID == second.ID && second.UniqueKey == "k", first, second)
	created, err := c.CreateMany(ctx, []client.NewJob{client.TextJob("m", "1"), {Type: "no name"}, unique}, client.CreateOptions{Each: true, Key: client.NewKey()})
	testkit.NoError(t, err)
	testkit.Holds(t, created.Count == 1 && len(created.Results) == 3 && created.Results[0].JobID == created.FirstID &&
		created.Results[1].Field == "type" && created.Results[2].Existing && created.Results[2].JobID == first.ID, created)
	testkit.Fails(c.CreateMany(ctx, []client.NewJob{client.TextJob("m", "1"), {Type: "no name"}}, client.CreateOptions{}))(t, problem.ErrBadRequest)
	none := testkit.Must(c.CreateMany(ctx, nil, client.CreateOptions{}))(t)
	testkit.Holds(t, none.Count == 0 && none.BatchID == "", "none", none)

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
		testkit.NoError(t, err)
		testkit.Holds(t, w.Moved == op.moved && w.Done, op.name, w)
	}
	testkit.Fails(c.DeleteBatch(ctx, created.BatchID, ""))(t, problem.ErrNotFound)
	testkit.Must(c.Create(ctx, client.TextJob("kept", "x")))(t)
	testkit.Failed(t, c.DeleteQueue(ctx, "default", "kept"), problem.ErrConflict)
	testkit.Check(t, c.DeleteQueue(ctx, "default", "m"), "delete an empty queue")
	testkit.Failed(t, c.DeleteQueue(ctx, "default", "m"), problem.ErrNotFound)
	testkit.Equal(t, len(testkit.Must(c.Sweeps(ctx))(t)), 0)
	testkit.Fails(c.Sweep(ctx, first.ID))(t, problem.ErrNotFound)
	offset := testkit.Must(c.AcceptTime(ctx))(t)
	testkit.Holds(t, offset <= time.Second && offset >= -time.Second, "after the time was accepted it is", offset, "ahead")
	testkit.Check(t, errors.Join(c.Stop(ctx), c.Start(ctx)))
	testkit.Failed(t, c.Quit(ctx), problem.ErrForbidden)
}

// TestKeysMakeRepeatsSafe: with a key, a request whose answer was lost is repeated, with the same key.
func TestKeysMakeRepeatsSafe(t *testing.T) {
	document := `{"job_id":"018c2b6e-7f00-7000-8000-000000400001","status":"pending"}`
	f := clienttest.InTurn(clienttest.Reply{Err: syscall.ECONNRESET}, clienttest.Reply{Status: http.StatusCreated, Body: document})
	j := client.TextJob("x", "p")
	j.Key = client.NewKey()
	got := testkit.Must(f.Client(client.Options{}).Create(t.Context(), j))(t)
	testkit.MustEqual(t, got.Status, "pending", got)
	testkit.Holds(t, len(f.Calls) == 2 && f.Calls[0].Header.Get("Idempotency-Key") == j.Key &&
		f.Calls[1].Header.Get("Idempotency-Key") == j.Key, len(f.Calls), "requests", f.Calls)
}
