package job

// RunEnd says that the runs of some jobs have ended: jobs of one group, with consecutive ids, that the same claim held
// and that ended in the same command with the same outcome. The store reports it to observers, such as an exporter of
// traces. No rule depends on it.
type RunEnd struct {
	First        ID  // of the jobs; the others have the next lines
	Jobs         int // 1 or more
	Client, Type string
	Traceparent  string // of the jobs; "" if they have none
	Claim        ID
	Runner       string
	Attempt      int   // 1 for the first run
	StartedAt    int64 // unix ms of the claim, in the time of the journal
	EndedAt      int64
	// Outcome is the text of a code (ok, failed, retry, error, unget, damaged) if the runner or the server reported one.
	// Otherwise it is abandoned, runner_lost, cancelled or deleted.
	Outcome  string
	ExitCode int    // 0: none
	Status   Status // that the jobs have now
	Error    string // the first MaxRunEndError bytes; "" if there is none
}

// Outcomes of runs that no runner reported.
const (
	RunAbandoned = "abandoned"   // the lease or the time-out has ended
	RunLost      = "runner_lost" // the runner vanished after the run had begun
	RunCancelled = "cancelled"
	RunDeleted   = "deleted"
)

// MaxRunEndError bounds the error text of a RunEnd. Many may wait for an observer, and an error has up to MaxErrorBytes.
const MaxRunEndError = 1024

// Extend adds the jobs of next to e, and reports whether they are the next ones and ended in the same way.
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

// BatchEnd says that a batch with attributes has ended. The store reports it to observers, such as metrics. No rule depends
// on it.
type BatchEnd struct {
	ID           ID
	Client, Type string      // of its first group
	Status       BatchStatus // one of the last
	CreatedAt    int64       // unix ms
	EndedAt      int64
	Unfinished   int64 // jobs that had not ended, and are cancelled
}
