package job

// Job is the document of one job, flat as on the wire. Times are in unix milliseconds. 0 or an empty text means none.
type Job struct {
	ID           ID
	Batch        ID
	Client, Type string
	// Attributes are the attributes of the job's group, with two exceptions. A patch may have changed the priority and
	// max_attempts, and run_at is the time of the next run of a deferred job.
	Attributes
	Payload []byte

	Status Status

	Code     Code
	ExitCode int
	Result
	Error    string
	Attempts []Attempt // the runs that did not succeed, oldest first; at most MaxHistory

	Step     string
	Progress int64 // in millionths; negative: never reported
	// Steps are the steps that runners reported in all runs, oldest first: the newest MaxSteps. The document of a claimed
	// job leaves them out.
	Steps []Step

	Runner string
	Claim  ID

	RunAttempts int
	Redrives    int // how often the job was redriven

	CreatedAt   int64
	UpdatedAt   int64 // when it was created or last moved
	TickledAt   int64 // of an active job: when it was claimed or last tickled
	CompletedAt int64
	DeadlineAt  int64 // of an active job: it counts as abandoned at this time unless it is tickled
	Why         Why   // of an ended job

	UniqueKey string
}

// Step is a part of a run. Its runner reported that the step has begun.
type Step struct {
	At   int64 // unix ms
	Name string
}

// Counts is a number of jobs for each status.
type Counts [NumStatus]int64

// Total returns the number of jobs that still have a document.
func (c *Counts) Total() int64 {
	var n int64
	for _, s := range Statuses {
		n += c[s]
	}
	return n
}
