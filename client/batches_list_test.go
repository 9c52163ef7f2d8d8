package client_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// TestDeleteListedBatches deletes each batch that a list yields, in both orders of lists. The list continues after it.
func TestDeleteListedBatches(t *testing.T) {
	c := daybooktest.Start(t).Client
	for _, q := range []client.BatchesQuery{{NamePrefix: "a/", PageSize: 2}, {Meta: map[string]any{"of": "list"}, PageSize: 2}} {
		var want, got []string
		for i := range 7 {
			name := fmt.Sprintf("a/%d/&é", i)
			if _, err := c.CreateBatch(t.Context(), client.NewBatch{Name: name, Meta: map[string]any{"of": "list"}}, nil); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		for b, err := range c.Batches(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.DeleteBatch(t.Context(), b.ID, ""); err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}
