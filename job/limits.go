package job

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Every bound of the product that a user can meet, with its reason. A test sits at each limit and one past it.
const (
	// MaxBodyBytes bounds a create: a single write to the journal blocks every other answer while it lasts.
	MaxBodyBytes = 8 << 20
	// MaxPayloadBytes leaves room in a body for the framing of one payload.
	MaxPayloadBytes = 4 << 20
	// MaxOutputBytes bounds an inline output; larger outputs go by address.
	MaxOutputBytes = 4 << 20
	// MaxLines is what the line field of an ID can number.
	MaxLines = 1 << lineBits
	// MaxNameBytes bounds client and type, which stand in paths, keys and metrics.
	MaxNameBytes = 128
	// MaxRunnerBytes bounds a runner_id, which every claim stores.
	MaxRunnerBytes = 128
	// MaxErrorBytes bounds the error text of an attempt, of which MaxHistory are kept.
	MaxErrorBytes = 64 << 10
	// MaxForAllBytes bounds the output and error of an outcome for all of a claim, which are kept once per job.
	MaxForAllBytes = 8 << 10
	// MaxStepBytes bounds the step that a tickle may name.
	MaxStepBytes = 1 << 10
	// MaxAddrBytes bounds binary_addr, input_addr, output_addr and log_addr: addresses, not contents.
	MaxAddrBytes = 4 << 10
	// MaxClaimJobs and MaxClaimBytes bound what a claim hands out, so that no answer is long in the making.
	MaxClaimJobs  = 1000
	MaxClaimBytes = 8 << 20
	// MaxClaimNames bounds the clients, and the types, that one claim may list: all pairs of them are looked up once.
	MaxClaimNames = 100
	// MaxOutcomes bounds the outcomes in one complete command; longer requests become several commands.
	MaxOutcomes = 1000
	// MaxRunOutcomes bounds the outcomes of one request that names them as runs, which take a few bytes for any number of
	// jobs: such a request must not make the server write many times its length.
	MaxRunOutcomes = 10_000
	// MaxRunJobs bounds the jobs of one create for which a run of a few bytes would make the server write many times its
	// length: jobs without a batch, whose answer may have a time for each, and jobs without payloads in the same create
	// as jobs with payloads, whose framing they share.
	MaxRunJobs = 10_000
	// MaxResults bounds the positions of a create that is answered with a result for each.
	MaxResults = 10_000
	// MaxChained bounds the jobs that one outcome creates, and MaxChainedAtOnce those of all outcomes of one complete
	// command, which are applied before other commands.
	MaxChained       = 100
	MaxChainedAtOnce = 1000
	// MaxHops bounds how many jobs create each other one after the other, so that a job that creates one of its own type
	// does not run for ever.
	MaxHops = 100
	// MaxFollowOnBytes bounds the text of on_complete, which is in the row of a batch like meta.
	MaxFollowOnBytes = 4 << 10
	// MaxTickleIDs bounds the jobs of one tickle command.
	MaxTickleIDs = 1000
	// MaxGroups bounds the groups of one batch: a create of ever-changing attributes is a list of single jobs.
	MaxGroups = 1000
	// MaxPage bounds a page of a list.
	MaxPage = 1000
	// MaxWaitMs bounds a parked claim: a minute is below the idle timeout of common proxies.
	MaxWaitMs = 60_000
	// MinLeaseMs and MaxLeaseMs bound a lease: shorter would abandon a runner for one slow request, longer hides a dead
	// one.
	MinLeaseMs = 1_000
	MaxLeaseMs = 86_400_000
	// MaxAttempts bounds max_attempts.
	MaxAttempts = 1_000
	// MaxPriority is served first; 0 last.
	MaxPriority = 9
	// MaxMeta entries, with names and values of so many bytes, go with a job: labels, not contents. They stand in every
	// record of a create and in its batch's row.
	MaxMeta           = 16
	MaxMetaNameBytes  = 64
	MaxMetaValueBytes = 256
	// MaxDistinctKeys bounds how often a strategy may nest prefer_distinct: each key multiplies what a claim may rank.
	MaxDistinctKeys = 4
	// MinTimeoutMs and MaxTimeoutMs bound timeout_ms, like a lease.
	MinTimeoutMs = MinLeaseMs
	MaxTimeoutMs = MaxLeaseMs
	// MaxBatchNameBytes bounds the name of a batch, which stands in keys. MaxBatchMetadataBytes bounds what a producer keeps
	// with a batch. MaxTraceBytes and MaxBaggageBytes bound the headers of its trace context, which have these bounds in
	// their standards.
	MaxBatchNameBytes     = 256
	MaxBatchMetadataBytes = 1 << 20
	MaxTraceBytes         = 512
	MaxBaggageBytes       = 8192

	// MaxKeyBytes bounds a unique_key and an Idempotency-Key, which are stored.
	MaxKeyBytes = 256
	// MaxScopeBytes bounds what a key is looked up within: a route and a client or runner.
	MaxScopeBytes = 16 + MaxRunnerBytes
	// MaxUniqueKeys bounds the unique keys of one create, each of which takes rows of its own.
	MaxUniqueKeys = 1000
	// KeyLifeMs is for how long a repeated request gets the answer of the first.
	KeyLifeMs = 24 * 3_600_000
	// RepeatMs is for how long a completion without a key may be repeated after its jobs were purged: a job that is kept for a
	// shorter time leaves a row until then that says how its run ended.
	RepeatMs = 60_000
	// MaxKeyRowBytes bounds the rows of idempotency keys, with their keys: a hundred million requests of 170 bytes each. It is
	// soft, like MaxQueues: past it, a request with another key is refused. So is one of a client or runner that has as much
	// as is left: nobody takes more than half of what the others leave.
	MaxKeyRowBytes = 16 << 30
	// MaxSessions may be open. Each is a row, and one for each slot that it has used. One runner, or all that name none, may
	// open as many as are left, or a thousandth of all if that is more.
	MaxSessions = 1_000_000
	// MaxSessionRowBytes bounds what the rows of sessions have. It is soft and shared, like MaxKeyRowBytes: past it, requests
	// with numbers are refused.
	MaxSessionRowBytes = 16 << 30
	// MaxSlots bounds the requests of a session that may be under way at once, each of which has a row.
	MaxSlots = 256
	// MaxNumber is the highest number of a request of a session.
	MaxNumber = math.MaxInt64
	// MaxParts bounds the completions that carry out one request with a key or a number, which are remembered in one
	// row: a request may name the jobs of as many claims.
	MaxParts = MaxOutcomes
	// MaxSweeps may be under way at once: each tick advances all of them.
	MaxSweeps = 100
	// SweepLifeMs is how long a sweep can be asked about after its end.
	SweepLifeMs = 24 * 3_600_000
	// MaxHistory attempts are kept per job, the newest ones.
	MaxHistory = 20
	// MaxSteps are kept per job, the newest ones.
	MaxSteps = 50
	// MaxDelayMs bounds delay_ms, retention_ms and backoffs to a hundred years, so that no sum of times can overflow.
	MaxDelayMs = 100 * 366 * 86_400_000
	// MaxTimeMs bounds run_at: the last millisecond of the year 9999.
	MaxTimeMs = 253_402_300_799_999
	// MaxQueues bounds the queues that there are at a time, all of which are in memory. It is soft: a create that would
	// make one more is refused, those under way may pass it.
	MaxQueues = 1_000_000
	// MaxMetricsQueues bounds the queues with metrics of their own. Each takes 5 KB of memory, and up to 48 KB while a page
	// of metrics is made and sent.
	MaxMetricsQueues     = 1000
	DefaultMetricsQueues = 100
	// MaxQueueNumbers bounds the queues that there ever were: a number of 32 bits that is never used again is in the
	// keys of their jobs. It is soft like MaxQueues. A million new queues a day reach it after eleven years.
	MaxQueueNumbers = math.MaxUint32 - MaxQueues
	// MinQueueIdleMs is the shortest time after which a queue without jobs may be deleted. A shorter one would have
	// busy queues come and go.
	MinQueueIdleMs = 60_000
	// MaxHandlerBytes bounds the document of a handler, which has the source of a script at most.
	MaxHandlerBytes = 1 << 20
	// MaxHandlers bounds the handlers that there are at a time, and MaxHandlerVersions the versions that are kept of
	// each. What is known of a version beside its document is in memory.
	MaxHandlers        = 10_000
	MaxHandlerVersions = 20
	// MaxHandlersBytes bounds the documents of all versions, because no retention deletes them.
	MaxHandlersBytes = 1 << 30
	// MaxFilesets bounds the filesets that there are at a time, and MaxFilesetVersions the versions that are kept of each:
	// when there is one more, the oldest is deleted. A fileset has one row, which lists its versions.
	MaxFilesets        = 1_000_000
	MaxFilesetVersions = 20
	// MaxFilesetFiles and MaxFilesetBytes bound what a command says of a manifest. The manifest itself has lower limits.
	MaxFilesetFiles = 1_000_000_000
	MaxFilesetBytes = math.MaxInt64
	// MaxParkedClaims bounds the claims that wait for a job.
	MaxParkedClaims = 100_000
)

// The limits must fit each other.
const (
	_ = uint(MaxBodyBytes - MaxPayloadBytes - 4096)
	_ = uint(MaxBodyBytes - MaxOutputBytes - 4096)
	_ = uint(math.MaxUint32 - MaxLines)
	_ = uint(math.MaxInt64 - MaxTimeMs - MaxDelayMs)
)

// Defaults of a create, where neither the request nor the server's flags say otherwise.
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

// CheckName says what is wrong with a client or type, or nil: 1–128 bytes of `[A-Za-z0-9._:-]`, neither `.` nor `..`.
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

// nameCharacters are those of NameByte, for people.
const nameCharacters = "a-z A-Z 0-9 . _ : -"

// firstCharacter returns the first character of a text, or its first byte if that is no UTF-8.
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

// CheckText says what is wrong with a text of at least lo and at most hi bytes of UTF-8, or nil.
func CheckText(field, text string, lo, hi int) error {
	if len(text) < lo || len(text) > hi {
		return fmt.Errorf("%s must have %d to %d bytes, not %d", field, lo, hi, len(text))
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not valid UTF-8", field)
	}
	return nil
}

// CheckRange says what is wrong with a number outside lo … hi, or nil.
func CheckRange(field string, n, lo, hi int64) error {
	if n < lo || n > hi {
		return fmt.Errorf("%s must be %d to %d, not %d", field, lo, hi, n)
	}
	return nil
}
