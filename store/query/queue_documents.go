package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// QueueName returns the name of a queue. If the queue was deleted after the view was opened, its row has the name. If
// it was deleted before, the name is empty.
func (q *Queries) QueueName(v lsm.View, id uint32) row.QueueName {
	q.live.Read()
	found := q.live.AllQueues.ByID[id]
	q.live.Mu.RUnlock()
	if found != nil {
		return found.QueueName
	}
	if value := v.Get(row.QueueKey(id)); value != nil {
		return memory.DecodeQueueName(value)
	}
	return row.QueueName{}
}

// Queue returns the document of a queue, or job.QueueNotFound if it does not exist.
func (q *Queries) Queue(client, typ string) (doc document.Queue, err error) {
	defer lsm.Catch(&err)
	q.live.Read()
	found := q.live.AllQueues.ByName[row.QueueName{client, typ}]
	head, known := row.Position{}, false
	if found != nil {
		doc, head, known = found.Document()
	}
	q.live.Mu.RUnlock()
	if !known {
		return document.Queue{}, job.QueueNotFound
	}
	v := q.db.View()
	defer v.Close()
	doc.PendingSince = pendingSince(v, head)
	return doc, nil
}

// Queues returns up to limit queues after the pair (afterClient, afterType) in the order of client and type, of one
// client or, with "", of all clients in the scope, and whether more follow.
func (q *Queries) Queues(s *job.Scope, client, afterClient, afterType string, limit int) (docs []document.Queue, more bool, err error) {
	defer lsm.Catch(&err)
	var heads []row.Position
	q.live.Read()
	for _, client := range clientsOf(s, client) {
		page := memory.QueuePage{Client: client, After: row.QueueName{afterClient, afterType}, Limit: limit + 1 - len(docs)}
		if client != "" && client < afterClient || page.Limit <= 0 {
			continue
		}
		for _, found := range q.live.AllQueues.Page(page, func(found *memory.Queue) bool { return found.Committed().There && s.Has(found.Client, found.Typ) }) {
			doc, head, _ := found.Document()
			docs, heads = append(docs, doc), append(heads, head)
		}
	}
	q.live.Mu.RUnlock()
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

// clientsOf returns the clients whose queues a list has: one, or with "" those of a scope. "" in the result means all clients.
func clientsOf(s *job.Scope, client string) []string {
	if client == "" && s.Clients != nil {
		return s.Clients
	}
	return []string{client}
}

// pendingSince returns when the span that ends there became pending, or 0 if it is no longer pending.
func pendingSince(r lsm.Rows, end row.Position) int64 {
	if end.Seq == 0 {
		return 0
	}
	if sp, ok := row.ReadSpan(r, end.Seq, end.Line); ok && sp.Status == job.Pending {
		return sp.UpdatedAt
	}
	return 0
}

// readyPage is how many queues ReadyQueues looks at.
const readyPage = 1000

// ReadyQueues looks at the next queues after a client and type, by name. It returns the ones with jobs to hand out, and
// the client and type to continue after, or "" if there are no more queues. It looks at a bounded number of queues,
// because Apply waits for it.
func (q *Queries) ReadyQueues(client, typ string) (ready []document.Readied, nextClient, nextType string) {
	q.live.Mu.RLock()
	defer q.live.Mu.RUnlock()
	page := q.live.AllQueues.Page(memory.QueuePage{After: row.QueueName{client, typ}, Limit: readyPage}, func(*memory.Queue) bool { return true })
	for _, found := range page {
		if found.Head != nil && !q.live.Meta.Stopped {
			ready = append(ready, document.Readied{found.Client, found.Typ, found.Counts[job.Pending]})
		}
	}
	if len(page) < readyPage {
		return ready, "", ""
	}
	last := page[len(page)-1]
	return ready, last.Client, last.Typ
}

// WaitingTypes returns up to limit types after the given one, in order, whose pending jobs a claim would find, of one
// client or, with "", of all clients in the scope, and whether more follow. Apply may run between two types, so the types need
// not be of one moment.
func (q *Queries) WaitingTypes(s *job.Scope, client, afterType string, limit int) (types []document.WaitingType, more bool, err error) {
	defer lsm.Catch(&err)
	clients := clientsOf(s, client)
	for {
		typ, waiting := q.nextType(clients, afterType)
		if typ == "" {
			return types, false, nil
		}
		if !s.HasType(typ) || client != "" && !s.HasClient(client) {
			afterType = typ
			continue
		}
		if len(types) == limit {
			return types, true, nil
		}
		types = append(types, document.WaitingType{typ, waiting})
		afterType = typ
	}
}

// nextType returns the first type after a type that has waiting jobs of some clients, and their number.
func (q *Queries) nextType(clients []string, after string) (typ string, waiting int64) {
	q.live.Read()
	defer q.live.Mu.RUnlock()
	for _, client := range clients {
		switch own, jobs := q.live.AllQueues.NextType(client, after); {
		case own == "":
		case typ == "" || own < typ:
			typ, waiting = own, jobs
		case own == typ:
			waiting += jobs
		}
	}
	return typ, waiting
}

// FollowOns calls visit with the queues of the jobs that a completion creates because their creates named them
// (job.Attributes.OnComplete), once for each run of jobs. It does so even if the completion will be refused.
func (q *Queries) FollowOns(cmd *job.Complete, visit func(client, typ string, priority int)) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	var groups row.GroupReader
	visitLines := func(b *row.Batch, first, last uint32) {
		for first <= last {
			g := groups.Group(v, b, first)
			if g.OnComplete != "" {
				next, _ := machine.FollowOn(g.OnComplete)
				next.Inherit(q.QueueName(v, g.QueueID).Client, &g.Attributes)
				visit(next.Client, next.Type, next.Priority)
			}
			first = g.Last + 1
		}
	}
	for i := range cmd.Outcomes {
		if o := &cmd.Outcomes[i]; o.Code == job.OK {
			if b, line := q.live.ReadBatchOf(v, o.ID), uint32(o.ID.Line()); b != nil && line < b.Lines {
				visitLines(b, line, line)
			}
		}
	}
	if cmd.All == nil || cmd.All.Code != job.OK {
		return nil
	}
	if c := q.live.ReadClaimOf(v, cmd.Claim); c != nil {
		for _, r := range c.Runs {
			if b := row.ReadBatch(v, r.Batch); b != nil {
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
	b, line := q.live.ReadBatchOf(v, id), uint32(id.Line())
	if b == nil || line >= b.Lines {
		return "", "", nil
	}
	name := q.QueueName(v, row.ReadGroupPage(v, b, line).Group(line).QueueID)
	return name.Client, name.Typ, nil
}
