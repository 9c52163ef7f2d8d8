package client_test

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

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
