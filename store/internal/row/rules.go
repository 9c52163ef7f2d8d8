package row

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// Rules are the numbers, of one level, that Apply's decisions depend on. Every other decision is the same at all levels
// that this program knows, or checks the level first. Apply uses the rules of the level that the journal's records
// raised. So a record leads to the same rows whichever version of the program applies it.
//
// To change a decision of Apply: add an entry to levels, and raise job.Level by one. If the change does not concern a
// number, let the code check a.Meta.Level, and keep the old code for the old levels. Keep the golden journals of the old
// levels in testdata as they are, and add one of the new level. TestRulesOfLevels and TestWhatLevelsDecide of package
// store, and TestGoldenJournal of package ingest, fail if an existing level decides differently than before.
type Rules struct {
	// PageBytes is about the size of a payload page: large enough that a page costs little beside its bytes, small
	// enough that a single job's read is cheap.
	PageBytes int
	// GroupPageBytes is about the size of a page of groups. A lookup of one group decodes its whole page.
	GroupPageBytes int
	// CellSpans is how many pending spans a lane, or a cell of it, may have before it is divided.
	CellSpans int64
	// CommandRows bounds the rows that one command writes: a tick, the loss of a runner, or the first step of a sweep.
	// ClaimRows bounds the rows of a claim of many small spans. Each queue that the claim takes from, except the first,
	// counts as QueueRows of these rows: the claim moves the queue in both trees of queues, and the parts it needs of
	// the trees, of its lanes and of Pebble are in no cache yet.
	CommandRows, ClaimRows, QueueRows int
	// ClaimBytes bounds the attributes that a claim reads; see attributeReads.
	ClaimBytes int
	// SweepRows bounds one step of a sweep within a tick, so that claims after it are hardly delayed.
	SweepRows int
	// If a batch has at most PurgedGroups groups, the command that purges its last line also removes their rows.
	PurgedGroups int
	// EffectBytes is the size of a segment of effects rows until a command sets another bound.
	EffectBytes int64
	// AuditBytes is the size of a segment of rows of one of the AuditTables.
	AuditBytes int64
	// EffectRowBytes is the size at which a row of effects is full. It is small, because a commit writes the whole row
	// again.
	EffectRowBytes int
	// ListedClaims is how many open claims a runner's row lists. Each claim writes this row anyway. Most runners hold
	// few claims at a time, so a separate row for each claim is seldom needed.
	ListedClaims int
	// sessions is how many sessions may be open.
	Sessions uint64
	// Documents bounds the named documents of each kind. DocumentVersions bounds the versions of each, and
	// DeletedDocuments the deleted ones of each kind.
	Documents                          [job.NumDocumentKinds]DocumentBounds
	DocumentVersions, DeletedDocuments int
	// Bounds of prefer_distinct. DistinctStep says when the levels of an index are rearranged, see
	// DistinctIndex.BestLevels. DistinctRows bounds the first step of building an index. All indexes together may take
	// about DistinctBytes of memory. A value's active jobs count in the order only if the value has at most
	// DistinctNodes nodes. A claim without an order looks at DistinctLooks spans.
	DistinctStep, DistinctRows, DistinctBytes, DistinctNodes, DistinctLooks int
}

// DocumentBounds bounds the number of named documents, and the bytes of the texts of all versions.
type DocumentBounds struct {
	Names int
	Bytes int64
}

// boundsOfKinds returns the bounds that the kinds of documents have.
func boundsOfKinds() (all [job.NumDocumentKinds]DocumentBounds) {
	for kind := range job.DocumentKinds {
		all[kind] = DocumentBounds{kind.Rules().MaxNames, kind.Rules().MaxTotal}
	}
	return all
}

// Level is a version of the decisions of Apply.
type Level struct {
	Number int
	Rules  Rules
}

var FirstRules = Rules{
	PageBytes: 64 << 10, GroupPageBytes: 4 << 10, CellSpans: 512, CommandRows: 1000, ClaimRows: 4200, QueueRows: 50, ClaimBytes: 1 << 20, SweepRows: 200, PurgedGroups: 8, EffectBytes: 32 << 20, EffectRowBytes: 1 << 10, AuditBytes: 8 << 20,
	ListedClaims: 8, Sessions: job.MaxSessions, Documents: boundsOfKinds(), DocumentVersions: job.MaxDocumentVersions, DeletedDocuments: job.MaxDeletedDocuments,
	DistinctStep: 16, DistinctRows: 1000, DistinctBytes: 128 << 20, DistinctNodes: 16, DistinctLooks: 256,
}

// Levels are the levels that this program can apply, in order. The first rules also apply to the records of a journal
// before the one that first raises the level; the level is 0 until then.
var Levels = []Level{
	{1, FirstRules},
}

// NewestLevel returns the number of the newest level that this program can apply.
func NewestLevel() int { return Levels[len(Levels)-1].Number }

// The newest level must be job.Level.
func init() {
	if NewestLevel() != job.Level {
		panic(fmt.Sprintf("store: the newest level is %d, and job.Level %d", NewestLevel(), job.Level))
	}
}

// RulesAt returns the rules of a level that this program knows.
func RulesAt(number int) Rules {
	for _, l := range Levels {
		if number <= l.Number {
			return l.Rules
		}
	}
	panic(fmt.Sprintf("store: level %d is not known", number))
}

// TickSpanRows is about how many rows the move of one span writes: up to three spans and their index rows. A tick ends
// when its moved spans and its written details add up to rules.CommandRows. Otherwise, if a hundred thousand leases
// ended together, the tick would delay the claims and completions after it. The remaining timers stay due, and the next
// tick continues with them. No position but the timer rows is stored.
const TickSpanRows = 8

const HourMs = 3_600_000

// Misdivided reports whether a cell has too many spans to be whole, or too few to be divided.
func (r *Rules) Misdivided(c *Cell) bool {
	if c.Divided {
		return r.Few(c.Spans)
	}
	return c.Spans > r.CellSpans && int(c.Key[OrderAt]) < len(CellLevels)-1
}

// Few reports whether a part of a lane has too few spans to be divided. The limit is a quarter of the number at which
// it is divided, so that it is not divided and joined again and again.
func (r *Rules) Few(spans int64) bool { return spans < max(1, r.CellSpans/4) }
