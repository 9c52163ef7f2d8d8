package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// rules are the numbers, of one level, that Apply's decisions depend on. Every other decision is the same at all levels
// that this program knows, or checks the level first. Apply uses the rules of the level that the journal's records
// raised. So a record leads to the same rows whichever version of the program applies it.
//
// To change a decision of Apply: add an entry to levels, and raise job.Level by one. If the change is not one of a
// number, check a.meta.level, and keep the old way for the old levels. Keep the journals of the old levels in testdata
// as they are, and add one of the new level. TestRulesOfLevels and TestWhatLevelsDecide here, and TestGoldenJournal of
// package ingest, fail if an existing level decides differently than before.
type rules struct {
	// pageBytes is about the size of a payload page: large enough that a page costs little beside its bytes, small
	// enough that a single job's read is cheap.
	pageBytes int
	// groupPageBytes is about the size of a page of groups. A lookup of one group decodes its whole page.
	groupPageBytes int
	// cellSpans is how many pending spans a lane, or a cell of it, may have before it is divided.
	cellSpans int64
	// commandRows bounds the rows that one command writes: a tick, the loss of a runner, or the first step of a sweep.
	// claimRows bounds the rows of a claim of many small spans. Each queue that the claim takes from, except the first,
	// counts as queueRows of these rows: the claim moves the queue in both trees of queues, and the parts it needs of
	// the trees, of its lanes and of Pebble are in no cache yet.
	commandRows, claimRows, queueRows int
	// claimBytes bounds the attributes that a claim reads; see attributeReads.
	claimBytes int
	// sweepRows bounds one step of a sweep within a tick, so that claims after it are hardly delayed.
	sweepRows int
	// If a batch has at most purgedGroups groups, the command that purges its last line also removes their rows.
	purgedGroups int
	// effectBytes is the size of a segment of effects rows.
	effectBytes int64
	// effectRowBytes is the size at which a row of effects is full. It is small, because a commit writes the whole row
	// again.
	effectRowBytes int
	// listedClaims is how many open claims a runner's row lists. Each claim writes this row anyway. Most runners hold
	// few claims at a time, so a separate row for each claim is seldom needed.
	listedClaims int
	// sessions is how many sessions may be open.
	sessions uint64
	// handlers bounds the number of handlers, handlerVersions the versions of each, and handlersBytes the total size of
	// the documents of all versions.
	handlers, handlerVersions int
	handlersBytes             int64
	// Bounds of prefer_distinct. distinctStep says when the levels of an index are rearranged, see
	// distinctIndex.bestLevels. distinctRows bounds the first step of building an index. All indexes together may take
	// about distinctBytes of memory. A value's active jobs count in the order only if the value has at most
	// distinctNodes nodes. A claim without an order looks at distinctLooks spans.
	distinctStep, distinctRows, distinctBytes, distinctNodes, distinctLooks int
	// filesets bounds the number of filesets, and filesetVersions the versions of each.
	filesets, filesetVersions int
}

// level is a version of the decisions of Apply.
type level struct {
	number int
	rules  rules
}

var firstRules = rules{
	pageBytes: 64 << 10, groupPageBytes: 4 << 10, cellSpans: 512, commandRows: 1000, claimRows: 4200, queueRows: 50, claimBytes: 1 << 20, sweepRows: 200, purgedGroups: 8, effectBytes: 64 << 20, effectRowBytes: 1 << 10,
	listedClaims: 8, sessions: job.MaxSessions, handlers: job.MaxHandlers, handlerVersions: job.MaxHandlerVersions, handlersBytes: job.MaxHandlersBytes,
	distinctStep: 16, distinctRows: 1000, distinctBytes: 128 << 20, distinctNodes: 16, distinctLooks: 256,
	filesets: job.MaxFilesets, filesetVersions: job.MaxFilesetVersions,
}

// levels are the levels that this program can apply, in order. Nobody kept a journal of the lower levels, which only
// versions before the first release wrote, so the first rules apply to their records. The first rules also apply to the
// records before the one that first raises the level. A server appends that record before all others; level 0 is the
// level of a journal without it.
var levels = []level{
	{3, firstRules},
	{4, firstRules}, // adds commands for handlers, filesets and lost runners, and jobs that completions create, and keeps steps
}

// The newest level must be job.Level, to which a server raises its journal.
func init() {
	if newest := levels[len(levels)-1].number; newest != job.Level {
		panic(fmt.Sprintf("store: the newest level is %d, and job.Level %d", newest, job.Level))
	}
}

// rulesAt returns the rules of a level that this program knows.
func rulesAt(number int) rules {
	for _, l := range levels {
		if number <= l.number {
			return l.rules
		}
	}
	panic(fmt.Sprintf("store: level %d is not known", number))
}

// tickSpanRows is about how many rows the move of one span writes: up to three spans and their index rows. A tick ends
// when its moved spans and its written details add up to rules.commandRows. Otherwise a hundred thousand leases that end
// together would hold up the claims and completions after them. The remaining timers stay due, and the next tick
// continues with them. No position but the timer rows is stored.
const tickSpanRows = 8

const hourMs = 3_600_000

// misdivided reports whether a cell has too many spans to be whole, or too few to be divided.
func (r *rules) misdivided(c *cell) bool {
	if c.divided {
		return r.few(c.spans)
	}
	return c.spans > r.cellSpans && int(c.key[orderAt]) < len(cellLevels)-1
}

// few reports whether a part of a lane has too few spans to be divided. The limit is a quarter of the number at which
// it is divided, so that it is not divided and joined again and again.
func (r *rules) few(spans int64) bool { return spans < max(1, r.cellSpans/4) }
