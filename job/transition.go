package job

// This file has the rules for the next state of a job. Each rule takes the state of a job, the attributes from its create
// and the command, and returns the next state, or the Refusal that explains why there is none. No rule reads a clock or
// knows how jobs are stored. TestTransitions lists the rules that return a state. The tables of docs/reference/api.md are
// written from the lists of rules in the tests.

// Admit returns the first state of a job.
func Admit(g *Attributes, now Now) State {
	if g.RunAt > now.At {
		return State{Status: Deferred, Class: Fresh, At: g.RunAt, UpdatedAt: now.At}
	}
	return State{Status: Pending, Class: Fresh, Order: now.Seq, UpdatedAt: now.At}
}

// Hold returns the first state of a job of a paused batch, which is deferred until the batch is resumed.
func Hold(now Now) State {
	return State{Status: Deferred, Class: Fresh, At: MaxTimeMs, UpdatedAt: now.At}
}

// Held reports whether the job is waiting for its batch to be resumed.
func (s *State) Held() bool {
	return s.Status == Deferred && s.Class == Fresh && s.At == MaxTimeMs && s.Code != Damaged
}

// LetGo returns the state of a held job when its batch is resumed, as if the job were new.
func (s State) LetGo(g *Attributes, now Now) State {
	next := Admit(g, now)
	next.Changes = s.Changes
	return next
}

// Expires reports whether the job is cancelled if it is not started by its expires_at. Claimed and redriven
// jobs do not expire.
func (s *State) Expires(g *Attributes) bool {
	return g.ExpiresAt > 0 && s.Status.Waits() && s.Attempts == 0 && s.Redrives == 0
}

// Late reports whether the expires_at of the job has passed.
func (s *State) Late(g *Attributes, now Now) bool { return s.Expires(g) && g.ExpiresAt <= now.At }

// Expire ends a waiting job whose expires_at has passed.
func (s State) Expire(now Now) State {
	return State{Status: Cancelled, Why: Expired, UpdatedAt: now.At, At: now.At, Changes: s.Changes}
}

// HandOut makes a pending job active, held by the claim that the command makes.
func (s State) HandOut(g *Attributes, now Now) State {
	next := State{Status: Active, Attempts: s.Attempts + 1, Claim: now.Seq, UpdatedAt: now.At, Changes: s.Changes}
	if g.TimeoutMs > 0 {
		next.At = now.At + g.TimeoutMs
	}
	return next
}

// RunUnclaimed returns the state of a waiting job during a run that nobody claimed, and whose end is reported now. The
// run begins with the command, which becomes its claim. RunUnclaimed refuses a job of a paused batch until the batch is
// resumed, and treats a job whose expires_at has passed as cancelled.
func (s State) RunUnclaimed(g *Attributes, now Now) (run State, refusal Refusal) {
	switch {
	case !s.Status.Waits() || s.Held():
		return s, NotActive
	case s.Late(g, now):
		return s, WasCancelled
	}
	return s.HandOut(g, now), Granted
}

// End ends a run with the outcome that its runner reported. random determines the jitter of the backoff.
func (s State) End(g *Attributes, o *Outcome, now Now, random uint64) State {
	next := State{Code: o.Code, ExitCode: uint16(o.ExitCode), Attempts: s.Attempts, Claim: s.Claim, UpdatedAt: now.At, Changes: s.Changes}
	switch o.Code {
	case OK:
		return next.ended(Completed, Reported)
	case Fail:
		return next.ended(Failed, Reported)
	case Unget: // the run does not count
		next.Status, next.Attempts = Pending, s.Attempts-1
		return next
	case Damaged: // the job waits until somebody repairs the store and runs the job
		next.Status, next.Attempts, next.At = Deferred, s.Attempts-1, MaxTimeMs
		return next
	}
	if int(s.Attempts) >= s.MaxAttemptsIn(g) {
		if o.Code == Lost {
			return next.ended(Failed, RunnerLost)
		}
		return next.ended(Failed, Reported)
	}
	delay := o.DelayMs
	if delay < 0 {
		delay = g.Backoff.Delay(int(s.Attempts), random)
	}
	if delay == 0 {
		next.Status = Pending
		return next
	}
	next.Status, next.At = Deferred, now.At+delay
	return next
}

// ended returns the state as a terminal one. The caller has set UpdatedAt.
func (s State) ended(status Status, why Why) State {
	s.Status, s.Why, s.At = status, why, s.UpdatedAt
	return s
}

// Remembered reports whether a run that ended with this code is added to the history of its job. The history has only
// unsuccessful runs.
func (c Code) Remembered() bool { return c != OK && c != Unget && c != Damaged }

// Abandon ends a run whose lease or time-out has passed. The job is pending again without a backoff. Its state names the
// claim until another claim takes the job: see RunLate.
func (s State) Abandon(g *Attributes, now Now) State {
	next := State{Status: Pending, Attempts: s.Attempts, UpdatedAt: now.At, Changes: s.Changes}
	if int(s.Attempts) >= s.MaxAttemptsIn(g) {
		return next.ended(Failed, Abandoned)
	}
	next.Claim = s.Claim
	return next
}

// RunLate returns the state that a waiting job had during its last run, if the run's outcome may still be reported late:
// the lease ended or the runner was lost, and nobody has claimed the job since. Otherwise ok is false: the job is not
// waiting, or its runner already reported an outcome or gave the job back.
func (s State) RunLate() (run State, ok bool) {
	if !s.Status.Waits() || s.Claim == 0 || s.Code != NoCode && s.Code != Lost {
		return s, false
	}
	return State{Status: Active, Attempts: s.Attempts, Claim: s.Claim, UpdatedAt: s.UpdatedAt, Changes: s.Changes}, true
}

// PutOff extends the time-out of a run that began before graceAt, the time at which the server began to serve again after
// an interruption in which no runner could reach it. From graceAt on, the runner has at least the length of a lease to
// report. ok is false if the time-out has passed at due even so.
func (s State) PutOff(g *Attributes, graceAt, due int64) (next State, ok bool) {
	end := graceAt + g.LeaseMs
	if graceAt <= s.UpdatedAt || end <= due {
		return s, false
	}
	s.At = end
	return s, true
}

// Due makes a deferred job pending when its run_at has passed.
func (s State) Due(now Now) State {
	s.Status, s.At, s.UpdatedAt = Pending, 0, now.At
	if s.Class == Fresh {
		s.Order = now.Seq
	}
	return s
}

// Cancel ends an unfinished job. The state of an active job keeps its claim, so that the server can notify the runner. A
// cancelled job stays as it is.
func (s State) Cancel(now Now) (next State, refusal Refusal) {
	switch {
	case s.Status == Cancelled:
		return s, Granted
	case s.Status.Terminal():
		return s, HasEnded
	}
	next = State{Status: Cancelled, Why: Asked, Attempts: s.Attempts, UpdatedAt: now.At, At: now.At, Changes: s.Changes}
	if s.Status == Active {
		next.Claim = s.Claim
	}
	return next, Granted
}

// Redrive makes an ended job pending, as if it were new.
func (s State) Redrive(now Now) (next State, refusal Refusal) {
	if !s.Status.Terminal() {
		return s, HasNotEnded
	}
	next = State{Status: Pending, Class: Fresh, Order: now.Seq, UpdatedAt: now.At, Changes: s.Changes}
	next.Redrives++
	return next, Granted
}

// RunNow makes a deferred job pending before its run_at. A pending job stays as it is.
func (s State) RunNow(now Now) (next State, refusal Refusal) {
	if refusal := s.refuseUnlessWaiting(); refusal != Granted {
		return s, refusal
	}
	if s.Status == Pending {
		return s, Granted
	}
	return s.waitUntil(0, now), Granted
}

// Patch changes attributes of a waiting job.
func (s State) Patch(g *Attributes, p *Patch, now Now) (next State, refusal Refusal) {
	if refusal := s.refuseUnlessWaiting(); refusal != Granted {
		return s, refusal
	}
	if p.MaxAttempts != nil && *p.MaxAttempts <= int(s.Attempts) {
		return s, AttemptsUsed
	}
	next = s
	if p.Priority != nil {
		if next.Priority = 0; *p.Priority != g.Priority {
			next.Priority = uint32(*p.Priority) + 1
		}
	}
	if p.MaxAttempts != nil {
		if next.MaxAttempts = 0; *p.MaxAttempts != g.MaxAttempts {
			next.MaxAttempts = uint32(*p.MaxAttempts)
		}
	}
	runAt := s.At
	if p.RunAt != nil {
		runAt = *p.RunAt
	}
	return next.waitUntil(runAt, now), Granted
}

// refuseUnlessWaiting returns the refusal of a request for a waiting job if the job is active or has ended.
func (s *State) refuseUnlessWaiting() Refusal {
	switch {
	case s.Status == Active:
		return IsActive
	case s.Status.Terminal():
		return HasEnded
	}
	return Granted
}

// waitUntil makes a waiting job deferred until runAt or, if runAt has passed, pending. A pending job keeps its place in
// the order. If the job was set aside as damaged, a new run_at clears that code. Its last run remains ended: no late
// outcome of that run is accepted.
func (s State) waitUntil(runAt int64, now Now) State {
	next := s
	if s.Code == Damaged && runAt != s.At {
		next.Code, next.Claim = NoCode, 0
	}
	next.UpdatedAt, next.Order = now.At, 0
	if runAt > now.At {
		next.Status, next.At = Deferred, runAt
		return next
	}
	next.Status, next.At = Pending, 0
	switch {
	case s.Status == Pending:
		next.Order = s.Order
	case s.Class == Fresh:
		next.Order = now.Seq
	}
	return next
}
