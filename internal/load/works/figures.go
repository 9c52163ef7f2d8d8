package works

import (
	"context"
	"time"

	"github.com/daybookq/daybook/internal/load"
)

// Figures are counters from a server's metrics.
type Figures struct {
	Processor  time.Duration // processor time of the server
	Processors int           // how many the server may use at a time
	Syncs      int64         // fsyncs of the journal
	Syncing    time.Duration // total duration of the fsyncs
	Records    int64
	Groups     int64
	Written    int64 // bytes of the journal
}

// Since returns the difference between two readings.
func (f Figures) Since(before Figures) Figures {
	return Figures{
		Processor: f.Processor - before.Processor, Processors: f.Processors, Syncs: f.Syncs - before.Syncs, Syncing: f.Syncing - before.Syncing,
		Records: f.Records - before.Records, Groups: f.Groups - before.Groups, Written: f.Written - before.Written,
	}
}

// Figures reads the server's counters. Earlier versions of the server do not report Syncing.
func (t *Target) Figures(ctx context.Context) (f Figures, err error) {
	values, err := load.Metrics(ctx, t.http, t.URL, t.key)
	if err != nil {
		return f, err
	}
	seconds := func(name string) time.Duration { return time.Duration(values[name] * float64(time.Second)) }
	return Figures{
		Processor: seconds("process_cpu_seconds_total"), Processors: int(values["go_sched_gomaxprocs_threads"]),
		Syncs: int64(values["daybook_journal_syncs_total"]), Syncing: seconds("daybook_journal_syncing_seconds_total"),
		Records: int64(values["daybook_journal_records_total"]), Groups: int64(values["daybook_journal_groups_total"]),
		Written: int64(values["daybook_journal_written_bytes_total"]),
	}, nil
}
