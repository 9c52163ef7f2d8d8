package job

// State is the part of a job that changes. The store keeps neighbouring jobs of a batch that are in the same state as
// one row, so a State holds no field that is different for each of them.
type State struct {
	Status   Status
	Class    Class
	Code     Code   // of the run that ended last
	ExitCode uint16 // likewise
	Why      Why    // of an ended job
	Attempts uint32 // claims that count against MaxAttempts, since the job was created or redriven
	// Order is the seq of the command that made a fresh job pending: its place among the pending jobs. It is 0 for all
	// others.
	Order uint64
	// Claim is the seq of the claim that holds an active job. For other jobs it is the claim of the last run, if its
	// runner reported the end or the run was cancelled; otherwise 0.
	Claim     uint64
	UpdatedAt int64 // unix ms
	// At is run_at of a deferred job, the end of the time-out of an active job, or completed_at of an ended job, in
	// unix ms; otherwise 0.
	At int64
	Changes
}

// ShownClaim returns the claim that documents show; 0: none.
func (s *State) ShownClaim() uint64 {
	if s.Status.ShowsClaim() {
		return s.Claim
	}
	return 0
}

// PurgeAt returns when an ended job of a group with attributes a is purged, in unix ms. atOnce is true if it is not kept
// at all.
func (s *State) PurgeAt(a *Attributes) (at int64, atOnce bool) {
	return s.At + a.RetentionMs, a.RetentionMs == 0
}

// Class orders the pending jobs of one priority.
type Class uint8

// Returned jobs have been claimed before. They are handed out first, in the order of their ids. Fresh jobs have not, or
// were redriven. They are handed out in the order in which they became pending.
const (
	Returned Class = iota
	Fresh
)

// Changes are what patches and redrives did to a job. They stay when the job moves to another state.
type Changes struct {
	Priority    uint32 // the priority that a patch set, plus 1; 0: the group's priority
	MaxAttempts uint32 // the max_attempts that a patch set; 0: the group's
	Redrives    uint32
}

// PriorityIn returns the priority of a job of group g.
func (c *Changes) PriorityIn(g *Attributes) int {
	if c.Priority > 0 {
		return int(c.Priority) - 1
	}
	return g.Priority
}

// MaxAttemptsIn returns how often a job of group g may be claimed.
func (c *Changes) MaxAttemptsIn(g *Attributes) int {
	if c.MaxAttempts > 0 {
		return int(c.MaxAttempts)
	}
	return g.MaxAttempts
}

// Now is the command that is applied: its seq, and its time in unix ms.
type Now struct {
	Seq uint64
	At  int64
}
