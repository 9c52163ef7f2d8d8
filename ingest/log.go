package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// BarrierWait bounds how long Log.Barrier waits for other processes, so that its callers do not need a timer. It is
// longer than an election, which takes one or two seconds.
const BarrierWait = 5 * time.Second

// LogOptions is what an engine knows when it opens its log.
type LogOptions struct {
	Journal journal.Options // of the data directory
	// Cluster, Seq and At are those of the store: what it knows of the other nodes, and its last command.
	Cluster job.Cluster
	Seq     uint64
	At      int64
	// Refuse returns why the leader must not store a command now, as a word for Refusal, or "". It does not wait.
	Refuse func(verb string) string
	// Answer answers a question that the engine of another node has asked by Replicated.AskLeader. Level returns the level
	// of the state. A log calls them only while Run runs.
	Answer func(ctx context.Context, question []byte) (answer []byte, err error)
	Level  func() int
}

// Refusal returns the error for a word that LogOptions.Refuse has returned, perhaps at another node.
func Refusal(why string) error {
	if err := words[why]; err != nil {
		return errors.Join(ErrNotStored, err)
	}
	return fmt.Errorf("%w: the leader refuses it: %s", ErrNotStored, why)
}

// refuseAsLeader refuses creates of other nodes while this node, which leads, would refuse its own.
func (e *Engine) refuseAsLeader(verb string) string {
	switch {
	case verb != (&job.Create{}).Verb():
	case e.disk.Low():
		return "disk_full"
	case e.applyQueue.lag() > maxLag:
		return "overloaded"
	}
	return ""
}

// Log is the durable, ordered log of commands from which an engine builds its state. The journal of the data directory is
// a Log (local_log.go). A log that several processes replicate can replace it.
//
// The engine opens a log with the cursor of its store. It applies the records of Records and then starts Run. It calls
// the other methods from any goroutine until it calls Close.
type Log interface {
	// UUID returns the identity of the log as the text of a UUID. It never changes. The store keeps it and refuses any
	// other log.
	UUID() string

	// First returns the seq of the oldest record that the log still has. A store can catch up with the log only if its
	// cursor is at least First()-1.
	First() uint64

	// Records yields the records from seq `from` on that were durable when the iteration began, in ascending order.
	// Fields and Body of a record are valid until the next step. An error ends the iteration; see
	// journal.Journal.Records.
	//
	// The engine calls Records before it calls Run. A log may yield no records here and deliver all of them in Run.
	Records(from uint64) iter.Seq2[journal.Record, error]

	// Run accepts proposals, and calls deliver with every record after seq `after`, until ctx is done. The engine calls
	// it once, with the cursor of its store.
	//
	// deliver gets groups of one or more durable records, each record once, in ascending order of seq. Seqs may have
	// gaps. Run calls deliver from one goroutine at a time, and never after Run has returned. The group, and all that its
	// records point to, belong to the receiver. If deliver blocks, Run waits, and after some time Propose waits too.
	//
	// The Tag of a record is its proposal's Tag if this process proposed it and its Done was called with nil. Otherwise
	// it is nil.
	//
	// When ctx is done, Run completes the commands that Propose has taken: it calls Done of each, and deliver with the
	// commands that became durable. It returns nil, or the reason why the log cannot continue.
	Run(ctx context.Context, after uint64, deliver func([]journal.Record)) error

	// Propose gives a command to the log. The command belongs to the log from then on. While too many bytes are in
	// flight, Propose waits, at most until ctx is done. An error means that the log has not taken the command and will
	// not call Done. The error is ErrClosed; ErrWritesFailed with the reason; journal.ErrInvalid; ErrTooLarge; or the
	// error of ctx.
	//
	// The log calls Done exactly once for every command that it has taken, from one of its goroutines. For stored
	// commands of the same lane it calls Done in the order of their seqs. Done must not block.
	//
	//   - Done(seq, at, nil): the command is durable at this seq, with this time in unix ms. The log calls Done before it
	//     delivers the record.
	//   - Done(0, 0, err), and err is ErrNotStored: the command is not in the log and never will be.
	//   - Done(0, 0, err), and err is ErrUnknown: the command may be in the log. If the log delivers its record later, the
	//     record has no Tag.
	//
	// If the proposal has a Fill, the log calls it once, as late as it can, before it stores the command. If Fill returns
	// an error, the log does not store the command, and calls Done with ErrNotStored.
	Propose(ctx context.Context, p *journal.Proposal) error

	// Barrier returns a seq. A state that includes all records up to that seq includes every command that any process
	// knew to be stored before the call. Barrier may have to query other processes. It returns an error if ctx is done
	// first, or if they do not answer within BarrierWait. Barrier does not wait until the state includes the record; its
	// caller does.
	Barrier(ctx context.Context) (seq uint64, err error)

	// Leads reports whether this process leads the log. The leader gives the commands of all processes their seq and
	// time. It also proposes the commands that no caller requests: ticks, graces, the level, the return of the jobs of
	// lost runners and the deletion of idle queues.
	//
	// term numbers the periods in which one process leads without interruption. It is positive and grows with each
	// period. A process leads once the log has delivered to it all records that were stored before its term. Leads never
	// waits, so its result may be out of date when it returns. A leader's commands must therefore do no harm if they are
	// stored in a later term.
	Leads() (term uint64, leads bool)

	// Now returns the time of the log in unix ms. It never decreases, and is never before the time of a delivered record.
	// A command that is proposed now gets this time or a later one.
	Now() int64

	// AcceptTime sets the time of the log to the wall clock if the wall clock is later. It has no effect unless this
	// process leads.
	AcceptTime()

	// Health returns nil while Propose accepts commands; otherwise ErrWritesFailed with the reason, or ErrClosed.
	Health() error

	// Cut removes records up to seq applied, which a store has on disk, oldest first, in whole volumes. It keeps at least
	// retain bytes of these. It returns the removed volumes even if it fails.
	Cut(applied uint64, retain int64) ([]journal.Volume, error)

	// IdentityFile returns the name and the content of the file that identifies the log as a journal, for a copy of it.
	IdentityFile() (name string, content []byte)

	// Segments yields the files with the records from seq `from` to seq `through`, for a copy of the log as a journal.
	// The caller must keep Cut from removing these records; see journal.Journal.Segments.
	Segments(from, through uint64) iter.Seq2[journal.SegmentCopy, error]

	// Status returns figures for operators. It never waits for a disk or another process.
	Status() journal.Status

	// Close stops Run if it is running, waits for its end, and closes files and locks. It may be called more than once;
	// every call returns the same result.
	Close() error
}
