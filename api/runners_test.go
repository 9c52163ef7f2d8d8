package api

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestRunnersFromTwoSources: GET /runners lists each runner once, in order and on pages of any length, whether it sent
// heartbeats, holds jobs, or both.
func TestRunnersFromTwoSources(t *testing.T) {
	r := start(t)
	var want []string
	for i := range 30 {
		id := fmt.Sprint("r", i*7)
		if i%3 > 0 {
			r.post("/runners/"+id, `{"instance":"i"}`).object(http.StatusOK)
		}
		if i%3 < 2 {
			r.add("/a/job/b/add", "x\n")
			r.post("/jobs/claim", `{"runner_id":"`+id+`"}`).object(http.StatusOK)
		}
		want = append(want, id)
	}
	slices.SortFunc(want, registry.Compare)
	for _, limit := range []int{1, 2, 3, 7, 29, 30, 31} {
		var got []string
		after := ""
		for range len(want) + 1 {
			page := r.get(fmt.Sprintf("/runners?limit=%d%s", limit, after)).object(http.StatusOK)
			list := page["runners"].([]any)
			for _, one := range list {
				doc := one.(map[string]any)
				id := doc["runner_id"].(string)
				var n int
				fmt.Sscanf(id, "r%d", &n)
				kind := n / 7 % 3
				if (doc["state"] == "ALIVE") != (kind > 0) || (doc["instance"] == "i") != (kind > 0) || (fmt.Sprint(doc["held"]) == "1") != (kind < 2) {
					t.Errorf("runner %s: %v", id, doc)
				}
				got = append(got, id)
			}
			if page["next"] == nil {
				break
			}
			if len(list) != limit || page["next"] != got[len(got)-1] {
				t.Fatalf("limit %d: a page of %d, next %v", limit, len(list), page["next"])
			}
			after = "&after=" + page["next"].(string)
		}
		testkit.EqualSlices(t, got, want, "limit", limit)
	}
}
