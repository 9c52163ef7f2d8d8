package job

// Job is the whole document of one job, flat as it is shown on the wire. Times are unix milliseconds. 0, or an empty
// text, means none.
type Job struct {
	ID           ID
	Batch        ID
	Client, Type string
	// Attributes are those of the job's group; a patch may have changed the priority and max_attempts, and run_at is
	// that of the next run of a deferred job.
	Attributes
	Payload []byte

	Status Status

	Code     Code
	ExitCode int
	Result
	Error    string
	Attempts []Attempt // the runs that did not succeed, oldest first, at most MaxHistory

	Step     string
	Progress int64 // in millionths; negative: never reported
	// Steps are the steps that runners reported in all runs, oldest first, the newest MaxSteps. The document of a claimed
	// job has none.
	Steps []Step

	Runner string
	Claim  ID

	RunAttempts int
	Redrives    int // how often the job was redriven

	CreatedAt   int64
	UpdatedAt   int64
	CompletedAt int64
	DeadlineAt  int64 // of an active job: when it counts as abandoned unless it is tickled
	Why         Why   // of an ended job

	UniqueKey string
}

// Step is a part of a run that its runner has begun.
type Step struct {
	At   int64 // unix ms
	Name string
}

// Counts is a number of jobs for each status.
type Counts [NumStatus]int64

// Total is the number of jobs that still have a document.
func (c *Counts) Total() int64 {
	var n int64
	for _, s := range Statuses {
		n += c[s]
	}
	return n
}
