package job

// Refusal is an expected reason not to carry out a command. Its text is the stable error code on the wire.
type Refusal uint8

// The zero Refusal is Granted: the command is carried out.
const (
	Granted Refusal = iota
	// NotFound: the job does not exist, or it is purged.
	NotFound
	// NotActive: the job is not active, and the request named no claim.
	NotActive
	// ClaimLost: the claim that the request named does not hold the job, or no longer holds it.
	ClaimLost
	// OutcomeDiffers: the claim has already ended this job with another outcome.
	OutcomeDiffers
	// RunnerDiffers: another runner than the one that the request named holds the job.
	RunnerDiffers
	// QueueNotFound: no queue has that client and type. The first job makes the queue; a queue without jobs is deleted
	// after a while.
	QueueNotFound
	// TooManyQueues: the create would make a queue past MaxQueues.
	TooManyQueues
	// BatchNotFound: the batch does not exist, all of it is purged, or its jobs belong to no batch.
	BatchNotFound
	// SweepNotFound: the sweep does not exist, or it ended long ago.
	SweepNotFound
	// ClaimNotFound: no job names that claim, or no longer does.
	ClaimNotFound
	// WasCancelled: the job was cancelled, before the claim or while the claim held it.
	WasCancelled
	// IsActive: the job is active, but the request requires a waiting job.
	IsActive
	// HasEnded: the job has ended.
	HasEnded
	// HasNotEnded: the job has not ended.
	HasNotEnded
	// KeyHeld: another unfinished job of the queue has the job's unique key.
	KeyHeld
	// AttemptsUsed: the job has been claimed as often as the request would allow.
	AttemptsUsed
	// KeyReused: the idempotency key belongs to another request.
	KeyReused
	// TooManySweeps: MaxSweeps are in progress.
	TooManySweeps
	// QueueNotEmpty: the queue has jobs.
	QueueNotEmpty
	// SessionNotFound: the session does not exist, was ended, or carried out no request for KeyLifeMs.
	SessionNotFound
	// TooManySessions: MaxSessions are open.
	TooManySessions
	// NumberReused: the number belongs to another request of the session.
	NumberReused
	// NumberPassed: the slot has carried out a request with a higher number, and has forgotten this one.
	NumberPassed
	// HandlerNotFound: no handler has that client and type, or it lacks that version.
	HandlerNotFound
	// TooManyHandlers: MaxHandlers or MaxHandlersBytes are stored.
	TooManyHandlers
	// FilesetNotFound: no fileset has that client and name, or it lacks that version.
	FilesetNotFound
	// TooManyFilesets: MaxFilesets are stored.
	TooManyFilesets
	// KeyNotFound: no key has that name, or it lacks that version.
	KeyNotFound
	// TooManyAccessKeys: MaxAccessKeys or MaxAccessKeysBytes are stored.
	TooManyAccessKeys
	// LoginNotFound: no login has that name.
	LoginNotFound
	// TooManyLogins: MaxLogins or MaxLoginsBytes are stored.
	TooManyLogins
	// VersionDiffers: the newest version of the document does not meet the condition of the change.
	VersionDiffers

	// TooManyHops: the outcome creates jobs, but the chain already has MaxHops jobs.
	TooManyHops
	// BatchEnded: the batch has ended, and its status cannot change.
	BatchEnded
	// BatchClosed: the batch is not open, so no jobs can be added.
	BatchClosed

	// NumRefusals is one more than the last Refusal.
	NumRefusals
)

var refusalCodes = [...]string{"", "job_not_found", "job_not_active", "claim_lost", "outcome_differs", "runner_differs",
	"queue_not_found", "too_many_queues", "batch_not_found", "sweep_not_found", "claim_not_found", "cancelled", "job_active", "job_ended",
	"job_not_ended", "key_held", "attempts_used", "key_reused", "too_many_sweeps", "queue_not_empty",
	"session_not_found", "too_many_sessions", "number_reused", "number_passed", "handler_not_found", "too_many_handlers",
	"fileset_not_found", "too_many_filesets", "key_not_found", "too_many_access_keys", "login_not_found", "too_many_logins", "version_differs", "too_many_hops", "batch_ended", "batch_closed"}

var refusalTexts = [...]string{
	"",
	"no such job, or it has been purged",
	"the job is not active; read it to see whether it waits, or how it ended",
	"the claim does not hold this job any more",
	"the claim has ended this job with another outcome",
	"the job is held by another runner",
	"there is no queue of this client and type: the first job creates one, and the server deletes it after a long time without jobs",
	"the server has the maximum number of queues; delete queues without jobs",
	"no such batch, or all of it has been purged",
	"no such sweep, or it ended more than a day ago",
	"no job names this claim any more",
	"the job has been cancelled",
	"the job is active",
	"the job has ended",
	"the job has not ended",
	"another unfinished job of the queue has this job's unique key",
	"the job has already been claimed that many times",
	"the idempotency key was used for another request",
	"the maximum number of sweeps is under way; repeat the request when one has finished",
	"the queue has jobs; delete them first, or wait until they are purged",
	"no such session: it was ended, or it carried out no request for a day; open another one",
	"the maximum number of sessions is open, or as many of this runner as are left for all, and all of these were used lately",
	"the number of the session was used for another request",
	"the slot of the session has carried out a request with a higher number",
	"there is no such handler, or no such version of it",
	"the server has the maximum number or size of handlers; delete those that no runner needs",
	"there is no such fileset, or no such version of it",
	"the server has the maximum number of filesets; delete those that nobody needs",
	"there is no such key, or no such version of it",
	"the server has the maximum number or size of keys; revoke those that nobody needs",
	"there is no such login: it has ended",
	"the server has the maximum number of logins; repeat the request when one has ended",
	"the stored version is not the one that the request requires; read it, and decide again",
	"the outcome creates jobs, but 100 jobs have already created each other one after the other",
	"the batch has ended, and its status does not change any more",
	"the batch is not open: it gets no more jobs",
}

// Code returns the stable code.
func (r Refusal) Code() string { return refusalCodes[r] }

// Error returns a sentence for people.
func (r Refusal) Error() string { return refusalTexts[r] }
