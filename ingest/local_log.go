package ingest

import (
	"context"
	"fmt"

	"github.com/daybookq/daybook/journal"
)

// localLog is the journal of a data directory as a Log. Only one process at a time uses the directory. That process
// leads, and its only term does not end.
type localLog struct {
	*journal.Journal
	deliver func([]journal.Record) // set by Run, before the committer starts
}

// openLocalLog opens the journal that the options describe.
func openLocalLog(lo LogOptions) (Log, error) {
	o := lo.Journal
	l := &localLog{}
	o.Deliver = func(group []journal.Record) { l.deliver(group) }
	j, err := journal.Open(o)
	if err != nil {
		return nil, err
	}
	l.Journal = j
	return l, nil
}

// Run runs the committer, which delivers the records that it writes. Records yields all earlier records.
func (l *localLog) Run(ctx context.Context, after uint64, deliver func([]journal.Record)) error {
	if last := l.Synced(); after != last {
		return fmt.Errorf("run log: the journal ends with record %d, and the store with %d; apply the records between them first", last, after)
	}
	l.deliver = deliver
	return l.Journal.Run(ctx)
}

// Barrier returns the last durable seq. It covers all stored commands, because the journal calls Done of a command only
// after the last durable seq has reached the command.
func (l *localLog) Barrier(context.Context) (uint64, error) { return l.Synced(), nil }

// Leads reports the only term of the only process.
func (l *localLog) Leads() (term uint64, leads bool) { return 1, true }
