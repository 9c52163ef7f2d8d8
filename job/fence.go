package job

// Fence is the claim and the runner that a request names for the jobs that it is about. The server carries the request
// out for a job only if that claim, of that runner, holds the job. So a runner whose lease has passed cannot change a
// job that another runner has claimed since.
type Fence struct {
	Claim  ID     // zero: the request names none
	Runner string // "": the request names none
}

// Holder is what the store knows about the claims that a Fence and the state of a job name.
type Holder struct {
	Named  uint64 // seq of the claim with the id Fence.Claim; 0: there is none
	Runner string // of the claim State.Claim
}

// Allows says whether a request may act on the current run of a job.
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

// Repeats says whether outcome o, which Allows refused, is the one that ended the run. A client repeats a request when
// it got no answer, and then gets the answer that it missed. The result is Granted, or the refusal that the client
// gets.
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

// AllowsLate says whether outcome o, which Allows refused, is a late one of the last run of a waiting job. run is the state
// of the job during that run.
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

// AllowsClaim says whether a request may act on everything that a claim holds. known is whether there is a claim with
// the id Fence.Claim, and runner is its runner.
func (f *Fence) AllowsClaim(known bool, runner string) Refusal {
	switch {
	case !known:
		return ClaimLost
	case f.Runner != "" && f.Runner != runner:
		return RunnerDiffers
	}
	return Granted
}

// HoldsNothing is the refusal of a request for everything that a claim holds, if it holds nothing. cancelled is whether
// a job was cancelled under the claim.
func HoldsNothing(cancelled bool) Refusal {
	if cancelled {
		return WasCancelled
	}
	return ClaimLost
}

// LostTo says what the runner of a claim is told of a job that the claim handed out: ClaimLost if the job is not under
// the claim any more, or waits because the claim has lost it; WasCancelled if it was cancelled under it. It is Granted if
// the claim holds the job or its runner has ended it, and for a purged job, of which nothing is known.
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
