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

// parkedClaims are the claims that have found no job and wait for one; each waits in Engine.wait (claim.go). When a
// queue gains jobs, parkedClaims wakes claims that accept these jobs, in the order of their arrival. It stops when the
// woken claims together may take all of the queue's jobs.
//
// Most claims accept the same clients and types as many others. Claims that accept the same share one interest, and the
// lists by queue contain only interests. So the time to park or wake a claim does not depend on the number of claims.
// An interest that names very many pairs of a client and a type is not in these lists. It is in one list of wide
// interests, so that one step changes its place.
type parkedClaims struct {
	n       atomic.Int64  // number of parked claims
	readied chan struct{} // capacity 1; has a value when ready may not be empty or allReady may be set

	mu        sync.Mutex // guards the fields of this block, all interests, and all claims except their channels
	closed    bool
	tickets   uint64 // number of claims that have parked
	places    int    // number of pairs that the interests name
	interests map[string]*interest
	// byQueue has the interests that name a pair, in the order of their oldest claims. "" stands for any client or
	// type.
	byQueue map[queueName]*btree.BTreeG[*interest]
	wide    *btree.BTreeG[*interest] // the interests that name more than maxListedPairs pairs

	readyMu  sync.Mutex          // guards the fields of this block
	ready    map[queueName]int64 // queues for which claims must be woken, with the number of their jobs
	allReady bool                // claims must be woken for all queues that have jobs
}

// queueName is the name of a queue. In parkedClaims.byQueue an empty client or type stands for any.
type queueName struct{ client, typ string }

// interest is a set of clients and types, with the parked claims that accept their jobs.
type interest struct {
	key            string
	pairs          int             // number of pairs of a client and a type
	queues         []queueName     // the pairs; nil for a wide interest
	clients, types map[string]bool // of a wide interest; otherwise nil

	claims *list.List // of *parkedClaim, the oldest first; not empty while the interest is listed
	first  uint64     // ticket of the oldest claim
}

// parkedClaim is one claim that waits.
type parkedClaim struct {
	ticket  uint64 // the order of arrival
	max     int64  // largest number of jobs that it takes
	in      *interest
	element *list.Element  // its place in in.claims; nil when it was woken
	woken   chan queueName // capacity 1; gets the queue that has woken it; closed when the engine stops
}

// maxListedPairs bounds the number of lists that contain an interest, and so the work when a claim parks or leaves.
// Together with maxPlaces it bounds the number of wide interests to 5000; a wake may look at all of them.
const maxListedPairs = 100

// maxPlaces bounds the number of pairs that all interests together name. A pair takes about a hundred bytes, and one
// claim may name ten thousand pairs.
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

// park adds a claim for up to max jobs of the given clients and types; an empty list means all. It returns nil if too
// many claims wait, or if the engine is stopping. The caller must call leave for the claim later.
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

// accepts reports whether a wide interest includes a queue.
func (in *interest) accepts(q queueName) bool {
	return (in.clients[q.client] || in.clients[""]) && (in.types[q.typ] || in.types[""])
}

// canonical returns the names sorted and without duplicates, or "" for an empty list, which means any name.
func canonical(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// list puts an interest that has a claim into its lists. The caller holds l.mu.
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

// unlist takes an interest out of its lists. The caller holds l.mu.
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

// remove takes a claim out of its interest, unless it was woken. The caller holds l.mu.
func (l *parkedClaims) remove(c *parkedClaim) {
	if c.element == nil {
		return
	}
	in := c.in
	oldest := in.claims.Front() == c.element
	if oldest {
		l.unlist(in) // its place depends on its oldest claim
	}
	in.claims.Remove(c.element)
	c.element = nil
	if oldest && in.claims.Len() > 0 {
		l.list(in)
	}
}

// leave removes a claim that no longer waits. If a queue has woken the claim and the claim has not received the queue
// yet, leave returns the queue.
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

// wake wakes the oldest claims that accept the jobs of a queue, until the woken claims together may take n jobs. It
// does not hold l.mu all the time, so other claims may park and leave meanwhile.
func (l *parkedClaims) wake(at queueName, n int64) {
	for n > 0 {
		c := l.wakeOldest(at)
		if c == nil {
			return
		}
		n -= c.max
	}
}

// wakeOldest wakes the oldest claim that accepts the jobs of a queue, and returns it; nil if there is none.
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

// oldest returns the listed interest with the oldest claim among those that name a pair. The caller holds l.mu.
func (l *parkedClaims) oldest(q queueName) *interest {
	if listed := l.byQueue[q]; listed != nil {
		in, _ := listed.Min()
		return in
	}
	return nil
}

// gained notes queues that have gained jobs. It leaves it to run to wake claims, because the applier calls gained and
// must not wait until thousands of claims are woken.
//
// If no claim is parked, gained does nothing: a claim that parks later looks for jobs after it has parked.
func (l *parkedClaims) gained(queues []store.Readied) {
	if len(queues) == 0 || l.n.Load() == 0 {
		return
	}
	l.readyMu.Lock()
	for _, q := range queues {
		l.ready[queueName{q.Client, q.Type}] = q.Pending
	}
	l.readyMu.Unlock()
	signal(l.readied)
}

// gainedAnywhere is gained for all queues that have jobs.
func (l *parkedClaims) gainedAnywhere() {
	if l.n.Load() == 0 {
		return
	}
	l.readyMu.Lock()
	l.allReady = true
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

// wakeAll wakes claims for all queues that have jobs. It reads some queues at a time, and ends when no claim is parked.
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

// close makes all parked claims end without a job, and refuses later ones.
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
