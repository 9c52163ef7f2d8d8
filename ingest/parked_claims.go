package ingest

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// parkedClaims are the claims that found no job and wait for one; each waits in Engine.wait (claim.go). A queue that
// gains jobs wakes claims that accept them, in the order of their arrival, until those together may take as many jobs
// as there are.
//
// Most claims of a fleet accept the same clients and types. Such claims share one interest, and only interests are in
// the lists by queue: parking and waking a claim costs the same whether ten claims wait or a hundred thousand. An
// interest that names very many pairs of a client and a type is in one list of such interests instead, so that one step
// changes its place.
type parkedClaims struct {
	n atomic.Int64 // claims that are parked

	mu        sync.Mutex
	closed    bool
	tickets   uint64 // given out so far
	places    int    // pairs that the interests name
	interests map[string]*interest
	// byQueue holds, for each pair that an interest names ("" is any client or type), the interests in the order of
	// their oldest claims; wide holds those that name more than maxListedPairs.
	byQueue map[queueName]*btree.BTreeG[*interest]
	wide    *btree.BTreeG[*interest]

	readyMu sync.Mutex
	ready   map[queueName]int64 // queues that gained jobs, and how many they have; no claim was woken for them yet
	// allReady: all queues that have jobs count as having gained them.
	allReady bool
	readied  chan struct{} // capacity 1: there is something in ready, or allReady
}

// queueName is the name of a queue. In parkedClaims.byQueue an empty client or type stands for any.
type queueName struct{ client, typ string }

// interest is a set of clients and types, and the parked claims that accept the jobs of these.
type interest struct {
	key    string
	pairs  int
	queues []queueName // the pairs; none of a wide interest
	// clients and types are those of a wide interest.
	clients, types map[string]bool

	claims *list.List // of *parkedClaim, oldest first; never empty while the interest is listed
	first  uint64     // ticket of the oldest claim
}

// parkedClaim is one claim that waits.
type parkedClaim struct {
	ticket  uint64
	max     int64 // jobs that it takes at most
	in      *interest
	element *list.Element  // in in.claims; nil when it was woken
	woken   chan queueName // capacity 1: the queue that has jobs; closed when the server stops
}

// maxListedPairs bounds the lists that an interest is in, and thus the work of a claim that parks or leaves. With
// maxPlaces it also bounds the wide interests, all of which a wake may look at, to 5000.
const maxListedPairs = 100

// maxPlaces bounds the pairs that all interests name together, each of which takes about a hundred bytes. A claim may
// name ten thousand pairs.
const maxPlaces = 500_000

func newParkedClaims() *parkedClaims {
	return &parkedClaims{
		interests: map[string]*interest{}, byQueue: map[queueName]*btree.BTreeG[*interest]{}, wide: newInterests(),
		ready: map[queueName]int64{}, readied: make(chan struct{}, 1),
	}
}

func newInterests() *btree.BTreeG[*interest] {
	return btree.NewBTreeGOptions(olderInterest, btree.Options{NoLocks: true, Degree: 8})
}

func olderInterest(a, b *interest) bool { return a.first < b.first }

// park adds a claim for up to max jobs of some clients and types (none: of all). It returns nil when too many claims
// wait, or when the server stops. The claim must leave again.
func (l *parkedClaims) park(clients, types []string, max int) *parkedClaim {
	clients, types = canonical(clients), canonical(types)
	key := strings.Join(clients, " ") + "/" + strings.Join(types, " ") // names contain neither
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.n.Load() >= job.MaxParkedClaims {
		return nil
	}
	in := l.interests[key]
	if in == nil {
		if l.places+len(clients)*len(types) > maxPlaces {
			return nil
		}
		in = newInterest(key, clients, types)
	}
	l.n.Add(1)
	l.tickets++
	c := &parkedClaim{ticket: l.tickets, max: int64(max), in: in, woken: make(chan queueName, 1)}
	c.element = in.claims.PushBack(c)
	if in.claims.Len() == 1 {
		l.list(in)
	}
	return c
}

func newInterest(key string, clients, types []string) *interest {
	in := &interest{key: key, pairs: len(clients) * len(types), claims: list.New()}
	if in.pairs > maxListedPairs {
		in.clients, in.types = setOf(clients), setOf(types)
		return in
	}
	for _, client := range clients {
		for _, typ := range types {
			in.queues = append(in.queues, queueName{client, typ})
		}
	}
	return in
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// accepts reports whether a wide interest names a queue.
func (in *interest) accepts(q queueName) bool {
	return (in.clients[q.client] || in.clients[""]) && (in.types[q.typ] || in.types[""])
}

// canonical returns names in the one order that all claims with the same names share; any name is "".
func canonical(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// list puts an interest, which has a claim, into the lists of its queues.
func (l *parkedClaims) list(in *interest) {
	in.first = in.claims.Front().Value.(*parkedClaim).ticket
	l.interests[in.key] = in
	l.places += in.pairs
	if in.pairs > maxListedPairs {
		l.wide.Set(in)
	}
	for _, q := range in.queues {
		if l.byQueue[q] == nil {
			l.byQueue[q] = newInterests()
		}
		l.byQueue[q].Set(in)
	}
}

// unlist takes an interest out of the lists of its queues.
func (l *parkedClaims) unlist(in *interest) {
	delete(l.interests, in.key)
	l.places -= in.pairs
	if in.pairs > maxListedPairs {
		l.wide.Delete(in)
	}
	for _, q := range in.queues {
		if l.byQueue[q].Delete(in); l.byQueue[q].Len() == 0 {
			delete(l.byQueue, q)
		}
	}
}

// remove takes a claim out of its interest, if it is still there.
func (l *parkedClaims) remove(c *parkedClaim) {
	if c.element == nil {
		return
	}
	in := c.in
	oldest := in.claims.Front() == c.element
	if oldest {
		l.unlist(in) // its place follows from its oldest claim
	}
	in.claims.Remove(c.element)
	c.element = nil
	if oldest && in.claims.Len() > 0 {
		l.list(in)
	}
}

// leave takes c out. If c was woken meanwhile and has not noticed, leave returns the queue for which it was woken.
func (l *parkedClaims) leave(c *parkedClaim) (at queueName, woken bool) {
	l.mu.Lock()
	l.remove(c)
	l.mu.Unlock()
	l.n.Add(-1)
	select {
	case at, woken = <-c.woken:
		return at, woken
	default:
		return queueName{}, false
	}
}

// wake wakes the oldest claims that accept the jobs of a queue, until those may take n jobs together. Others may park
// and leave meanwhile.
func (l *parkedClaims) wake(at queueName, n int64) {
	for n > 0 {
		c := l.wakeOldest(at)
		if c == nil {
			return
		}
		n -= c.max
	}
}

// wakeOldest wakes the oldest claim that accepts the jobs of a queue, and returns it; nil when there is none.
func (l *parkedClaims) wakeOldest(at queueName) *parkedClaim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first *interest
	for _, q := range [...]queueName{at, {at.client, ""}, {"", at.typ}, {}} {
		if in := l.oldest(q); in != nil && (first == nil || in.first < first.first) {
			first = in
		}
	}
	l.wide.Scan(func(in *interest) bool {
		if first != nil && first.first < in.first {
			return false
		}
		if in.accepts(at) {
			first = in
			return false
		}
		return true
	})
	if first == nil {
		return nil
	}
	c := first.claims.Front().Value.(*parkedClaim)
	l.remove(c)
	c.woken <- at
	return c
}

func (l *parkedClaims) oldest(q queueName) *interest {
	if listed := l.byQueue[q]; listed != nil {
		in, _ := listed.Min()
		return in
	}
	return nil
}

// gained notes queues that have jobs now, for run to wake claims. The applier calls it, and must not wait until
// thousands of claims are woken.
//
// A claim that parks after gained has seen no parked claims looks for jobs after it has parked, and finds these.
func (l *parkedClaims) gained(queues []store.Readied, all bool) {
	if len(queues) == 0 && !all || l.n.Load() == 0 {
		return
	}
	l.readyMu.Lock()
	l.allReady = l.allReady || all
	for _, q := range queues {
		l.ready[queueName{q.Client, q.Type}] = q.Pending
	}
	l.readyMu.Unlock()
	signal(l.readied)
}

// run wakes claims for the queues that gained jobs, until ctx is done.
func (l *parkedClaims) run(ctx context.Context, state *store.Queries) {
	for {
		select {
		case <-l.readied:
		case <-ctx.Done():
			return
		}
		l.readyMu.Lock()
		ready := l.ready
		l.ready = map[queueName]int64{}
		all := l.allReady
		l.allReady = false
		l.readyMu.Unlock()
		for at, n := range ready {
			l.wake(at, n)
		}
		if all {
			l.wakeAll(state)
		}
	}
}

// wakeAll is wake for all queues that have jobs, some at a time, while claims are parked.
func (l *parkedClaims) wakeAll(state *store.Queries) {
	client, typ := "", ""
	for more := true; more && l.n.Load() > 0; more = client != "" {
		var ready []store.Readied
		ready, client, typ = state.ReadyQueues(client, typ)
		for _, q := range ready {
			l.wake(queueName{q.Client, q.Type}, q.Pending)
		}
	}
}

// close wakes all claims for no queue, and refuses later ones.
func (l *parkedClaims) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, in := range l.interests {
		l.unlist(in)
		for e := in.claims.Front(); e != nil; e = e.Next() {
			c := e.Value.(*parkedClaim)
			c.element = nil
			close(c.woken)
		}
	}
}
