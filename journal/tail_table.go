package journal

import "fmt"

// Verdict is the decision of a start about the tail of the journal.
type Verdict uint8

const (
	Accept  Verdict = iota // the whole journal is used
	Discard                // everything after the last intact record is removed; it was never acknowledged
	Refuse                 // the start fails: acknowledged records are missing, or this is not the right journal
)

func (v Verdict) String() string { return [...]string{"accept", "discard", "refuse"}[v] }

// finding is the complete input of the decision. A start makes one; see survey.go.
type finding struct {
	kind   kind
	file   string
	offset int64
	seq    uint64 // seq of the first record that is missing or damaged; last+1 when clean
	reason string

	// byRecord and byCursor are the highest seqs that are proven to have been durable.
	byRecord uint64 // by the `synced` of intact records, including those after the damage
	byCursor uint64 // by the store's cursor, because the store applies only durable commands
	complete bool   // a later volume exists; it was made after all records of this one were durable
	joined   bool   // the next segment begins with the expected record, so the damage is not a record
	after    int    // number of intact records after the damage
	first    uint64 // seq of the journal's oldest record
	unused   bool   // the last volume has no segment yet
}

// tailCase is one row of the tail table.
type tailCase struct {
	name     string
	evidence string // for the operator: the reason for this row's decision
	when     func(*finding) bool
	verdict  Verdict
	next     string // the operator's next step after a refusal; otherwise ""
}

// NextRestore is the operator's next step if durable records are damaged. The log of a node of a cluster has another one.
const NextRestore = "restore this file from a copy, or start from a backup; `daybook journal verify` shows which records are readable, and docs/reference/format-journal.md, under \"When a start is refused\", says how to give up the others"

const (
	nextUpgrade  = "start the version of Daybook that wrote the record, or a newer one"
	nextIdentity = "put the file identity of this journal, or the volumes that belong to it, back in place"
	nextPair     = "put the journal and the store that belong together back in place, or rebuild the store from a backup"
	nextSurplus  = "keep a copy of this file, and cut the file off at this offset: no record is missing"
	nextTidy     = "find out which program made this file, and move it away; Daybook does not make such files"
)

// damaged reports whether a power cut can have caused the finding.
func (f *finding) damaged() bool {
	return f.kind >= torn && f.kind <= gap && f.kind != newer && f.kind != salted
}

// is is the condition of rows that decide by the kind of the finding alone.
func is(k kind) func(*finding) bool { return func(f *finding) bool { return f.kind == k } }

// damagedAnd is the condition of rows that require damage and one more condition.
func damagedAnd(holds func(*finding) bool) func(*finding) bool {
	return func(f *finding) bool { return f.damaged() && holds(f) }
}

// tailTable is the complete decision. The first row whose condition holds decides. If no row applies, that is a bug, and
// decide panics. The rows that refuse a proven loss precede the rows that discard: no record is discarded while there is
// evidence that it was durable.
//
// All rows follow one rule. A group is one unsynced write of many records, and a power cut may keep any of its sectors
// and lose any other. So damage at seq s is the effect of a power cut on a group that was not acknowledged, unless some
// evidence proves that record s was durable.
//
// One window is left: an acknowledged group that no later record, mark or store cursor proves. If the disk loses that
// group although it confirmed the fsync, the start discards the group. While the server runs, this window lasts for the
// idle time before a mark.
//
// Every row has a subtest with its name in TestTail, and TestTailTableIsTested checks that none is missing.
var tailTable = []tailCase{
	{
		name:     "removed before the cursor",
		evidence: "the journal begins after cursor+1: the records between were deleted with their volume, and the store has not applied them",
		when:     func(f *finding) bool { return f.byCursor < f.first-1 },
		verdict:  Refuse, next: nextPair,
	},
	{
		name:     "left over from a truncation",
		evidence: "there is a .START or .END file; this journal never uses the truncation of tidwall/wal, whose Open would delete segments because of this file",
		when:     is(leftover),
		verdict:  Refuse, next: nextTidy,
	},
	{
		name:     "written by a newer version",
		evidence: "the checksum is right, but this program does not know the version in `v=`",
		when:     is(newer),
		verdict:  Refuse, next: nextUpgrade,
	},
	{
		name:     "of another journal",
		evidence: "the checksum of a record is right, and its salt is not that of the file identity",
		when:     is(salted),
		verdict:  Refuse, next: nextIdentity,
	},
	{
		name:     "segments overlap",
		evidence: "a segment begins at a seq that an earlier segment contains; a power cut cannot cause this",
		when:     is(overlap),
		verdict:  Refuse, next: nextTidy,
	},
	{
		name:     "volumes do not join",
		evidence: "a volume does not end where the next one begins, although it was complete and durable before the next one was made",
		when:     is(apart),
		verdict:  Refuse, next: NextRestore,
	},
	{
		name:     "bytes between segments",
		evidence: "the next segment begins with the record that must follow, and it was made after this file was complete and durable; a power cut cannot cause this",
		when:     damagedAnd(func(f *finding) bool { return f.joined }),
		verdict:  Refuse, next: nextSurplus,
	},
	{
		name:     "damage in a complete volume",
		evidence: "a later volume exists, so all records before it were durable",
		when:     damagedAnd(func(f *finding) bool { return f.complete }),
		verdict:  Refuse, next: NextRestore,
	},
	{
		name:     "proven by the store's cursor",
		evidence: "the store has applied the record that is damaged",
		when:     damagedAnd(func(f *finding) bool { return f.byCursor >= f.seq }),
		verdict:  Refuse, next: NextRestore,
	},
	{
		name:     "proven by a later record",
		evidence: "an intact record says that the damaged one was durable",
		when:     damagedAnd(func(f *finding) bool { return f.byRecord >= f.seq }),
		verdict:  Refuse, next: NextRestore,
	},
	{
		name:     "search given up",
		evidence: "the bytes after the damage contain so many beginnings of records that reading them all would take hours",
		when:     is(searchEnd),
		verdict:  Refuse, next: NextRestore,
	},
	{
		name:     "later sectors of an unanswered group",
		evidence: "the intact records after the damage are of the same unsynced write: none of them says that the damaged one was durable",
		when:     damagedAnd(func(f *finding) bool { return f.after > 0 }),
		verdict:  Discard,
	},
	{
		name:     "torn entry",
		evidence: "the file ends within an entry, and nothing proves that the entry was durable",
		when:     is(torn),
		verdict:  Discard,
	},
	{
		name:     "zero bytes",
		evidence: "a file ends with zero bytes that are no room, and nothing proves that there were records",
		when:     is(zeros),
		verdict:  Discard,
	},
	{
		name:     "room for records",
		evidence: "the last file ends with up to 160 KiB of zero bytes, which the server writes before the records that replace them, and nothing proves that there were records",
		when:     is(room),
		verdict:  Accept,
	},
	{
		name:     "garbled entry",
		evidence: "the length, form or checksum of an entry is wrong, and nothing proves that the entry was durable",
		when:     is(garbled),
		verdict:  Discard,
	},
	{
		name:     "record out of order",
		evidence: "an intact record is not the one that must follow here (an old sector), and nothing proves that another record was durable here",
		when:     is(disorder),
		verdict:  Discard,
	},
	{
		name:     "segment missing",
		evidence: "a segment of the last write is missing, and nothing proves that its records were durable",
		when:     is(gap),
		verdict:  Discard,
	},
	{
		name:     "cursor beyond the end",
		evidence: "every entry is intact, but the store has applied later records than the journal has",
		when:     func(f *finding) bool { return f.kind == clean && f.byCursor >= f.seq },
		verdict:  Refuse, next: nextPair,
	},
	{
		name:     "volume without a segment",
		evidence: "the directory of the last volume is empty: there was a crash while it was made, and all earlier records were durable by then",
		when:     func(f *finding) bool { return f.kind == clean && f.unused },
		verdict:  Accept,
	},
	{
		name:     "clean end",
		evidence: "every entry is intact",
		when:     is(clean),
		verdict:  Accept,
	},
}

// decide returns the first row that applies to f.
func decide(f *finding) *tailCase {
	for i := range tailTable {
		if c := &tailTable[i]; c.when(f) {
			return c
		}
	}
	panic(fmt.Sprintf("journal: no row of the tail table applies to %+v", *f))
}

// refusal returns the error of a refused start, or of a reader that has found damage.
func (c *tailCase) refusal(f *finding) error {
	if c.verdict == Refuse && f.kind == clean || f.byCursor < f.first-1 {
		return fmt.Errorf("%w: the store's cursor is %d, and the journal has the records %d to %d, up to file %s, offset %d (%s); next step: %s",
			ErrCursor, f.byCursor, f.first, f.seq-1, f.file, f.offset, c.evidence, c.next)
	}
	e := &CorruptError{File: f.file, Offset: f.offset, Seq: f.seq, Case: c.name, Verdict: c.verdict, Next: c.next}
	e.Reason = f.reason
	if c.verdict == Refuse {
		e.Reason += "; " + c.evidence
		if p := max(f.byRecord, f.byCursor); p >= f.seq {
			e.Reason += fmt.Sprintf("; all records up to seq %d were durable", p)
		}
	}
	if c.verdict == Discard {
		e.Next = "none: the next start discards the damaged records; no request was answered with them"
	}
	return e
}
