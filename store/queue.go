package store

import (
	"cmp"
	"maps"
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
	counts      job.Counts
	lanes       []*lane // in order of service
	head        string  // ready key of the span next in line; "" when none is pending
	tail        string  // ready key of the span that Newest takes from, when that is kept
	// Under which the queue stands in the indexes; "" when it does not.
	rank, tailRank string
	// Its place in each of the decks it is in, and what they count of it.
	dealt   [numDecks]int
	weights []weight
	// On the lists of that name in the Store.
	dirty, moved, readied bool
}

// lane is the waiting line of one priority and class of a queue.
type lane struct {
	priority uint32
	class    byte
	pending  int64 // jobs
	window   window
	tail     *window // from the end, when Newest is in use
	shelf    *shelf  // when Random has drawn from here
}

func compareLanes(a, b *lane) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.class, b.class))
}

// lane returns the lane of a priority and class; a new one is known to be empty.
func (q *queue) lane(priority uint32, class byte) *lane {
	want := &lane{priority: priority, class: class}
	at, found := slices.BinarySearchFunc(q.lanes, want, compareLanes)
	if !found {
		from := laneKey(q.id, priority, class)
		want.window = newWindow(q.windows, from, after(from))
		q.lanes = slices.Insert(q.lanes, at, want)
	}
	return q.lanes[at]
}

// insert and remove tell that the lane has a span more, or less.
func (l *lane) insert(key string) {
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

// last returns the ready key of the span that Newest takes from: of the highest priority, the one that became pending last.
func (q *queue) last(o *overlay) (key string) {
	for i, l := range q.lanes {
		if key != "" && l.priority != q.lanes[i-1].priority {
			break
		}
		if l.tail == nil {
			w := downWindow(q.windows, l.window.from, l.window.to)
			l.tail = &w
		}
		if k := l.tail.first(o); k != "" { // the lane of those that came back stands before that of fresh ones
			key = k
		}
	}
	return key
}

func (q *queue) encode() []byte {
	e := make(encoder, 0, 96)
	e.text(q.client)
	e.text(q.typ)
	e.bool(q.paused)
	e.int(q.createdAt)
	encodeCounts(&e, &q.counts)
	for _, l := range q.lanes {
		if l.pending > 0 {
			e.uint(uint64(l.priority))
			e.uint(uint64(l.class))
			e.uint(uint64(l.pending))
		}
	}
	return e
}

func decodeQueue(id uint32, value []byte, windows *windows) *queue {
	d := decoder(value)
	q := &queue{windows: windows, id: id, client: d.text(), typ: d.text(), paused: d.bool(), createdAt: d.int()}
	q.counts = decodeCounts(&d)
	for len(d) > 0 {
		l := &lane{priority: uint32(d.uint()), class: byte(d.uint()), pending: int64(d.uint())}
		from := laneKey(id, l.priority, l.class)
		l.window = storedWindow(windows, from, after(from))
		q.lanes = append(q.lanes, l)
	}
	return q
}

type queueName struct{ client, typ string }

// queues finds queues by name and number, and the one that a claim takes from next.
type queues struct {
	byID   map[uint32]*queue
	byName map[queueName]*queue
	names  *queueSet // by client and type

	// The queues that have something to hand out, as the strategies look for them. Those but the first are made when first wanted.
	heads *index // by the rank of what is next in line
	tails *index // by the rank of what became pending last
	turns *index // by priority of the head, client and type
	decks *decks
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

// lessTurn puts the queues of the highest priority first, by name.
func lessTurn(a, b *queue) bool {
	if p, o := priorityOfRank(a.rank), priorityOfRank(b.rank); p != o {
		return p < o
	}
	return lessName(a, b)
}

// index orders queues as a whole, by client and by type, so that a hundred thousand of them cost a claim no more than ten.
type index struct {
	less             func(a, b *queue) bool
	all              *queueSet
	byClient, byType map[string]*queueSet
}

func newIndex(less func(a, b *queue) bool) *index {
	return &index{less: less, all: newQueueSet(less), byClient: map[string]*queueSet{}, byType: map[string]*queueSet{}}
}

func (x *index) insert(q *queue) {
	x.all.Set(q)
	for _, sets := range [...]struct {
		of   map[string]*queueSet
		name string
	}{{x.byClient, q.client}, {x.byType, q.typ}} {
		set := sets.of[sets.name]
		if set == nil {
			set = newQueueSet(x.less)
			sets.of[sets.name] = set
		}
		set.Set(q)
	}
}

func (x *index) remove(q *queue) {
	x.all.Delete(q)
	x.byClient[q.client].Delete(q)
	x.byType[q.typ].Delete(q)
}

func newQueues() queues {
	return queues{byID: map[uint32]*queue{}, byName: map[queueName]*queue{}, names: newQueueSet(lessName), heads: newIndex(lessRank)}
}

func (qs *queues) add(q *queue) {
	qs.byID[q.id] = q
	qs.byName[queueName{q.client, q.typ}] = q
	qs.names.Set(q)
	if qs.decks != nil {
		qs.decks.add(q)
	}
}

// serve makes what a strategy looks for queues by, unless it is there.
func (qs *queues) serve(strategy job.Strategy, o *overlay) {
	switch {
	case strategy == job.Newest && qs.tails == nil:
		qs.tails = newIndex(lessTail)
		for _, q := range qs.byID {
			if q.rank != "" {
				q.tail = q.last(o)
				q.tailRank = readyRank(q.tail)
				qs.tails.insert(q)
			}
		}
	case strategy == job.Fair && qs.turns == nil:
		qs.turns = newIndex(lessTurn)
		for _, q := range qs.byID {
			if q.rank != "" {
				qs.turns.insert(q)
			}
		}
	case strategy == job.Random && qs.decks == nil:
		qs.decks = newDecks()
		for _, id := range slices.Sorted(maps.Keys(qs.byID)) { // the order decides which job a draw finds
			qs.decks.add(qs.byID[id])
			qs.decks.weigh(qs.byID[id])
		}
	}
}

// page returns up to limit queues after a pair in the order of client and type, of one client or, with "", of all.
func (qs *queues) page(client, afterClient, afterType string, limit int) (page []*queue) {
	from := &queue{client: afterClient, typ: afterType}
	if from.client < client {
		from = &queue{client: client}
	}
	qs.names.Ascend(from, func(q *queue) bool {
		if client != "" && q.client != client {
			return false
		}
		if q.client != afterClient || q.typ != afterType {
			page = append(page, q)
		}
		return len(page) < limit
	})
	return page
}

// place puts q where it belongs among the ready queues.
func (qs *queues) place(q *queue, o *overlay) {
	q.head = q.first(o)
	rank, tailRank := "", ""
	if q.head != "" && !q.paused {
		rank = readyRank(q.head)
	}
	if qs.tails != nil && rank != "" {
		q.tail = q.last(o)
		tailRank = readyRank(q.tail)
	}
	if rank != q.rank || tailRank != q.tailRank {
		indexes := [...]*index{qs.heads, qs.tails, qs.turns}
		if q.rank != "" {
			for _, x := range indexes {
				if x != nil {
					x.remove(q)
				}
			}
		}
		if q.rank, q.tailRank = rank, tailRank; rank != "" {
			for _, x := range indexes {
				if x != nil {
					x.insert(q)
				}
			}
		}
	}
	if qs.decks != nil {
		qs.decks.weigh(q)
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
	minOf := func(sets map[string]*queueSet, names []string) {
		for _, name := range names {
			if set := sets[name]; set != nil {
				q, _ := set.Min()
				better(q)
			}
		}
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		best, _ = x.all.Min()
	case len(c.types) == 0:
		minOf(x.byClient, c.clients)
	case len(c.clients) == 0:
		minOf(x.byType, c.types)
	default:
		for _, q := range c.pairs {
			better(q)
		}
	}
	return best
}
