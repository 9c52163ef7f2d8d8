package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// queue is the pair (client, type). All queues are in memory, with their counters and the fields that a claim needs to
// choose among them. There may be very many, so a queue takes little more memory until it is in use.
type queue struct {
	queueName
	id     uint32
	paused bool
	queueMarks
	createdAt int64
	idleAt    int64 // since when it has had neither jobs nor settings, unix ms; 0 if it has some
	counts    job.Counts
	// priorities are the priorities of the jobs that the queue has, or had since it was last empty.
	priorities Priorities
	lanes      *lane // in order of service; none is empty, unless it is the only lane
	// head is the lane of the span that is next in line, and tail the lane that Newest takes from. They are nil if the
	// queue cannot hand out a job.
	head, tail *lane
	// byClient and byType are its places in the trees of these names.
	byClient, byType branch
	// shown is the state that queries see while the queue has uncommitted changes; nil: they see the queue.
	shown *shownQueue
	// For metrics: its row, which may belong to a different queue by now, and its moves while it lacked a row.
	tally   *tally
	unrowed activity
}

// queueMarks record that a queue is on the lists of these names, of the machine or of the current command.
type queueMarks struct {
	dirty, moved, readied bool
	misplaced             bool // its spans may have changed since it was placed
	gone                  bool // deleted
}

// branch is the place of a queue in a tree of queues, and the standing of the subtree of the queue.
type branch struct {
	left, right *queue
	standing
}

// standing summarizes some queues for claims.
type standing struct {
	head, tail *queue // whose head is next in line, and whose tail became pending last; nil: no job can be handed out
	jobs       int64  // pending jobs of the highest priority that any of the queues has
	waiting    int64  // pending jobs of all priorities
}

// shownQueue is a queue as of a commit.
type shownQueue struct {
	there     bool // the queue was created before the commit
	paused    bool
	createdAt int64
	counts    job.Counts
	head      position // of the end of the span next in line; zero if no job is pending
}

// lane returns the lane of a priority and class. It adds a new lane, which is known to be empty, if there is none.
func (q *queue) lane(id laneID) *lane {
	at := &q.lanes
	for *at != nil && compareLanes((*at).laneID, id) < 0 {
		at = &(*at).next
	}
	if *at == nil || (*at).laneID != id {
		*at = &lane{laneID: id, next: *at}
	}
	return *at
}

// first returns the lane of the span that is next in line, or nil if no job is pending.
func (q *queue) first() *lane {
	for l := q.lanes; l != nil; l = l.next {
		if l.pending > 0 {
			return l
		}
	}
	return nil
}

// last returns the lane that Newest takes from: of the highest priority, the lane of fresh jobs before the lane of
// returned jobs.
func (q *queue) last() (last *lane) {
	for l := q.lanes; l != nil; l = l.next {
		if l.pending > 0 && (last == nil || last.priority == l.priority) {
			last = l
		}
	}
	return last
}

// settle finds the head and the tail of the queue, after its lanes may have changed.
func (q *queue) settle(of *lsm.Windows, o *lsm.Overlay) {
	for l := q.lanes; l != nil; l = l.next {
		l.settle(q.id, of, o)
	}
}

// nextSpans appends the ends of up to n pending spans of the highest priority to ends: the spans that are next in line,
// or the spans that Newest takes next.
func (q *queue) nextSpans(o *lsm.Overlay, newest bool, n int, ends []position) []position {
	lanes := []*lane{q.head}
	if l := q.head.next; l != nil && l.priority == q.head.priority && l.pending > 0 {
		lanes = append(lanes, l)
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
		if l.spans == 1 {
			ends = append(ends, l.head.end())
			n--
			continue
		}
		if first, last := l.key(q.id, &l.head), l.key(q.id, &l.tail)+"\x00"; newest {
			l.gap().ScanDown(o, first, last, take)
		} else {
			l.gap().Scan(o, first, last, take)
		}
	}
	return ends
}

// ready returns the standing of the queue: the jobs that it can hand out.
func (q *queue) ready() (s standing) {
	if q.head == nil {
		return standing{}
	}
	s = standing{head: q, tail: q, jobs: q.head.pending, waiting: q.counts[job.Pending]}
	if l := q.head.next; l != nil && l.priority == q.head.priority {
		s.jobs += l.pending
	}
	return s
}

// top is the priority of the span that is next in line.
func (s *standing) top() int64 {
	if s.head == nil {
		return lowest
	}
	return int64(s.head.head.priority)
}

// lowest is lower than every priority.
const lowest = -1

// add adds the standing of other queues.
func (s *standing) add(o *standing) {
	if o.head == nil {
		return
	}
	if s.head == nil {
		*s = *o
		return
	}
	switch a, b := s.head.head.priority, o.head.head.priority; {
	case a < b:
		s.jobs = o.jobs
	case a == b:
		s.jobs += o.jobs
	}
	s.waiting += o.waiting
	if compareHeads(o.head, s.head) < 0 {
		s.head = o.head
	}
	if compareTails(o.tail, s.tail) < 0 {
		s.tail = o.tail
	}
}

// at returns how many of the jobs have a priority. It must be the highest one, or higher.
func (s *standing) at(priority int64) int64 {
	if s.top() < priority {
		return 0
	}
	return s.jobs
}

// compareHeads puts the queue first whose head is next in line.
func compareHeads(a, b *queue) int {
	if order := compareLanes(a.head.laneID, b.head.laneID); order != 0 {
		return order
	}
	return comparePlaces(&a.head.head, &b.head.head)
}

// compareTails puts the queue first that has the newest job of the highest priority.
func compareTails(a, b *queue) int {
	x, y := a.tail, b.tail
	if order := cmp.Compare(y.priority, x.priority); order != 0 {
		return order
	}
	if order := cmp.Compare(y.class, x.class); order != 0 {
		return order
	}
	return comparePlaces(&y.tail, &x.tail)
}

func (q *queue) encode() []byte {
	e := make(lsm.Encoder, 0, 96)
	e.Text(q.client)
	e.Text(q.typ)
	e.Uint(uint64(q.priorities))
	e.Bool(q.paused)
	e.Int(q.createdAt)
	e.Int(q.idleAt)
	encodeCounts(&e, &q.counts)
	for l := q.lanes; l != nil; l = l.next {
		if l.pending > 0 {
			l.encode(&e)
		}
	}
	return e
}

func decodeQueue(id uint32, value []byte) *queue {
	d := lsm.Decoder(value)
	q := &queue{id: id, queueName: queueName{d.Text(), d.Text()}, priorities: Priorities(d.Uint()), paused: d.Bool(), createdAt: d.Int(), idleAt: d.Int()}
	q.counts = decodeCounts(&d)
	end := &q.lanes
	for left := q.counts[job.Pending]; left > 0; {
		l := decodeLane(&d)
		if l.pending <= 0 || left < l.pending {
			lsm.Contradict("decode", "lanes of other than %d pending jobs", q.counts[job.Pending])
		}
		left -= l.pending
		*end, end = l, &l.next
	}
	return q
}

// configured reports whether a setting of the queue differs from the default. Such a queue is not idle even without
// jobs.
func (q *queue) configured() bool { return q.paused }

// empty reports whether the queue is without jobs.
func (q *queue) empty() bool { return q.counts.Total() == 0 }

// decodeQueueName decodes only the name in a queue's row, which comes first.
func decodeQueueName(value []byte) queueName {
	d := lsm.Decoder(value)
	return queueName{d.Text(), d.Text()}
}

// decodeQueueHead decodes only the part of a queue's row that determines how much memory the queue takes.
func decodeQueueHead(value []byte) *queue {
	d := lsm.Decoder(value)
	return &queue{queueName: queueName{d.Text(), d.Text()}, priorities: Priorities(d.Uint())}
}

// dropEmptyLanes drops empty lanes, but keeps the last lane: most queues have one lane, which is empty at times.
func (q *queue) dropEmptyLanes() {
	for at := &q.lanes; *at != nil; {
		if l := *at; l.pending == 0 && (l != q.lanes || l.next != nil) {
			l.drop()
			*at = l.next
		} else {
			at = &l.next
		}
	}
}

// state returns the present state of the queue.
func (q *queue) state() shownQueue {
	s := shownQueue{there: true, paused: q.paused, createdAt: q.createdAt, counts: q.counts}
	if l := q.first(); l != nil {
		s.head = l.head.end()
	}
	return s
}

// committed returns the state of the queue as of the last commit.
func (q *queue) committed() shownQueue {
	if q.shown != nil {
		return *q.shown
	}
	return q.state()
}

// document returns the document of the queue as of the last commit, without PendingSince, and the end of the span next
// in line. ok is false if no commit has written the queue yet.
func (q *queue) document() (doc Queue, head position, ok bool) {
	s := q.committed()
	return Queue{Client: q.client, Type: q.typ, Paused: s.paused, CreatedAt: s.createdAt, Counts: s.counts}, s.head, s.there
}

// unfinished returns how many jobs of the queue have not ended.
func (q *queue) unfinished() int64 {
	return q.counts[job.Deferred] + q.counts[job.Pending] + q.counts[job.Active]
}

// floors calls add for each lane with pending jobs, with a ready key that is not after the lane's first span.
func (q *queue) floors(add func(key string)) {
	for l := q.lanes; l != nil; l = l.next {
		if l.pending > 0 {
			add(l.key(q.id, &l.head))
		}
	}
}

// claimable is the number of jobs that a claim would find in a queue, provided that the server hands out jobs.
func (q *queue) claimable() int64 {
	if q.head == nil {
		return 0
	}
	return q.counts[job.Pending]
}

func (q *queue) flush(o *lsm.Overlay) {
	q.dirty = false
	if q.gone {
		o.Delete(queueKey(q.id))
	} else {
		o.Set(queueKey(q.id), q.encode())
	}
}
