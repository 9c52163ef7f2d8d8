package limits

import (
	"flag"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

var (
	full   = flag.Bool("full", false, "all that there may be in 1 GiB; half an hour on two processors")
	values = flag.Int("values", 10_000, "with -full: thousands of jobs with a value of meta each")
)

// The targets:
const (
	memory       = 1 << 30         // of the cgroup, as docs/how-to/sizing.md requires
	mostResident = 950 << 20       // of the server: the rest is for the kernel's own use
	mostStart    = 2 * time.Second // after a SIGKILL, with -full
)

// TestLimits: a server that is full to its limits stays within its memory, holds nobody up for long, and starts again.
func TestLimits(t *testing.T) {
	n := amounts{values: 20, queues: 5, lines: 40_000, groups: 5, payloads: 20, keys: 200, sessions: 200, claims: 200, streams: 20}
	if *full {
		n = amounts{values: *values, queues: 1000, lines: 4_000_000, groups: 200, payloads: 200, keys: 500_000, sessions: 1_000_000, claims: 50_000, streams: 6250}
	}
	average, _ := load.Average() // a system without it cannot make a cgroup either
	s := newServer(t, memory)
	jobs := s.fill(n)
	filled := s.resident()
	s.attack(n)
	attacked := s.resident()
	testkit.NoError(t, s.Kill())
	begun := time.Now()
	testkit.NoError(t, s.Start(t.Context()), "the start after a SIGKILL", &s.log)
	started := time.Since(begun)
	replayed := s.commandTimes()
	again := s.ask(http.MethodPost, "/jobs/claim", map[string]any{"runner_id": "after", "max": 1000, "strategy": map[string]any{"name": "prefer_distinct", "meta_key": "order"}})
	testkit.Holds(t, again["claim_id"] != nil, "a claim after the start got nothing")
	after := s.resident()
	held := 0
	for _, n := range s.ask(http.MethodGet, "/queues/acme/values", nil)["counts"].(map[string]any) {
		held += int(n.(float64))
	}
	testkit.Equal(t, held, n.values*1000)
	for verb, times := range replayed {
		if long := times.tooLong("the start after a SIGKILL", verb, 0.06); long != "" {
			s.slow = append(s.slow, long)
		}
	}
	testkit.Check(t, s.Stop(), "stop")
	t.Logf("%d jobs; resident at most %d MiB when all was there, %d MiB after the requests, %d MiB after the start; ready %v after a SIGKILL; the load of the machine was %.1f before\n%s",
		jobs, filled>>20, attacked>>20, after>>20, started.Round(time.Millisecond), average, s.table.String())
	most := max(attacked, after)
	testkit.Holds(t, most <= mostResident, "the server had", most>>20, "MiB resident, more than", mostResident>>20)
	if !*full {
		return // times prove nothing on a busy machine
	}
	testkit.Holds(t, average <= float64(runtime.NumCPU()),
		"undecided: the load of the machine is", average, "on", runtime.NumCPU(), "processors; run -full on a quiet one")
	for _, slow := range s.slow {
		t.Error(slow)
	}
	testkit.Holds(t, started <= mostStart, "the server was ready", started, "after the start, and may take", mostStart)
}
