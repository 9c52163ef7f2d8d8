package row

import (
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// This file builds and parses every key of the store. doc.go has the table of keys. Numbers are big-endian, so that
// keys sort by number. A key is built as a string because the overlay and the windows keep it.

const (
	MetaTable            = 'M'
	QueueTable           = 'Q'
	BatchTable           = 'B'
	CountsTable          = 'b'
	GroupTable           = 'G'
	PageTable            = 'P'
	SizesTable           = 'p'
	SpanTable            = 'S'
	DetailTable          = 'D'
	ReadyTable           = 'R'
	ListTable            = 'L'
	MovedTable           = 'l'
	TimerTable           = 'T'
	ClaimTable           = 'C'
	ClaimStateTable      = 'c'
	JobLeaseTable        = 'O'
	RunnerTable          = 'W'
	HoldTable            = 'w'
	EffectTable          = 'E'
	EffectIndexTable     = 'j'
	UniqueTable          = 'U'
	LineKeyTable         = 'K'
	OnceTable            = 'I'
	OwnerTable           = 'i'
	NoticeTable          = 'x'
	SweepTable           = 'Y'
	CellTable            = 'N'
	SessionTable         = 'A'
	SlotTable            = 'a'
	IdleTable            = 'Z'
	DocumentTable        = 'H'
	DocumentTextTable    = 'h'
	DeletionTable        = 'F'
	SubmissionTable      = 'V'
	SubmissionStateTable = 'v'
	BatchMetadataTable   = 'g'
	PartTable            = 'J'
	BatchIndexTable      = 'X'
	StatusCountsTable    = 'q'
	DistinctTable        = 'd'
	PurgedEndTable       = 'e'
	PurgedBatchTable     = 'z'
	SessionOwnerTable    = 'y'
	AuditTable           = 'u'
	ScopedAuditTable     = 'k'
)

// Tables lists all tables, for Check and statistics.
var Tables = []byte{MetaTable, QueueTable, BatchTable, CountsTable, GroupTable, PageTable, SizesTable, SpanTable, DetailTable, ReadyTable, ListTable, MovedTable,
	TimerTable, ClaimTable, ClaimStateTable, JobLeaseTable, RunnerTable, HoldTable, EffectTable, EffectIndexTable, UniqueTable, LineKeyTable, OnceTable, OwnerTable,
	NoticeTable, SweepTable, CellTable, SessionTable, SlotTable, IdleTable,
	DocumentTable, DocumentTextTable, DeletionTable,
	SubmissionTable, SubmissionStateTable, BatchMetadataTable, PartTable, BatchIndexTable, StatusCountsTable, DistinctTable, PurgedEndTable, PurgedBatchTable, SessionOwnerTable, AuditTable, ScopedAuditTable}

// AuditTables have the audit of the keys for all clients, and of those with a scope. Each has its own part of the room, so that the
// commands of tenants remove no rows of admins.
var AuditTables = [2]byte{AuditTable, ScopedAuditTable}

// Kinds of details, the rows beside a span that belong to a single line.
const (
	HistoryDetail  = 1
	ResultDetail   = 2
	ProgressDetail = 3
	StepDetail     = 4
)

// Kinds of timers. Things due at the same millisecond happen in the order of their kinds.
const (
	RunAtTimer    = 1  // seq, last line of a deferred span
	ClaimTimer    = 2  // claim
	JobLeaseTimer = 3  // claim, seq, line
	PurgeTimer    = 4  // seq, last line of a terminal span
	ExpireTimer   = 6  // seq, last line of a waiting span that must be started by then
	TimeoutTimer  = 7  // seq, last line of an active span that runs too long
	SweepTimer    = 8  // sweep that is in progress, or whose row is to be deleted
	OnceTimer     = 9  // generation of idempotency keys
	RunnerTimer   = 10 // len:1 runner, which may have held no job for long
	SessionTimer  = 11 // session that has been idle for long
	BatchTimer    = 12 // submission that need not be kept any longer
	RestTimer     = 13 // submission whose jobs a step looks at
	DistinctTimer = 14 // index of prefer_distinct that is being built
	RepeatsTimer  = 15 // generation of ends of purged runs
	PurgedTimer   = 16 // 0: rows of purged batches are left
)

const MetaKey = string(MetaTable)

func SeqKey(table byte, seq uint64) string {
	k := make(lsm.KeyBuilder, 0, 9)
	k.U8(table)
	k.U64(seq)
	return string(k)
}

// EffectIndexKey says that a command moved lines of a batch. The segment of the row of effects is first, so that one range deletion
// deletes the list with the segment.
func EffectIndexKey(segment, batch, seq uint64) string {
	k := make(lsm.KeyBuilder, 0, EffectIndexKeyBytes)
	k.U8(EffectIndexTable)
	k.U64(segment)
	k.U64(batch)
	k.U64(seq)
	return string(k)
}

// EffectIndexKeyBytes is the length of an EffectIndexKey.
const EffectIndexKeyBytes = 25

// SplitEffectIndexKey returns the parts of an EffectIndexKey.
func SplitEffectIndexKey(key string) (segment, batch, seq uint64) {
	return lsm.U64At(key, 1), lsm.U64At(key, 9), lsm.U64At(key, 17)
}

func SeqOfKey(key string) uint64 { return lsm.U64At(key, 1) }

func QueueKey(id uint32) string {
	k := make(lsm.KeyBuilder, 0, 5)
	k.U8(QueueTable)
	k.U32(id)
	return string(k)
}

// LineKey addresses a span by its last line, or any per-line row.
func LineKey(table byte, seq uint64, line uint32) string {
	k := make(lsm.KeyBuilder, 0, 13)
	k.U8(table)
	k.U64(seq)
	k.U32(line)
	return string(k)
}

func LineOfKey(key string) uint32 { return lsm.U32At(key, 9) }

// PageKey puts the last line first, so that a seek for a line finds its page. The first line follows, so that finding
// it needs no second lookup.
func PageKey(seq uint64, last, first uint32) string { return keyOfPage(PageTable, seq, last, first) }

// SizesKey is the key of the row with the lengths of a page's payloads.
func SizesKey(seq uint64, last, first uint32) string { return keyOfPage(SizesTable, seq, last, first) }

func keyOfPage(table byte, seq uint64, last, first uint32) string {
	k := make(lsm.KeyBuilder, 0, 17)
	k.U8(table)
	k.U64(seq)
	k.U32(last)
	k.U32(first)
	return string(k)
}

func SplitPageKey(key string) (last, first uint32) { return lsm.U32At(key, 9), lsm.U32At(key, 13) }

func DetailKey(seq uint64, line uint32, kind byte) string {
	k := make(lsm.KeyBuilder, 0, 14)
	k.U8(DetailTable)
	k.U64(seq)
	k.U32(line)
	k.U8(kind)
	return string(k)
}

// HistoryKey is the key of the detail of one attempt, which ended in the command at.
func HistoryKey(seq uint64, line uint32, at uint64) string {
	k := lsm.KeyBuilder(DetailKey(seq, line, HistoryDetail))
	k.U64(at)
	return string(k)
}

// StepKey is the key of the detail of a step in a slot of the ring of a line's steps.
func StepKey(seq uint64, line uint32, slot byte) string {
	k := lsm.KeyBuilder(DetailKey(seq, line, StepDetail))
	k.U8(slot)
	return string(k)
}

// SlotOfStep returns the slot in the key of a step.
func SlotOfStep(key string) byte { return key[14] }

func KindOfDetail(key string) byte { return key[13] }

// LaneKeyBytes is the length of LaneKey.
const LaneKeyBytes = 10

// LaneKey is the common prefix of a lane's ready rows. Higher priorities sort first.
func LaneKey(queueID uint32, id LaneID) string {
	k := make(lsm.KeyBuilder, 0, LaneKeyBytes)
	k.U8(ReadyTable)
	k.U32(queueID)
	k.U32(^id.Priority)
	k.U8(byte(id.Class))
	return string(k)
}

func ReadyKey(queueID uint32, id LaneID, order uint64, end Position) string {
	k := make(lsm.KeyBuilder, 0, 30)
	k.U8(ReadyTable)
	k.U32(queueID)
	k.U32(^id.Priority)
	k.U8(byte(id.Class))
	k.U64(order)
	k.U64(end.Seq)
	k.U32(end.Line)
	return string(k)
}

// ReadyRank is the part of a ready key that jobs of different queues are compared by: priority, class, order, seq, last
// line.
func ReadyRank(key string) string { return key[5:] }

func SplitReadyKey(key string) (queueID uint32, id LaneID, end Position) {
	return lsm.U32At(key, 1), LaneOfReady(key), Position{lsm.U64At(key, 18), lsm.U32At(key, 26)}
}

// LaneOfReady is the lane of a ready key, or of a prefix of one.
func LaneOfReady(key string) LaneID { return LaneID{^lsm.U32At(key, 5), job.Class(key[9])} }

func ListKey(queueID uint32, status job.Status, seq uint64, last uint32) string {
	k := make(lsm.KeyBuilder, 0, 18)
	k.U8(ListTable)
	k.U32(queueID)
	k.U8(byte(status))
	k.U64(seq)
	k.U32(last)
	return string(k)
}

// ListPrefix is the common prefix of the list keys of a queue and status.
func ListPrefix(queueID uint32, status job.Status) string {
	return ListKey(queueID, status, 0, 0)[:6]
}

func QueueOfListKey(key string) uint32      { return lsm.U32At(key, 1) }
func StatusOfListKey(key string) job.Status { return job.Status(key[5]) }

// EndOfListKey returns the last position of the span of a list row.
func EndOfListKey(key string) Position { return Position{lsm.U64At(key, 6), lsm.U32At(key, 14)} }

// MovedKey is the key of a span whose lines were moved at a time.
func MovedKey(queueID uint32, status job.Status, at int64, seq uint64, last uint32) string {
	k := make(lsm.KeyBuilder, 0, 26)
	k.U8(MovedTable)
	k.U32(queueID)
	k.U8(byte(status))
	k.U64(uint64(at))
	k.U64(seq)
	k.U32(last)
	return string(k)
}

// MovedPrefix is the common prefix of the moved keys of a queue and status.
func MovedPrefix(queueID uint32, status job.Status) string {
	return MovedKey(queueID, status, 0, 0, 0)[:6]
}

// SplitMovedKey returns the time of the move and the last position of the span.
func SplitMovedKey(key string) (at int64, end Position) {
	return int64(lsm.U64At(key, 6)), Position{lsm.U64At(key, 14), lsm.U32At(key, 22)}
}

func TimerKey(at int64, kind byte, a uint64, b uint64, line uint32) string {
	k := make(lsm.KeyBuilder, 0, 30)
	k.U8(TimerTable)
	k.U64(uint64(at))
	k.U8(kind)
	k.U64(a)
	switch kind {
	case RunAtTimer, PurgeTimer, ExpireTimer, TimeoutTimer:
		k.U32(line)
	case JobLeaseTimer:
		k.U64(b)
		k.U32(line)
	}
	return string(k)
}

// RunnerTimerKey is the key of a runner's timer, the only kind of timer that names its subject by text.
func RunnerTimerKey(at int64, name string) string {
	k := make(lsm.KeyBuilder, 0, 11+len(name))
	k.U8(TimerTable)
	k.U64(uint64(at))
	k.U8(RunnerTimer)
	k.U8(byte(len(name)))
	k = append(k, name...)
	return string(k)
}

func RunnerOfTimer(key string) string { return key[11:] }

// Timer is a timer row. b and line are 0 for the kinds without them, and a is 0 for a runner's timer.
type Timer struct {
	Key  string
	At   int64
	Kind byte
	A, B uint64
	Line uint32
}

func SplitTimer(key string) Timer {
	t := Timer{Key: key, At: int64(lsm.U64At(key, 1))}
	if t.Kind = key[9]; t.Kind == RunnerTimer {
		return t
	}
	t.A = lsm.U64At(key, 10)
	switch t.Kind {
	case RunAtTimer, PurgeTimer, ExpireTimer, TimeoutTimer:
		t.Line = lsm.U32At(key, 18)
	case JobLeaseTimer:
		t.B, t.Line = lsm.U64At(key, 18), lsm.U32At(key, 26)
	}
	return t
}

func JobLeaseKey(claimSeq, seq uint64, line uint32) string {
	k := make(lsm.KeyBuilder, 0, 21)
	k.U8(JobLeaseTable)
	k.U64(claimSeq)
	k.U64(seq)
	k.U32(line)
	return string(k)
}

func SplitJobLeaseKey(key string) (claimSeq, seq uint64, line uint32) {
	return lsm.U64At(key, 1), lsm.U64At(key, 9), lsm.U32At(key, 17)
}

// RunnerKey puts the length first, so that the rows of one runner never begin with the rows of a different runner.
func RunnerKey(table byte, name string) string {
	k := make(lsm.KeyBuilder, 0, 2+len(name)+8)
	k.U8(table)
	k.U8(byte(len(name)))
	k = append(k, name...)
	return string(k)
}

// HoldKey is for rows that list a runner's claims: claims that hold jobs, and claims of which jobs were cancelled.
func HoldKey(table byte, name string, claimSeq uint64) string {
	k := lsm.KeyBuilder(RunnerKey(table, name))
	k.U64(claimSeq)
	return string(k)
}

// ClaimOfHold is the claim at the end of a HoldKey.
func ClaimOfHold(key string) uint64 { return lsm.U64At(key, len(key)-8) }

// UniqueKey is the key of a hint that says which job of a queue has a unique key.
func UniqueKey(queueID uint32, key string) string {
	k := make(lsm.KeyBuilder, 0, 5+len(key))
	k.U8(UniqueTable)
	k.U32(queueID)
	k = append(k, key...)
	return string(k)
}

// OnceKey puts the generation first, so that one range holds the generation. The length of the scope separates it from
// the key.
func OnceKey(generation uint32, scope, key string) string {
	k := make(lsm.KeyBuilder, 0, 7+len(scope)+len(key))
	k.U8(OnceTable)
	k.U32(generation)
	k.U8(byte(len(scope) >> 8))
	k.U8(byte(len(scope)))
	k = append(k, scope...)
	k = append(k, key...)
	return string(k)
}

// SlotKey is for the last request of a slot of a session.
func SlotKey(sessionSeq uint64, index int) string {
	k := make(lsm.KeyBuilder, 0, 10)
	k.U8(SlotTable)
	k.U64(sessionSeq)
	k.U8(byte(index))
	return string(k)
}

func SlotOfKey(key string) int { return int(key[9]) }

// SessionOwnerKey is for the size of an owner's sessions; "" is for the sessions that have neither an owner nor a runner.
func SessionOwnerKey(owner string) string { return string([]byte{SessionOwnerTable}) + owner }

// IdlePrefix is the common prefix of the idle rows of the sessions that have, or have not, carried out a request.
func IdlePrefix(used bool) string {
	if used {
		return string([]byte{IdleTable, 1})
	}
	return string([]byte{IdleTable, 0})
}

func IdleKey(used bool, at int64, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 18), IdlePrefix(used)...)
	k.U64(uint64(at))
	k.U64(seq)
	return string(k)
}

func SplitIdleKey(key string) (at int64, seq uint64) {
	return int64(lsm.U64At(key, 2)), lsm.U64At(key, 10)
}

// GenerationKey is the common prefix of the keys of a generation.
func GenerationKey(table byte, generation uint32) string {
	k := make(lsm.KeyBuilder, 0, 5)
	k.U8(table)
	k.U32(generation)
	return string(k)
}

// PurgedEndKey is for lines that a claim handed out and that were purged soon after their runs ended.
func PurgedEndKey(generation uint32, claim, seq uint64, last uint32) string {
	k := append(make(lsm.KeyBuilder, 0, 25), PurgedEndsPrefix(generation, claim)...)
	k.U64(seq)
	k.U32(last)
	return string(k)
}

// PurgedEndsPrefix is the common prefix of the rows of a claim.
func PurgedEndsPrefix(generation uint32, claim uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 13), GenerationKey(PurgedEndTable, generation)...)
	k.U64(claim)
	return string(k)
}

func SplitPurgedEndKey(key string) (generation uint32, claim uint64, end Position) {
	return lsm.U32At(key, 1), lsm.U64At(key, 5), Position{lsm.U64At(key, 13), lsm.U32At(key, 21)}
}

// OwnerKey is for the number and size of an owner's idempotency keys in a generation.
func OwnerKey(generation uint32, owner string) string {
	return GenerationKey(OwnerTable, generation) + owner
}

// ScopeOfOnce returns the scope in the row key of an idempotency key.
func ScopeOfOnce(key string) string { return key[7 : 7+int(key[5])<<8+int(key[6])] }

func RunnerOfKey(key string) string { return key[2 : 2+int(key[1])] }

// DocumentsIn returns the range of the rows of the existing documents of a kind.
func DocumentsIn(kind job.DocumentKind) (from, to string) {
	return string([]byte{DocumentTable, byte(kind), 0}), string([]byte{DocumentTable, byte(kind), 1})
}

// DocumentKey is for the versions of a document. The documents of a kind that exist are before the deleted ones.
func DocumentKey(name DocumentName, deleted bool) string {
	existing, gone := DocumentsIn(name.Kind)
	if deleted {
		return namedKey(gone, name.Name, name.Client)
	}
	return namedKey(existing, name.Name, name.Client)
}

// DocumentOfKey returns the name in a DocumentKey.
func DocumentOfKey(key string) (name DocumentName, deleted bool) {
	name.Kind, deleted = job.DocumentKind(key[1]), key[2] != 0
	name.Name, name.Client = nameOfKey(key[3:])
	return name, deleted
}

// DeletionKey is for the name of a document of a kind that a command deleted. With seq 0, it is for the highest number of
// a version of the kind's documents whose histories are not kept any more.
func DeletionKey(kind job.DocumentKind, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 10), DeletionTable, byte(kind))
	k.U64(seq)
	return string(k)
}

// DeletionsFrom returns the range of the deletions of a kind by the command seq and later ones.
func DeletionsFrom(kind job.DocumentKind, seq uint64) (from, to string) {
	return DeletionKey(kind, max(1, seq)), string([]byte{DeletionTable, byte(kind) + 1})
}

// SeqOfDeletion returns the command of a DeletionKey.
func SeqOfDeletion(key string) uint64 { return lsm.U64At(key, 2) }

// namedKey puts the client last, because lists are in that order. Names never contain NUL.
func namedKey(prefix, name, client string) string { return prefix + name + "\x00" + client }

// nameOfKey returns the names in a namedKey, without its prefix.
func nameOfKey(rest string) (name, client string) {
	name, client, _ = strings.Cut(rest, "\x00")
	return name, client
}

func StatusCountsKey(name QueueName) string {
	return namedKey(string([]byte{StatusCountsTable}), name.Typ, name.Client)
}

func QueueOfStatusCounts(key string) QueueName {
	typ, client := nameOfKey(key[1:])
	return QueueName{client, typ}
}

// PartKey is the key of a part of a submission. It has the number of the part's last line there, so that a seek for a
// line finds its part.
func PartKey(submission uint64, last int64) string {
	k := make(lsm.KeyBuilder, 0, 17)
	k.U8(PartTable)
	k.U64(submission)
	k.U64(uint64(last))
	return string(k)
}

// The index rows of submissions end in their seq. A byte says which index a row belongs to.
const (
	ByBatchStatus = 1 // status:1
	byBatchName   = 2 // name 0
	byBatchMeta   = 3 // pair 0
	bySnowflake   = 4 // snowflake:8
)

func BatchStatusKey(status job.BatchStatus, seq uint64) string {
	return BatchIndexKey(string([]byte{BatchIndexTable, ByBatchStatus, byte(status)}), seq)
}

func BatchNameKey(name string, seq uint64) string {
	return BatchIndexKey(BatchNamePrefix(name)+"\x00", seq)
}

func BatchMetaKey(pair string, seq uint64) string {
	return BatchIndexKey(string([]byte{BatchIndexTable, byBatchMeta})+pair+"\x00", seq)
}

func SnowflakeKey(snowflake, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 18), BatchIndexTable, bySnowflake)
	k.U64(snowflake)
	return BatchIndexKey(string(k), seq)
}

// BatchNamePrefix is the common prefix of the keys of the names that begin with text.
func BatchNamePrefix(text string) string { return string([]byte{BatchIndexTable, byBatchName}) + text }

// BatchIndexKey is the key of a submission in the index that has this prefix.
func BatchIndexKey(prefix string, seq uint64) string {
	k := append(make(lsm.KeyBuilder, 0, len(prefix)+8), prefix...)
	k.U64(seq)
	return string(k)
}

// SeqOfBatchIndex returns the submission at the end of an index key.
func SeqOfBatchIndex(key string) uint64 { return lsm.U64At(key, len(key)-8) }

// NameOfBatchIndex returns the name in a key of BatchNameKey.
func NameOfBatchIndex(key string) string { return key[2 : len(key)-9] }
