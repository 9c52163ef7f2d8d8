package client_test

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestOutput: the output of a job, in every kind, and the wait for its end.
func TestOutput(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := s.Client, t.Context()
	for _, want := range []client.Output{
		{Status: "completed", Code: "ok", Kind: client.Text, Bytes: []byte("a")},
		{Status: "failed", Code: "failed", Kind: client.JSON, Bytes: []byte(`{"a":1}`)},
		{Status: "completed", Code: "ok", Kind: client.Bytes, Bytes: []byte{0, 0xff}},
		{Status: "completed", Code: "ok"},
	} {
		j := testkit.Must(c.Create(ctx, client.TextJob("x", "1")))(t)
		testkit.Fails(c.Output(ctx, j.ID, time.Millisecond))(t, problem.ErrConflict)
		claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
		testkit.MustEqual(t, len(claim.Jobs), 1, claim)
		completed := make(chan error)
		go func() {
			_, err := c.Complete(ctx, j.ID, claim.ID, client.Outcome{Code: want.Code, Output: want.Bytes, OutputKind: want.Kind})
			completed <- err
		}()
		got, err := c.Output(ctx, j.ID, time.Hour)
		if err != nil || got.Status != want.Status || got.Code != want.Code || got.Kind != want.Kind || string(got.Bytes) != string(want.Bytes) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		testkit.Check(t, <-completed) // its answer may arrive after the output
	}
	testkit.Fails(c.Output(ctx, "018bcfe5-6800-7000-8000-000004000000", 0))(t, problem.ErrNotFound)
}
