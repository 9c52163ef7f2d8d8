package ingest

import (
	"context"
	"iter"
	"time"

	"github.com/daybookq/daybook/journal"
)

// BarrierWait bounds how long Log.Barrier waits for other processes, so that callers need no timer where it does not
// wait: an election takes one or two seconds.
const BarrierWait = 5 * time.Second

// Log is the durable, ordered log of commands that an engine serves from. The journal of the data directory is one
// (local_log.go); a log that several processes replicate can take its place.
//
// The engine opens a log with the cursor of its store. It applies what Records yields, starts Run, and calls the other
// methods from any goroutine until it calls Close.
type Log interface {
	// UUID identifies the log for as long as it exists, in the text form of a UUID. The store remembers it and refuses
	// to follow another log.
	UUID() string

	// First returns the seq of the oldest record that the log can still yield or deliver. If a store ends before the
	// record that precedes it, the store cannot be brought up to the log.
	First() uint64

	// Records yields the records from seq `from` on that were durable when the iteration began, in ascending order.
	// Fields and Body of a record are valid until the next step. An error ends the iteration; see
	// journal.Journal.Records.
	//
	// The engine iterates before it calls Run, to apply them without proposals in between. A log may yield none of them
	// and deliver all in Run.
	Records(from uint64) iter.Seq2[journal.Record, error]

	// Run takes proposals, and calls deliver with every record after seq `after`, until ctx is done. The engine calls
	// it once. `after` is the cursor of its store.
	//
	// deliver gets groups of one or more durable records, in ascending order of seq, each record once; seqs may have
	// gaps. It is called from one goroutine at a time, never after Run has returned. The group, and all that its
	// records point to, belong to the receiver. deliver may block; Run then waits, and after some time Propose does.
	//
	// The Tag of a record is that of its proposal if this process proposed it and its Done was called with nil.
	// Otherwise it is nil.
	//
	// When ctx is done, Run settles what Propose has taken: it calls each Done, and deliver with what became durable.
	// It returns nil, or why the log cannot go on.
	Run(ctx context.Context, after uint64, deliver func([]journal.Record)) error

	// Propose hands over a command, which belongs to the log from then on. It waits while too many bytes are in flight,
	// at most until ctx is done. An error means that the command was not taken and that Done is not called: ErrClosed;
	// ErrWritesFailed with the reason; journal.ErrInvalid; ErrTooLarge; or the error of ctx.
	//
	// The log calls Done of every command that it took, once, from a goroutine of its own: for commands of one lane
	// that were stored, in the order of their seqs. Done must not block.
	//
	//   - Done(seq, at, nil): the command is durable at this seq, with this time in unix ms. The call comes before the
	//     record is delivered.
	//   - Done(0, 0, err), and err is ErrNotStored: the command is not in the log and never will be.
	//   - Done(0, 0, err), and err is ErrUnknown: the command may be in the log. If it is delivered later, it is
	//     delivered without its Tag.
	Propose(ctx context.Context, p *journal.Proposal) error

	// Barrier returns a seq. A state that includes the record with that seq, and all before it, includes every command
	// of which any process knew before the call that it is stored. Barrier waits where it has to ask other processes.
	// It returns an error if ctx is done before they answer, or if they have not answered within BarrierWait. The
	// caller waits by itself until its state includes the record.
	Barrier(ctx context.Context) (seq uint64, err error)

	// Leads reports whether this process leads the log: it gives the commands of all processes their seq and time. The
	// leader, and no other process, proposes what nobody requested: ticks, graces, the level and the deletion of idle
	// queues.
	//
	// term numbers the periods in which one process leads without a break. It is positive and grows with each period. A
	// process leads once all that was stored before its term has been delivered to it. Leads never waits, so its answer
	// may be out of date when it returns: commands of the leader must do no harm when they are stored in a later term.
	Leads() (term uint64, leads bool)

	// Now returns the time of the log, unix ms: the leader stamps a command that is proposed now with this time or a
	// later one. It is never before the time of a record that was delivered, and never decreases.
	Now() int64

	// AcceptTime sets the time of the log to the wall clock at once if it is behind the wall clock. It has no effect
	// unless this process leads.
	AcceptTime()

	// Health returns nil while Propose takes commands; otherwise ErrWritesFailed with the reason, or ErrClosed.
	Health() error

	// Cut removes the oldest records, in whole volumes, that a store has on disk: those up to seq applied. It keeps at
	// least retain bytes of them. It returns the volumes that it removed, also when it returns an error.
	Cut(applied uint64, retain int64) ([]journal.Volume, error)

	// Status returns figures for operators. It never waits for a disk or another process.
	Status() journal.Status

	// Close stops Run if it still runs, waits for its end, and releases files and locks. It may be called more than
	// once; each call returns the same.
	Close() error
}
