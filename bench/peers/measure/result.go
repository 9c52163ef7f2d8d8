package measure

import (
	"time"

	"github.com/daybookq/daybook/internal/load"
)

// Report is the complete result of one run. It is written as JSON.
type Report struct {
	Date     time.Time     `json:"date"`
	Commit   string        `json:"commit"`
	Machine  Machine       `json:"machine"`
	Settings Settings      `json:"settings"`
	Drivers  []Description `json:"drivers"`
	Missing  []Missing     `json:"missing"`
	Blocks   []Block       `json:"blocks"`
	Results  []*Result     `json:"results"`
	Targets  []Outcome     `json:"targets"`
}

// Machine describes the machine of a run.
type Machine struct {
	load.Machine
	MemoryGiB int    `json:"memory_gib"`
	Directory string `json:"directory"` // the file system type of the servers' directories
	// SyncMicros is how long it takes to append 128 bytes to a file and to sync it: the median of a few hundred
	// measurements.
	SyncMicros float64 `json:"sync_us"`
	// Load is the load average of the last minute when the run began, and when it ended.
	Load [2]float64 `json:"load"`
}

// Settings are the flags of the run.
type Settings struct {
	Rounds       int     `json:"rounds"`
	TurnSeconds  float64 `json:"turn_seconds"` // how long a turn should take
	PayloadBytes int     `json:"payload_bytes"`
}

// Missing is a system that was not measured.
type Missing struct {
	Driver string `json:"driver"`
	Reason string `json:"reason"`
}

// Result has a driver's turns of one work of a block.
type Result struct {
	Block  string       `json:"block"`
	Work   string       `json:"work"`
	Driver string       `json:"driver"`
	Turns  []TurnResult `json:"turns"`
	Error  string       `json:"error,omitempty"` // why there are fewer turns than rounds
}

// TurnResult is one turn. The latencies are for single calls: the create, the claim, or all calls of one lifecycle
// together. A worker has none.
type TurnResult struct {
	Round         int     `json:"round"`
	Jobs          int     `json:"jobs"`
	Seconds       float64 `json:"seconds"`
	Calls         int     `json:"calls"`
	P50           float64 `json:"p50_ms"`
	P99           float64 `json:"p99_ms"`
	ServerSeconds float64 `json:"server_cpu_seconds"` // processor time of the server's processes
	LoadSeconds   float64 `json:"load_cpu_seconds"`   // processor time of the load
}

// Rate returns jobs per second.
func (t TurnResult) Rate() float64 {
	if t.Seconds == 0 {
		return 0
	}
	return float64(t.Jobs) / t.Seconds
}

// ServerMicros returns the server's processor time per job, in microseconds.
func (t TurnResult) ServerMicros() float64 { return t.ServerSeconds * 1e6 / float64(max(t.Jobs, 1)) }

// LoadMicros returns the load's processor time per job, in microseconds.
func (t TurnResult) LoadMicros() float64 { return t.LoadSeconds * 1e6 / float64(max(t.Jobs, 1)) }

// Find returns the result of a driver and work in a block, or nil if there is none.
func (r *Report) Find(block, driver, work string) *Result {
	for _, result := range r.Results {
		if result.Block == block && result.Driver == driver && result.Work == work {
			return result
		}
	}
	return nil
}
