package job

// State is the part of a job that changes. The store keeps neighbouring jobs of a batch in the same state as one row, so
// a State contains no field that differs from job to job.
type State struct {
	Status   Status
	Class    Class
	Code     Code   // of the last run that ended
	ExitCode uint16 // likewise
	Why      Why    // of an ended job
	Attempts uint32 // claims that count against MaxAttempts, since the create or the last redrive
	// Order is the place of a fresh job among the pending jobs: the seq of the command that made it pending. For all
	// other jobs it is 0.
	Order uint64
	// Claim is the seq of the claim that holds an active job. For other jobs it is the claim of the last run if its
	// runner reported the end or the run was cancelled, and otherwise 0.
	Claim     uint64
	UpdatedAt int64 // unix ms
	// At is run_at of a deferred job, the end of the time-out of an active job, or completed_at of an ended job, in unix
	// ms. Otherwise it is 0.
	At int64
	Changes
}

// ShownClaim returns the claim that documents show, or 0 for none.
func (s *State) ShownClaim() uint64 {
	if s.Status.ShowsClaim() {
		return s.Claim
	}
	return 0
}

// PurgeAt returns the time at which an ended job of a group with attributes a is purged, in unix ms. atOnce is true if
// the job is not kept at all.
func (s *State) PurgeAt(a *Attributes) (at int64, atOnce bool) {
	return s.At + a.RetentionMs, a.RetentionMs == 0
}

// Class orders the pending jobs of one priority.
type Class uint8

// Returned jobs have been claimed before. They are handed out first, in the order of their ids. Fresh jobs have not been
// claimed, or were redriven. They are handed out in the order in which they became pending.
const (
	Returned Class = iota
	Fresh
)

// Changes are the effects of patches and redrives on a job. They remain when the job moves to another state.
type Changes struct {
	Priority    uint32 // the priority that a patch set, plus 1; 0: the group's priority
	MaxAttempts uint32 // the max_attempts that a patch set; 0: the group's value
	Redrives    uint32
}

// PriorityIn returns the priority of a job of group g.
func (c *Changes) PriorityIn(g *Attributes) int {
	if c.Priority > 0 {
		return int(c.Priority) - 1
	}
	return g.Priority
}

// MaxAttemptsIn returns the number of times that a job of group g may be claimed.
func (c *Changes) MaxAttemptsIn(g *Attributes) int {
	if c.MaxAttempts > 0 {
		return int(c.MaxAttempts)
	}
	return g.MaxAttempts
}

// Now identifies the command that is being applied: its seq, and its time in unix ms.
type Now struct {
	Seq uint64
	At  int64
}
