package job

// Job is the whole document of one job. Times are unix milliseconds; 0 stands for none, as does an empty text.
type Job struct {
	ID           ID
	Batch        ID
	Client, Type string
	Status       Status
	Priority     int

	Kind    Kind
	Payload []byte

	Code     Code
	ExitCode int
	Result
	Error    string
	Attempts []Attempt // those that did not succeed, oldest first, MaxHistory at most

	Step     string
	Progress int64 // in millionths; negative when never told

	Runner string
	Claim  ID

	RunAttempts, MaxAttempts int
	Redrives                 int // how often it was made to begin anew
	LeaseMs                  int64
	TimeoutMs                int64 // how long a run may last, however often it is tickled

	RunAt       int64
	CreatedAt   int64
	UpdatedAt   int64
	CompletedAt int64
	DeadlineAt  int64 // of an active job: when it counts as abandoned unless it is tickled
	ExpiresAt   int64 // when it is cancelled unless it has been started by then
	Why         Why   // of an ended job

	UniqueKey   string
	Traceparent string
	Meta        Meta
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
