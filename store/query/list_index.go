package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// spanCursor reads the spans of one queue and status, in the order of ids, some at a time.
type spanCursor struct {
	queue  uint32
	status job.Status
	ahead  []row.Position // the last lines of spans
	ended  bool
}

// cursors returns the cursors of all queues and statuses that the filter allows; not ok if there are too many.
func (l *lister) cursors() (list []*spanCursor, ok bool) {
	statuses := job.Statuses
	if l.f.Status != 0 {
		statuses = []job.Status{l.f.Status}
	}
	clients, most := []string{l.f.Client}, maxLists/len(statuses)
	if l.f.Client == "" && l.f.Scope.Clients != nil {
		clients = l.f.Scope.Clients
	}
	var queues []uint32
	for _, client := range clients {
		ids, ok := l.listQueues(client, l.f.Type, most-len(queues), &l.f.Scope)
		if !ok {
			return nil, false
		}
		queues = append(queues, ids...)
	}
	for _, queue := range queues {
		for _, status := range statuses {
			list = append(list, &spanCursor{queue: queue, status: status})
		}
	}
	return list, true
}

// listQueues returns the numbers of the queues of a client, a type, or both ("": all) that are in a scope; not ok if there are
// more than most, or if too many would have to be searched. It reads memory, while the list reads a view. That is safe: a queue
// that was created after the view was opened has no rows in it, and the jobs of a queue that was deleted since then no
// longer exist.
func (q *Queries) listQueues(client, typ string, most int, s *job.Scope) (ids []uint32, ok bool) {
	q.live.Read()
	defer q.live.Mu.RUnlock()
	if client != "" && typ != "" {
		if found := q.live.AllQueues.ByName[row.QueueName{client, typ}]; found != nil && s.Has(client, typ) {
			ids = append(ids, found.Id)
		}
		return ids, true
	}
	left := maxListQueues
	q.live.AllQueues.ByClient.Ascend(&row.QueueName{Client: client}, func(q *memory.Queue) bool {
		if client != "" && q.Client != client {
			return false
		}
		if (typ == "" || q.Typ == typ) && s.Has(q.Client, q.Typ) {
			ids = append(ids, q.Id)
		}
		left--
		return left >= 0 && len(ids) <= most
	})
	return ids, left >= 0 && len(ids) <= most
}

// Next returns the first place of the cursor at or after from.
func (c *spanCursor) Next(v lsm.View, from row.Position) (at row.Position, ok bool) {
	if len(c.ahead) == 0 && !c.ended {
		prefix := row.ListPrefix(c.queue, c.status)
		v.Scan(row.ListKey(c.queue, c.status, from.Seq, from.Line), lsm.After(prefix), func(key string, _ []byte) bool {
			c.ahead = append(c.ahead, row.Position{lsm.U64At(key, 6), lsm.U32At(key, 14)})
			return len(c.ahead) < keyWindow
		})
		c.ended = len(c.ahead) < keyWindow
	}
	if len(c.ahead) == 0 {
		return row.Position{}, false
	}
	return c.ahead[0], true
}

// walkLists looks at the spans of several queues and statuses, merged in the order of ids.
func (l *lister) walkLists(cursors []*spanCursor) (atEnd bool) {
	var b *row.Batch
	for from := l.from; ; {
		var first *spanCursor
		var at row.Position
		for _, c := range cursors {
			if p, ok := c.Next(l.v, from); ok && (first == nil || row.ComparePositions(p, at) < 0) {
				first, at = c, p
			}
		}
		if first == nil {
			return true
		}
		first.ahead = first.ahead[1:]
		from = row.Position{at.Seq, at.Line + 1}
		if b == nil || b.Seq != at.Seq {
			if b = l.readBatch(at.Seq); b == nil {
				lsm.Contradict("list", "batch %d is in a list and has no row", at.Seq)
			}
		}
		if l.tooLate(b) {
			return true
		}
		sp, ok := row.ReadSpan(l.v, at.Seq, at.Line)
		if !ok {
			lsm.Contradict("list", "line %d of batch %d is in a list and in no span", at.Line, at.Seq)
		}
		if g := l.groupOf(b, at.Line); !l.Group(g) {
			l.rows--
			if !l.goOn(b, at.Line) {
				return false
			}
		} else if !l.Take(b, g, sp) {
			return false
		}
	}
}
