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

// Admits says whether a request may act on the current run of a job.
func (f *Fence) Admits(s *State, h Holder) Refusal {
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

// Repeats says whether outcome o, which Admits refused, is the one that ended the run. A client repeats a request when
// it got no answer, and then gets the answer that it missed. The result is Granted, or the refusal that the client
// gets.
func (f *Fence) Repeats(s *State, h Holder, o *Outcome, refused Refusal) Refusal {
	switch {
	case refused != ClaimLost || h.Named == 0 || h.Named != s.Claim:
		return refused
	case f.Runner != "" && f.Runner != h.Runner:
		return RunnerDiffers
	case !o.Same(s.Code, int(s.ExitCode)):
		return OutcomeDiffers
	}
	return Granted
}
