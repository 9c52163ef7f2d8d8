package ingest

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
)

// interests finds the oldest parked claim that accepts the jobs of a queue.
//
// Most claims accept the same clients and types as many other claims. Claims that accept the same share one interest, and
// the lists by queue contain only interests. So the time to add, find or remove a claim hardly depends on the number of
// claims. An interest that names very many pairs of a client and a type is in a list of wide interests instead, so that
// one step changes its place.
// wide interests, so that one step changes its place.
type interests struct {
	byKey  map[string]*interest
	places job.Shares // the pairs that all interests name. An interest counts for whoever had its first claim
	// byQueue lists the interests that name a pair, in the order of their oldest claims. "" means any client or any type.
	byQueue map[queueName]*btree.BTreeG[*interest]
	wide    *btree.BTreeG[*interest] // the interests that name more than maxListedPairs pairs
}

// queueName is the name of a queue. In interests.byQueue an empty client or type means any.
type queueName struct{ client, typ string }

// interest is a set of clients and types, with the parked claims that accept their jobs.
type interest struct {
	key            string
	client         string          // see interests.places
	pairs          int             // number of pairs of a client and a type
	queues         []queueName     // the pairs; nil for a wide interest
	clients, types map[string]bool // of a wide interest; otherwise nil

	claims *btree.BTreeG[*parkedClaim] // by ticket; not empty while the interest is listed
	first  uint64                      // ticket of the oldest claim
}

// maxListedPairs bounds the number of lists that contain an interest, and so the work when a claim parks or leaves.
// Together with maxPlaces it bounds the number of wide interests to 5000, because a wake may look at all of them.
const maxListedPairs = 100

// maxPlaces bounds the number of pairs that all interests together name. A pair takes about a hundred bytes, and one
// claim may name ten thousand pairs.
const maxPlaces = 500_000

func newInterests() interests {
	return interests{byKey: map[string]*interest{}, byQueue: map[queueName]*btree.BTreeG[*interest]{}, wide: newInterestList()}
}

func newInterestList() *btree.BTreeG[*interest] {
	older := func(a, b *interest) bool { return a.first < b.first }
	return btree.NewBTreeGOptions(older, btree.Options{NoLocks: true, Degree: 8})
}

// add adds a claim for the jobs of the given clients and types; an empty list means all. It returns an error if the
// interests of all, or of the owner, would name too many pairs.
func (x *interests) add(c *parkedClaim, owner job.Owner, clients, types []string) error {
	clients, types = canonical(clients), canonical(types)
	key := strings.Join(clients, " ") + "/" + strings.Join(types, " ") // names contain neither
	in := x.byKey[key]
	if in == nil {
		if err := x.places.Take(owner, int64(len(clients))*int64(len(types)), maxPlaces); err != nil {
			return err
		}
		in = newInterest(key, clients, types)
		in.client = owner.Client
	}
	c.in = in
	x.change(in, func() { in.claims.Set(c) })
	return nil
}

func (x *interests) remove(c *parkedClaim) {
	in := c.in
	c.in = nil
	x.change(in, func() { in.claims.Delete(c) })
	if in.claims.Len() == 0 {
		x.places.Return(in.client, int64(in.pairs))
	}
}

// change adds a claim to an interest, or removes one, and updates the interest's place, which depends on its oldest
// claim.
func (x *interests) change(in *interest, claims func()) {
	before, listed := in.claims.Min()
	claims()
	now, remains := in.claims.Min()
	if now == before {
		return
	}
	if listed {
		x.unlist(in)
	}
	if remains {
		in.first = now.ticket
		x.list(in)
	}
}

func newInterest(key string, clients, types []string) *interest {
	older := func(a, b *parkedClaim) bool { return a.ticket < b.ticket }
	in := &interest{key: key, pairs: len(clients) * len(types), claims: btree.NewBTreeGOptions(older, btree.Options{NoLocks: true, Degree: 8})}
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

// list adds an interest that has a claim to its lists.
func (x *interests) list(in *interest) {
	x.byKey[in.key] = in
	if in.pairs > maxListedPairs {
		x.wide.Set(in)
	}
	for _, q := range in.queues {
		if x.byQueue[q] == nil {
			x.byQueue[q] = newInterestList()
		}
		x.byQueue[q].Set(in)
	}
}

// unlist removes an interest from its lists.
func (x *interests) unlist(in *interest) {
	delete(x.byKey, in.key)
	if in.pairs > maxListedPairs {
		x.wide.Delete(in)
	}
	for _, q := range in.queues {
		if x.byQueue[q].Delete(in); x.byQueue[q].Len() == 0 {
			delete(x.byQueue, q)
		}
	}
}

// oldest returns the oldest claim that accepts the jobs of a queue, or nil.
func (x *interests) oldest(at queueName) *parkedClaim {
	var first *interest
	for _, q := range [...]queueName{at, {at.client, ""}, {"", at.typ}, {}} {
		if listed := x.byQueue[q]; listed != nil {
			if in, _ := listed.Min(); first == nil || in.first < first.first {
				first = in
			}
		}
	}
	x.wide.Scan(func(in *interest) bool {
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
	c, _ := first.claims.Min()
	return c
}

// all calls visit with all claims.
func (x *interests) all(visit func(c *parkedClaim)) {
	for _, in := range x.byKey {
		in.claims.Scan(func(c *parkedClaim) bool { visit(c); return true })
	}
}
