package job

// Fence is the claim and the runner that a request names. The server carries out the request for a job only if that claim
// of that runner holds the job. So a runner whose lease has passed cannot change a job that another runner has claimed
// since.
type Fence struct {
	Claim  ID     // zero: the request names no claim
	Runner string // "": the request names no runner
}

// Holder is the store's knowledge of the claims that a Fence and a job's state name.
type Holder struct {
	Named  uint64 // seq of the claim with the id Fence.Claim; 0: no such claim
	Runner string // of the claim State.Claim
}

// Allows returns Granted if a request may act on the current run of a job, and otherwise the reason why not.
func (f *Fence) Allows(s *State, h Holder) Refusal {
	switch {
	case !f.Claim.IsZero() && (h.Named == 0 || h.Named != s.Claim):
		return ClaimLost
	case s.Status == Cancelled:
		return WasCancelled
	case s.Status != Active && f.Claim.IsZero():
		return NotActive
	case s.Status != Active:
		return ClaimLost
	case f.Runner != "" && f.Runner != h.Runner:
		return RunnerDiffers
	}
	return Granted
}

// Repeats checks whether outcome o, which Allows refused, is the outcome that ended the run. A client that got no answer
// repeats its request, and must get the answer that it missed: Repeats then returns Granted. Otherwise it returns the
// refusal for the client.
func (f *Fence) Repeats(s *State, h Holder, o *Outcome, refused Refusal) Refusal {
	switch {
	case refused != ClaimLost || h.Named == 0 || h.Named != s.Claim:
		return refused
	case f.Runner != "" && f.Runner != h.Runner:
		return RunnerDiffers
	case o.Same(s.Code, int(s.ExitCode)):
		return Granted
	case s.Code == Unget || s.Code == NoCode || s.Code == Lost: // nobody reported how the run ended
		return refused
	}
	return OutcomeDiffers
}

// AllowsLate checks whether outcome o, which Allows refused, is a late outcome of the last run of a waiting job. If it
// is, AllowsLate returns Granted, and in run the state of the job during that run.
func (f *Fence) AllowsLate(s *State, h Holder, o *Outcome, refused Refusal) (run State, refusal Refusal) {
	run, waits := s.RunLate()
	switch {
	case refused != ClaimLost || h.Named == 0 || h.Named != s.Claim || !waits || !o.Code.Reported():
		return run, refused
	case f.Runner != "" && f.Runner != h.Runner:
		return run, RunnerDiffers
	}
	return run, Granted
}

// AllowsClaim returns Granted if a request may act on every job that a claim holds. known says whether a claim with the
// id Fence.Claim exists, and runner is its runner.
func (f *Fence) AllowsClaim(known bool, runner string) Refusal {
	switch {
	case !known:
		return ClaimLost
	case f.Runner != "" && f.Runner != runner:
		return RunnerDiffers
	}
	return Granted
}

// HoldsNothing returns the refusal for a request about all jobs of a claim that holds none. cancelled says whether a job
// was cancelled under the claim.
func HoldsNothing(cancelled bool) Refusal {
	if cancelled {
		return WasCancelled
	}
	return ClaimLost
}

// LostTo returns whether the runner of a claim has lost a job that the claim handed out. ClaimLost: another claim has the
// job, or the job waits because the claim lost it. WasCancelled: the job was cancelled under the claim. Granted: the
// claim holds the job, its runner has ended the job, or the job is purged, so that nothing is known about it.
func (s *State) LostTo(claim uint64) Refusal {
	switch {
	case s.Status == Purged:
		return Granted
	case s.Claim != claim:
		return ClaimLost
	case s.Status.Waits() && (s.Code == NoCode || s.Code == Lost):
		return ClaimLost
	case s.Status == Cancelled:
		return WasCancelled
	}
	return Granted
}
