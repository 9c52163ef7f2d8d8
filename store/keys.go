package store

import (
	"cmp"
	"encoding/binary"

	"github.com/daybookq/daybook/job"
)

// Every key of the store, in both directions; the table of them is in doc.go. Numbers are big-endian, so that keys sort by
// number. A key is built as a string because the overlay and the windows keep it.

const (
	metaTable       = 'M'
	queueTable      = 'Q'
	batchTable      = 'B'
	countsTable     = 'b'
	pageTable       = 'P'
	sizesTable      = 'p'
	spanTable       = 'S'
	detailTable     = 'D'
	readyTable      = 'R'
	listTable       = 'L'
	timerTable      = 'T'
	claimTable      = 'C'
	claimStateTable = 'c'
	jobLeaseTable   = 'O'
	runnerTable     = 'W'
	holdTable       = 'w'
	effectTable     = 'E'
	uniqueTable     = 'U'
	lineKeyTable    = 'K'
	onceTable       = 'I'
	noticeTable     = 'x'
	sweepTable      = 'Y'
	cellTable       = 'N'
	sessionTable    = 'A'
	slotTable       = 'a'
	idleTable       = 'Z'
)

// tables lists them all, for Check and statistics.
var tables = []byte{metaTable, queueTable, batchTable, countsTable, pageTable, sizesTable, spanTable, detailTable, readyTable, listTable,
	timerTable, claimTable, claimStateTable, jobLeaseTable, runnerTable, holdTable, effectTable, uniqueTable, lineKeyTable, onceTable,
	noticeTable, sweepTable, cellTable, sessionTable, slotTable, idleTable}

// detail kinds: what is kept beside a span for a single line.
const (
	historyDetail  = 1
	resultDetail   = 2
	progressDetail = 3
)

// timer kinds. Their order is the order in which things due at the same millisecond happen.
const (
	runAtTimer    = 1  // seq, last line of a deferred span
	claimTimer    = 2  // claim
	jobLeaseTimer = 3  // claim, seq, line
	purgeTimer    = 4  // seq, last line of a terminal span
	expireTimer   = 6  // seq, last line of a waiting span that must be started by then
	timeoutTimer  = 7  // seq, last line of an active span that runs too long
	sweepTimer    = 8  // sweep that goes on, or is to be forgotten
	onceTimer     = 9  // generation of idempotency keys
	runnerTimer   = 10 // len:1 runner, which may have held nothing for long
	sessionTimer  = 11 // session that has been idle for long
)

type keyBuilder []byte

func (k *keyBuilder) u8(n byte)    { *k = append(*k, n) }
func (k *keyBuilder) u32(n uint32) { *k = binary.BigEndian.AppendUint32(*k, n) }
func (k *keyBuilder) u64(n uint64) { *k = binary.BigEndian.AppendUint64(*k, n) }

func u32At(key string, at int) uint32 {
	if len(key) < at+4 {
		fail("split key", errShortRow)
	}
	return binary.BigEndian.Uint32([]byte(key[at : at+4]))
}

func u64At(key string, at int) uint64 {
	if len(key) < at+8 {
		fail("split key", errShortRow)
	}
	return binary.BigEndian.Uint64([]byte(key[at : at+8]))
}

const metaKey = string(metaTable)

func seqKey(table byte, seq uint64) string {
	k := make(keyBuilder, 0, 9)
	k.u8(table)
	k.u64(seq)
	return string(k)
}

func seqOfKey(key string) uint64 { return u64At(key, 1) }

func queueKey(id uint32) string {
	k := make(keyBuilder, 0, 5)
	k.u8(queueTable)
	k.u32(id)
	return string(k)
}

// lineKey addresses a span by its last line, or any per-line row.
func lineKey(table byte, seq uint64, line uint32) string {
	k := make(keyBuilder, 0, 13)
	k.u8(table)
	k.u64(seq)
	k.u32(line)
	return string(k)
}

func lineOfKey(key string) uint32 { return u32At(key, 9) }

// pageKey puts the last line first, so that a seek for a line finds its page; the first line follows, so that it needs no
// second look.
func pageKey(seq uint64, last, first uint32) string { return keyOfPage(pageTable, seq, last, first) }

// sizesKey is that of the lengths of a page's payloads.
func sizesKey(seq uint64, last, first uint32) string { return keyOfPage(sizesTable, seq, last, first) }

func keyOfPage(table byte, seq uint64, last, first uint32) string {
	k := make(keyBuilder, 0, 17)
	k.u8(table)
	k.u64(seq)
	k.u32(last)
	k.u32(first)
	return string(k)
}

func splitPageKey(key string) (last, first uint32) { return u32At(key, 9), u32At(key, 13) }

func detailKey(seq uint64, line uint32, kind byte) string {
	k := make(keyBuilder, 0, 14)
	k.u8(detailTable)
	k.u64(seq)
	k.u32(line)
	k.u8(kind)
	return string(k)
}

// historyKey is the detail of one attempt, which ended in the command at.
func historyKey(seq uint64, line uint32, at uint64) string {
	k := keyBuilder(detailKey(seq, line, historyDetail))
	k.u64(at)
	return string(k)
}

func kindOfDetail(key string) byte { return key[13] }

// position is the place of a line among all lines, or of a span by its last line.
type position struct {
	seq  uint64 // of the batch
	line uint32
}

func comparePositions(a, b position) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.line, b.line))
}

// laneID names one of the lanes of a queue.
type laneID struct {
	priority uint32
	class    job.Class
}

// laneKey is the common beginning of the ready rows of a lane. Higher priorities sort first.
func laneKey(queue uint32, lane laneID) string {
	k := make(keyBuilder, 0, 10)
	k.u8(readyTable)
	k.u32(queue)
	k.u32(^lane.priority)
	k.u8(byte(lane.class))
	return string(k)
}

func readyKey(queue uint32, lane laneID, order uint64, end position) string {
	k := make(keyBuilder, 0, 30)
	k.u8(readyTable)
	k.u32(queue)
	k.u32(^lane.priority)
	k.u8(byte(lane.class))
	k.u64(order)
	k.u64(end.seq)
	k.u32(end.line)
	return string(k)
}

// readyRank is the part of a ready key by which jobs of different queues compare: priority, class, order, seq, last line.
func readyRank(key string) string { return key[5:] }

// priorityOfRank is the part of a rank that orders by priority.
func priorityOfRank(rank string) string { return rank[:4] }

func splitReadyKey(key string) (queue uint32, lane laneID, end position) {
	return u32At(key, 1), laneID{^u32At(key, 5), job.Class(key[9])}, position{u64At(key, 18), u32At(key, 26)}
}

func listKey(queue uint32, status job.Status, seq uint64, last uint32) string {
	k := make(keyBuilder, 0, 18)
	k.u8(listTable)
	k.u32(queue)
	k.u8(byte(status))
	k.u64(seq)
	k.u32(last)
	return string(k)
}

func timerKey(at int64, kind byte, a uint64, b uint64, line uint32) string {
	k := make(keyBuilder, 0, 30)
	k.u8(timerTable)
	k.u64(uint64(at))
	k.u8(kind)
	k.u64(a)
	switch kind {
	case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
		k.u32(line)
	case jobLeaseTimer:
		k.u64(b)
		k.u32(line)
	}
	return string(k)
}

// runnerTimerKey is the timer of a runner: the only kind that names its subject by text.
func runnerTimerKey(at int64, runner string) string {
	k := make(keyBuilder, 0, 11+len(runner))
	k.u8(timerTable)
	k.u64(uint64(at))
	k.u8(runnerTimer)
	k.u8(byte(len(runner)))
	k = append(k, runner...)
	return string(k)
}

func runnerOfTimer(key string) string { return key[11:] }

// splitTimerKey returns what timerKey was given; b and line are 0 for the kinds that have none, and so is a for a runner's.
func splitTimerKey(key string) (at int64, kind byte, a, b uint64, line uint32) {
	if at = int64(u64At(key, 1)); len(key) > 9 && key[9] == runnerTimer {
		return at, runnerTimer, 0, 0, 0
	}
	kind, a = key[9], u64At(key, 10)
	switch kind {
	case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
		line = u32At(key, 18)
	case jobLeaseTimer:
		b, line = u64At(key, 18), u32At(key, 26)
	}
	return at, kind, a, b, line
}

func jobLeaseKey(claim, seq uint64, line uint32) string {
	k := make(keyBuilder, 0, 21)
	k.u8(jobLeaseTable)
	k.u64(claim)
	k.u64(seq)
	k.u32(line)
	return string(k)
}

func splitJobLeaseKey(key string) (claim, seq uint64, line uint32) {
	return u64At(key, 1), u64At(key, 9), u32At(key, 17)
}

// runnerKey puts the length first, so that no runner's rows begin with another's.
func runnerKey(table byte, runner string) string {
	k := make(keyBuilder, 0, 2+len(runner)+8)
	k.u8(table)
	k.u8(byte(len(runner)))
	k = append(k, runner...)
	return string(k)
}

// holdKey is for rows of a runner's claims: those that hold something, and those of which something was cancelled.
func holdKey(table byte, runner string, claim uint64) string {
	k := keyBuilder(runnerKey(table, runner))
	k.u64(claim)
	return string(k)
}

// claimOfHold is the claim at the end of a holdKey.
func claimOfHold(key string) uint64 { return u64At(key, len(key)-8) }

// uniqueKey is the hint which job of a queue has a unique key.
func uniqueKey(queue uint32, key string) string {
	k := make(keyBuilder, 0, 5+len(key))
	k.u8(uniqueTable)
	k.u32(queue)
	k = append(k, key...)
	return string(k)
}

// onceKey puts the generation first, so that one range holds it. The length of the scope keeps it apart from the key.
func onceKey(generation uint32, scope, key string) string {
	k := make(keyBuilder, 0, 7+len(scope)+len(key))
	k.u8(onceTable)
	k.u32(generation)
	k.u8(byte(len(scope) >> 8))
	k.u8(byte(len(scope)))
	k = append(k, scope...)
	k = append(k, key...)
	return string(k)
}

// slotKey is for the last request of a slot of a session.
func slotKey(session uint64, slot int) string {
	k := make(keyBuilder, 0, 10)
	k.u8(slotTable)
	k.u64(session)
	k.u8(byte(slot))
	return string(k)
}

func slotOfKey(key string) int { return int(key[9]) }

// idlePrefix is what the keys of the idle rows begin with, of sessions that have or have not carried out a request.
func idlePrefix(used bool) string {
	if used {
		return string([]byte{idleTable, 1})
	}
	return string([]byte{idleTable, 0})
}

func idleKey(used bool, at int64, seq uint64) string {
	k := append(make(keyBuilder, 0, 18), idlePrefix(used)...)
	k.u64(uint64(at))
	k.u64(seq)
	return string(k)
}

func splitIdleKey(key string) (at int64, seq uint64) { return int64(u64At(key, 2)), u64At(key, 10) }

// generationKey is what the keys of a generation begin with.
func generationKey(generation uint32) string {
	k := make(keyBuilder, 0, 5)
	k.u8(onceTable)
	k.u32(generation)
	return string(k)
}

func runnerOfKey(key string) string { return key[2 : 2+int(key[1])] }

// wellFormed reports whether key has the form of one of the tables.
func wellFormed(key string) bool {
	if key == "" {
		return false
	}
	switch key[0] {
	case metaTable:
		return len(key) == 1
	case queueTable:
		return len(key) == 5
	case batchTable, countsTable, claimTable, claimStateTable, effectTable, sweepTable, sessionTable:
		return len(key) == 9
	case slotTable:
		return len(key) == 10
	case spanTable, lineKeyTable:
		return len(key) == 13
	case uniqueTable:
		return len(key) > 5 && len(key) <= 5+job.MaxKeyBytes
	case onceTable:
		return len(key) > 8 && len(key) > 7+int(key[5])<<8+int(key[6])
	case detailTable:
		return len(key) == 14 && kindOfDetail(key) != historyDetail || len(key) == 22 && kindOfDetail(key) == historyDetail
	case pageTable, sizesTable:
		return len(key) == 17
	case listTable, idleTable:
		return len(key) == 18
	case jobLeaseTable:
		return len(key) == 21
	case readyTable:
		return len(key) == 30
	case timerTable:
		if len(key) > 11 && key[9] == runnerTimer {
			return len(key) == 11+int(key[10])
		}
		if len(key) < 18 {
			return false
		}
		switch key[9] {
		case claimTimer, sweepTimer, onceTimer, sessionTimer:
			return len(key) == 18
		case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
			return len(key) == 22
		case jobLeaseTimer:
			return len(key) == 30
		}
	case cellTable:
		return len(key) > orderAt && int(key[orderAt]) < len(cellLevels) && len(key) == orderAt+1+cellTail(key[orderAt])
	case runnerTable:
		return len(key) > 2 && len(key) == 2+int(key[1])
	case holdTable, noticeTable:
		return len(key) > 10 && len(key) == 10+int(key[1])
	}
	return false
}

// after returns the smallest key that is greater than every key beginning with prefix.
func after(prefix string) string {
	k := []byte(prefix)
	for i := len(k) - 1; i >= 0; i-- {
		if k[i]++; k[i] != 0 {
			return string(k[:i+1])
		}
	}
	panic("store: a prefix of nothing but 0xff has no successor")
}
