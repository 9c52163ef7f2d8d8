package document

import "github.com/daybookq/daybook/job"

// Batch is the document of a batch. Times are unix ms.
type Batch struct {
	ID        job.ID
	CreatedAt int64
	Lines     int64 // of all creates
	Counts    job.Counts
	Status    job.BatchStatus
	// Jobs is how many jobs the batch ever had, and Ended how many of them have ended. Both include purged jobs.
	Jobs, Ended int64
	EndedAt     int64  // 0: it has not ended
	Failed      job.ID // the first job that failed and was not redriven since; zero: none
	// Progress is measured from the time Since, when EndedBefore jobs had ended.
	Since, EndedBefore int64
	Submission         *Submission // nil: it was created without attributes
}

// Submission is a batch's attributes from its creation.
type Submission struct {
	job.Submission       // without Metadata
	MetadataBytes  int   // of Metadata
	Snowflake      int64 // its id in 63 bits
	Client, Type   string
	RetentionMs    int64
	Completed      int64 // how many of its jobs have completed, including purged jobs
}

// Queue is the document of a queue. PendingSince is when the pending job that is next in line became pending, in unix
// ms, or 0 if no job is pending.
type Queue struct {
	Client, Type string
	Paused       bool
	CreatedAt    int64
	Counts       job.Counts
	PendingSince int64
}

// Sweep is the document of a sweep.
type Sweep struct {
	ID             job.ID
	Op             job.Op
	Batch          job.ID // or
	Client, Type   string
	Status         job.Status // 0: any that Op takes
	Moved, Skipped int64
	CreatedAt      int64
	FinishedAt     int64 // 0: in progress
}

// Audited is a command of an operator or an admin, as the audit has it.
type Audited struct {
	Seq     uint64
	At      int64  // unix ms
	By      string // the actor; "": unknown
	Verb    string // of the command in the journal
	Fields  string // of the command in the journal, without its body, cut off after 1 KiB
	Refusal job.Refusal
}

// Session is the document of a session. Times are unix ms.
type Session struct {
	ID        job.ID
	Runner    string // "" when none was named
	CreatedAt int64
	UsedAt    int64 // when it was opened, or carried out a request last
	ExpiresAt int64 // when it is forgotten, unless it carries out a request earlier
	Slots     []SlotState
}

// SlotState is the number of the last request of a slot.
type SlotState struct {
	Slot   int
	Number uint64
}

// Named describes a version of a named document. A version that deleted the document has neither digest, bytes nor
// summary.
type Named struct {
	ID        job.ID
	Client    string // "" if it belongs to no client
	Name      string
	Version   int                // from 1 on
	Digest    job.DocumentDigest // SHA-256 of the document
	Bytes     int                // of the document; 0 if it is a blob
	Summary   string             // in the form of the kind
	Newest    bool               // it is the newest version
	Deleted   bool               // it deleted the document
	Gone      bool               // it was deleted later, so the server does not keep its document
	By        string             // who made it; "": unknown
	CreatedAt int64              // unix ms
}

// Claim is the document of a claim. Times are unix ms. At DeadlineAt its jobs count as abandoned unless the claim is
// tickled; jobs with their own lease or a time-out are excepted. DeadlineAt is 0 if the claim holds no jobs.
type Claim struct {
	ID         job.ID
	Runner     string
	CreatedAt  int64
	LeaseMs    int64
	TickledAt  int64 // when it was made, or last tickled as a whole
	DeadlineAt int64
	HandedOut  int // number of jobs
	Held       int
}

// Runner is the document of a runner. Open lists its newest claims that still hold jobs, newest first, MaxOpenClaims at
// most.
type Runner struct {
	Name         string
	Claims, Held int
	Open         []Claim
	// LastSeenAt is when the runner last made one of the claims in Open, or tickled one of them, a job of theirs, or
	// everything that it holds.
	LastSeenAt int64
}

// WaitingType is a type with pending jobs in queues that are not paused. It counts these jobs.
type WaitingType struct {
	Type    string
	Waiting int64
}

// Readied names a queue with jobs to hand out, and counts them.
type Readied struct {
	Client, Type string
	Pending      int64
}

// Totals are sums over all queues.
type Totals struct {
	Counts  job.Counts
	Batches [job.NumBatchStatus]int64 // batches with attributes, by status
	QueueUse
	Level    int
	Keys     uint64 // idempotency keys
	KeyBytes uint64 // of their rows
	Sessions uint64
	// SessionBytes is about the size of the rows of sessions.
	SessionBytes uint64
	Sweeps       int  // in progress
	Stopped      bool // by the switch
	History      History
}

// History says how far history reaches, and its bounds.
type History struct {
	// Bytes is the size of the rows that history is read from; MaxBytes and MaxAgeMs bound them.
	Bytes, MaxBytes, MaxAgeMs int64
	// Since is the time of the oldest command that history has, and First its seq. Both are 0 if history is empty. History has
	// every later command that moved jobs.
	Since int64
	First uint64
	// Next is the seq at which the second-oldest part of history begins, and NextSince its time; 0: history has one part. The part before
	// it is deleted first.
	Next      uint64
	NextSince int64
}

// QueueUse is how much all queues take of the limits.
type QueueUse struct {
	Queues int
	Ever   uint32 // how many queues there ever were
	Bytes  int64  // of memory, approximately: see QueueBytes
}

// Use is how many documents of a kind exist, and the bytes of all their versions.
type Use struct{ Names, Bytes int64 }

// Plus returns the sum of two.
func (u Use) Plus(v Use) Use { return Use{u.Names + v.Names, u.Bytes + v.Bytes} }
