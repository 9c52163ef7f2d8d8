package journal

import "fmt"

// Verdict is what a start does about what it found.
type Verdict uint8

const (
	Accept  Verdict = iota // take everything
	Discard                // remove what follows the last intact record: no request was answered with it
	Refuse                 // do not start: something that was acknowledged is not there, or this is not the right journal
)

func (v Verdict) String() string { return [...]string{"accept", "discard", "refuse"}[v] }

// finding is everything the decision may look at. One is made per start; see survey.go for how.
type finding struct {
	kind   kind
	file   string
	offset int64
	seq    uint64 // first seq that is not there intact; last+1 when clean
	reason string

	// Evidence: the highest seq known to have been durable, by its proof.
	byRecord uint64 // `synced` of intact records, after the damage too
	byCursor uint64 // the store has applied it, and only durable commands are applied
	complete bool   // a later volume exists, made after everything before it was durable
	after    int    // intact records found after the damage
	first    uint64 // first seq the journal still holds
	unused   bool   // the last volume has no segment yet
}

// tailCase is one row of the tail table.
type tailCase struct {
	name     string
	evidence string // in words, for the reader
	when     func(*finding) bool
	verdict  Verdict
	next     string // the operator's next step; "" unless refused
}

const (
	nextRestore = "restore this file from a copy, or start from a backup; `daybook journal verify` shows what is readable, and docs/format-journal.md, under \"When a start is refused\", how to give up the rest on purpose"
	nextUpgrade = "start the Daybook version that wrote it, or a newer one"
	nextPair    = "put the journal and the store that belong together back in place, or rebuild the store from a backup"
	nextTidy    = "find out who put it there and move it away; Daybook made no such file"
)

func (f *finding) damaged() bool { return f.kind >= torn && f.kind <= gap && f.kind != newer }

// tailTable is the whole decision. The first row whose condition holds decides; a finding that no row takes is a bug
// and panics. Refusals of proven loss come before the rows that discard, so that nothing is discarded while evidence
// says that it had been durable.
//
// The rule of all rows: a group is one unsynced write of many records, and a power cut may keep any of its sectors and
// lose any other. So damage at seq s is what a power cut does to a group that nobody was answered for, unless some
// evidence proves that s had been durable. The one window left is an acknowledged group with nothing after it, neither
// a later record nor a mark nor the store's cursor: if the disk breaks its promise just there, the group is discarded
// as if it had never been acknowledged. While the server runs, that window is as long as the idle time before a mark.
//
// Every row has a subtest of its name in TestTail; TestTailTableIsTested holds the two together.
var tailTable = []tailCase{
	{
		name:     "removed before the cursor",
		evidence: "the journal begins after cursor+1: the records between have been deleted with their volume, and the store has not seen them",
		when:     func(f *finding) bool { return f.byCursor < f.first-1 },
		verdict:  Refuse, next: nextPair,
	},
	{
		name:     "left over from a truncation",
		evidence: "a .START or .END file; this journal never truncates by tidwall/wal, whose Open would delete segments because of it",
		when:     func(f *finding) bool { return f.kind == leftover },
		verdict:  Refuse, next: nextTidy,
	},
	{
		name:     "written by a newer version",
		evidence: "the checksum is right, and this program does not know the version in `v=`",
		when:     func(f *finding) bool { return f.kind == newer },
		verdict:  Refuse, next: nextUpgrade,
	},
	{
		name:     "segments overlap",
		evidence: "a segment's name is within what an earlier one holds; no power cut does that",
		when:     func(f *finding) bool { return f.kind == overlap },
		verdict:  Refuse, next: nextTidy,
	},
	{
		name:     "volumes do not join",
		evidence: "a volume was complete and durable before its successor was made, yet does not end where that begins",
		when:     func(f *finding) bool { return f.kind == apart },
		verdict:  Refuse, next: nextRestore,
	},
	{
		name:     "damage in a complete volume",
		evidence: "a later volume exists, so everything before it was durable",
		when:     func(f *finding) bool { return f.damaged() && f.complete },
		verdict:  Refuse, next: nextRestore,
	},
	{
		name:     "proven by the store's cursor",
		evidence: "the store has applied the record that is damaged",
		when:     func(f *finding) bool { return f.damaged() && f.byCursor >= f.seq },
		verdict:  Refuse, next: nextRestore,
	},
	{
		name:     "proven by a later record",
		evidence: "an intact record after the damage says that the damaged one was durable",
		when:     func(f *finding) bool { return f.damaged() && f.byRecord >= f.seq },
		verdict:  Refuse, next: nextRestore,
	},
	{
		name:     "search given up",
		evidence: "the bytes after the damage hold so many beginnings of records that reading them all would take hours",
		when:     func(f *finding) bool { return f.kind == searchEnd },
		verdict:  Refuse, next: nextRestore,
	},
	{
		name:     "later sectors of an unanswered group",
		evidence: "intact records after the damage, all of the same unsynced write: none says that the damaged one was durable",
		when:     func(f *finding) bool { return f.damaged() && f.after > 0 },
		verdict:  Discard,
	},
	{
		name:     "torn entry",
		evidence: "the file ends within an entry, nothing proves it",
		when:     func(f *finding) bool { return f.kind == torn },
		verdict:  Discard,
	},
	{
		name:     "zero bytes",
		evidence: "nothing but zeros up to the end, nothing proves more",
		when:     func(f *finding) bool { return f.kind == zeros },
		verdict:  Discard,
	},
	{
		name:     "garbled entry",
		evidence: "length, form or checksum is wrong, nothing proves it",
		when:     func(f *finding) bool { return f.kind == garbled },
		verdict:  Discard,
	},
	{
		name:     "record out of order",
		evidence: "intact, but not what follows its predecessor (a stale sector), nothing proves what should be there",
		when:     func(f *finding) bool { return f.kind == disorder },
		verdict:  Discard,
	},
	{
		name:     "segment missing",
		evidence: "a segment of the last write was lost, nothing proves it",
		when:     func(f *finding) bool { return f.kind == gap },
		verdict:  Discard,
	},
	{
		name:     "cursor beyond the end",
		evidence: "every entry is intact, but the store has applied more than there is",
		when:     func(f *finding) bool { return f.kind == clean && f.byCursor >= f.seq },
		verdict:  Refuse, next: nextPair,
	},
	{
		name:     "volume without a segment",
		evidence: "the last volume's directory is empty: a crash while it was made, after all before it was durable",
		when:     func(f *finding) bool { return f.kind == clean && f.unused },
		verdict:  Accept,
	},
	{
		name:     "clean end",
		evidence: "every entry is intact",
		when:     func(f *finding) bool { return f.kind == clean },
		verdict:  Accept,
	},
}

// decide finds the row that f falls under.
func decide(f *finding) *tailCase {
	for i := range tailTable {
		if c := &tailTable[i]; c.when(f) {
			return c
		}
	}
	panic(fmt.Sprintf("journal: no row of the tail table takes %+v", *f))
}

// refusal is the error of a refused start, or what a reader that met damage returns.
func (c *tailCase) refusal(f *finding) error {
	if c.verdict == Refuse && f.kind == clean || f.byCursor < f.first-1 {
		return fmt.Errorf("%w: its cursor is %d, the journal holds %d to %d, up to file %s, offset %d (%s); next step: %s",
			ErrCursor, f.byCursor, f.first, f.seq-1, f.file, f.offset, c.evidence, c.next)
	}
	e := &CorruptError{File: f.file, Offset: f.offset, Seq: f.seq, Case: c.name, Verdict: c.verdict, Next: c.next}
	e.Reason = f.reason
	if c.verdict == Refuse {
		e.Reason += "; " + c.evidence
		if p := max(f.byRecord, f.byCursor); p >= f.seq {
			e.Reason += fmt.Sprintf("; everything up to seq %d had been durable", p)
		}
	}
	if c.verdict == Discard {
		e.Next = "none: the next start discards it; no request was answered as stored"
	}
	return e
}
