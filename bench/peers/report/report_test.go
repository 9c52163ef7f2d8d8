package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output again")

// sample is a report with everything that reports can have: spread, failures, missing systems, targets.
func sample() *measure.Report {
	turns := func(rates ...float64) (all []measure.TurnResult) {
		for round, rate := range rates {
			all = append(all, measure.TurnResult{
				Round: round, Jobs: int(rate) * 2, Seconds: 2, Calls: 10, P50: 1.25, P99: 30.5, ServerSeconds: 1, LoadSeconds: 0.5,
			})
		}
		return all
	}
	blocks := []measure.Block{}
	for _, b := range measure.Blocks() {
		if b.Name == "create-bulk" || b.Name == "worker" {
			blocks = append(blocks, b)
		}
	}
	worker := turns(150_000, 160_000)
	for i := range worker {
		worker[i].Calls, worker[i].P50, worker[i].P99 = 0, 0, 0
	}
	r := &measure.Report{
		Date: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Commit: "0123456789ab", Blocks: blocks,
		Machine:  measure.Machine{Machine: load.Machine{Processor: "Some CPU", Cores: 2, Kernel: "6.1"}, MemoryGiB: 24, Directory: "ext4", SyncMicros: 80.4, Load: [2]float64{0.5, 2}},
		Settings: measure.Settings{Rounds: 2, TurnSeconds: 2, PayloadBytes: 100},
		Drivers: []measure.Description{
			{Driver: "daybook-http", System: "daybook 1", Client: "net/http", Durable: "always", Usage: "POST", Syncs: map[string]float64{"create": 1, "claim": 1}},
			{Driver: "redis", System: "Redis 7", Client: "pipelines", Durable: "appendfsync always", Weaker: "nothing, this is a test", Usage: "XADD"},
		},
		Missing: []measure.Missing{{Driver: "faktory", Reason: "not available:\n no package | at all"}},
		Results: []*measure.Result{
			{Block: "create-bulk", Work: "create-bulk", Driver: "daybook-http", Turns: turns(1_200_000, 1_000_000)},
			{Block: "create-bulk", Work: "create-bulk", Driver: "redis", Turns: turns(300_000, 200_000)},
			{Block: "create-bulk", Work: "create-bulk", Driver: "nats", Error: "start nats: refused"},
			{Block: "worker", Work: "worker-16-batch-100", Driver: "daybook-go", Turns: worker},
			{Block: "worker", Work: "drain-bulk", Driver: "redis", Turns: turns(100_000, 110_000)},
		},
	}
	r.Targets = r.Judge(measure.Targets())[:8]
	return r
}

// TestTables compares both forms of the tables with files.
func TestTables(t *testing.T) {
	var text strings.Builder
	testkit.NoError(t, Text(&text, sample()))
	for name, got := range map[string]string{"tables.txt": text.String(), "tables.md": Markdown(sample())} {
		path := filepath.Join("testdata", name)
		if *rewrite {
			testkit.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		testkit.Holds(t, got == string(testkit.Must(os.ReadFile(path))(t)), path, "differs; go test -rewrite writes it again. The output is", got)
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.0123: "0.012", 0.999: "1", 1.5: "1.5", 12.04: "12", 123.4: "123"} {
		testkit.Equal(t, short(x), want, "short", x)
	}
	for x, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		testkit.Equal(t, count(x), want, "count", x)
	}
}
