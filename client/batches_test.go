package client_test

import (
	"context"
	"errors"
	"slices"
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
	if err != nil || made.Count != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	added, err := c.AddToBatch(ctx, made.BatchID, []client.NewJob{{Payload: []byte("2")}, {Payload: []byte("3")}}, client.CreateOptions{})
	if err != nil || added.Count != 2 || added.BatchID != made.BatchID || added.FirstID == made.FirstID {
		t.Errorf("%+v, %v", added, err)
	}
	if b, err := c.CloseBatch(ctx, made.BatchID); err != nil || b.Status != "paused" || b.Open || b.Count != 3 {
		t.Errorf("closed: %+v, %v", b, err)
	}
	if _, err := c.AddToBatch(ctx, made.BatchID, []client.NewJob{{}}, client.CreateOptions{}); !errors.Is(err, problem.ErrConflict) {
		t.Errorf("add to a closed batch: %v", err)
	}
	if b, err := c.ResumeBatch(ctx, made.BatchID); err != nil || b.Status != "in_progress" {
		t.Errorf("resumed: %+v, %v", b, err)
	}
	claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"chunk"}})
	if err != nil || claim == nil {
		t.Fatal(err)
	}
	testkit.Must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, client.Outcome{Code: "failed", Error: "no"}))(t)
	b, err := c.AwaitBatch(ctx, made.BatchID)
	if err != nil || b.Status != "failed" || b.FailedJobID != made.FirstID || b.Error != "no" || b.Counts["cancelled"] != 2 {
		t.Errorf("ended: %+v, %v", b, err)
	}
	if _, err := c.ResumeBatch(ctx, made.BatchID); !errors.Is(err, problem.ErrConflict) {
		t.Errorf("resume of a failed batch: %v", err)
	}
	for _, name := range []string{"list a", "list b"} {
		testkit.Must(c.CreateBatch(ctx, client.NewBatch{Name: name, Meta: map[string]any{"n": 1}}, nil))(t)
	}
	var names []string
	for b, err := range c.Batches(ctx, client.BatchesQuery{NamePrefix: "list", Status: "completed", Meta: map[string]any{"n": 1}, PageSize: 1}) {
		testkit.NoError(t, err)
		names = append(names, b.Name)
	}
	if !slices.Equal(names, []string{"list a", "list b"}) {
		t.Errorf("listed %q", names)
	}
	for _, err := range c.Results(ctx, added.FirstID, client.ResultsQuery{}) {
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("results of no batch: %v", err)
		}
	}
}
