package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestBatches creates, fills, resumes, closes, lists and ends batches.
func TestBatches(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made, err := c.CreateBatch(ctx, client.NewBatch{Name: "fragile", Type: "chunk", OnFailure: client.CancelRest, Open: true, Paused: true}, []client.NewJob{{Payload: []byte("1")}})
	testkit.NoError(t, err)
	testkit.MustEqual(t, made.Count, 1, made)
	added := testkit.Must(c.AddToBatch(ctx, made.BatchID, []client.NewJob{{Payload: []byte("2")}, {Payload: []byte("3")}}, client.CreateOptions{}))(t)
	testkit.Holds(t, added.Count == 2 && added.BatchID == made.BatchID && added.FirstID != made.FirstID, added)
	b, err := c.CloseBatch(ctx, made.BatchID)
	testkit.Holds(t, err == nil && b.Status == "paused" && !b.Open && b.Count == 3, "closed", b, err)
	testkit.Fails(c.AddToBatch(ctx, made.BatchID, []client.NewJob{{}}, client.CreateOptions{}))(t, problem.ErrConflict)
	b, err = c.ResumeBatch(ctx, made.BatchID)
	testkit.Holds(t, err == nil && b.Status == "in_progress", "resumed", b, err)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"chunk"}}))(t)
	testkit.MustHold(t, claim != nil)
	testkit.Must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, client.Outcome{Code: "failed", Error: "no"}))(t)
	b = testkit.Must(c.AwaitBatch(ctx, made.BatchID))(t)
	testkit.Holds(t, b.Status == "failed" && b.FailedJobID == made.FirstID && b.Error == "no" && b.Counts["cancelled"] == 2, "ended", b)
	testkit.Fails(c.ResumeBatch(ctx, made.BatchID))(t, problem.ErrConflict)
	for _, name := range []string{"list a", "list b"} {
		testkit.Must(c.CreateBatch(ctx, client.NewBatch{Name: name, Meta: map[string]any{"n": 1}}, nil))(t)
	}
	var names []string
	for b, err := range c.Batches(ctx, client.BatchesQuery{NamePrefix: "list", Status: "completed", Meta: map[string]any{"n": 1}, PageSize: 1}) {
		testkit.NoError(t, err)
		names = append(names, b.Name)
	}
	testkit.EqualSlices(t, names, []string{"list a", "list b"}, "listed")
	for _, err := range c.Results(ctx, added.FirstID, client.ResultsQuery{}) {
		testkit.Failed(t, err, problem.ErrNotFound)
	}
}

// TestDeleteListedBatches deletes each batch that a list yields, in both orders of lists. The list continues after it.
func TestDeleteListedBatches(t *testing.T) {
	c := daybooktest.Start(t).Client
	for _, q := range []client.BatchesQuery{{NamePrefix: "a/", PageSize: 2}, {Meta: map[string]any{"of": "list"}, PageSize: 2}} {
		var want, got []string
		for i := range 7 {
			name := fmt.Sprintf("a/%d/&é", i)
			testkit.Must(c.CreateBatch(t.Context(), client.NewBatch{Name: name, Meta: map[string]any{"of": "list"}}, nil))(t)
			want = append(want, name)
		}
		for b, err := range c.Batches(t.Context(), q) {
			testkit.NoError(t, err)
			testkit.Must(c.DeleteBatch(t.Context(), b.ID, ""))(t)
			got = append(got, b.Name)
		}
		testkit.EqualSlices(t, got, want, q)
	}
}
