package job

// Refusal is an expected reason not to do what a command asked for. Its text is the stable code of the wire.
type Refusal uint8

// The zero Refusal is none.
const (
	Granted Refusal = iota
	// NotFound: no such job, or it is purged.
	NotFound
	// NotActive: the job is not active, and the request named no claim.
	NotActive
	// ClaimLost: the claim that the request named does not hold the job (any more).
	ClaimLost
	// OutcomeDiffers: the claim ended this job already, with another outcome.
	OutcomeDiffers
	// RunnerDiffers: the job is held by another runner than the request named.
	RunnerDiffers
	// QueueNotFound: no job of that client and type was ever created.
	QueueNotFound
	// TooManyQueues: the create would make a queue past MaxQueues.
	TooManyQueues
)

var refusalCodes = [...]string{"", "job_not_found", "job_not_active", "claim_lost", "outcome_differs", "runner_differs",
	"queue_not_found", "too_many_queues"}

var refusalTexts = [...]string{
	"",
	"no such job, or it has been purged",
	"the job is not active",
	"the claim does not hold this job any more",
	"the claim has ended this job with another outcome",
	"the job is held by another runner",
	"no job of this client and type was ever created",
	"the server holds as many queues as it may",
}

// Code returns the stable code.
func (r Refusal) Code() string { return refusalCodes[r] }

// Error returns a sentence for people.
func (r Refusal) Error() string { return refusalTexts[r] }
