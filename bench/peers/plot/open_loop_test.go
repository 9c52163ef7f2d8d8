package plot

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestOpenLoop: each work has a panel, and each rate a line in its legend.
func TestOpenLoop(t *testing.T) {
	var r OpenLoop
	err := json.Unmarshal([]byte(`{"commit":"abc","seconds_each":5,"works":[{"title":"create some","rates":[
		{"part":0.25,"jobs_per_s":1000,"curve":[{"nines":0,"ms":1},{"nines":1,"ms":2.5},{"nines":2,"ms":40}]},
		{"part":0.5,"jobs_per_s":2000,"curve":[{"nines":0,"ms":1.5},{"nines":2,"ms":90}]}]},
		{"title":"claim some","rates":[{"part":0.25,"jobs_per_s":10,"curve":[{"nines":0,"ms":3}]}]}]}`), &r)
	testkit.NoError(t, err)
	path := filepath.Join(t.TempDir(), "open.svg")
	testkit.NoError(t, WriteOpenLoop(path, &r))
	drawn := testkit.Must(os.ReadFile(path))(t)
	for _, want := range []string{"create some", "claim some", "25 %: 1 k jobs/s", "50 %: 2 k jobs/s", "90 %", "commit abc"} {
		testkit.Holds(t, bytes.Contains(drawn, []byte(want)), "the plot has no", want)
	}
	r.Works[1].Rates[0].Curve = nil
	testkit.Holds(t, WriteOpenLoop(path, &r) != nil && WriteOpenLoop(path, &OpenLoop{}) != nil, "a plot of nothing was drawn")
}
