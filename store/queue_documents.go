package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// queueName returns the name of a queue. If the queue was deleted after the view was opened, its row has the name. If
// it was deleted before, the name is empty.
func (q *Queries) queueName(v lsm.View, id uint32) queueName {
	q.live.read()
	found := q.live.queues.byID[id]
	q.live.mu.RUnlock()
	if found != nil {
		return found.queueName
	}
	if value := v.Get(queueKey(id)); value != nil {
		return decodeQueueName(value)
	}
	return queueName{}
}

// Queue returns the document of a queue, or job.QueueNotFound if it does not exist.
func (q *Queries) Queue(client, typ string) (doc Queue, err error) {
	defer lsm.Catch(&err)
	q.live.read()
	found := q.live.queues.byName[queueName{client, typ}]
	head, known := position{}, false
	if found != nil {
		doc, head, known = found.document()
	}
	q.live.mu.RUnlock()
	if !known {
		return Queue{}, job.QueueNotFound
	}
	v := q.db.View()
	defer v.Close()
	doc.PendingSince = pendingSince(v, head)
	return doc, nil
}

// Queues returns up to limit queues after the pair (afterClient, afterType) in the order of client and type, of one
// client or, with "", of all clients, and whether more follow.
func (q *Queries) Queues(client, afterClient, afterType string, limit int) (docs []Queue, more bool, err error) {
	defer lsm.Catch(&err)
	var heads []position
	q.live.read()
	page := queuePage{client: client, after: queueName{afterClient, afterType}, limit: limit + 1}
	for _, found := range q.live.queues.page(page, func(found *queue) bool { return found.committed().there }) {
		doc, head, _ := found.document()
		docs, heads = append(docs, doc), append(heads, head)
	}
	q.live.mu.RUnlock()
	if more = len(docs) > limit; more {
		docs = docs[:limit]
	}
	v := q.db.View()
	defer v.Close()
	for i := range docs {
		docs[i].PendingSince = pendingSince(v, heads[i])
	}
	return docs, more, nil
}

// pendingSince returns when the span that ends there became pending, or 0 if it is no longer pending.
func pendingSince(r lsm.Rows, end position) int64 {
	if end.seq == 0 {
		return 0
	}
	if sp, ok := readSpan(r, end.seq, end.line); ok && sp.Status == job.Pending {
		return sp.UpdatedAt
	}
	return 0
}

// readyPage is how many queues ReadyQueues looks at.
const readyPage = 1000

// ReadyQueues looks at the next queues after a client and type, by name. It returns the ones with jobs to hand out, and
// the client and type to continue after, or "" if there are no more queues. It looks at a bounded number of queues,
// because Apply waits for it.
func (q *Queries) ReadyQueues(client, typ string) (ready []Readied, nextClient, nextType string) {
	q.live.mu.RLock()
	defer q.live.mu.RUnlock()
	page := q.live.queues.page(queuePage{after: queueName{client, typ}, limit: readyPage}, func(*queue) bool { return true })
	for _, found := range page {
		if found.head != nil && !q.live.meta.stopped {
			ready = append(ready, Readied{found.client, found.typ, found.counts[job.Pending]})
		}
	}
	if len(page) < readyPage {
		return ready, "", ""
	}
	last := page[len(page)-1]
	return ready, last.client, last.typ
}

// WaitingTypes returns up to limit types after the given one, in order, whose pending jobs a claim would find, of one
// client or, with "", of all clients, and whether more follow. Apply may run between two types, so the types need not
// be of one moment.
func (q *Queries) WaitingTypes(client, afterType string, limit int) (types []WaitingType, more bool, err error) {
	defer lsm.Catch(&err)
	for {
		q.live.read()
		typ, waiting := q.live.queues.nextType(client, afterType)
		q.live.mu.RUnlock()
		if typ == "" {
			return types, false, nil
		}
		if len(types) == limit {
			return types, true, nil
		}
		types = append(types, WaitingType{typ, waiting})
		afterType = typ
	}
}

// FollowOns calls visit with the queues of the jobs that a completion creates because their creates named them
// (job.Attributes.OnComplete), once for each run of jobs. It does so even if the completion will be refused.
func (q *Queries) FollowOns(cmd *job.Complete, visit func(client, typ string, priority int)) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	var groups groupReader
	visitLines := func(b *batch, first, last uint32) {
		for first <= last {
			g := groups.group(v, b, first)
			if g.OnComplete != "" {
				next, _ := followOn(g.OnComplete)
				next.Inherit(q.queueName(v, g.queueID).client, &g.Attributes)
				visit(next.Client, next.Type, next.Priority)
			}
			first = g.last + 1
		}
	}
	for i := range cmd.Outcomes {
		if o := &cmd.Outcomes[i]; o.Code == job.OK {
			if b, line := q.live.readBatchOf(v, o.ID), uint32(o.ID.Line()); b != nil && line < b.lines {
				visitLines(b, line, line)
			}
		}
	}
	if cmd.All == nil || cmd.All.Code != job.OK {
		return nil
	}
	if c := q.live.readClaimOf(v, cmd.Claim); c != nil {
		for _, r := range c.runs {
			if b := readBatch(v, r.Batch); b != nil {
				visitLines(b, r.First, r.Last)
			}
		}
	}
	return nil
}

// QueueOf returns the queue of a job. The names are empty if the job does not exist, or a command is applied for too
// long.
func (q *Queries) QueueOf(id job.ID) (client, typ string, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	b, line := q.live.readBatchOf(v, id), uint32(id.Line())
	if b == nil || line >= b.lines {
		return "", "", nil
	}
	name := q.queueName(v, readGroupPage(v, b, line).group(line).queueID)
	return name.client, name.typ, nil
}
