package memory

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Queue is the pair (client, type). All queues are in memory, with their counters and the fields that a claim needs to
// choose among them. There may be very many, so a queue takes little more memory until it is in use.
type Queue struct {
	row.QueueName
	Id     uint32
	Paused bool
	queueMarks
	CreatedAt int64
	IdleAt    int64 // since when it has had neither jobs nor settings, unix ms; 0 if it has some
	Counts    job.Counts
	// PayloadBytes is the size of the payloads of all its jobs.
	PayloadBytes int64
	Of           *ClientQueues // what its client has
	// priorities are the priorities of the jobs that the queue has, or had since it was last empty.
	Priorities row.Priorities
	Lanes      *Lane // in order of service; none is empty, unless it is the only lane
	// head is the lane of the span that is next in line, and tail the lane that Newest takes from. They are nil if the
	// queue cannot hand out a job.
	Head, Tail *Lane
	// ByClient and ByType are its places in the trees of these names.
	byClient, byType branch
	// shown is the state that queries see while the queue has uncommitted changes; nil: they see the queue.
	Shown *ShownQueue
	// For metrics: its row, which may belong to a different queue by now, and its moves while it lacked a row.
	tally   *tally
	unrowed activity
}

// queueMarks record that a queue is on the lists of these names, of the machine or of the current command.
type queueMarks struct {
	Dirty, Moved, Readied bool
	Misplaced             bool // its spans may have changed since it was placed
	Gone                  bool // deleted
}

// branch is the place of a queue in a tree of queues, and the standing of the subtree of the queue.
type branch struct {
	left, right *Queue
	standing
}

// standing summarizes some queues for claims.
type standing struct {
	Head, Tail *Queue // whose head is next in line, and whose tail became pending last; nil: no job can be handed out
	Jobs       int64  // pending jobs of the highest priority that any of the queues has
	waiting    int64  // pending jobs of all priorities
}

// ShownQueue is a queue as of a commit.
type ShownQueue struct {
	There     bool // the queue was created before the commit
	paused    bool
	createdAt int64
	counts    job.Counts
	head      row.Position // of the end of the span next in line; zero if no job is pending
}

// Lane returns the lane of a priority and class. It adds a new lane, which is known to be empty, if there is none.
func (q *Queue) Lane(id row.LaneID) *Lane {
	at := &q.Lanes
	for *at != nil && compareLanes((*at).LaneID, id) < 0 {
		at = &(*at).Next
	}
	if *at == nil || (*at).LaneID != id {
		*at = &Lane{LaneID: id, Next: *at}
	}
	return *at
}

// first returns the lane of the span that is next in line, or nil if no job is pending.
func (q *Queue) first() *Lane {
	for l := q.Lanes; l != nil; l = l.Next {
		if l.Pending > 0 {
			return l
		}
	}
	return nil
}

// last returns the lane that Newest takes from: of the highest priority, the lane of fresh jobs before the lane of
// returned jobs.
func (q *Queue) last() (last *Lane) {
	for l := q.Lanes; l != nil; l = l.Next {
		if l.Pending > 0 && (last == nil || last.Priority == l.Priority) {
			last = l
		}
	}
	return last
}

// Settle finds the head and the tail of the queue, after its lanes may have changed.
func (q *Queue) Settle(of *lsm.Windows, o *lsm.Overlay) {
	for l := q.Lanes; l != nil; l = l.Next {
		l.Settle(q.Id, of, o)
	}
}

// NextSpans appends the ends of up to n pending spans of the highest priority to ends: the spans that are next in line,
// or the spans that Newest takes next.
func (q *Queue) NextSpans(o *lsm.Overlay, newest bool, n int, ends []row.Position) []row.Position {
	lanes := []*Lane{q.Head}
	if l := q.Head.Next; l != nil && l.Priority == q.Head.Priority && l.Pending > 0 {
		lanes = append(lanes, l)
	}
	if newest {
		slices.Reverse(lanes)
	}
	for _, l := range lanes {
		take := func(key string, _ []byte) bool {
			_, _, end := row.SplitReadyKey(key)
			ends = append(ends, end)
			n--
			return n > 0
		}
		if n == 0 {
			break
		}
		if l.Spans == 1 {
			ends = append(ends, l.Head.End())
			n--
			continue
		}
		if first, last := l.Key(q.Id, &l.Head), l.Key(q.Id, &l.Tail)+"\x00"; newest {
			l.Gap().ScanDown(o, first, last, take)
		} else {
			l.Gap().Scan(o, first, last, take)
		}
	}
	return ends
}

// Ready returns the standing of the queue: the jobs that it can hand out.
func (q *Queue) Ready() (s standing) {
	if q.Head == nil {
		return standing{}
	}
	s = standing{Head: q, Tail: q, Jobs: q.Head.Pending, waiting: q.Counts[job.Pending]}
	if l := q.Head.Next; l != nil && l.Priority == q.Head.Priority {
		s.Jobs += l.Pending
	}
	return s
}

// Top is the priority of the span that is next in line.
func (s *standing) Top() int64 {
	if s.Head == nil {
		return lowest
	}
	return int64(s.Head.Head.Priority)
}

// lowest is lower than every priority.
const lowest = -1

// Add adds the standing of other queues.
func (s *standing) Add(o *standing) {
	if o.Head == nil {
		return
	}
	if s.Head == nil {
		*s = *o
		return
	}
	switch a, b := s.Head.Head.Priority, o.Head.Head.Priority; {
	case a < b:
		s.Jobs = o.Jobs
	case a == b:
		s.Jobs += o.Jobs
	}
	s.waiting += o.waiting
	if compareHeads(o.Head, s.Head) < 0 {
		s.Head = o.Head
	}
	if compareTails(o.Tail, s.Tail) < 0 {
		s.Tail = o.Tail
	}
}

// at returns how many of the jobs have a priority. It must be the highest one, or higher.
func (s *standing) at(priority int64) int64 {
	if s.Top() < priority {
		return 0
	}
	return s.Jobs
}

// compareHeads puts the queue first whose head is next in line.
func compareHeads(a, b *Queue) int {
	if order := compareLanes(a.Head.LaneID, b.Head.LaneID); order != 0 {
		return order
	}
	return comparePlaces(&a.Head.Head, &b.Head.Head)
}

// compareTails puts the queue first that has the newest job of the highest priority.
func compareTails(a, b *Queue) int {
	x, y := a.Tail, b.Tail
	if order := cmp.Compare(y.Priority, x.Priority); order != 0 {
		return order
	}
	if order := cmp.Compare(y.Class, x.Class); order != 0 {
		return order
	}
	return comparePlaces(&y.Tail, &x.Tail)
}

func (q *Queue) Encode() []byte {
	e := make(lsm.Encoder, 0, 96)
	e.Text(q.Client)
	e.Text(q.Typ)
	e.Uint(uint64(q.Priorities))
	e.Bool(q.Paused)
	e.Int(q.CreatedAt)
	e.Int(q.IdleAt)
	row.EncodeCounts(&e, &q.Counts)
	e.Int(q.PayloadBytes)
	for l := q.Lanes; l != nil; l = l.Next {
		if l.Pending > 0 {
			l.Encode(&e)
		}
	}
	return e
}

func DecodeQueue(id uint32, value []byte) *Queue {
	d := lsm.Decoder(value)
	q := &Queue{Id: id, QueueName: row.QueueName{d.Text(), d.Text()}, Priorities: row.Priorities(d.Uint()), Paused: d.Bool(), CreatedAt: d.Int(), IdleAt: d.Int()}
	q.Counts, q.PayloadBytes = row.DecodeCounts(&d), d.Int()
	end := &q.Lanes
	for left := q.Counts[job.Pending]; left > 0; {
		l := decodeLane(&d)
		if l.Pending <= 0 || left < l.Pending {
			lsm.Contradict("decode", "lanes of other than %d pending jobs", q.Counts[job.Pending])
		}
		left -= l.Pending
		*end, end = l, &l.Next
	}
	return q
}

// Configured reports whether a setting of the queue differs from the default. Such a queue is not idle even without
// jobs.
func (q *Queue) Configured() bool { return q.Paused }

// Empty reports whether the queue is without jobs.
func (q *Queue) Empty() bool { return q.Counts.Total() == 0 }

// DecodeQueueName decodes only the name in a queue's row, which comes first.
func DecodeQueueName(value []byte) row.QueueName {
	d := lsm.Decoder(value)
	return row.QueueName{d.Text(), d.Text()}
}

// DecodeQueueHead decodes only the part of a queue's row that determines how much memory the queue takes.
func DecodeQueueHead(value []byte) *Queue {
	d := lsm.Decoder(value)
	return &Queue{QueueName: row.QueueName{d.Text(), d.Text()}, Priorities: row.Priorities(d.Uint())}
}

// DropEmptyLanes drops empty lanes, but keeps the last lane: most queues have one lane, which is empty at times.
func (q *Queue) DropEmptyLanes() {
	for at := &q.Lanes; *at != nil; {
		if l := *at; l.Pending == 0 && (l != q.Lanes || l.Next != nil) {
			l.Drop()
			*at = l.Next
		} else {
			at = &l.Next
		}
	}
}

// State returns the present state of the queue.
func (q *Queue) State() ShownQueue {
	s := ShownQueue{There: true, paused: q.Paused, createdAt: q.CreatedAt, counts: q.Counts}
	if l := q.first(); l != nil {
		s.head = l.Head.End()
	}
	return s
}

// Committed returns the state of the queue as of the last commit.
func (q *Queue) Committed() ShownQueue {
	if q.Shown != nil {
		return *q.Shown
	}
	return q.State()
}

// Document returns the document of the queue as of the last commit, without PendingSince, and the end of the span next
// in line. ok is false if no commit has written the queue yet.
func (q *Queue) Document() (doc document.Queue, head row.Position, ok bool) {
	s := q.Committed()
	return document.Queue{Client: q.Client, Type: q.Typ, Paused: s.paused, CreatedAt: s.createdAt, Counts: s.counts}, s.head, s.There
}

// Unfinished returns how many jobs of the queue have not ended.
func (q *Queue) Unfinished() int64 {
	return q.Counts[job.Deferred] + q.Counts[job.Pending] + q.Counts[job.Active]
}

// floors calls add for each lane with pending jobs, with a ready key that is not after the lane's first span.
func (q *Queue) floors(add func(key string)) {
	for l := q.Lanes; l != nil; l = l.Next {
		if l.Pending > 0 {
			add(l.Key(q.Id, &l.Head))
		}
	}
}

// Claimable is the number of jobs that a claim would find in a queue, provided that the server hands out jobs.
func (q *Queue) Claimable() int64 {
	if q.Head == nil {
		return 0
	}
	return q.Counts[job.Pending]
}

func (q *Queue) Flush(o *lsm.Overlay) {
	q.Dirty = false
	if q.Gone {
		o.Delete(row.QueueKey(q.Id))
	} else {
		o.Set(row.QueueKey(q.Id), q.Encode())
	}
}
