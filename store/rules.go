package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// rules are the numbers that what Apply decides depends on, at one level. Whatever is not of them is decided in the
// same way at every level that this program knows, or asks for the level first. A journal is applied by the rules of
// the level that its records raised, so that its records lead to the same rows whichever version of the program applies
// them.
//
// To change what Apply decides: add an entry to levels, with job.Level one more; where the change is not one of number,
// ask a.meta.level, and leave the old way in place for the old levels; keep the journals of the old levels in testdata
// as they are, and add one of the new level. TestRulesOfLevels and TestWhatLevelsDecide here, and TestGoldenJournal of
// package ingest, fail when a level that exists decides otherwise than it did.
type rules struct {
	// pageBytes is about the size of a payload page: large enough that a page costs little beside its bytes, small
	// enough that a single job's read is cheap.
	pageBytes int
	// groupPageBytes is the same for a page of groups, all of which are decoded when one is needed.
	groupPageBytes int
	// cellSpans is how many pending spans a lane, or a cell of it, has at most before it is divided.
	cellSpans int64
	// commandRows bounds the rows that a tick or the loss of a runner writes, or the first step of a sweep; claimRows those of a claim of many
	// small spans. queueRows is what each queue counts among these that a claim takes from, the first excepted: the queue is
	// placed anew in both trees of queues, and what it takes of the trees, of its lanes and of Pebble is in no cache yet.
	commandRows, claimRows, queueRows int
	// claimBytes bounds the attributes that a claim reads, as attributeReads counts them.
	claimBytes int
	// sweepRows bounds the step of a sweep within a tick, so that claims after it hardly wait.
	sweepRows int
	// purgedGroups is how many groups a batch has at most whose rows the command removes that purges its last line.
	purgedGroups int
	// effectBytes is the size of a segment of effects rows.
	effectBytes int64
	// effectRowBytes is the size at which a row of effects is full. It is small, because a commit writes the whole row.
	effectRowBytes int
	// listedClaims is how many open claims the row of a runner lists. The row is written with each claim anyway, and
	// most runners hold few claims at a time, so that they need no row for each.
	listedClaims int
	// sessions is how many may be open.
	sessions uint64
	// handlers is how many there may be, handlerVersions how many versions of each, and handlersBytes what the documents
	// of all versions may have.
	handlers, handlerVersions int
	handlersBytes             int64
	// Of prefer_distinct: distinctStep says when the levels of an index are arranged differently, see
	// distinctIndex.bestLevels; distinctRows bounds the first step of building it; distinctBytes is about what all indexes may
	// take in memory; distinctNodes is how many nodes a value may have whose active jobs count in the order; and
	// distinctLooks is how many spans a claim looks at where there is no such order.
	distinctStep, distinctRows, distinctBytes, distinctNodes, distinctLooks int
	// filesets is how many there may be, and filesetVersions how many versions of each.
	filesets, filesetVersions int
}

// level is a version of what Apply decides.
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

// levels are those that this program can apply, in order. Numbers below the first are of versions before the first
// release, which were kept by nobody: their records are applied by the rules of the first. So are records before the
// first that raises the level: a server appends that before all others, and level 0 is the level of a journal without
// one.
var levels = []level{
	{3, firstRules},
	{4, firstRules}, // adds commands for handlers, filesets and lost runners, and jobs that completions create, and keeps steps
}

// The newest level is the one that a server raises its journal to.
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

// tickSpanRows is about how many rows move a span: up to three spans and their index rows. A tick ends when those it
// moved and the details it wrote come to rules.commandRows, so that a hundred thousand leases that end together do not
// hold up the claims and completions after them. The rest is still due, and the next tick continues there: the timer
// rows are the position, and no other is kept.
const tickSpanRows = 8

const hourMs = 3_600_000
