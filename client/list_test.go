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
	if len(f.Calls) != 3 || fmt.Sprint(ids) != fmt.Sprint([]string{clienttest.TestID(0), clienttest.TestID(6)}) {
		t.Errorf("%v after %d requests", ids, len(f.Calls))
	}
	for i, after := range []string{clienttest.TestID(9), clienttest.TestID(0), clienttest.TestID(5)} {
		if q := f.Calls[i].Query; q.Get("after") != after || q.Get("status") != "failed" || len(q) != 2 {
			t.Errorf("page %d was asked for with %v", i, q)
		}
	}
	for range jobs {
	}
	if q := f.Calls[3].Query; q.Get("after") != clienttest.TestID(9) {
		t.Errorf("again from %v", q)
	}
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
			if n++; j != nil || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, %v", name, j, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d times", name, n)
		}
	}
	if _, err := client.New("http://fake", client.Options{}).ClaimInfo(t.Context(), "../jobs"); !errors.Is(err, problem.ErrBadRequest) {
		t.Error(err)
	}
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
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			n++
		}
		if n != c.want {
			t.Errorf("%s: %d jobs, want %d", name, n, c.want)
		}
	}
	for j, err := range s.Client.Jobs(ctx, client.JobsQuery{Fields: []string{"payload"}, PageSize: 1}) {
		if err != nil || string(j.Payload) != "x" || j.Status != "" || j.ID != added.JobIDs[0] {
			t.Errorf("%+v, %v", j, err)
		}
		break
	}
	for _, err := range s.Client.Jobs(ctx, client.JobsQuery{PageSize: 1001}) {
		if !errors.Is(err, problem.ErrBadRequest) {
			t.Error(err)
		}
	}
	if _, err := s.Client.ClaimInfo(ctx, clienttest.TestID(1)); !errors.Is(err, problem.ErrNotFound) {
		t.Error(err)
	}
}
