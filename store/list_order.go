package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// begin finds where the list begins. It returns false if no batch is there. Ids are in the order of time, seq and line,
// and the times of batches never decrease with their seqs. So if no batch has the id, a binary search finds its place.
func (l *lister) begin() bool {
	at := l.f.After.At()
	var from position
	switch {
	case l.f.CreatedAfter > at:
		at = l.f.CreatedAfter
	case l.f.After.IsZero():
		return true
	default:
		seqs := l.live.seqs(l.f.After)
		from = position{seqs.seqs[0], uint32(l.f.After.Line()) + 1}
		for _, seq := range seqs.all() {
			if value := l.v.Get(seqKey(batchTable, seq)); value != nil && batchAt(value) == at {
				l.from = position{seq, from.line}
				return true
			}
		}
	}
	first, firstAt, ok := firstBatch(l.v, at)
	if firstAt == at && from.seq > first { // after some batches of that millisecond, and before all later batches
		first = from.seq
		if later, _, ok := firstBatch(l.v, at+1); ok {
			first = min(first, later)
		}
	}
	l.from = position{seq: first}
	return ok
}

// firstBatch returns the first batch that was created at or after a time.
func firstBatch(v lsm.View, at int64) (seq uint64, seqAt int64, ok bool) {
	probe := func(from uint64) (seq uint64, seqAt int64, ok bool) {
		v.Scan(seqKey(batchTable, from), string(batchTable+1), func(key string, value []byte) bool {
			seq, seqAt, ok = seqOfKey(key), batchAt(value), true
			return false
		})
		return seq, seqAt, ok
	}
	// Invariant: all batches before low are too early. If ok, found is not too early.
	low, high := uint64(0), lastBatch(v)+1
	for low < high {
		mid := low + (high-low)/2
		found, foundAt, there := probe(mid)
		if there && foundAt < at {
			low = found + 1
			continue
		}
		if there {
			seq, seqAt, ok = found, foundAt, true
		}
		high = mid
	}
	return seq, seqAt, ok
}

// lastBatch returns the seq of the newest batch, or 0 if there is none.
func lastBatch(v lsm.View) (seq uint64) {
	v.ScanDown(string(batchTable), string(batchTable+1), func(key string, _ []byte) bool {
		seq = seqOfKey(key)
		return false
	})
	return seq
}

// batchAt decodes only the time in a batch's row, which comes first.
func batchAt(value []byte) int64 {
	d := lsm.Decoder(value)
	return d.Int()
}

// spanCursor reads the spans of one queue and status, in the order of ids, some at a time.
type spanCursor struct {
	queue  uint32
	status job.Status
	ahead  []position // the last lines of spans
	ended  bool
}

// cursors returns the cursors of all queues and statuses that the filter allows; not ok if there are too many.
func (l *lister) cursors() (list []*spanCursor, ok bool) {
	statuses := job.Statuses
	if l.f.Status != 0 {
		statuses = []job.Status{l.f.Status}
	}
	queues, ok := l.listQueues(l.f.Client, l.f.Type, maxLists/len(statuses))
	if !ok {
		return nil, false
	}
	for _, queue := range queues {
		for _, status := range statuses {
			list = append(list, &spanCursor{queue: queue, status: status})
		}
	}
	return list, true
}

// listQueues returns the numbers of the queues of a client, a type, or both ("": all); not ok if there are more than
// most, or if too many would have to be searched. It reads memory, while the list reads a view. That is safe: a queue
// that was created after the view was opened has no rows in it, and the jobs of a queue that was deleted since then no
// longer exist.
func (q *Queries) listQueues(client, typ string, most int) (ids []uint32, ok bool) {
	q.live.read()
	defer q.live.mu.RUnlock()
	if client != "" && typ != "" {
		if found := q.live.queues.byName[queueName{client, typ}]; found != nil {
			ids = append(ids, found.id)
		}
		return ids, true
	}
	left := maxListQueues
	q.live.queues.byClient.ascend(&queueName{client: client}, func(q *queue) bool {
		if client != "" && q.client != client {
			return false
		}
		if typ == "" || q.typ == typ {
			ids = append(ids, q.id)
		}
		left--
		return left >= 0 && len(ids) <= most
	})
	return ids, left >= 0 && len(ids) <= most
}

// next returns the first place of the cursor at or after from.
func (c *spanCursor) next(v lsm.View, from position) (at position, ok bool) {
	if len(c.ahead) == 0 && !c.ended {
		prefix := listPrefix(c.queue, c.status)
		v.Scan(listKey(c.queue, c.status, from.seq, from.line), lsm.After(prefix), func(key string, _ []byte) bool {
			c.ahead = append(c.ahead, position{lsm.U64At(key, 6), lsm.U32At(key, 14)})
			return len(c.ahead) < keyWindow
		})
		c.ended = len(c.ahead) < keyWindow
	}
	if len(c.ahead) == 0 {
		return position{}, false
	}
	return c.ahead[0], true
}

// walkLists looks at the spans of several queues and statuses, merged in the order of ids.
func (l *lister) walkLists(cursors []*spanCursor) (atEnd bool) {
	var b *batch
	for from := l.from; ; {
		var first *spanCursor
		var at position
		for _, c := range cursors {
			if p, ok := c.next(l.v, from); ok && (first == nil || comparePositions(p, at) < 0) {
				first, at = c, p
			}
		}
		if first == nil {
			return true
		}
		first.ahead = first.ahead[1:]
		from = position{at.seq, at.line + 1}
		if b == nil || b.seq != at.seq {
			if b = l.readBatch(at.seq); b == nil {
				lsm.Contradict("list", "batch %d is in a list and has no row", at.seq)
			}
		}
		if l.tooLate(b) {
			return true
		}
		sp, ok := readSpan(l.v, at.seq, at.line)
		if !ok {
			lsm.Contradict("list", "line %d of batch %d is in a list and in no span", at.line, at.seq)
		}
		if g := l.groupOf(b, at.line); !l.group(g) {
			l.rows--
			if !l.goOn(b, at.line) {
				return false
			}
		} else if !l.take(b, g, sp) {
			return false
		}
	}
}
