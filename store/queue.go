package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// queue is the pair (client, type). All queues are in memory: what a claim needs to choose among them, and their
// counters.
type queue struct {
	queueName
	windows   *lsm.Windows // that its lanes share
	id        uint32
	paused    bool
	createdAt int64
	idleAt    int64 // since when it has had neither jobs nor settings, unix ms; 0: it has
	counts    job.Counts
	jobs      int64   // the sum of counts
	lanes     []*lane // in order of service
	queueOrder
	// As of the last commit, for queries: its document, zero before the first, and its head.
	shown     Queue
	shownHead string
	queueMarks
	// Of metrics: its row, which may have been given to another queue since, and its moves without one.
	tally   *tally
	unrowed activity
}

// queueMarks note that a queue is on the lists of these names, of the machine or of the command that is applied.
type queueMarks struct {
	dirty, moved, readied bool
	gone                  bool // deleted
}

// queueOrder is the place of a queue among those that have something to hand out.
type queueOrder struct {
	head string // ready key of the span next in line; "" if none is pending
	// The ranks under which the queue is in the indexes; "": it is not.
	rank, tailRank string
	// tailKnown: tailRank is that of the span that Newest takes from. Otherwise it may be that of a span before or
	// after it that is gone: no span of the queue has a later one.
	tailKnown bool
	samples   []sample // what the sampling trees count of it
}

// lane is the waiting line of one priority and class of a queue.
type lane struct {
	laneID
	pending int64 // jobs
	spans   int64 // pending ones
	divided bool  // into cells
	// newest is the greatest ready key that the lane has had since it was empty: no key of it is greater.
	newest string
	window lsm.Window
	tail   *lsm.Window // from the end, when Newest has taken from here
}

func compareLanes(a, b *lane) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.class, b.class))
}

// lane returns the lane of a priority and class; a new one is known to be empty.
func (q *queue) lane(id laneID) *lane {
	want := &lane{laneID: id}
	at, found := slices.BinarySearchFunc(q.lanes, want, compareLanes)
	if !found {
		from := laneKey(q.id, id)
		want.window = lsm.NewWindow(q.windows, from, lsm.After(from))
		q.lanes = slices.Insert(q.lanes, at, want)
	}
	return q.lanes[at]
}

// insert and remove report that the lane has a span more, or less.
func (l *lane) insert(key string) {
	l.newest = max(l.newest, key)
	l.window.Insert(key)
	if l.tail != nil {
		l.tail.Insert(key)
	}
}

func (l *lane) remove(key string) {
	l.window.Remove(key)
	if l.tail != nil {
		l.tail.Remove(key)
	}
}

// first returns the ready key of the span next in line.
func (q *queue) first(o *lsm.Overlay) string {
	for _, l := range q.lanes {
		if key := l.window.First(o); key != "" {
			return key
		}
	}
	return ""
}

// last returns the lane that Newest takes from: of the highest priority, that of fresh jobs before that of those that
// came back.
func (q *queue) last() (last *lane) {
	for _, l := range q.lanes {
		if l.pending > 0 && (last == nil || last.priority == l.priority) {
			last = l
		}
	}
	return last
}

// findTail returns the ready key of the span that Newest takes from.
func (q *queue) findTail(o *lsm.Overlay) string { return q.last().last(o) }

// last returns the last ready key of a lane that has some.
func (l *lane) last(o *lsm.Overlay) string {
	if l.tail == nil {
		w := lsm.DownWindow(l.window.Windows(), l.window.From(), l.window.To())
		l.tail = &w
	}
	return l.tail.First(o)
}

// nextSpans appends the ends of up to n pending spans of the highest priority to ends: those that are next in line, or those
// that Newest takes next.
func (q *queue) nextSpans(o *lsm.Overlay, newest bool, n int, ends []position) []position {
	var lanes []*lane
	for _, l := range q.lanes {
		if l.pending > 0 && (len(lanes) == 0 || lanes[0].priority == l.priority) {
			lanes = append(lanes, l)
		}
	}
	if newest {
		slices.Reverse(lanes)
	}
	for _, l := range lanes {
		take := func(key string, _ []byte) bool {
			_, _, end := splitReadyKey(key)
			ends = append(ends, end)
			n--
			return n > 0
		}
		if n == 0 {
			break
		}
		if newest {
			o.ScanDown(l.window.From(), l.last(o)+"\x00", take)
		} else {
			o.Scan(l.window.First(o), l.window.To(), take)
		}
	}
	return ends
}

// guessTail returns what findTail does when that is known without a look at the database, and otherwise a key that is
// not before it.
func (q *queue) guessTail() (key string, known bool) {
	l := q.last()
	if l.tail != nil && len(l.tail.Known()) > 0 {
		return l.tail.Known()[0], true
	}
	return l.newest, false
}

func (q *queue) encode() []byte {
	e := make(lsm.Encoder, 0, 96)
	e.Text(q.client)
	e.Text(q.typ)
	e.Bool(q.paused)
	e.Int(q.createdAt)
	e.Int(q.idleAt)
	encodeCounts(&e, &q.counts)
	for _, l := range q.lanes {
		if l.pending > 0 {
			e.Uint(uint64(l.priority))
			e.Uint(uint64(l.class))
			e.Uint(uint64(l.pending))
			e.Uint(uint64(l.spans))
			e.Bool(l.divided)
			encodeReady(&e, l.newest)
		}
	}
	if q.head != "" { // of the first of these lanes, so that a start need not look for it
		encodeReady(&e, q.head)
	}
	return e
}

// encodeReady encodes what follows the lane in a ready key.
func encodeReady(e *lsm.Encoder, key string) {
	e.Uint(lsm.U64At(key, orderAt))
	e.Uint(lsm.U64At(key, seqAt))
	e.Uint(uint64(lsm.U32At(key, lastAt)))
}

func decodeReady(d *lsm.Decoder, lane string) string {
	k := lsm.KeyBuilder(lane)
	k.U64(d.Uint())
	k.U64(d.Uint())
	k.U32(uint32(d.Uint()))
	return string(k)
}

func decodeQueue(id uint32, value []byte, windows *lsm.Windows) *queue {
	d := lsm.Decoder(value)
	q := &queue{windows: windows, id: id, queueName: queueName{d.Text(), d.Text()}, paused: d.Bool(), createdAt: d.Int(), idleAt: d.Int()}
	q.counts = decodeCounts(&d)
	q.jobs = q.counts.Total()
	for left := q.counts[job.Pending]; left > 0; {
		l := &lane{laneID: laneID{uint32(d.Uint()), job.Class(d.Uint())}, pending: int64(d.Uint()), spans: int64(d.Uint()), divided: d.Bool()}
		from := laneKey(id, l.laneID)
		l.newest = decodeReady(&d, from)
		l.window = lsm.StoredWindow(windows, from, lsm.After(from))
		if l.pending == 0 || left < l.pending {
			lsm.Contradict("decode", "lanes of other than %d pending jobs", q.counts[job.Pending])
		}
		left -= l.pending
		q.lanes = append(q.lanes, l)
	}
	if len(q.lanes) > 0 {
		first := q.lanes[0]
		q.head = decodeReady(&d, first.window.From())
		first.window.Begin(q.head)
	}
	return q
}

// configured reports whether a setting of the queue differs from the default. Such a queue is not idle even without
// jobs.
func (q *queue) configured() bool { return q.paused }

// decodeQueueName reads of a queue's row only its name, which comes first.
func decodeQueueName(value []byte) queueName {
	d := lsm.Decoder(value)
	return queueName{d.Text(), d.Text()}
}

// committed reports whether a commit has written the queue.
func (q *queue) committed() bool { return q.shown != Queue{} }

// show lets queries see the queue as it is now.
func (q *queue) show() {
	q.shownHead = q.head
	q.shown = Queue{Client: q.client, Type: q.typ, Paused: q.paused, CreatedAt: q.createdAt, Counts: q.counts}
}

// unfinished returns how many jobs of the queue have not ended.
func (q *queue) unfinished() int64 {
	return q.counts[job.Deferred] + q.counts[job.Pending] + q.counts[job.Active]
}

// floors calls add for each lane with pending jobs, with a ready key that is not after its first one.
func (q *queue) floors(add func(key string)) {
	for _, l := range q.lanes {
		if l.pending > 0 {
			add(l.window.Floor())
		}
	}
}

// sample is the jobs of one priority that a queue has to hand out.
type sample struct {
	client, typ string
	priority    uint32
	queue       *queue
	jobs        int64
}

// choice is the queues that a claim allows: those of some clients, of some types, or of both (no names: all).
type choice struct {
	clients, types []string
	pairs          []*queue // when both are named: those that exist
}
