package machine

import (
	"math"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// takeHead takes up to n jobs from the head of a queue, and reports whether the claim may continue. q is nil if the
// choice is empty.
func (t *claiming) takeHead(q *memory.Queue, n int) bool {
	if q == nil {
		return false
	}
	t.readAhead(q.Head.Head.End(), q.Head.Ahead)
	return t.takeFirst(q, t.spanOf(q.Head.Head.End()), n)
}

// AheadSpans is how many spans are read together from the head or the end of a queue.
const AheadSpans = 64

// readAhead reads the first and the following spans, and their batches, into the caches, if the first is not cached.
// Later claims usually take the following spans. A claim reads hardly more spans ahead than it may take, because it may
// take one job each from very many queues.
func (t *claiming) readAhead(first row.Position, known func(n int) []row.Position) {
	if _, cached := t.Spans.Get(memory.CachedSpan{Seq: first.Seq, Span: row.Span{Last: first.Line}}); cached || t.ahead <= 0 {
		return
	}
	ends := known(min(AheadSpans, t.ahead))
	t.ahead -= len(ends)
	if len(ends) > 1 {
		slices.SortFunc(ends, row.ComparePositions)
		t.prefetch(ends)
	}
}

// takeTail takes jobs from the end of a queue.
func (t *claiming) takeTail(q *memory.Queue) bool {
	if q == nil {
		return false
	}
	t.readAhead(q.Tail.Tail.End(), q.Tail.Behind)
	return t.takeLast(q, t.spanOf(q.Tail.Tail.End()), math.MaxInt)
}

// drawAll draws a job. It takes the job and its neighbours up to the end of the lane, and then from the lane's
// beginning, and draws again.
func (t *claiming) drawAll() {
	for draw := uint64(0); t.contest.All().Head != nil; draw++ {
		random := job.RandomOf(t.Seed, t.Now.Seq, draw, math.MaxUint32)
		q, place := t.contest.Draw(int64(random % uint64(t.contest.All().Jobs)))
		l := q.Head
		if place >= l.Pending { // it is in the other class of the priority
			place -= l.Pending
			l = l.Next
		}
		key, before := t.locate(q, l, place)
		for walk := (laneWalk{m: t.Machine, q: q, l: l, at: key}); key != ""; key = walk.Next() {
			for taken := false; !taken; before = 0 {
				_, _, end := row.SplitReadyKey(key)
				p := t.spanOf(end)
				first, had := p.First+uint32(before), t.left
				p.First = first
				if !t.takeFirst(q, p, math.MaxInt) {
					return
				}
				n := uint32(had - t.left) // an expired span is gone completely, and counts as no lines
				taken = n == 0 || first+n > p.Last
			}
		}
	}
}

// serveInTurn serves the clients with jobs of the highest priority in turn, beginning after the client that was served
// last. It takes whole rounds at once: a client that gets ten turns gets ten jobs, which touches fewer spans than ten
// times one job.
func (t *claiming) serveInTurn() {
	t.own = map[string]*memory.Contest{}
	for t.left > 0 && t.contest.All().Head != nil {
		priority := t.contest.All().Top()
		clients, all := t.inTurn(priority, t.Meta.Served, t.left)
		turns := 1
		if all {
			turns = t.left / len(clients)
		}
		for _, client := range clients {
			own := t.ofClient(client)
			for want := turns; want > 0 && own.All().Top() == priority; {
				had := t.left
				more := t.takeHead(own.All().Head, want)
				if t.left < had { // a client that gets no job, because the claim ends there, is served first next time
					t.Meta.Served = client
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
func (t *claiming) ofClient(client string) *memory.Contest {
	own := t.own[client]
	if own == nil {
		if len(t.choice.Types) > 0 {
			t.pairs -= len(t.choice.Types)
			own = memory.NewContest(t.AllQueues.Scopes(t.AllQueues.Choice([]string{client}, t.choice.Types)))
		} else {
			own = memory.NewContest([]memory.Scope{{Tree: &t.AllQueues.ByClient, First: client}})
		}
		t.own[client] = own
	}
	return own
}

// inTurn returns up to n clients that have jobs of a priority, by name, beginning after last and wrapping around. all
// is false if it stopped early, because looking for more clients would take too long.
func (t *claiming) inTurn(priority int64, last string, n int) (clients []string, all bool) {
	if names := memory.SortedNames(t.choice.Clients); len(names) > 0 {
		at, found := slices.BinarySearch(names, last)
		if found {
			at++
		}
		for _, name := range append(names[at:len(names):len(names)], names[:at]...) {
			if t.ofClient(name).All().Top() == priority && len(clients) < n {
				clients = append(clients, name)
			}
		}
		return clients, true
	}
	for _, part := range [...]struct{ after, upTo string }{{last, memory.LastName}, {"", last}} {
		next := t.clientsAfter(part.after, priority)
		for client := next(); client != "" && client <= part.upTo && len(clients) < n; client = next() {
			if len(clients) > 0 && t.pairs < (len(clients)+1)*len(t.choice.Types) { // ofClient needs as many pairs again
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
	if len(t.choice.Types) == 0 {
		return func() string {
			q := t.AllQueues.ByClient.After(&row.QueueName{after, memory.LastName}, priority)
			if q == nil {
				return ""
			}
			after = q.Client
			return after
		}
	}
	types := memory.SortedNames(t.choice.Types)
	nexts := make([]string, len(types)) // the next client of each type
	find := func(i int, after string) {
		t.pairs--
		nexts[i] = memory.LastName
		if q := t.AllQueues.ByType.After(&row.QueueName{after, types[i]}, priority); q != nil && q.Typ == types[i] {
			nexts[i] = q.Client
		}
	}
	for i := range types {
		find(i, after)
	}
	return func() string {
		client := slices.MinFunc(nexts, strings.Compare)
		if client == memory.LastName {
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
