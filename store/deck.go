package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
)

// decks count the pending jobs of the ready queues, so that a job is drawn with the same chance as any other in a time that hardly
// depends on how many queues there are. Each queue is in three of them: that of all, that of its client and that of its type. They are
// made when a claim first draws, and kept from then on.
type decks struct {
	all              *deck
	byClient, byType map[string]*deck
}

const numDecks = 3

func newDecks() *decks {
	return &decks{all: &deck{}, byClient: map[string]*deck{}, byType: map[string]*deck{}}
}

// deck counts jobs by priority and queue. Queues stand in the order in which they were made.
type deck struct {
	queues []*queue
	sums   map[uint32]*sums
}

// weight is how many jobs of a priority a queue has to hand out.
type weight struct {
	priority uint32
	jobs     int64
}

// of returns the decks that q is in.
func (d *decks) of(q *queue) [numDecks]*deck {
	for _, at := range [...]struct {
		decks map[string]*deck
		name  string
	}{{d.byClient, q.client}, {d.byType, q.typ}} {
		if at.decks[at.name] == nil {
			at.decks[at.name] = &deck{}
		}
	}
	return [numDecks]*deck{d.all, d.byClient[q.client], d.byType[q.typ]}
}

func (d *decks) add(q *queue) {
	for i, deck := range d.of(q) {
		q.dealt[i] = len(deck.queues)
		deck.queues = append(deck.queues, q)
	}
}

// weigh has the decks of q count what it has now.
func (d *decks) weigh(q *queue) {
	var now []weight
	if q.rank != "" {
		for _, l := range q.lanes { // by priority
			if l.pending == 0 {
				continue
			}
			if n := len(now); n > 0 && now[n-1].priority == l.priority {
				now[n-1].jobs += l.pending
			} else {
				now = append(now, weight{l.priority, l.pending})
			}
		}
	}
	if slices.Equal(now, q.weights) {
		return
	}
	for i, deck := range d.of(q) {
		for _, w := range q.weights {
			deck.count(w.priority, q.dealt[i], -w.jobs)
		}
		for _, w := range now {
			deck.count(w.priority, q.dealt[i], w.jobs)
		}
	}
	q.weights = now
}

func (d *deck) count(priority uint32, at int, jobs int64) {
	if d.sums == nil {
		d.sums = map[uint32]*sums{}
	}
	s := d.sums[priority]
	if s == nil {
		s = &sums{}
		d.sums[priority] = s
	}
	s.add(at, jobs)
}

// top returns the highest priority of which there are jobs.
func (d *deck) top() (priority uint32, some bool) {
	for p, s := range d.sums {
		if s.total > 0 && (!some || p > priority) {
			priority, some = p, true
		}
	}
	return priority, some
}

// hand is a part of what may be drawn: a deck, or a single queue.
type hand struct {
	deck  *deck
	queue *queue
}

func (h hand) top() (priority uint32, some bool) {
	if h.queue == nil {
		return h.deck.top()
	}
	if len(h.queue.weights) == 0 {
		return 0, false
	}
	return h.queue.weights[0].priority, true
}

func (h hand) total(priority uint32) int64 {
	if h.queue != nil {
		for _, w := range h.queue.weights {
			if w.priority == priority {
				return w.jobs
			}
		}
	} else if s := h.deck.sums[priority]; s != nil {
		return s.total
	}
	return 0
}

// hands returns what a choice allows to draw from: the deck of all, those of the clients or of the types, or the queues of both, each in
// the order of their names.
func (d *decks) hands(c choice) (hands []hand) {
	named := func(decks map[string]*deck, names []string) {
		names = slices.Clone(names)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if deck := decks[name]; deck != nil {
				hands = append(hands, hand{deck: deck})
			}
		}
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		return []hand{{deck: d.all}}
	case len(c.types) == 0:
		named(d.byClient, c.clients)
	case len(c.clients) == 0:
		named(d.byType, c.types)
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *queue) int {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
		})
		for _, q := range slices.Compact(pairs) {
			hands = append(hands, hand{queue: q})
		}
	}
	return hands
}

// draw returns the queue and lane of a job of the highest priority, and the job's place in the lane. random says which.
func (d *decks) draw(c choice, random uint64) (q *queue, l *lane, place int64) {
	hands := d.hands(c)
	var priority uint32
	some := false
	for _, h := range hands {
		if p, ok := h.top(); ok && (!some || p > priority) {
			priority, some = p, true
		}
	}
	total := int64(0)
	for _, h := range hands {
		total += h.total(priority)
	}
	if !some {
		return nil, nil, 0
	}
	place = int64(random % uint64(total))
	for _, h := range hands {
		if n := h.total(priority); place >= n {
			place -= n
			continue
		}
		if q = h.queue; q == nil {
			var at int
			at, place = h.deck.sums[priority].find(place)
			q = h.deck.queues[at]
		}
		break
	}
	for _, class := range [...]byte{back, fresh} {
		l = q.lane(priority, class)
		if place < l.pending {
			return q, l, place
		}
		place -= l.pending
	}
	panic("store: a deck counts more jobs than its queue has")
}

// sums is a list of numbers whose running totals are found and changed in logarithmic time: a binary indexed tree (Fenwick: A New Data
// Structure for Cumulative Frequency Tables, 1994). Its size is a power of two.
type sums struct {
	tree  []int64 // number n stands at n-1
	total int64
}

func (s *sums) add(at int, n int64) {
	for at >= len(s.tree) {
		larger := make([]int64, max(1, 2*len(s.tree)))
		copy(larger, s.tree)
		larger[len(larger)-1] = s.total
		s.tree = larger
	}
	s.total += n
	for i := at + 1; i <= len(s.tree); i += i & -i {
		s.tree[i-1] += n
	}
}

// find returns the number in which the running total passes n, and how far into it that is.
func (s *sums) find(n int64) (at int, rest int64) {
	for half := len(s.tree); half > 0; half /= 2 {
		if next := at + half; next <= len(s.tree) && s.tree[next-1] <= n {
			at, n = next, n-s.tree[next-1]
		}
	}
	return at, n
}

// shelf finds the place of a job in a lane. It cuts the lane into blocks of some hundred spans, and knows how many jobs each holds: about
// sixty bytes a block, where the spans themselves stay in the database. It is made by one walk over the lane, when Random first draws
// from there.
type shelf struct {
	blocks []block // in order; a block reaches to the next one's beginning
}

type block struct {
	from  string
	jobs  int64
	spans int
}

// note counts a span that came or went.
func (f *shelf) note(key string, jobs int64, spans int) {
	at, found := slices.BinarySearchFunc(f.blocks, key, func(b block, key string) int {
		if b.from < key {
			return -1
		} else if b.from > key {
			return 1
		}
		return 0
	})
	if !found {
		at--
	}
	b := &f.blocks[at]
	if b.jobs, b.spans = b.jobs+jobs, b.spans+spans; b.spans == 0 && len(f.blocks) > 1 {
		if at == 0 {
			f.blocks[1].from = b.from
		}
		f.blocks = slices.Delete(f.blocks, at, at+1)
	}
}

// shelve counts a pending span of a lane that has a shelf, or no longer counts it.
func (s *Store) shelve(b *batch, g *group, sp *span, sign int) {
	if sp.status != job.Pending {
		return
	}
	priority := sp.priorityIn(g)
	if l := s.queues.byID[g.queue].lane(priority, sp.class); l.shelf != nil {
		l.shelf.note(s.indexes(b, g, sp)[1], int64(sign)*int64(sp.last-sp.first+1), sign)
	}
}

// locate returns the span at a place in a lane, and how many of the span's jobs stand before it.
func (s *Store) locate(l *lane, place int64) (seq uint64, last uint32, before int64) {
	if l.shelf == nil {
		l.shelf = &shelf{blocks: []block{{from: l.window.from, jobs: l.pending, spans: s.bounds.shelfBlock + 1}}}
	}
	f := l.shelf
	at, start := 0, int64(0)
	for ; at < len(f.blocks)-1 && start+f.blocks[at].jobs <= place; at++ {
		start += f.blocks[at].jobs
	}
	if f.blocks[at].spans > s.bounds.shelfBlock {
		f.blocks = slices.Replace(f.blocks, at, at+1, s.blocks(l, at)...)
		return s.locate(l, place)
	}
	place -= start
	found := false
	s.eachPending(f.blocks[at].from, f.end(at, l), func(_ string, p pending) bool {
		if found = place < p.lines; found {
			seq, last, before = p.seq, p.last, place
		}
		place -= p.lines
		return !found
	})
	if !found {
		panic("store: a shelf counts more jobs than its lane has")
	}
	return seq, last, before
}

func (f *shelf) end(at int, l *lane) string {
	if at+1 < len(f.blocks) {
		return f.blocks[at+1].from
	}
	return l.window.to
}

// blocks cuts a block into ones of half the size they may have.
func (s *Store) blocks(l *lane, at int) (blocks []block) {
	from := l.shelf.blocks[at].from
	s.eachPending(from, l.shelf.end(at, l), func(key string, p pending) bool {
		if n := len(blocks); n == 0 {
			blocks = append(blocks, block{from: from})
		} else if blocks[n-1].spans >= max(1, s.bounds.shelfBlock/2) {
			blocks = append(blocks, block{from: key})
		}
		b := &blocks[len(blocks)-1]
		b.jobs, b.spans = b.jobs+p.lines, b.spans+1
		return true
	})
	if len(blocks) == 0 {
		blocks = []block{{from: from}}
	}
	return blocks
}

// pending is a span that waits in a lane.
type pending struct {
	place
	lines int64
}

// pendingChunk is how many spans are looked up at once.
const pendingChunk = 256

// eachPending calls visit with the spans that the ready rows from … to (not included) tell of, until it returns false. It leaves the cache
// of spans alone, which a walk would flood.
func (s *Store) eachPending(from, to string, visit func(key string, p pending) bool) {
	for more := true; more; {
		var keys, spans []string
		next := ""
		s.o.scan(from, to, func(key string, _ []byte) bool {
			if len(keys) == pendingChunk {
				next = key
				return false
			}
			_, _, _, seq, last := splitReadyKey(key)
			keys, spans = append(keys, key), append(spans, lineKey(spanTable, seq, last))
			return true
		})
		lines := make(map[string]int64, len(keys))
		slices.Sort(spans)
		s.o.getAll(spans, func(key string, value []byte) {
			sp := decodeSpan(lineOfKey(key), value)
			lines[key] = int64(sp.last-sp.first) + 1
		})
		for _, key := range keys {
			_, _, _, seq, last := splitReadyKey(key)
			n := lines[lineKey(spanTable, seq, last)]
			if n == 0 {
				contradict("find span", "none ends at line %d of batch %d", last, seq)
			}
			if !visit(key, pending{place{seq, last}, n}) {
				return
			}
		}
		from, more = next, next != ""
	}
}
