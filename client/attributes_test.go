package client_test

import (
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestAttributes: every attribute reaches the server, in the body of a create and in the query of a bulk post.
func TestAttributes(t *testing.T) {
	s := daybooktest.Start(t)
	c := s.Client
	ctx := t.Context()
	number := func(n int64) *int64 { return &n }
	priority := 0
	all := client.Attributes{
		RunAt: 4102444800000, Priority: &priority, MaxAttempts: 7,
		Backoff: &client.Backoff{InitialMs: number(0), FactorMilli: number(1500), MaxMs: number(9000)},
		LeaseMs: 61_000, RetentionMs: number(0), ExpiresAt: 4102444800001, TimeoutMs: 62_000,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Meta: map[string]string{"a": "b c", "d": "é=&"},
	}
	check := func(form string, j *client.Job, a client.Attributes) {
		t.Helper()
		got := client.Attributes{
			RunAt: j.RunAt, Priority: &j.Priority, MaxAttempts: j.MaxAttempts, Backoff: a.Backoff, LeaseMs: j.LeaseMs,
			RetentionMs: a.RetentionMs, ExpiresAt: j.ExpiresAt, TimeoutMs: j.TimeoutMs, Traceparent: j.Traceparent, Meta: j.Meta,
		}
		testkit.DeepEqual(t, got, a, form)
	}
	created := testkit.Must(c.Create(ctx, client.NewJob{Type: "x", Attributes: all}))(t)
	check("a create", created, all)
	added := testkit.Must(c.AddLines(ctx, []byte("line\n"), client.AddOptions{Type: "x", Attributes: all}))(t)
	j := testkit.Must(c.Job(ctx, added.FirstID))(t)
	check("a bulk post", j, all)

	// Documents do not show the backoff and the retention. With a first backoff of 0 a job is pending at once after a
	// retry. With a retention of 0 it is purged when it ends.
	hidden := client.Attributes{Backoff: all.Backoff, RetentionMs: all.RetentionMs}
	testkit.Must(c.AddLines(ctx, []byte("line\n"), client.AddOptions{Type: "y", Attributes: hidden}))(t)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"y"}}))(t)
	testkit.MustEqual(t, len(claim.Jobs), 1, claim)
	id := claim.Jobs[0].ID
	if j, err := c.Complete(ctx, id, claim.ID, client.Outcome{Code: "retry"}); err != nil || j.Status != "pending" {
		t.Errorf("after a retry: %+v, %v", j, err)
	}
	testkit.Must(c.Cancel(ctx, id))(t)
	testkit.Fails(c.Job(ctx, id))(t, problem.ErrNotFound)
}
