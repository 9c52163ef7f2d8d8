package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// A page without jobs does not end the list. A caller may iterate over a sequence more than once.
func TestJobsPages(t *testing.T) {
	f := clienttest.InTurn(clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"jobs":[{"job_id":%q}],"next":%q}`, clienttest.TestID(0), clienttest.TestID(0))},
		clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"jobs":[],"next":%q}`, clienttest.TestID(5))},
		clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"jobs":[{"job_id":%q}],"next":null}`, clienttest.TestID(6))})
	jobs := f.Client(client.Options{}).Jobs(t.Context(), client.JobsQuery{Status: "failed", After: clienttest.TestID(9)})
	var ids []string
	for j, err := range jobs {
		testkit.NoError(t, err)
		ids = append(ids, j.ID)
	}
	testkit.MustEqual(t, len(f.Calls), 3, ids, "requests")
	testkit.Equal(t, fmt.Sprint(ids), fmt.Sprint([]string{clienttest.TestID(0), clienttest.TestID(6)}), "after", len(f.Calls), "requests")
	for i, after := range []string{clienttest.TestID(9), clienttest.TestID(0), clienttest.TestID(5)} {
		q := f.Calls[i].Query
		testkit.Holds(t, q.Get("after") == after && q.Get("status") == "failed" && len(q) == 2, "page", i, "was asked for with", q)
	}
	for range jobs {
	}
	q := f.Calls[3].Query
	testkit.Holds(t, q.Get("after") == clienttest.TestID(9), "again from", q)
}

func TestJobsErrors(t *testing.T) {
	for name, c := range map[string]struct {
		reply clienttest.Reply
		want  error
	}{
		"a refusal":   {clienttest.Problem(400, "bad_request", "not_stored"), problem.ErrBadRequest},
		"not JSON":    {clienttest.Reply{Status: 200, Body: "<html>"}, problem.ErrUnexpectedAnswer},
		"a bad field": {clienttest.Reply{Status: 200, Body: `{"jobs":[{"payload_b64":"?"}]}`}, problem.ErrUnexpectedAnswer},
	} {
		n := 0
		for j, err := range clienttest.InTurn(c.reply).Client(client.Options{}).Jobs(t.Context(), client.JobsQuery{}) {
			n++
			testkit.Holds(t, j == nil && errors.Is(err, c.want), name, j, err)
		}
		testkit.Equal(t, n, 1, name, "times")
	}
	testkit.Fails(client.New("http://fake", client.Options{}).ClaimInfo(t.Context(), "../jobs"))(t, problem.ErrBadRequest)
}

// TestJobsQuery: every field of a query reaches the server as its parameter.
func TestJobsQuery(t *testing.T) {
	s := daybooktest.Start(t)
	ctx := t.Context()
	added := testkit.Must(s.Client.AddLines(ctx, []byte(strings.Repeat("x\n", 25)), client.AddOptions{Client: "a", Type: "b"}))(t)
	claim := testkit.Must(s.Client.Claim(ctx, client.ClaimRequest{RunnerID: "r \u00e9&", Max: 5}))(t)
	first := testkit.Must(s.Client.Job(ctx, added.JobIDs[0]))(t)
	for name, c := range map[string]struct {
		q    client.JobsQuery
		want int
	}{
		"all": {client.JobsQuery{}, 25}, "small pages": {client.JobsQuery{PageSize: 2}, 25}, "status": {client.JobsQuery{Status: "pending"}, 20},
		"client": {client.JobsQuery{Client: "c"}, 0}, "type": {client.JobsQuery{Type: "b"}, 25}, "runner": {client.JobsQuery{RunnerID: "r \u00e9&"}, 5},
		"batch": {client.JobsQuery{BatchID: added.BatchID}, 25}, "another batch": {client.JobsQuery{BatchID: claim.ID}, 0},
		"claim": {client.JobsQuery{ClaimID: claim.ID}, 5}, "after": {client.JobsQuery{After: added.JobIDs[9], PageSize: 4}, 15},
		"created after": {client.JobsQuery{CreatedAfter: first.CreatedAt + 1}, 0}, "created before": {client.JobsQuery{CreatedBefore: first.CreatedAt}, 0},
		"meta": {client.JobsQuery{Meta: map[string]string{"k": "v w"}}, 0},
	} {
		n := 0
		for _, err := range s.Client.Jobs(ctx, c.q) {
			testkit.NoError(t, err, name)
			n++
		}
		testkit.Equal(t, n, c.want, name, "jobs")
	}
	for j, err := range s.Client.Jobs(ctx, client.JobsQuery{Fields: []string{"payload"}, PageSize: 1}) {
		testkit.NoError(t, err)
		testkit.Holds(t, string(j.Payload) == "x" && j.Status == "" && j.ID == added.JobIDs[0], j)
		break
	}
	for _, err := range s.Client.Jobs(ctx, client.JobsQuery{PageSize: 1001}) {
		testkit.Failed(t, err, problem.ErrBadRequest)
	}
	testkit.Fails(s.Client.ClaimInfo(ctx, clienttest.TestID(1)))(t, problem.ErrNotFound)
}
