package applied

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// Result is what Apply decided about a command: one of the types below, or nil for commands without a waiting caller.
type Result any

type (
	// Run is a range of consecutive lines of a batch.
	Run = row.Run
	// Effect is a move of such a range from one status to another.
	Effect = row.Effect
)

// Made is the result of a create with keys or a number, which is decided when it is applied. Refusal says why it was
// not carried out, see job.Once: KeyReused, NumberReused, NumberPassed or SessionNotFound. For jobs that are to be
// added to a batch it may also be BatchNotFound, BatchClosed or BatchEnded.
type Made struct {
	Batch    job.ID // zero if the jobs belong to no batch; see job.Create.Joined
	First    job.ID // the first job, if they belong to no batch or were added to one; otherwise zero
	Seq      uint64 // of the create that made it
	Lines    int
	Existing []Existing // lines that made no job, in their order
	Replayed bool       // the create had been carried out before with its key or number, and this is the first result
	Group    job.Group  // of the first line
	Refusal  job.Refusal
}

// Job returns the id of a line.
func (m *Made) Job(line int) job.ID {
	if !m.First.IsZero() {
		return m.First.WithLine(m.First.Line() + line)
	}
	return m.Batch.WithLine(line)
}

// Existing is a line that made no job, because an unfinished job has its unique key.
type Existing struct {
	Line int
	Job  job.ID
}

// Claimed is the result of a claim. It has no runs if no job was available. Refusal is as in Made.
type Claimed struct {
	Claim    job.ID
	Seq      uint64 // of the claim
	LeaseMs  int64
	Runs     []Run
	Keyed    bool // it has a key or number, so its caller may repeat it if the answer is lost
	Replayed bool // it had been carried out before with its key or number; these are the jobs it handed out then, held or not
	Refusal  job.Refusal
	// PayloadBytes is an upper bound of the size of these jobs' payloads. It may be far too high.
	PayloadBytes int64

	Runner   string
	Handouts []row.Handout
}

// Jobs returns the number of jobs that were handed out.
func (c *Claimed) Jobs() int {
	n := 0
	for _, r := range c.Runs {
		n += r.Lines()
	}
	return n
}

// Progress returns how many jobs a batch with attributes had, and how many of them had completed, when the claim was
// applied. ok is false if the claim has handed out none of its jobs.
func (c *Claimed) Progress(batch job.ID) (lines, completed int64, ok bool) {
	for i := range c.Handouts {
		if of := &c.Handouts[i].Of; of.Batch == batch {
			return of.Lines, of.Completed, true
		}
	}
	return 0, 0, false
}

// Ended is the result of a complete: one JobResult per outcome, in order, and the number of jobs with the outcome that
// the command gave for the whole claim. Refusal says why such an outcome was refused: ClaimLost (the claim is unknown,
// or holds and ended no job) or RunnerDiffers.
//
// Denied says why the command was not carried out at all; it is as Made.Refusal.
type Ended struct {
	Results  []JobResult
	All      int
	Refusal  job.Refusal
	Denied   job.Refusal
	Replayed bool // it had been carried out before with its key or number, by the command Seq at the time At; this is the first result
	Seq      uint64
	At       int64
}

// JobResult is the result for one job that a command named. Status is meaningful if Refusal is Granted.
type JobResult struct {
	ID      job.ID
	Status  job.Status
	Refusal job.Refusal
}

// Tickled is the result of a tickle: how many jobs are held, and which named jobs are not. Jobs are named by the
// command, or by its claim, which remembers the jobs that it handed out. Refusal says why a tickle of a claim or runner
// found no job to tickle: ClaimLost or RunnerDiffers.
type Tickled struct {
	Held    int
	Lost    []JobResult
	Refusal job.Refusal
}

// Paused is the result of a pause or resume.
type Paused struct{ Refusal job.Refusal }

// QueueDeleted is the result of deleting a queue. Refusal is QueueNotFound, QueueNotEmpty or Granted.
type QueueDeleted struct{ Refusal job.Refusal }

// IdleQueuesDeleted is the result of deleting idle queues: how many were deleted. If that is as many as one command
// deletes, more may be idle.
type IdleQueuesDeleted struct{ Queues int }

// Moved is the result of an operation on one job: its new status, or why it was refused. If the job was deleted, Status
// is its last status.
type Moved struct {
	Status  job.Status
	Refusal job.Refusal
}

// Swept is the result of an operation on many jobs. It counts the jobs that the operation moved, and the jobs that it
// had to leave because a different job has their unique key. If the operation is not finished, it names the running
// sweep. Refusal is BatchNotFound, QueueNotFound or TooManySweeps.
//
// A request that ends a batch which has its own status starts no sweep. Status is then the batch's new status, and More
// says whether jobs are still to be moved. Refusal may be BatchEnded.
type Swept struct {
	Sweep          job.ID
	Moved, Skipped int64
	Status         job.BatchStatus
	More           bool
	Refusal        job.Refusal
}

// BatchChanged is the result of closing or resuming a batch: its status. Refusal is BatchNotFound, BatchEnded or
// Granted.
type BatchChanged struct {
	Status  job.BatchStatus
	Refusal job.Refusal
}

// Switched is the result of a stop or start.
type Switched struct{ Stopped bool }

// SessionOpened is the result of opening a session. Refusal is TooManySessions, or Granted.
type SessionOpened struct {
	Session document.Session
	Refusal job.Refusal
}

// DocumentChanged is the result of storing or deleting a named document: the version that this made. If the newest
// version already had the same document, Same is set: that version is the result, and no new one was stored. Refusal is
// VersionDiffers, the kind's TooMany or NotFound, or Granted.
type DocumentChanged struct {
	Document document.Named
	Same     bool
	Refusal  job.Refusal
}

// RunnerLost is the result of returning the jobs of a lost runner: how many were returned, and whether more remain.
type RunnerLost struct {
	Jobs int
	More bool
}

// SessionEnded is the result of ending a session. Refusal is SessionNotFound, or Granted.
type SessionEnded struct{ Refusal job.Refusal }
