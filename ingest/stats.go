package ingest

import (
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/document"
)

// Stats are the figures of a running engine. Reading them never waits for the log or the store. In JSON, the fields of
// the embedded structs are at the top level.
type Stats struct {
	Watermarks
	StateStats
	TimeStats
	Runners registry.Counts `json:"runners"`
	Journal JournalStats    `json:"journal"`
	Store   StoreStats      `json:"store"`
	History HistoryStats    `json:"history"`
	DiskStats
	EventStats
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"` // why the engine is not ready
}

// Watermarks are the last seqs that were written, synced, applied, and flushed to the store's disk: appended ≥ synced ≥
// applied ≥ flushed.
type Watermarks struct {
	Appended uint64 `json:"appended"`
	Synced   uint64 `json:"synced"`
	Applied  uint64 `json:"applied"`
	Flushed  uint64 `json:"flushed"`
	// LagCommands is the number of commands that are synced but not applied. LagBytes is the memory that they take.
	LagCommands uint64 `json:"lag_commands"`
	LagBytes    int64  `json:"lag_bytes" minimum:"0"`
}

// StateStats are the figures of the state.
type StateStats struct {
	Jobs     map[string]int64 `json:"jobs" minimum:"0"`    // by status
	Batches  map[string]int64 `json:"batches" minimum:"0"` // batches with attributes, by status
	Queues   int              `json:"queues" minimum:"0"`
	Parked   int              `json:"parked_claims" minimum:"0"`
	Stopped  bool             `json:"stopped"`            // the switch is set to stop: no jobs are handed out
	Sweeps   int              `json:"sweeps" minimum:"0"` // number of sweeps in progress
	Keys     uint64           `json:"idempotency_keys"`
	KeyBytes uint64           `json:"idempotency_key_bytes"` // of their rows
	// SessionBytes is the approximate size of the rows of sessions.
	SessionBytes uint64 `json:"session_bytes"`
	Sessions     uint64 `json:"sessions"`
}

// TimeStats are the figures of the log's time.
type TimeStats struct {
	Now           int64 `json:"now"` // unix ms
	ClockOffsetMs int64 `json:"clock_offset_ms"`
	NextDue       int64 `json:"next_due_at"` // 0: never
}

// DiskStats are the figures of the disk with the data.
type DiskStats struct {
	DiskFree uint64 `json:"disk_free_bytes"`
	DiskLow  bool   `json:"disk_low"` // creates are refused
}

// EventStats count events since the start.
type EventStats struct {
	Ticks      uint64 `json:"ticks"`
	Graces     uint64 `json:"graces"`
	Overloaded uint64 `json:"creates_refused_overloaded"`
	Damaged    uint64 `json:"damaged_jobs"` // set aside because their payloads cannot be read
	Replayed   uint64 `json:"replayed_commands"`
}

// JournalStats are the figures of the journal. Its counters begin with the start.
type JournalStats struct {
	UUID    string `json:"uuid"`
	First   uint64 `json:"first"`
	Volumes int    `json:"volumes"`
	Bytes   int64  `json:"bytes"`
	Records uint64 `json:"records"`
	Groups  uint64 `json:"groups"`
	Syncs   uint64 `json:"syncs"`
	Written uint64 `json:"bytes_written"`
	SyncLatency
	InFlight  int64  `json:"in_flight_bytes"`
	Failures  uint64 `json:"failures"`
	Repairs   uint64 `json:"repairs"`
	LastError string `json:"last_error"`
}

// SyncLatency is the duration of the journal's fsyncs since the start.
type SyncLatency struct {
	SyncP50Us int64 `json:"sync_p50_us"`
	SyncP99Us int64 `json:"sync_p99_us"`
	SyncMaxUs int64 `json:"sync_max_us"`
	// SyncTotalUs is the sum of all. The journal runs one fsync at a time.
	SyncTotalUs int64 `json:"sync_total_us"`
}

// StoreStats are the figures of the store.
type StoreStats struct {
	Bytes   uint64 `json:"bytes"`
	Commits uint64 `json:"commits"`
	Level   int    `json:"level"`
}

// HistoryStats say how far history reaches: what moved which jobs.
type HistoryStats struct {
	Bytes    int64 `json:"bytes" minimum:"0"`
	MaxBytes int64 `json:"max_bytes" minimum:"0"`
	MaxAgeMs int64 `json:"max_age_ms" minimum:"0"`
	// Since is the time of the oldest command that history has, in unix ms, and First its seq; 0: no command has moved jobs.
	Since int64  `json:"since" minimum:"0"`
	First uint64 `json:"first_seq"`
}

// Stats returns the current figures.
func (e *Engine) Stats() Stats {
	// The lower watermarks are read first, so that the result has the order of Watermarks.
	flushed, applied := e.history.durable.Load(), e.store.Applied()
	l := e.log.Status()
	totals := e.store.Totals()
	s := Stats{
		Watermarks: Watermarks{
			Appended: max(l.Appended, l.Synced), Synced: l.Synced, Applied: applied, Flushed: flushed,
			LagCommands: l.Synced - min(applied, l.Synced), LagBytes: e.applyQueue.lag(),
		},
		StateStats: StateStats{
			Jobs: jobsByStatus(totals), Batches: map[string]int64{}, Queues: totals.Queues, Parked: int(e.parked.n.Load()),
			Stopped: totals.Stopped, Sweeps: totals.Sweeps, Keys: totals.Keys, KeyBytes: totals.KeyBytes, Sessions: totals.Sessions, SessionBytes: totals.SessionBytes,
		},
		TimeStats: TimeStats{Now: e.log.Now(), ClockOffsetMs: l.ClockOffset.Milliseconds(), NextDue: e.store.NextDue()},
		Runners:   e.runners.Counts(),
		Journal:   journalStats(&l),
		Store:     StoreStats{Bytes: e.store.DiskBytes(), Commits: e.commits.count.Load(), Level: totals.Level},
		History: HistoryStats{
			Bytes: totals.History.Bytes, MaxBytes: totals.History.MaxBytes, MaxAgeMs: totals.History.MaxAgeMs, Since: totals.History.Since, First: totals.History.First,
		},
		DiskStats: DiskStats{DiskFree: e.disk.Left(), DiskLow: e.disk.Low()},
		EventStats: EventStats{
			Ticks: e.counters.ticks.Load(), Graces: e.counters.graces.Load(), Overloaded: e.counters.overloaded.Load(),
			Damaged: e.counters.setAsideJobs.Load(), Replayed: e.counters.replayed.Load(),
		},
		Ready: true,
	}
	for status, n := range totals.Batches[1:] {
		s.Batches[job.BatchStatus(status+1).String()] = n
	}
	if err := e.Ready(); err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	return s
}

func jobsByStatus(t document.Totals) map[string]int64 {
	jobs := map[string]int64{}
	for _, status := range job.Statuses {
		jobs[status.String()] = t.Counts[status]
	}
	return jobs
}

// QueueFigures returns the figures since the start: first of each individually counted queue, then of all other queues
// together. It returns none if Options.MetricsQueues is 0. It reads some rows of the store, and never waits for commands.
func (e *Engine) QueueFigures() []store.QueueFigures { return e.store.QueueFigures(e.log.Now()) }

// QueueRows returns the approximate number of figures that QueueFigures returns, without reading rows.
func (e *Engine) QueueRows() int { return e.store.QueueRows() }

func journalStats(l *journal.Status) JournalStats {
	return JournalStats{
		UUID: l.UUID, First: l.First, Volumes: l.Volumes, Bytes: l.Bytes,
		Records: l.Records, Groups: l.Groups, Syncs: l.Syncs, Written: l.BytesWritten,
		SyncLatency: SyncLatency{
			SyncP50Us: l.SyncLatency.P50.Microseconds(), SyncP99Us: l.SyncLatency.P99.Microseconds(), SyncMaxUs: l.SyncLatency.Max.Microseconds(),
			SyncTotalUs: l.SyncLatency.Total.Microseconds(),
		},
		InFlight: l.InFlightBytes, Failures: l.Failures, Repairs: l.Repairs, LastError: l.LastError,
	}
}
