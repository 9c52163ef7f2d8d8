package job

// RunEnd reports that the runs of some jobs have ended. The jobs are of one group, have consecutive ids, were held by the
// same claim, and ended in the same command with the same outcome. The store passes it to observers, such as a trace
// exporter. No rule depends on it.
type RunEnd struct {
	First        ID  // the first job; the next lines follow
	Jobs         int // 1 or more
	Client, Type string
	Traceparent  string // of the jobs; "" if they have none
	Claim        ID
	Runner       string
	Attempt      int   // 1 for the first run
	StartedAt    int64 // time of the claim in the journal, unix ms
	EndedAt      int64
	// Outcome is the text of a code (ok, failed, retry, error, unget, damaged) if the runner or the server reported one.
	// Otherwise it is abandoned, runner_lost, cancelled or deleted.
	Outcome  string
	ExitCode int    // 0: none
	Status   Status // the jobs' status after the end
	Error    string // the first MaxRunEndError bytes; "" if there is none
}

// Outcomes of runs that no runner reported.
const (
	RunAbandoned = "abandoned"   // the lease or the time-out has ended
	RunLost      = "runner_lost" // the runner vanished after the run had begun
	RunCancelled = "cancelled"
	RunDeleted   = "deleted"
)

// MaxRunEndError bounds the error text of a RunEnd, because many may wait for an observer. A job's error has up to
// MaxErrorBytes.
const MaxRunEndError = 1024

// Extend adds the jobs of next to e and returns true, if they directly follow the jobs of e and ended in the same way.
func (e *RunEnd) Extend(next *RunEnd) bool {
	first, jobs := e.First, e.Jobs
	line := first.Line() + jobs
	if line >= MaxLines || next.First != first.WithLine(line) {
		return false
	}
	all := *next
	all.First, all.Jobs = first, jobs
	if all != *e {
		return false
	}
	e.Jobs += next.Jobs
	return true
}

// BatchEnd reports that a batch with attributes has ended. The store passes it to observers, such as metrics. No rule
// depends on it.
type BatchEnd struct {
	ID           ID
	Client, Type string      // of its first group
	Status       BatchStatus // completed, failed or cancelled
	CreatedAt    int64       // unix ms
	EndedAt      int64
	Unfinished   int64 // jobs that had not ended, and were cancelled
}
