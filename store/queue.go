package store

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
)

// queue is the pair (client, type). All queues are in memory: what a claim needs to choose among them, and their counters.
type queue struct {
	windows     *windows // that its lanes share
	id          uint32
	client, typ string
	paused      bool
	createdAt   int64
	idleAt      int64 // since when it has had neither jobs nor settings; 0: it has
	counts      job.Counts
	jobs        int64   // the sum of counts
	lanes       []*lane // in order of service
	head        string  // ready key of the span next in line; "" when none is pending
	// Under which the queue stands in the indexes; "" when it does not.
	rank, tailRank string
	// tailKnown: tailRank is that of the span that Newest takes from. Otherwise it may be that of one that came before or after it and is gone: no
	// span there is has a later one.
	tailKnown bool
	samples   []sample // what the Store's samples count of it
	// As of the last commit, for queries: its document, zero before the first, and its head.
	shown     Queue
	shownHead string
	// On the lists of that name in the Store.
	dirty, moved, readied bool
	gone                  bool // deleted
}

// lane is the waiting line of one priority and class of a queue.
type lane struct {
	laneID
	pending int64 // jobs
	spans   int64 // pending ones
	divided bool  // into cells
	// newest is the greatest ready key that the lane has had since it was empty: no key of it is greater.
	newest string
	window window
	tail   *window // from the end, when Newest has taken from here
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
		want.window = newWindow(q.windows, from, after(from))
		q.lanes = slices.Insert(q.lanes, at, want)
	}
	return q.lanes[at]
}

// insert and remove report that the lane has a span more, or less.
func (l *lane) insert(key string) {
	l.newest = max(l.newest, key)
	l.window.insert(key)
	if l.tail != nil {
		l.tail.insert(key)
	}
}

func (l *lane) remove(key string) {
	l.window.remove(key)
	if l.tail != nil {
		l.tail.remove(key)
	}
}

// first returns the ready key of the span next in line.
func (q *queue) first(o *overlay) string {
	for _, l := range q.lanes {
		if key := l.window.first(o); key != "" {
			return key
		}
	}
	return ""
}

// last returns the lane that Newest takes from: of the highest priority, that of fresh jobs before that of those that came back.
func (q *queue) last() (last *lane) {
	for _, l := range q.lanes {
		if l.pending > 0 && (last == nil || last.priority == l.priority) {
			last = l
		}
	}
	return last
}

// findTail returns the ready key of the span that Newest takes from.
func (q *queue) findTail(o *overlay) string {
	l := q.last()
	if l.tail == nil {
		w := downWindow(q.windows, l.window.from, l.window.to)
		l.tail = &w
	}
	return l.tail.first(o)
}

// guessTail returns what findTail does when that is known without a look at the database, and otherwise a key that is not before it.
func (q *queue) guessTail() (key string, known bool) {
	l := q.last()
	if l.tail != nil && len(l.tail.keys) > 0 {
		return l.tail.keys[0], true
	}
	return l.newest, false
}

func (q *queue) encode() []byte {
	e := make(encoder, 0, 96)
	e.text(q.client)
	e.text(q.typ)
	e.bool(q.paused)
	e.int(q.createdAt)
	e.int(q.idleAt)
	encodeCounts(&e, &q.counts)
	for _, l := range q.lanes {
		if l.pending > 0 {
			e.uint(uint64(l.priority))
			e.uint(uint64(l.class))
			e.uint(uint64(l.pending))
			e.uint(uint64(l.spans))
			e.bool(l.divided)
			e.ready(l.newest)
		}
	}
	if q.head != "" { // of the first of these lanes, so that a start need not look for it
		e.ready(q.head)
	}
	return e
}

// ready encodes what follows the lane in a ready key.
func (e *encoder) ready(key string) {
	e.uint(u64At(key, orderAt))
	e.uint(u64At(key, seqAt))
	e.uint(uint64(u32At(key, lastAt)))
}

func (d *decoder) ready(lane string) string {
	k := keyBuilder(lane)
	k.u64(d.uint())
	k.u64(d.uint())
	k.u32(uint32(d.uint()))
	return string(k)
}

func decodeQueue(id uint32, value []byte, windows *windows) *queue {
	d := decoder(value)
	q := &queue{windows: windows, id: id, client: d.text(), typ: d.text(), paused: d.bool(), createdAt: d.int(), idleAt: d.int()}
	q.counts = decodeCounts(&d)
	q.jobs = q.counts.Total()
	for left := q.counts[job.Pending]; left > 0; {
		l := &lane{laneID: laneID{uint32(d.uint()), job.Class(d.uint())}, pending: int64(d.uint()), spans: int64(d.uint()), divided: d.bool()}
		from := laneKey(id, l.laneID)
		l.newest = d.ready(from)
		l.window = storedWindow(windows, from, after(from))
		if l.pending == 0 || left < l.pending {
			contradict("decode", "lanes of other than %d pending jobs", q.counts[job.Pending])
		}
		left -= l.pending
		q.lanes = append(q.lanes, l)
	}
	if len(q.lanes) > 0 {
		first := q.lanes[0]
		q.head = d.ready(first.window.from)
		first.window.bound = q.head
	}
	return q
}

type queueName struct{ client, typ string }

// queues finds queues by name and number, and the one that a claim takes from next.
type queues struct {
	byID   map[uint32]*queue
	byName map[queueName]*queue
	names  *queueSet // by client and type
	idle   idleQueues

	// The queues that have something to hand out, as the strategies look for them.
	heads   *index // by the rank of what is next in line
	tails   *index // by the rank of what became pending last
	samples *samples
}

type queueSet = btree.BTreeG[*queue]

func newQueueSet(less func(a, b *queue) bool) *queueSet {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16})
}

func lessName(a, b *queue) bool { return a.client < b.client || a.client == b.client && a.typ < b.typ }

// lessRank puts the queue first whose head is next in line.
func lessRank(a, b *queue) bool { return a.rank < b.rank }

// lessTail puts the queue first that has the newest job of the highest priority.
func lessTail(a, b *queue) bool {
	if p, o := priorityOfRank(a.tailRank), priorityOfRank(b.tailRank); p != o {
		return p < o
	}
	return a.tailRank > b.tailRank
}

// index orders queues as a whole, by client and by type, so that a hundred thousand of them cost a claim no more than ten.
type index struct {
	less                  func(a, b *queue) bool
	all, byClient, byType *queueSet
	first                 queue // comes before all others in the order of less
}

func newIndex(less func(a, b *queue) bool, first queue) *index {
	return &index{
		less: less, first: first, all: newQueueSet(less),
		byClient: newQueueSet(func(a, b *queue) bool { return a.client < b.client || a.client == b.client && less(a, b) }),
		byType:   newQueueSet(func(a, b *queue) bool { return a.typ < b.typ || a.typ == b.typ && less(a, b) }),
	}
}

func (x *index) insert(q *queue) {
	x.all.Set(q)
	x.byClient.Set(q)
	x.byType.Set(q)
}

func (x *index) remove(q *queue) {
	x.all.Delete(q)
	x.byClient.Delete(q)
	x.byType.Delete(q)
}

// ofClient and ofType return the first queue of a client or type, or nil.
func (x *index) ofClient(client string) (first *queue) {
	from := x.first
	from.client = client
	x.byClient.Ascend(&from, func(q *queue) bool { first = q; return false })
	if first != nil && first.client != client {
		return nil
	}
	return first
}

func (x *index) ofType(typ string) (first *queue) {
	from := x.first
	from.typ = typ
	x.byType.Ascend(&from, func(q *queue) bool { first = q; return false })
	if first != nil && first.typ != typ {
		return nil
	}
	return first
}

func newQueues() queues {
	return queues{
		byID: map[uint32]*queue{}, byName: map[queueName]*queue{}, names: newQueueSet(lessName), idle: newIdleQueues(), samples: newSamples(),
		heads: newIndex(lessRank, queue{}),
		tails: newIndex(lessTail, queue{tailRank: "\x00\x00\x00\x00\xff\xff"}), // no class is 0xff
	}
}

func (qs *queues) add(q *queue) {
	qs.byID[q.id] = q
	qs.byName[queueName{q.client, q.typ}] = q
	qs.names.Set(q)
}

// page returns up to limit of the queues that are to be kept, after a pair in the order of client and type, of one client or, with "", of all.
func (qs *queues) page(client, afterClient, afterType string, limit int, keep func(q *queue) bool) (page []*queue) {
	from := &queue{client: afterClient, typ: afterType}
	if from.client < client {
		from = &queue{client: client}
	}
	qs.names.Ascend(from, func(q *queue) bool {
		if client != "" && q.client != client {
			return false
		}
		if (q.client != afterClient || q.typ != afterType) && keep(q) {
			page = append(page, q)
		}
		return len(page) < limit
	})
	return page
}

// place puts q where it belongs among the ready queues, after its head or its pending jobs may have changed.
func (qs *queues) place(q *queue, o *overlay) {
	q.head = q.first(o)
	qs.rank(q)
}

// rank is place for a queue whose head is known.
func (qs *queues) rank(q *queue) {
	rank, tailRank := "", ""
	if q.head != "" && !q.paused {
		rank = readyRank(q.head)
		var tail string
		tail, q.tailKnown = q.guessTail()
		tailRank = readyRank(tail)
	}
	if rank != q.rank {
		if q.rank != "" {
			qs.heads.remove(q)
		}
		if q.rank = rank; rank != "" {
			qs.heads.insert(q)
		}
	}
	qs.rankTail(q, tailRank)
	qs.samples.set(q)
}

func (qs *queues) rankTail(q *queue, rank string) {
	if rank == q.tailRank {
		return
	}
	if q.tailRank != "" {
		qs.tails.remove(q)
	}
	if q.tailRank = rank; rank != "" {
		qs.tails.insert(q)
	}
}

// newest returns the ready queue of a choice with the job that became pending last, or nil. Only of those that may be it is looked up what
// they have.
func (qs *queues) newest(c choice, o *overlay) *queue {
	for {
		q := qs.best(qs.tails, c)
		if q == nil || q.tailKnown {
			return q
		}
		tail := q.findTail(o)
		q.tailKnown = true
		qs.rankTail(q, readyRank(tail))
	}
}

// choice is the queues that a claim allows: those of some clients, of some types, or of both (no names: all).
type choice struct {
	clients, types []string
	pairs          []*queue // when both are named: those that exist
}

func (qs *queues) choice(clients, types []string) choice {
	c := choice{clients: clients, types: types}
	if len(clients) > 0 && len(types) > 0 {
		for _, client := range clients {
			for _, typ := range types {
				if q := qs.byName[queueName{client, typ}]; q != nil {
					c.pairs = append(c.pairs, q)
				}
			}
		}
	}
	return c
}

// best returns the first ready queue of a choice in the order of an index, or nil.
func (qs *queues) best(x *index, c choice) (best *queue) {
	better := func(q *queue) {
		if q != nil && q.rank != "" && (best == nil || x.less(q, best)) {
			best = q
		}
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		best, _ = x.all.Min()
	case len(c.types) == 0:
		for _, client := range c.clients {
			better(x.ofClient(client))
		}
	case len(c.clients) == 0:
		for _, typ := range c.types {
			better(x.ofType(typ))
		}
	default:
		for _, q := range c.pairs {
			better(q)
		}
	}
	return best
}
