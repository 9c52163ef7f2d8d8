package deploy_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestPanelsAreDescribed: each panel of the dashboard has a description.
func TestPanelsAreDescribed(t *testing.T) {
	text := testkit.Must(os.ReadFile("grafana/daybook.json"))(t)
	type panel struct {
		Title, Type, Description string
		Panels                   []panel
	}
	var dashboard panel
	testkit.NoError(t, json.Unmarshal(text, &dashboard))
	n := 0
	var look func(list []panel)
	look = func(list []panel) {
		for _, p := range list {
			look(p.Panels)
			if p.Type == "row" {
				continue
			}
			n++
			testkit.Holds(t, p.Description != "", "the panel", p.Title, "has no description")
		}
	}
	look(dashboard.Panels)
	testkit.Holds(t, n >= 30, "only", n, "panels")
}
