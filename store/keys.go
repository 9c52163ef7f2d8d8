package store

import (
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// This file builds and parses every key of the store. doc.go has the table of keys. Numbers are big-endian, so that
// keys sort by number. A key is built as a string because the overlay and the windows keep it.

const (
	metaTable            = 'M'
	queueTable           = 'Q'
	batchTable           = 'B'
	countsTable          = 'b'
	groupTable           = 'G'
	pageTable            = 'P'
	sizesTable           = 'p'
	spanTable            = 'S'
	detailTable          = 'D'
	readyTable           = 'R'
	listTable            = 'L'
	timerTable           = 'T'
	claimTable           = 'C'
	claimStateTable      = 'c'
	jobLeaseTable        = 'O'
	runnerTable          = 'W'
	holdTable            = 'w'
	effectTable          = 'E'
	uniqueTable          = 'U'
	lineKeyTable         = 'K'
	onceTable            = 'I'
	ownerTable           = 'i'
	noticeTable          = 'x'
	sweepTable           = 'Y'
	cellTable            = 'N'
	sessionTable         = 'A'
	slotTable            = 'a'
	idleTable            = 'Z'
	handlerTable         = 'H'
	handlerDocumentTable = 'h'
	filesetTable         = 'F'
	submissionTable      = 'V'
	submissionStateTable = 'v'
	batchMetadataTable   = 'g'
	partTable            = 'J'
	batchIndexTable      = 'X'
	statusCountsTable    = 'q'
	distinctTable        = 'd'
	purgedEndTable       = 'e'
	purgedBatchTable     = 'z'
	sessionOwnerTable    = 'y'
)

// tables lists all tables, for Check and statistics.
var tables = []byte{metaTable, queueTable, batchTable, countsTable, groupTable, pageTable, sizesTable, spanTable, detailTable, readyTable, listTable,
	timerTable, claimTable, claimStateTable, jobLeaseTable, runnerTable, holdTable, effectTable, uniqueTable, lineKeyTable, onceTable, ownerTable,
	noticeTable, sweepTable, cellTable, sessionTable, slotTable, idleTable,
	handlerTable, handlerDocumentTable, filesetTable,
	submissionTable, submissionStateTable, batchMetadataTable, partTable, batchIndexTable, statusCountsTable, distinctTable, purgedEndTable, purgedBatchTable, sessionOwnerTable}

// Kinds of details, the rows beside a span that belong to a single line.
const (
	historyDetail  = 1
	resultDetail   = 2
	progressDetail = 3
	stepDetail     = 4
)

// Kinds of timers. Things due at the same millisecond happen in the order of their kinds.
const (
	runAtTimer    = 1  // seq, last line of a deferred span
	claimTimer    = 2  // claim
	jobLeaseTimer = 3  // claim, seq, line
	purgeTimer    = 4  // seq, last line of a terminal span
	expireTimer   = 6  // seq, last line of a waiting span that must be started by then
	timeoutTimer  = 7  // seq, last line of an active span that runs too long
	sweepTimer    = 8  // sweep that is in progress, or whose row is to be deleted
	onceTimer     = 9  // generation of idempotency keys
	runnerTimer   = 10 // len:1 runner, which may have held no job for long
	sessionTimer  = 11 // session that has been idle for long
	batchTimer    = 12 // submission that need not be kept any longer
	restTimer     = 13 // submission whose jobs a step looks at
	distinctTimer = 14 // index of prefer_distinct that is being built
	repeatsTimer  = 15 // generation of ends of purged runs
	purgedTimer   = 16 // 0: rows of purged batches are left
)

const metaKey = string(metaTable)

func seqKey(table byte, seq uint64) string {
	k := make(lsm.KeyBuilder, 0, 9)
	k.U8(table)
	k.U64(seq)
	return string(k)
}

func seqOfKey(key string) uint64 { return lsm.U64At(key, 1) }

func queueKey(id uint32) string {
	k := make(lsm.KeyBuilder, 0, 5)
	k.U8(queueTable)
	k.U32(id)
	return string(k)
}

// lineKey addresses a span by its last line, or any per-line row.
func lineKey(table byte, seq uint64, line uint32) string {
	k := make(lsm.KeyBuilder, 0, 13)
	k.U8(table)
	k.U64(seq)
	k.U32(line)
	return string(k)
}

func lineOfKey(key string) uint32 { return lsm.U32At(key, 9) }

// pageKey puts the last line first, so that a seek for a line finds its page. The first line follows, so that finding
// it needs no second lookup.
func pageKey(seq uint64, last, first uint32) string { return keyOfPage(pageTable, seq, last, first) }

// sizesKey is the key of the row with the lengths of a page's payloads.
func sizesKey(seq uint64, last, first uint32) string { return keyOfPage(sizesTable, seq, last, first) }

func keyOfPage(table byte, seq uint64, last, first uint32) string {
	k := make(lsm.KeyBuilder, 0, 17)
	k.U8(table)
	k.U64(seq)
	k.U32(last)
	k.U32(first)
	return string(k)
}

func splitPageKey(key string) (last, first uint32) { return lsm.U32At(key, 9), lsm.U32At(key, 13) }

func detailKey(seq uint64, line uint32, kind byte) string {
	k := make(lsm.KeyBuilder, 0, 14)
	k.U8(detailTable)
	k.U64(seq)
	k.U32(line)
	k.U8(kind)
	return string(k)
}

// historyKey is the key of the detail of one attempt, which ended in the command at.
func historyKey(seq uint64, line uint32, at uint64) string {
	k := lsm.KeyBuilder(detailKey(seq, line, historyDetail))
	k.U64(at)
	return string(k)
}

// stepKey is the key of the detail of one step, which the command at reported.
func stepKey(seq uint64, line uint32, at uint64) string {
	k := lsm.KeyBuilder(detailKey(seq, line, stepDetail))
	k.U64(at)
	return string(k)
}

func kindOfDetail(key string) byte { return key[13] }

// laneKeyBytes is the length of laneKey.
const laneKeyBytes = 10

// laneKey is the common prefix of a lane's ready rows. Higher priorities sort first.
func laneKey(queueID uint32, id laneID) string {
	k := make(lsm.KeyBuilder, 0, laneKeyBytes)
	k.U8(readyTable)
	k.U32(queueID)
	k.U32(^id.priority)
	k.U8(byte(id.class))
	return string(k)
}

func readyKey(queueID uint32, id laneID, order uint64, end position) string {
	k := make(lsm.KeyBuilder, 0, 30)
	k.U8(readyTable)
	k.U32(queueID)
	k.U32(^id.priority)
	k.U8(byte(id.class))
	k.U64(order)
	k.U64(end.seq)
	k.U32(end.line)
	return string(k)
}

// readyRank is the part of a ready key that jobs of different queues are compared by: priority, class, order, seq, last
// line.
func readyRank(key string) string { return key[5:] }

func splitReadyKey(key string) (queueID uint32, id laneID, end position) {
	return lsm.U32At(key, 1), laneOfReady(key), position{lsm.U64At(key, 18), lsm.U32At(key, 26)}
}

// laneOfReady is the lane of a ready key, or of a prefix of one.
func laneOfReady(key string) laneID { return laneID{^lsm.U32At(key, 5), job.Class(key[9])} }

func listKey(queueID uint32, status job.Status, seq uint64, last uint32) string {
	k := make(lsm.KeyBuilder, 0, 18)
	k.U8(listTable)
	k.U32(queueID)
	k.U8(byte(status))
	k.U64(seq)
	k.U32(last)
	return string(k)
}

// listPrefix is the common prefix of the list keys of a queue and status.
func listPrefix(queueID uint32, status job.Status) string {
	return listKey(queueID, status, 0, 0)[:6]
}

func queueOfListKey(key string) uint32      { return lsm.U32At(key, 1) }
func statusOfListKey(key string) job.Status { return job.Status(key[5]) }

// endOfListKey returns the last position of the span of a list row.
func endOfListKey(key string) position { return position{lsm.U64At(key, 6), lsm.U32At(key, 14)} }

func timerKey(at int64, kind byte, a uint64, b uint64, line uint32) string {
	k := make(lsm.KeyBuilder, 0, 30)
	k.U8(timerTable)
	k.U64(uint64(at))
	k.U8(kind)
	k.U64(a)
	switch kind {
	case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
		k.U32(line)
	case jobLeaseTimer:
		k.U64(b)
		k.U32(line)
	}
	return string(k)
}

// runnerTimerKey is the key of a runner's timer, the only kind of timer that names its subject by text.
func runnerTimerKey(at int64, name string) string {
	k := make(lsm.KeyBuilder, 0, 11+len(name))
	k.U8(timerTable)
	k.U64(uint64(at))
	k.U8(runnerTimer)
	k.U8(byte(len(name)))
	k = append(k, name...)
	return string(k)
}

func runnerOfTimer(key string) string { return key[11:] }

// timer is a timer row. b and line are 0 for the kinds without them, and a is 0 for a runner's timer.
type timer struct {
	key  string
	at   int64
	kind byte
	a, b uint64
	line uint32
}

func splitTimer(key string) timer {
	t := timer{key: key, at: int64(lsm.U64At(key, 1))}
	if t.kind = key[9]; t.kind == runnerTimer {
		return t
	}
	t.a = lsm.U64At(key, 10)
	switch t.kind {
	case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
		t.line = lsm.U32At(key, 18)
	case jobLeaseTimer:
		t.b, t.line = lsm.U64At(key, 18), lsm.U32At(key, 26)
	}
	return t
}

func jobLeaseKey(claimSeq, seq uint64, line uint32) string {
	k := make(lsm.KeyBuilder, 0, 21)
	k.U8(jobLeaseTable)
	k.U64(claimSeq)
	k.U64(seq)
	k.U32(line)
	return string(k)
}

func splitJobLeaseKey(key string) (claimSeq, seq uint64, line uint32) {
	return lsm.U64At(key, 1), lsm.U64At(key, 9), lsm.U32At(key, 17)
}

// runnerKey puts the length first, so that the rows of one runner never begin with the rows of a different runner.
func runnerKey(table byte, name string) string {
	k := make(lsm.KeyBuilder, 0, 2+len(name)+8)
	k.U8(table)
	k.U8(byte(len(name)))
	k = append(k, name...)
	return string(k)
}

// holdKey is for rows that list a runner's claims: claims that hold jobs, and claims of which jobs were cancelled.
func holdKey(table byte, name string, claimSeq uint64) string {
	k := lsm.KeyBuilder(runnerKey(table, name))
	k.U64(claimSeq)
	return string(k)
}

// claimOfHold is the claim at the end of a holdKey.
func claimOfHold(key string) uint64 { return lsm.U64At(key, len(key)-8) }

// uniqueKey is the key of a hint that says which job of a queue has a unique key.
func uniqueKey(queueID uint32, key string) string {
	k := make(lsm.KeyBuilder, 0, 5+len(key))
	k.U8(uniqueTable)
	k.U32(queueID)
	k = append(k, key...)
	return string(k)
}

// onceKey puts the generation first, so that one range holds the generation. The length of the scope separates it from
// the key.
func onceKey(generation uint32, scope, key string) string {
	k := make(lsm.KeyBuilder, 0, 7+len(scope)+len(key))
	k.U8(onceTable)
	k.U32(generation)
	k.U8(byte(len(scope) >> 8))
	k.U8(byte(len(scope)))
	k = append(k, scope...)
	k = append(k, key...)
	return string(k)
}

// slotKey is for the last request of a slot of a session.
func slotKey(sessionSeq uint64, index int) string {
	k := make(lsm.KeyBuilder, 0, 10)
	k.U8(slotTable)
	k.U64(sessionSeq)
	k.U8(byte(index))
	return string(k)
}

func slotOfKey(key string) int { return int(key[9]) }

// sessionOwnerKey is for the size of a runner's sessions; "" is for the sessions without a runner.
func sessionOwnerKey(runner string) string { return string([]byte{sessionOwnerTable}) + runner }

// idlePrefix is the common prefix of the idle rows of the sessions that have, or have not, carried out a request.
func idlePrefix(used bool) string {
	if used {
		return string([]byte{idleTable, 1})
	}
	return string([]byte{idleTable, 0})
}

func idleKey(used bool, at int64, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 18), idlePrefix(used)...)
	k.U64(uint64(at))
	k.U64(seq)
	return string(k)
}

func splitIdleKey(key string) (at int64, seq uint64) {
	return int64(lsm.U64At(key, 2)), lsm.U64At(key, 10)
}

// generationKey is the common prefix of the keys of a generation.
func generationKey(table byte, generation uint32) string {
	k := make(lsm.KeyBuilder, 0, 5)
	k.U8(table)
	k.U32(generation)
	return string(k)
}

// purgedEndKey is for lines that a claim handed out and that were purged soon after their runs ended.
func purgedEndKey(generation uint32, claim, seq uint64, last uint32) string {
	k := append(make(lsm.KeyBuilder, 0, 25), purgedEndsPrefix(generation, claim)...)
	k.U64(seq)
	k.U32(last)
	return string(k)
}

// purgedEndsPrefix is the common prefix of the rows of a claim.
func purgedEndsPrefix(generation uint32, claim uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 13), generationKey(purgedEndTable, generation)...)
	k.U64(claim)
	return string(k)
}

func splitPurgedEndKey(key string) (generation uint32, claim uint64, end position) {
	return lsm.U32At(key, 1), lsm.U64At(key, 5), position{lsm.U64At(key, 13), lsm.U32At(key, 21)}
}

// ownerKey is for the number of bytes that an owner's idempotency keys take in a generation.
func ownerKey(generation uint32, owner string) string {
	return generationKey(ownerTable, generation) + owner
}

// scopeOfOnce returns the scope in the row key of an idempotency key.
func scopeOfOnce(key string) string { return key[7 : 7+int(key[5])<<8+int(key[6])] }

func runnerOfKey(key string) string { return key[2 : 2+int(key[1])] }

func handlerKey(name queueName) string { return namedKey(handlerTable, name.typ, name.client) }

func handlerOfKey(key string) queueName {
	typ, client, _ := strings.Cut(key[1:], "\x00")
	return queueName{client, typ}
}

func filesetKey(name filesetName) string { return namedKey(filesetTable, name.name, name.client) }

func filesetOfKey(key string) filesetName {
	name, client, _ := strings.Cut(key[1:], "\x00")
	return filesetName{client, name}
}

// namedKey puts the client last, because lists are in that order. Names never contain NUL.
func namedKey(table byte, name, client string) string {
	k := make(lsm.KeyBuilder, 0, 2+len(name)+len(client))
	k.U8(table)
	k = append(k, name...)
	k.U8(0)
	k = append(k, client...)
	return string(k)
}

func statusCountsKey(name queueName) string {
	return namedKey(statusCountsTable, name.typ, name.client)
}

func queueOfStatusCounts(key string) queueName { return handlerOfKey(key) }

// partKey is the key of a part of a submission. It has the number of the part's last line there, so that a seek for a
// line finds its part.
func partKey(submission uint64, last int64) string {
	k := make(lsm.KeyBuilder, 0, 17)
	k.U8(partTable)
	k.U64(submission)
	k.U64(uint64(last))
	return string(k)
}

// The index rows of submissions end in their seq. A byte says which index a row belongs to.
const (
	byBatchStatus = 1 // status:1
	byBatchName   = 2 // name 0
	byBatchMeta   = 3 // pair 0
	bySnowflake   = 4 // snowflake:8
)

func batchStatusKey(status job.BatchStatus, seq uint64) string {
	return batchIndexKey(string([]byte{batchIndexTable, byBatchStatus, byte(status)}), seq)
}

func batchNameKey(name string, seq uint64) string {
	return batchIndexKey(batchNamePrefix(name)+"\x00", seq)
}

func batchMetaKey(pair string, seq uint64) string {
	return batchIndexKey(string([]byte{batchIndexTable, byBatchMeta})+pair+"\x00", seq)
}

func snowflakeKey(snowflake, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 18), batchIndexTable, bySnowflake)
	k.U64(snowflake)
	return batchIndexKey(string(k), seq)
}

// batchNamePrefix is the common prefix of the keys of the names that begin with text.
func batchNamePrefix(text string) string { return string([]byte{batchIndexTable, byBatchName}) + text }

// batchIndexKey is the key of a submission in the index that has this prefix.
func batchIndexKey(prefix string, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, len(prefix)+8), prefix...)
	k.U64(seq)
	return string(k)
}

// seqOfBatchIndex returns the submission at the end of an index key.
func seqOfBatchIndex(key string) uint64 { return lsm.U64At(key, len(key)-8) }

// nameOfBatchIndex returns the name in a key of batchNameKey.
func nameOfBatchIndex(key string) string { return key[2 : len(key)-9] }
