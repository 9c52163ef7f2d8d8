package main

import (
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/client"
)

// TestTopNewestFailed: if there are more failed jobs than are read, the newest are shown.
func TestTopNewestFailed(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	c := client.New(s.url, client.Options{})
	fail := func(n int) {
		t.Helper()
		jobs := make([]client.NewJob, n)
		for i := range jobs {
			jobs[i] = client.NewJob{Attributes: client.Attributes{MaxAttempts: 1}}
		}
		if _, err := c.CreateBatch(t.Context(), client.NewBatch{Type: "t"}, jobs); err != nil {
			t.Fatal(err)
		}
		for left := n; left > 0; {
			claim, err := c.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Types: []string{"t"}, Max: 1000})
			if err != nil || claim == nil {
				t.Fatal(claim, err)
			}
			if _, _, err := c.CompleteClaim(t.Context(), claim.ID, client.Outcome{Code: "error", Error: "e"}); err != nil {
				t.Fatal(err)
			}
			left -= len(claim.Jobs)
		}
	}
	source := &topServer{t.Context(), c}
	q := queueName{"default", "t"}
	if list, err := source.failed(q); err != nil || len(list) != 0 {
		t.Fatal(len(list), err)
	}
	fail(3)
	if list, err := source.failed(q); err != nil || len(list) != 3 || list[0].ID < list[2].ID {
		t.Fatal(len(list), err)
	}
	fail(maxFailedRead + 500)
	fail(shownFailed + 20)
	newest := ""
	for j, err := range c.Jobs(t.Context(), client.JobsQuery{Type: "t", Fields: []string{"status"}, PageSize: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		newest = j.ID
	}
	list, err := source.failed(q)
	if err != nil || len(list) != shownFailed || list[0].ID != newest {
		t.Errorf("%d jobs, error %v; the first is not the newest", len(list), err)
	}
}
