package store

import (
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
)

// The values of the store's rows and their byte form: varints in the order in which the encoders below write them. The format
// as a whole has a version in the meta row.

// formatVersion is the version of keys and values. A store of a newer one is refused.
const formatVersion = 4

// meta is the one row that says how far the store has come.
type meta struct {
	version   int
	journal   string // the UUID of the journal this state was made from
	cursor    uint64 // seq of the last command applied
	at        int64  // its time
	level     int
	graceAt   int64 // leases run from here at the earliest
	nextQueue uint32
	stopped   bool   // no job is handed out
	served    string // the client that a fair claim served last
	// keys counts the idempotency keys of each generation, oldest first.
	keys []keyGeneration
	// epochs are those that began after epoch 0, in order; see epochs.go.
	epochs   []epoch
	sessions uint64 // how many are open
	// effects are the segments of effects rows, oldest first.
	effects []effectSegment
}

// span is a maximal range of lines of one group in the same state. Everything but its ends must be equal for two spans to
// merge, so that merging is invisible.
type span struct {
	first, last uint32
	state
}

// state is what the jobs of a span share.
type state struct {
	kept
	status   job.Status
	class    byte // of a waiting span: back or fresh
	code     job.Code
	exitCode uint16
	why      job.Why // of a terminal span
	attempts uint32
	order    uint64 // of a waiting fresh span: the seq that made it wait
	// claim is the seq of the claim that holds the span or, when it is not active, that ended its last run; 0: none.
	claim     uint64
	updatedAt int64
	at        int64 // run_at of a deferred span, end of the time-out of an active one, completed_at of a terminal one; else 0
}

// kept is the part of a state that stays when jobs move on.
type kept struct {
	priority    uint32 // what a patch made of the group's, and 1; 0: the group's
	maxAttempts uint32 // what a patch made of the group's; 0: the group's
	redrives    uint32
}

func (k *kept) priorityIn(g *group) uint32 {
	if k.priority > 0 {
		return k.priority - 1
	}
	return g.priority
}

func (k *kept) maxAttemptsIn(g *group) int {
	if k.maxAttempts > 0 {
		return int(k.maxAttempts)
	}
	return g.maxAttempts
}

// Classes of waiting jobs. Those that came back are served before fresh ones and keep the order of their ids.
const (
	back  = 0
	fresh = 1
)

// batch is the fixed part of a batch.
type batch struct {
	seq     uint64
	at      int64
	lines   uint32
	frame   job.Frame
	longest int
	groups  []group
	unique  bool // whether lines have unique keys
	uneven  bool // whether payloads differ in length, so that each page has a row of their sizes
	// pageEnds are the last lines of its pages, but for the last page. With them Apply finds pages without reading any: whether a page can
	// be read depends on a disk, and what Apply does must not.
	pageEnds []uint32
	batchCounts
	dirty bool // on the Store's list of that name
	gone  bool // purged as a whole
}

// batchCounts is the part of a batch that changes.
type batchCounts struct {
	counts  job.Counts
	details bool // whether any line ever had a detail row
}

// group is a job.Group as it is stored: its lines by their ends, its queue by number.
type group struct {
	first, last uint32
	queue       uint32
	kind        job.Kind
	priority    uint32
	runAt       int64
	maxAttempts int
	backoff     job.Backoff
	leaseMs     int64
	retentionMs int64
	expiresAt   int64
	timeoutMs   int64
	traceparent string
	meta        job.Meta
}

// claim is the fixed part of a claim and, in lease, what changes.
type claim struct {
	seq    uint64
	at     int64
	runner string
	runs   []Run // what it handed out
	lease
	closed          bool // holds nothing any more: neither timer nor place with its runner
	dirty, settling bool // on the Store's lists dirty and leases
}

// tickled is the last tickle that reached something, and how long it may go without another.
type tickled struct {
	tickledSeq uint64
	tickledAt  int64
	leaseMs    int64
}

// lease is the part of a claim that changes.
type lease struct {
	tickled
	timerAt   int64 // time of its timer row, at or before its deadline; 0: no timer row
	held      int   // active lines
	refs      int   // lines whose state names the claim
	overrides int   // lines with a lease of their own
	// cancelledAt is when lines that it held were last cancelled, for as long as a tickle of all that the runner holds should say so.
	cancelledAt int64
}

// override is the lease of one job that was tickled by itself.
type override struct {
	tickled
	timerAt int64
}

// reason says what moved lines.
type reason byte

const (
	created reason = iota + 1
	claimed
	ended
	abandoned
	due
	purged
	cancelled
	expired
	timedOut
	redriven
	started // by request, before its time
	patched
	deleted
	graced // its time-out was put off
)

func decodeID(d *decoder) (id job.ID) {
	copy(id[:], d.bytes())
	return id
}

func (m *meta) encode() []byte {
	var e encoder
	e.uint(uint64(m.version))
	e.text(m.journal)
	e.uint(m.cursor)
	e.int(m.at)
	e.uint(uint64(m.level))
	e.int(m.graceAt)
	e.uint(uint64(m.nextQueue))
	e.bool(m.stopped)
	e.text(m.served)
	e.uint(uint64(len(m.keys)))
	for _, g := range m.keys {
		e.uint(uint64(g.number))
		e.uint(g.keys)
	}
	e.uint(uint64(len(m.epochs)))
	for _, x := range m.epochs {
		e.uint(x.number)
		e.int(x.at)
	}
	e.uint(m.sessions)
	e.uint(uint64(len(m.effects)))
	for _, x := range m.effects {
		e.uint(x.first)
		e.int(x.at)
		e.int(x.bytes)
	}
	return e
}

func decodeMeta(value []byte) (m meta) {
	d := decoder(value)
	m.version = int(d.uint())
	m.journal = d.text()
	m.cursor = d.uint()
	m.at = d.int()
	m.level = int(d.uint())
	m.graceAt = d.int()
	m.nextQueue = uint32(d.uint())
	if m.version != formatVersion {
		return m // whoever opens it sees to that
	}
	m.stopped = d.bool()
	m.served = d.text()
	m.keys = make([]keyGeneration, d.count(2))
	for i := range m.keys {
		m.keys[i] = keyGeneration{uint32(d.uint()), d.uint()}
	}
	m.epochs = make([]epoch, d.count(2))
	for i := range m.epochs {
		m.epochs[i] = epoch{d.uint(), d.int()}
	}
	m.sessions = d.uint()
	m.effects = make([]effectSegment, d.count(3))
	for i := range m.effects {
		m.effects[i] = effectSegment{d.uint(), d.int(), d.int()}
	}
	return m
}

// encode leaves out last, which is in the key.
func (s *span) encode() []byte {
	e := make(encoder, 0, 48)
	e.uint(uint64(s.first))
	e.uint(uint64(s.status))
	e.uint(uint64(s.class))
	e.uint(uint64(s.code))
	e.uint(uint64(s.exitCode))
	e.uint(uint64(s.why))
	e.uint(uint64(s.kept.priority))
	e.uint(uint64(s.kept.maxAttempts))
	e.uint(uint64(s.kept.redrives))
	e.uint(uint64(s.attempts))
	e.uint(s.order)
	e.uint(s.claim)
	e.int(s.updatedAt)
	e.int(s.at)
	return e
}

func decodeSpan(last uint32, value []byte) (s span) {
	d := decoder(value)
	s.first, s.last = uint32(d.uint()), last
	s.status = job.Status(d.uint())
	s.class = byte(d.uint())
	s.code = job.Code(d.uint())
	s.exitCode = uint16(d.uint())
	s.why = job.Why(d.uint())
	s.kept = kept{uint32(d.uint()), uint32(d.uint()), uint32(d.uint())}
	s.attempts = uint32(d.uint())
	s.order = d.uint()
	s.claim = d.uint()
	s.updatedAt = d.int()
	s.at = d.int()
	return s
}

func (b *batch) encode() []byte {
	e := make(encoder, 0, 64)
	e.int(b.at)
	e.uint(uint64(b.lines))
	e.uint(uint64(b.frame))
	e.uint(uint64(b.longest))
	e.bool(b.unique)
	e.bool(b.uneven)
	e.uint(uint64(len(b.groups)))
	for i := range b.groups {
		g := &b.groups[i]
		g.encode(&e)
	}
	e.uint(uint64(len(b.pageEnds)))
	for _, line := range b.pageEnds {
		e.uint(uint64(line))
	}
	return e
}

// encode leaves out first, which follows from the group before.
func (g *group) encode(e *encoder) {
	e.uint(uint64(g.last))
	e.uint(uint64(g.queue))
	e.uint(uint64(g.kind))
	e.uint(uint64(g.priority))
	e.int(g.runAt)
	e.uint(uint64(g.maxAttempts))
	e.int(g.backoff.InitialMs)
	e.int(g.backoff.FactorMilli)
	e.int(g.backoff.MaxMs)
	e.int(g.leaseMs)
	e.int(g.retentionMs)
	e.int(g.expiresAt)
	e.int(g.timeoutMs)
	e.text(g.traceparent)
	e.text(string(g.meta))
}

// groupBytes is the least that a group takes.
const groupBytes = 15

func decodeGroup(d *decoder) group {
	return group{
		last: uint32(d.uint()), queue: uint32(d.uint()), kind: job.Kind(d.uint()), priority: uint32(d.uint()), runAt: d.int(),
		maxAttempts: int(d.uint()), backoff: job.Backoff{InitialMs: d.int(), FactorMilli: d.int(), MaxMs: d.int()},
		leaseMs: d.int(), retentionMs: d.int(), expiresAt: d.int(), timeoutMs: d.int(), traceparent: d.text(), meta: job.Meta(d.text()),
	}
}

// decodeBatch refuses groups that do not tile the lines: what looks a line's group up relies on there being one.
func decodeBatch(seq uint64, value []byte) *batch {
	d := decoder(value)
	b := &batch{seq: seq, at: d.int(), lines: uint32(d.uint()), frame: job.Frame(d.uint()), longest: int(d.uint()), unique: d.bool(), uneven: d.bool()}
	b.groups = make([]group, d.count(groupBytes))
	first := uint32(0)
	for i := range b.groups {
		b.groups[i] = decodeGroup(&d)
		g := &b.groups[i]
		g.first = first
		if g.first > g.last || g.last >= b.lines {
			contradict("decode", "group %d has lines %d-%d of %d", i, g.first, g.last, b.lines)
		}
		first = g.last + 1
	}
	if first != b.lines || first == 0 {
		contradict("decode", "%d lines are not those of its %d groups", b.lines, len(b.groups))
	}
	if n := d.count(1); n > 0 {
		b.pageEnds = make([]uint32, n)
	}
	for i := range b.pageEnds {
		b.pageEnds[i] = uint32(d.uint())
		if line := b.pageEnds[i]; line+1 >= b.lines || i > 0 && line <= b.pageEnds[i-1] {
			contradict("decode", "page %d of a batch of %d lines ends at line %d", i, b.lines, line)
		}
	}
	return b
}

func encodeCounts(e *encoder, counts *job.Counts) {
	for _, n := range counts[1:] {
		e.uint(uint64(n))
	}
}

func decodeCounts(d *decoder) (counts job.Counts) {
	for i := range counts[1:] {
		counts[i+1] = int64(d.uint())
	}
	return counts
}

func (b *batchCounts) encode() []byte {
	e := make(encoder, 0, 16)
	encodeCounts(&e, &b.counts)
	e.bool(b.details)
	return e
}

func decodeBatchCounts(value []byte) (b batchCounts) {
	d := decoder(value)
	b.counts = decodeCounts(&d)
	b.details = d.bool()
	return b
}

func encodeRuns(e *encoder, runs []Run) {
	e.uint(uint64(len(runs)))
	for _, r := range runs {
		e.uint(r.Batch)
		e.uint(uint64(r.First))
		e.uint(uint64(r.Last))
	}
}

func decodeRuns(d *decoder) []Run {
	runs := make([]Run, d.count(3))
	for i := range runs {
		runs[i] = Run{Batch: d.uint(), First: uint32(d.uint()), Last: uint32(d.uint())}
	}
	return runs
}

func (c *claim) encode() []byte {
	e := make(encoder, 0, 64)
	e.int(c.at)
	e.text(c.runner)
	encodeRuns(&e, c.runs)
	return e
}

func decodeClaim(seq uint64, value []byte) *claim {
	d := decoder(value)
	return &claim{seq: seq, at: d.int(), runner: d.text(), runs: decodeRuns(&d)}
}

func (t *tickled) encode(e *encoder) {
	e.uint(t.tickledSeq)
	e.int(t.tickledAt)
	e.int(t.leaseMs)
}

func decodeTickled(d *decoder) tickled {
	return tickled{tickledSeq: d.uint(), tickledAt: d.int(), leaseMs: d.int()}
}

func (l *lease) encode() []byte {
	e := make(encoder, 0, 32)
	l.tickled.encode(&e)
	e.int(l.timerAt)
	e.uint(uint64(l.held))
	e.uint(uint64(l.refs))
	e.uint(uint64(l.overrides))
	e.int(l.cancelledAt)
	return e
}

func decodeLease(value []byte) (l lease) {
	d := decoder(value)
	l.tickled = decodeTickled(&d)
	l.timerAt = d.int()
	l.held = int(d.uint())
	l.refs = int(d.uint())
	l.overrides = int(d.uint())
	l.cancelledAt = d.int()
	return l
}

func (o *override) encode() []byte {
	e := make(encoder, 0, 24)
	o.tickled.encode(&e)
	e.int(o.timerAt)
	return e
}

func decodeOverride(value []byte) override {
	d := decoder(value)
	return override{tickled: decodeTickled(&d), timerAt: d.int()}
}

func encodeAttempt(a *job.Attempt) []byte {
	e := make(encoder, 0, 32+len(a.Runner)+len(a.Error))
	e.int(a.At)
	e.text(a.Runner)
	e.uint(uint64(a.Code))
	e.uint(uint64(a.ExitCode))
	e.text(a.Error)
	e.uint(uint64(a.Why))
	return e
}

func decodeAttempt(value []byte) job.Attempt {
	d := decoder(value)
	return job.Attempt{At: d.int(), Runner: d.text(), Code: job.Code(d.uint()), ExitCode: int(d.uint()), Error: d.text(), Why: job.Why(d.uint())}
}

// decodeAttemptBrief is decodeAttempt with no more than the first most bytes of the error, cut where a character begins. It copies no more.
func decodeAttemptBrief(value []byte, most int) job.Attempt {
	d := decoder(value)
	a := job.Attempt{At: d.int(), Runner: d.text(), Code: job.Code(d.uint()), ExitCode: int(d.uint())}
	text := d.bytes()
	if len(text) > most {
		for ; most > 0 && !utf8.RuneStart(text[most]); most-- {
		}
		text = text[:most]
	}
	a.Error, a.Why = string(text), job.Why(d.uint())
	return a
}

// Result and progress rows begin with the claim under which they were told: under another they are not shown, so that a new
// run needs no row cleared.
func encodeResult(claim uint64, r *job.Result) []byte {
	var e encoder
	e.uint(claim)
	e.bool(r.ProcessExit != nil)
	if r.ProcessExit != nil {
		e.int(*r.ProcessExit)
	}
	e.text(r.OutputAddr)
	e.uint(uint64(r.OutputKind))
	e.bytes(r.Output)
	return e
}

func decodeResult(value []byte) (claim uint64, r job.Result) {
	d := decoder(value)
	claim = d.uint()
	if d.bool() {
		n := d.int()
		r.ProcessExit = &n
	}
	r.OutputAddr = d.text()
	r.OutputKind = job.Kind(d.uint())
	r.Output = append([]byte{}, d.bytes()...)
	return claim, r
}

func encodeProgress(claim uint64, step string, progress int64) []byte {
	var e encoder
	e.uint(claim)
	e.text(step)
	e.int(progress)
	return e
}

func decodeProgress(value []byte) (claim uint64, step string, progress int64) {
	d := decoder(value)
	return d.uint(), d.text(), d.int()
}

func encodeEffects(at int64, effects []effect) []byte {
	e := make(encoder, 0, 32)
	e.int(at)
	for _, x := range effects {
		e.uint(x.run.Batch)
		e.uint(uint64(x.run.First))
		e.uint(uint64(x.run.Last))
		e.uint(uint64(x.from))
		e.uint(uint64(x.to))
		e.uint(uint64(x.reason))
	}
	return e
}
