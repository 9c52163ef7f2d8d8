package job

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Every bound that a user can meet, with its reason. Tests cover each limit and one past it.
const (
	// MaxBodyBytes bounds a create, because a single write to the journal blocks every other answer while it lasts.
	MaxBodyBytes = 8 << 20
	// MaxPayloadBytes leaves room in a body for the framing of one payload.
	MaxPayloadBytes = 4 << 20
	// MaxOutputBytes bounds an inline output. Larger outputs are passed by address.
	MaxOutputBytes = 4 << 20
	// MaxLines is the range of the line field of an ID.
	MaxLines = 1 << lineBits
	// MaxNameBytes bounds client and type, which are part of paths, keys and metrics.
	MaxNameBytes = 128
	// MaxRunnerBytes bounds a runner_id, which is stored with every claim.
	MaxRunnerBytes = 128
	// MaxErrorBytes bounds the error text of an attempt. MaxHistory attempts are kept per job.
	MaxErrorBytes = 64 << 10
	// MaxForAllBytes bounds the output and error of an outcome for all jobs of a claim, which are stored once per job.
	MaxForAllBytes = 8 << 10
	// MaxStepBytes bounds the step that a tickle may name.
	MaxStepBytes = 1 << 10
	// MaxAddrBytes bounds binary_addr, input_addr, output_addr and log_addr: addresses, not contents.
	MaxAddrBytes = 4 << 10
	// MaxClaimJobs and MaxClaimBytes bound the jobs of one claim, so that every answer is ready quickly.
	MaxClaimJobs  = 1000
	MaxClaimBytes = 8 << 20
	// MaxClaimNames bounds the clients, and the types, that one claim may list, because every pair of them is looked up.
	MaxClaimNames = 100
	// MaxOutcomes bounds the outcomes in one complete command; longer requests become several commands.
	MaxOutcomes = 1000
	// MaxRunOutcomes bounds the outcomes of one request that names them as runs. A run takes a few bytes for any number
	// of jobs, and a short request must not make the server write many times its length.
	MaxRunOutcomes = 10_000
	// MaxRunJobs bounds the jobs of one create in two cases in which a run of a few bytes would make the server write
	// many times its length: jobs without a batch, whose answer may have a time for each job, and jobs without payloads
	// in the same create as jobs with payloads, whose framing they share.
	MaxRunJobs = 10_000
	// MaxResults bounds the jobs of a create that is answered with one result per job.
	MaxResults = 10_000
	// MaxChained bounds the jobs that one outcome creates. MaxChainedAtOnce bounds the jobs that all outcomes of one
	// complete command create, because they are applied before other commands.
	MaxChained       = 100
	MaxChainedAtOnce = 1000
	// MaxHops bounds the length of a chain of jobs that create each other, so that a job that creates a job of the same
	// type does not run forever.
	MaxHops = 100
	// MaxFollowOnBytes bounds the text of on_complete, which is stored in the row of a batch like meta.
	MaxFollowOnBytes = 4 << 10
	// MaxTickleIDs bounds the jobs of one tickle command.
	MaxTickleIDs = 1000
	// MaxGroups bounds the groups of one batch. A create whose attributes change with every line is a list of single
	// jobs.
	MaxGroups = 1000
	// MaxPage bounds one page of a list.
	MaxPage = 1000
	// MaxWaitMs bounds the wait of a parked claim: a minute is below the idle timeout of common proxies.
	MaxWaitMs = 60_000
	// MinLeaseMs and MaxLeaseMs bound a lease. A shorter lease would abandon a runner for one slow request; a longer one
	// would hide a dead runner.
	MinLeaseMs = 1_000
	MaxLeaseMs = 86_400_000
	// MaxAttempts bounds max_attempts.
	MaxAttempts = 1_000
	// MaxPriority is served first, and 0 last.
	MaxPriority = 9
	// MaxMeta bounds the entries of meta of a job. Names and values are bounded too, because meta holds labels, not
	// contents. It is part of every record of a create and of its batch's row.
	MaxMeta           = 16
	MaxMetaNameBytes  = 64
	MaxMetaValueBytes = 256
	// MaxDistinctKeys bounds the nesting of prefer_distinct: each key multiplies the number of values that a claim ranks.
	MaxDistinctKeys = 4
	// MinTimeoutMs and MaxTimeoutMs bound timeout_ms, like a lease.
	MinTimeoutMs = MinLeaseMs
	MaxTimeoutMs = MaxLeaseMs
	// MaxBatchNameBytes bounds the name of a batch, which is part of keys. MaxBatchMetadataBytes bounds the metadata that
	// a producer stores with a batch. MaxTraceBytes and MaxBaggageBytes bound the headers of its trace context, as their
	// standards do.
	MaxBatchNameBytes     = 256
	MaxBatchMetadataBytes = 1 << 20
	MaxTraceBytes         = 512
	MaxBaggageBytes       = 8192

	// MaxKeyBytes bounds a unique_key and an Idempotency-Key, which are stored.
	MaxKeyBytes = 256
	// MaxScopeBytes bounds the scope in which a key is looked up: a route, and a client or runner.
	MaxScopeBytes = 16 + MaxRunnerBytes
	// MaxUniqueKeys bounds the unique keys of one create. Each takes its own rows.
	MaxUniqueKeys = 1000
	// KeyLifeMs is the time for which a repeated request gets the first answer.
	KeyLifeMs = 24 * 3_600_000
	// RepeatMs is the time for which a completion without a key may be repeated even if its jobs are purged. If a job has
	// a shorter retention, a row records how its run ended until then.
	RepeatMs = 60_000
	// At the limit of sessions, the server forgets a session to open another one. It may forget a session without any
	// request UnusedSessionMs after it was opened, and any other session IdleSessionMs after its last request.
	UnusedSessionMs = 60_000
	IdleSessionMs   = 3_600_000
	// NoticeMs is how long tickles of everything that a runner holds report a cancelled job. Most runners tickle much
	// more often, and an answer may get lost.
	NoticeMs = 3_600_000
	// MaxKeyRowBytes bounds the rows of idempotency keys, including the keys: a hundred million requests of 170 bytes
	// each. The bound is soft, like MaxQueues. Past it, the server refuses requests with new keys. It also refuses them if
	// their client or runner already uses as much as is still free. So nobody takes more than half of the room that others
	// leave.
	MaxKeyRowBytes = 16 << 30
	// MaxSessions bounds the open sessions. Each is a row, plus one row for each slot that it has used. A runner may have
	// as many open sessions as are still free, or a thousandth of all if that is more. Sessions without a runner count as
	// one runner's.
	MaxSessions = 1_000_000
	// MaxSessionRowBytes bounds the rows of sessions. It is soft and shared like MaxKeyRowBytes: past it, numbered
	// requests are refused.
	MaxSessionRowBytes = 16 << 30
	// MaxSlots bounds the requests that a session may have in progress at the same time. Each has a row.
	MaxSlots = 256
	// MaxNumber is the highest number of a session's request.
	MaxNumber = math.MaxInt64
	// MaxParts bounds the completions that carry out one request with a key or a number, because one row remembers all of
	// them. A request may name the jobs of as many claims.
	MaxParts = MaxOutcomes
	// MaxSweeps bounds the sweeps in progress, because each tick advances all of them.
	MaxSweeps = 100
	// SweepLifeMs is how long a sweep can be looked up after its end.
	SweepLifeMs = 24 * 3_600_000
	// MaxHistory bounds the attempts that are kept per job. The newest are kept.
	MaxHistory = 20
	// MaxSteps bounds the steps that are kept per job. The newest are kept.
	MaxSteps = 50
	// MaxDelayMs bounds delay_ms, retention_ms and backoffs to a hundred years, so that no sum of times can overflow.
	MaxDelayMs = 100 * 366 * 86_400_000
	// MaxTimeMs bounds run_at: the last millisecond of the year 9999.
	MaxTimeMs = 253_402_300_799_999
	// MaxQueues bounds the existing queues, which are all in memory. The bound is soft: a create that would make a queue
	// past it is refused, but creates already in progress may exceed it.
	MaxQueues = 1_000_000
	// MaxMetricsQueues bounds the queues with individual metrics. Each takes 5 KB of memory, and up to 48 KB while a page
	// of metrics is built and sent.
	MaxMetricsQueues     = 1000
	DefaultMetricsQueues = 100
	// MaxQueueNumbers bounds the queues that are ever made. The keys of a queue's jobs contain a 32-bit number that is
	// never reused. The bound is soft like MaxQueues. A million new queues a day reach it after eleven years.
	MaxQueueNumbers = math.MaxUint32 - MaxQueues
	// MinQueueIdleMs is the shortest time after which a queue without jobs may be deleted. With a shorter time, busy
	// queues would be deleted and made again all the time.
	MinQueueIdleMs = 60_000
	// MaxDocumentVersions bounds the history of a named document, deletions included. One more version deletes the oldest.
	MaxDocumentVersions = 20
	// MaxDeletedDocuments bounds the deleted documents of a kind whose histories are kept.
	MaxDeletedDocuments = 10_000
	// MaxSummaryBytes bounds the summary of a document, and MaxByBytes the name of the one who changed it, who may be a key.
	MaxSummaryBytes = 100
	MaxByBytes      = MaxNameBytes
	// MaxHandlerBytes bounds the document of a handler. Its largest part is the source of a script.
	MaxHandlerBytes = 1 << 20
	// MaxHandlers bounds the existing handlers. The newest version of each is in memory, without its document.
	MaxHandlers = 10_000
	// MaxHandlersBytes bounds the documents of all versions, because no retention deletes them.
	MaxHandlersBytes = 1 << 30
	// MaxFilesets bounds the existing filesets.
	MaxFilesets = 1_000_000
	// MaxAccessKeys bounds the existing keys, which are in memory. MaxAccessKeyBytes bounds the document of one, and
	// MaxAccessKeysBytes those of all versions.
	MaxAccessKeys      = 100_000
	MaxAccessKeyBytes  = 64 << 10
	MaxAccessKeysBytes = 256 << 20
	// MaxLogins bounds the logins, which are in memory, and MaxLoginsOfOne those of one key or person: one more ends the oldest.
	// MaxLoginBytes bounds the document of one, and MaxLoginsBytes all documents. A login ends after MaxLoginMs.
	MaxLogins      = 10_000
	MaxLoginsOfOne = 32
	MaxLoginBytes  = 1 << 10
	MaxLoginsBytes = 16 << 20
	MaxLoginMs     = 12 * 3_600_000
	// MaxRunnerPrefixBytes bounds the beginning of runner ids that a key has. MaxRedacted bounds the names of fields whose values
	// it does not show, and MaxRedactedBytes each of them.
	MaxRunnerPrefixBytes = 64
	MaxRedacted          = 100
	MaxRedactedBytes     = 128
	// MaxParkedClaims bounds the claims that wait for jobs.
	MaxParkedClaims = 100_000
)

// The limits must be consistent.
const (
	_ = uint(MaxBodyBytes - MaxPayloadBytes - 4096)
	_ = uint(MaxBodyBytes - MaxOutputBytes - 4096)
	_ = uint(math.MaxUint32 - MaxLines)
	_ = uint(math.MaxInt64 - MaxTimeMs - MaxDelayMs)
)

// Defaults of a create, unless the request or the server's flags set another value.
const (
	DefaultName         = "default"
	DefaultPriority     = 4
	DefaultMaxAttempts  = 3
	DefaultLeaseMs      = 300_000
	DefaultRetentionMs  = 14 * 86_400_000
	DefaultQueueIdleMs  = 7 * 86_400_000
	DefaultClaimBytes   = MaxClaimBytes
	DefaultBackoffMs    = 1_000
	DefaultBackoffMilli = 2_000
	DefaultBackoffMaxMs = 3_600_000
)

// CheckName returns an error unless name is a valid client or type: 1–128 bytes of `[A-Za-z0-9._:-]`, neither `.` nor
// `..`.
func CheckName(field, name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("%s must have 1 to %d bytes, not %d", field, MaxNameBytes, len(name))
	}
	if name == "." || name == ".." {
		return fmt.Errorf("%s must not be %q", field, name)
	}
	for i := range len(name) {
		if !NameByte(name[i]) {
			return fmt.Errorf("%s may hold only %s, and not %q", field, nameCharacters, firstCharacter(name[i:]))
		}
	}
	return nil
}

// nameCharacters describes the characters of NameByte to people.
const nameCharacters = "a-z A-Z 0-9 . _ : -"

// firstCharacter returns the first character of a text, or its first byte if it is not UTF-8.
func firstCharacter(text string) string {
	_, size := utf8.DecodeRuneInString(text)
	return text[:size]
}

// NameByte reports whether a name may hold the byte.
func NameByte(c byte) bool { return nameByte[c] }

var nameByte = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") {
		t[c] = true
	}
	return t
}()

// The reserved client names are the first path segments of the routes; the api package checks them.

// CheckText returns an error unless text is valid UTF-8 of lo to hi bytes.
func CheckText(field, text string, lo, hi int) error {
	if len(text) < lo || len(text) > hi {
		return fmt.Errorf("%s must have %d to %d bytes, not %d", field, lo, hi, len(text))
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not valid UTF-8", field)
	}
	return nil
}

// CheckRange returns an error unless n is within lo … hi.
func CheckRange(field string, n, lo, hi int64) error {
	if n < lo || n > hi {
		return fmt.Errorf("%s must be %d to %d, not %d", field, lo, hi, n)
	}
	return nil
}
