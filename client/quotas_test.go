package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestQuotas sets, reads, lists and deletes quotas of a real server, which refuses creates beyond them.
func TestQuotas(t *testing.T) {
	ctx := t.Context()
	c := client.New(daybooktest.Start(t).URL, client.Options{RetryFor: time.Nanosecond})
	_, err := c.Quota(ctx, "acme")
	testkit.Failed(t, err, client.ErrNotFound)
	testkit.Failed(t, c.DeleteQuota(ctx, "acme"), client.ErrNotFound)
	_, err = c.SetQuota(ctx, "acme", client.QuotaLimits{})
	testkit.Failed(t, err, client.ErrBadRequest)
	want := client.QuotaLimits{Unfinished: 2}
	testkit.Equal(t, testkit.Must(c.SetQuota(ctx, "acme", want))(t).QuotaLimits, want)
	testkit.Must(c.SetQuota(ctx, "b", client.QuotaLimits{Queues: 7}))(t)
	job := client.NewJob{Client: "acme"}
	testkit.Must(c.CreateMany(ctx, []client.NewJob{job, job}, client.CreateOptions{}))(t)
	_, err = c.Create(ctx, job)
	refused, ok := errors.AsType[*client.Error](err)
	testkit.Holds(t, ok && refused.Code == "quota_exceeded" && errors.Is(err, client.ErrOverloaded), err)
	got := testkit.Must(c.Quota(ctx, "acme"))(t)
	testkit.Holds(t, got.Client == "acme" && got.QuotaLimits == want && got.Use.Unfinished == 2 && got.Use.Queues == 1, got)
	var clients []string
	for q, err := range c.Quotas(ctx) {
		testkit.NoError(t, err)
		clients = append(clients, q.Client)
	}
	testkit.EqualSlices(t, clients, []string{"acme", "b"})
	testkit.NoError(t, c.DeleteQuota(ctx, "acme"))
	testkit.Must(c.Create(ctx, job))(t)
}
