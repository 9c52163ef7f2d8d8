package store

import "github.com/daybookq/daybook/job"

// Result is what Apply decided about one command: one of the types below, or nil for commands that nobody waits for.
type Result any

// Claimed is the result of a claim. Without runs nothing was there to hand out.
type Claimed struct {
	Claim   job.ID
	LeaseMs int64
	Runs    []Run

	runner   string
	handouts []handout
}

// Jobs returns the number of jobs that were handed out.
func (c *Claimed) Jobs() int {
	n := 0
	for _, r := range c.Runs {
		n += r.Lines()
	}
	return n
}

// Run is a range of consecutive lines of one batch, both ends included.
type Run struct {
	Batch       uint64 // the seq of the batch's create
	First, Last uint32
}

// Lines returns the number of lines in r.
func (r Run) Lines() int { return int(r.Last-r.First) + 1 }

// Ended is the result of a complete: one JobResult per outcome, in order, and the number of jobs that have the outcome given
// to all of the claim. Refusal tells why an outcome for all could not be given: ClaimLost (the claim is unknown, or holds and
// ended nothing) or RunnerDiffers.
type Ended struct {
	Results []JobResult
	All     int
	Refusal job.Refusal
}

// JobResult tells what became of one job that a command named. Status is meaningful when Refusal is Granted.
type JobResult struct {
	ID      job.ID
	Status  job.Status
	Refusal job.Refusal
}

// Tickled is the result of a tickle: how many jobs are held, and those named (by the command or by the claim's own memory of
// what it handed out) that are not. Refusal tells why a tickle of a claim or runner found nothing to tickle: ClaimLost or
// RunnerDiffers.
type Tickled struct {
	Held    int
	Lost    []JobResult
	Refusal job.Refusal
}

// Paused is the result of a pause or resume.
type Paused struct{ Refusal job.Refusal }

// Batch is the document of a batch.
type Batch struct {
	ID        job.ID
	CreatedAt int64
	Lines     int
	Counts    job.Counts
}

// Queue is the document of a queue. PendingSince is when the pending job that is next in line became pending, unix ms; 0
// without one.
type Queue struct {
	Client, Type string
	Paused       bool
	CreatedAt    int64
	Counts       job.Counts
	PendingSince int64
}
