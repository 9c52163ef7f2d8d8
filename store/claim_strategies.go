package store

import (
	"math"
	"slices"
	"strings"
)

// takeHead takes up to n jobs from the head of a queue, and reports whether the claim may continue. q is nil if the
// choice is empty.
func (t *claiming) takeHead(q *queue, n int) bool {
	if q == nil {
		return false
	}
	t.readAhead(q.head.head.end(), q.head.ahead)
	return t.takeFirst(q, t.spanOf(q.head.head.end()), n)
}

// aheadSpans is how many spans are read together from the head or the end of a queue.
const aheadSpans = 64

// readAhead reads the first and the following spans, and their batches, into the caches, if the first is not cached.
// Later claims usually take the following spans. A claim reads hardly more spans ahead than it may take, because it may
// take one job each from very many queues.
func (t *claiming) readAhead(first position, known func(n int) []position) {
	if _, cached := t.spans.Get(cachedSpan{seq: first.seq, span: span{last: first.line}}); cached || t.ahead <= 0 {
		return
	}
	ends := known(min(aheadSpans, t.ahead))
	t.ahead -= len(ends)
	if len(ends) > 1 {
		slices.SortFunc(ends, comparePositions)
		t.prefetch(ends)
	}
}

// takeTail takes jobs from the end of a queue.
func (t *claiming) takeTail(q *queue) bool {
	if q == nil {
		return false
	}
	t.readAhead(q.tail.tail.end(), q.tail.behind)
	return t.takeLast(q, t.spanOf(q.tail.tail.end()), math.MaxInt)
}

// drawAll draws a job. It takes the job and its neighbours up to the end of the lane, and then from the lane's
// beginning, and draws again.
func (t *claiming) drawAll() {
	for draw := uint64(0); t.contest.all().head != nil; draw++ {
		random := mix(t.seed, t.now.Seq, draw, math.MaxUint32)
		q, place := t.contest.draw(int64(random % uint64(t.contest.all().jobs)))
		l := q.head
		if place >= l.pending { // it is in the other class of the priority
			place -= l.pending
			l = l.next
		}
		key, before := t.locate(q, l, place)
		for walk := (laneWalk{m: t.machine, q: q, l: l, at: key}); key != ""; key = walk.next() {
			for taken := false; !taken; before = 0 {
				_, _, end := splitReadyKey(key)
				p := t.spanOf(end)
				first, had := p.first+uint32(before), t.left
				p.first = first
				if !t.takeFirst(q, p, math.MaxInt) {
					return
				}
				n := uint32(had - t.left) // an expired span is gone completely, and counts as no lines
				taken = n == 0 || first+n > p.last
			}
		}
	}
}

// serveInTurn serves the clients with jobs of the highest priority in turn, beginning after the client that was served
// last. It takes whole rounds at once: a client that gets ten turns gets ten jobs, which touches fewer spans than ten
// times one job.
func (t *claiming) serveInTurn() {
	t.own = map[string]*contest{}
	for t.left > 0 && t.contest.all().head != nil {
		priority := t.contest.all().top()
		clients, all := t.inTurn(priority, t.meta.served, t.left)
		turns := 1
		if all {
			turns = t.left / len(clients)
		}
		for _, client := range clients {
			own := t.ofClient(client)
			for want := turns; want > 0 && own.all().top() == priority; {
				had := t.left
				more := t.takeHead(own.all().head, want)
				if t.left < had { // a client that gets no job, because the claim ends there, is served first next time
					t.meta.served = client
				}
				if !more {
					return
				}
				want -= had - t.left
			}
		}
		if !all {
			return
		}
	}
}

// ofClient returns the contest of a client's queues in the choice.
func (t *claiming) ofClient(client string) *contest {
	own := t.own[client]
	if own == nil {
		if len(t.choice.types) > 0 {
			t.pairs -= len(t.choice.types)
			own = newContest(t.queues.scopes(t.queues.choice([]string{client}, t.choice.types)))
		} else {
			own = newContest([]scope{{tree: &t.queues.byClient, first: client}})
		}
		t.own[client] = own
	}
	return own
}

// inTurn returns up to n clients that have jobs of a priority, by name, beginning after last and wrapping around. all
// is false if it stopped early, because looking for more clients would take too long.
func (t *claiming) inTurn(priority int64, last string, n int) (clients []string, all bool) {
	if names := sortedNames(t.choice.clients); len(names) > 0 {
		at, found := slices.BinarySearch(names, last)
		if found {
			at++
		}
		for _, name := range append(names[at:len(names):len(names)], names[:at]...) {
			if t.ofClient(name).all().top() == priority && len(clients) < n {
				clients = append(clients, name)
			}
		}
		return clients, true
	}
	for _, part := range [...]struct{ after, upTo string }{{last, lastName}, {"", last}} {
		next := t.clientsAfter(part.after, priority)
		for client := next(); client != "" && client <= part.upTo && len(clients) < n; client = next() {
			if len(clients) > 0 && t.pairs < (len(clients)+1)*len(t.choice.types) { // ofClient needs as many pairs again
				return clients, false
			}
			clients = append(clients, client)
		}
	}
	return clients, true
}

// clientsAfter returns a function that returns, at each call, the next client by name that has jobs of a priority. It
// returns "" after the last client.
func (t *claiming) clientsAfter(after string, priority int64) (next func() string) {
	if len(t.choice.types) == 0 {
		return func() string {
			q := t.queues.byClient.after(&queueName{after, lastName}, priority)
			if q == nil {
				return ""
			}
			after = q.client
			return after
		}
	}
	types := sortedNames(t.choice.types)
	nexts := make([]string, len(types)) // the next client of each type
	find := func(i int, after string) {
		t.pairs--
		nexts[i] = lastName
		if q := t.queues.byType.after(&queueName{after, types[i]}, priority); q != nil && q.typ == types[i] {
			nexts[i] = q.client
		}
	}
	for i := range types {
		find(i, after)
	}
	return func() string {
		client := slices.MinFunc(nexts, strings.Compare)
		if client == lastName {
			return ""
		}
		for i := range types {
			if nexts[i] == client {
				find(i, client)
			}
		}
		return client
	}
}
