package job

// Reason says why a command moved jobs from one status to another.
type Reason byte

const (
	ReasonCreated Reason = iota + 1
	ReasonClaimed
	ReasonEnded
	ReasonAbandoned
	ReasonDue
	ReasonPurged
	ReasonCancelled
	ReasonExpired
	ReasonTimedOut
	ReasonRedriven
	ReasonStarted // by request, early
	ReasonPatched
	ReasonDeleted
	ReasonGraced // its time-out was extended
)

// Counts reports whether moves for a reason are counted.
func (r Reason) Counts() bool {
	switch r {
	case ReasonCreated, ReasonClaimed, ReasonEnded, ReasonAbandoned, ReasonTimedOut, ReasonCancelled, ReasonExpired, ReasonRedriven, ReasonDeleted:
		return true
	}
	return false
}

// Errors in the history of runs that their runners did not end.
const (
	AbandonedText = "nobody tickled it within its lease"
	TimedOutText  = "it ran longer than its timeout_ms"
	CancelledText = "it was cancelled"
	LostText      = "its runner was lost"
)
