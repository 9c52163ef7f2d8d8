package plot

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers.svg")
	r := &measure.Report{Blocks: measure.Blocks()}
	testkit.NoError(t, Write(path, r))
	_, err := os.Stat(path)
	testkit.Holds(t, os.IsNotExist(err), "a report without results has a plot", err)
	for _, b := range r.Blocks {
		for _, w := range b.Works {
			for i, driver := range []string{"daybook-http", "redis", "failed"} {
				result := &measure.Result{Block: b.Name, Work: w.Name, Driver: driver}
				for round := range 3 * min(1, 2-i) {
					result.Turns = append(result.Turns, measure.TurnResult{Round: round, Jobs: 1000 * (round + 1), Seconds: 1})
				}
				r.Results = append(r.Results, result)
			}
		}
	}
	testkit.NoError(t, Write(path, r))
	drawn := testkit.Must(os.ReadFile(path))(t)
	for _, b := range r.Blocks {
		testkit.Holds(t, bytes.Contains(drawn, []byte(b.Title)), "the plot has no panel", b.Title)
	}
	testkit.Holds(t, bytes.Contains(drawn, []byte("daybook-http")) && !bytes.Contains(drawn, []byte("failed")),
		"the plot does not have exactly the drivers with results")
}
