package store

import (
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// These names of inner packages are part of the store's interface.
type (
	// QueuesError refuses a store with more queues than Options.QueueMemory allows.
	QueuesError = memory.QueuesError
	// JobEnd is the end of a job, for callers that wait for it.
	JobEnd = memory.JobEnd
	// Priorities are the priorities that count in QueueBytes.
	Priorities = row.Priorities
	// QueueFigures are the figures of queues, for metrics.
	QueueFigures = memory.QueueFigures
	// DurationCounts is a histogram of durations.
	DurationCounts = memory.DurationCounts
)

var (
	// The errors of Open, Apply and queries; see package row.
	ErrDamaged        = row.ErrDamaged
	ErrClosed         = row.ErrClosed
	ErrForeignJournal = row.ErrForeignJournal
	ErrNewerFormat    = row.ErrNewerFormat
	ErrOlderFormat    = row.ErrOlderFormat
	ErrBusy           = row.ErrBusy

	// DurationBoundsMs are the bounds of the buckets of DurationCounts.
	DurationBoundsMs = memory.DurationBoundsMs
)

// The schema of native histograms whose buckets DurationCounts has, and the index of its first bucket.
const (
	NativeSchema = memory.NativeSchema
	FirstNative  = memory.FirstNative
)

// QueueBytes returns about how much memory a queue takes.
func QueueBytes(client, typ string, of Priorities) int64 { return memory.QueueBytes(client, typ, of) }
