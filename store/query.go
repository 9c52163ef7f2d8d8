package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// Job returns the document of a job; job.NotFound when there is none.
func (s *Store) Job(id job.ID) (doc job.Job, err error) {
	doc, _, err = s.JobWithin(id, unbounded)
	return doc, err
}

// JobWithin is Job for a caller with a bound on its memory. If the job's payload, output and history have more than room bytes together, it
// reads none of them, and fits is false.
func (s *Store) JobWithin(id job.ID, room int64) (doc job.Job, fits bool, err error) {
	defer catch(&err)
	v := s.view()
	defer v.discard()
	return s.jobIn(v, id, room)
}

func (s *Store) jobIn(v view, id job.ID, room int64) (doc job.Job, fits bool, err error) {
	line := uint32(id.Line())
	b := s.readBatchOf(v, id)
	if b == nil || line >= b.lines || !s.hasPage(v, b, line) {
		return job.Job{}, false, job.NotFound
	}
	docs, all := s.documentsWithin(v, b, line, line, 0, Everything, room, nil)
	switch {
	case !all:
		return job.Job{}, false, nil
	case len(docs) == 0:
		return job.Job{}, false, job.NotFound
	}
	return docs[0], true, nil
}

// Held returns the documents of the jobs that a claim still holds of what it handed out, as a claim shows them.
func (s *Store) Held(c *Claimed) (docs []job.Job, err error) {
	defer catch(&err)
	v := s.view()
	defer v.discard()
	return s.heldDocuments(v, c.Seq, c.Runs, Payloads|Brief|whole), nil
}

// heldDocuments returns the documents of the jobs in runs that a claim holds.
func (s *Store) heldDocuments(v view, claim uint64, runs []Run, parts Parts) (docs []job.Job) {
	for _, r := range runs {
		if b := readBatch(v, r.Batch); b != nil {
			docs = s.documents(v, b, r.First, r.Last, claim, parts, docs)
		}
	}
	return docs
}

// documents appends the documents of lines first … last of b to docs; with a claim, of those that it holds. Purged lines have none.
func (s *Store) documents(v view, b *batch, first, last uint32, claim uint64, parts Parts, docs []job.Job) []job.Job {
	docs, _ = s.documentsWithin(v, b, first, last, claim, parts, unbounded, docs)
	return docs
}

// documentsWithin is documents of which the payloads and details have at most room bytes together. all is false when there are more.
func (s *Store) documentsWithin(v view, b *batch, first, last uint32, claim uint64, parts Parts, room int64, docs []job.Job) (_ []job.Job, all bool) {
	start := len(docs)
	var names map[uint32]queueName
	eachSpan(v, b.seq, first, last, func(sp span) bool {
		if sp.Status == job.Purged || claim != 0 && (sp.Status != job.Active || sp.Claim != claim) {
			return true
		}
		for line := max(first, sp.first); line <= min(last, sp.last); line++ {
			docs = append(docs, b.document(&sp, line))
		}
		return true
	})
	found := docs[start:]
	if len(found) == 0 {
		return docs, true
	}

	// The rest is looked up once for all lines, in order.
	names = map[uint32]queueName{}
	for i := range found {
		g := b.group(uint32(found[i].ID.Line()))
		name, ok := names[g.queue]
		if !ok {
			name = s.queueName(v, g.queue)
			names[g.queue] = name
		}
		found[i].Client, found[i].Type = name.client, name.typ
	}
	n, _ := s.fill(v, b, found, parts, room, 0)
	return docs[:start+n], n == len(found)
}

// document makes the part of a document that the span and the group tell.
func (b *batch) document(sp *span, line uint32) job.Job {
	doc := b.group(line).Document(&sp.State)
	doc.ID, doc.Batch, doc.CreatedAt = job.NewID(b.at, b.seq, int(line)), b.id(), b.at
	return doc
}

// deadline returns when an active job counts as abandoned: when its lease ends, or its time-out.
func (sp *span) deadline(lease int64) int64 {
	if sp.At > 0 {
		return min(sp.At, lease)
	}
	return lease
}

// addClaims adds what the claims of the lines say, and returns their seqs; 0: none. A waiting line shows none, though its state may
// remember one.
func (s *Store) addClaims(v view, b *batch, docs []job.Job) (claims []uint64) {
	claims = make([]uint64, len(docs))
	var c *claim
	var r *runner
	var graceAt int64
	var sp span
	for i := range docs {
		doc := &docs[i]
		if doc.Status != job.Active && !doc.Status.Terminal() {
			continue
		}
		line := uint32(doc.ID.Line())
		if i == 0 || line < sp.first || line > sp.last {
			sp, _ = readSpan(v, b.seq, line)
		}
		if sp.Claim == 0 {
			continue
		}
		if c == nil || c.seq != sp.Claim {
			c = readClaim(v, sp.Claim)
			r = readRunner(v, c.runner)
			graceAt = decodeMeta(v.get(metaKey)).graceAt
		}
		claims[i] = c.seq
		doc.Claim, doc.Runner = c.id(), c.runner
		if doc.Status != job.Active {
			continue
		}
		t := c.lease
		if c.jobLeases > 0 {
			if value := v.get(jobLeaseKey(c.seq, b.seq, line)); value != nil {
				o := decodeJobLease(value)
				t = o.lease.Under(c.lease)
			}
		}
		doc.DeadlineAt, doc.LeaseMs = sp.deadline(t.Deadline(&r.promise, graceAt)), t.Ms
		doc.UpdatedAt = max(doc.UpdatedAt, t.At, r.tickledAt)
	}
	return claims
}

// addKeys adds the unique keys of jobs of a batch.
func addKeys(r rows, b *batch, docs []job.Job) {
	for _, u := range keysOf(r, b, uint32(docs[0].ID.Line()), uint32(docs[len(docs)-1].ID.Line())) {
		if at, ok := slices.BinarySearchFunc(docs, u.Line, func(doc job.Job, line int) int { return doc.ID.Line() - line }); ok {
			docs[at].UniqueKey = u.Key
		}
	}
}

// addDetails adds all that is kept for single lines, whose claims are given.
func addDetails(v view, b *batch, docs []job.Job, claims []uint64) {
	first, last := uint32(docs[0].ID.Line()), uint32(docs[len(docs)-1].ID.Line())
	for i := range docs { // an earlier read may have met damage after some of them
		docs[i].Attempts = nil
	}
	at := 0
	v.scan(detailKey(b.seq, first, 0), detailKey(b.seq, last+1, 0), func(key string, value []byte) bool {
		line := lineOfKey(key)
		for at < len(docs) && uint32(docs[at].ID.Line()) < line {
			at++
		}
		if at == len(docs) {
			return false
		}
		doc := &docs[at]
		if uint32(doc.ID.Line()) != line {
			return true
		}
		switch kindOfDetail(key) {
		case historyDetail: // oldest first
			doc.Attempts = append(doc.Attempts, decodeAttempt(value))
			if doc.Code != job.OK {
				doc.Error = doc.Attempts[len(doc.Attempts)-1].Error
			}
		case resultDetail:
			if claim, result := decodeResult(value); claims[at] != 0 && claim == claims[at] {
				doc.Result = result
			}
		case progressDetail:
			if claim, step, progress := decodeProgress(value); claims[at] != 0 && claim == claims[at] {
				doc.Step, doc.Progress = step, progress
			}
		}
		return true
	})
}

// addBrief adds, of what is kept for single lines, what their next runner needs: the newest attempt with the beginning of its error, step
// and progress. Nothing else is read, since a job may have megabytes of history, and what holds a claim has no output yet.
func addBrief(v view, b *batch, docs []job.Job, claims []uint64) {
	for i := range docs {
		doc := &docs[i]
		line := uint32(doc.ID.Line())
		if value := v.newest(detailKey(b.seq, line, historyDetail)); value != nil {
			newest := decodeAttemptBrief(value, maxHandedError)
			doc.Attempts, doc.Error = []job.Attempt{newest}, newest.Error
		}
		if claims[i] == 0 {
			continue
		}
		if value := v.get(detailKey(b.seq, line, progressDetail)); value != nil {
			if claim, step, progress := decodeProgress(value); claim == claims[i] {
				doc.Step, doc.Progress = step, progress
			}
		}
	}
}

// maxHandedError bounds the error text that goes with a job to its next runner.
const maxHandedError = 1 << 10

// queueName returns the name of a queue; that of one which has been deleted since the view was opened is in its row, and that of one which
// was gone by then is empty.
func (s *Store) queueName(v view, id uint32) queueName {
	s.mu.RLock()
	q := s.queues.byID[id]
	s.mu.RUnlock()
	if q == nil {
		value := v.get(queueKey(id))
		if value == nil {
			return queueName{}
		}
		q = decodeQueue(id, value, &windows{bounds: s.bounds})
	}
	return queueName{q.client, q.typ}
}

// Batch returns the document of a batch; job.NotFound when there is none, or when all of it is purged.
func (s *Store) Batch(id job.ID) (_ Batch, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	b := s.readBatchOf(v, id)
	if b == nil || b.id() != id {
		return Batch{}, job.NotFound
	}
	return Batch{ID: id, CreatedAt: b.at, Lines: int(b.lines), Counts: b.counts}, nil
}

// Queue returns the document of a queue; job.QueueNotFound when there is none.
func (s *Store) Queue(client, typ string) (_ Queue, err error) {
	defer catch(&err)
	s.mu.RLock()
	q := s.queues.byName[queueName{client, typ}]
	var doc Queue
	var head string
	known := q != nil && q.committed()
	if known {
		doc, head = q.shown, q.shownHead
	}
	s.mu.RUnlock()
	if !known {
		return Queue{}, job.QueueNotFound
	}
	v := s.view()
	defer v.close()
	doc.PendingSince = pendingSince(v, head)
	return doc, nil
}

// committed reports whether a commit has written the queue.
func (q *queue) committed() bool { return q.shown != Queue{} }

// show has queries see the queue as it is now.
func (q *queue) show() {
	q.shownHead = q.head
	q.shown = Queue{Client: q.client, Type: q.typ, Paused: q.paused, CreatedAt: q.createdAt, Counts: q.counts}
}

// pendingSince returns when the span with this ready key became pending; 0 when it has moved on since the key was read.
func pendingSince(r rows, head string) int64 {
	if head == "" {
		return 0
	}
	_, _, end := splitReadyKey(head)
	if sp, ok := readSpan(r, end.seq, end.line); ok && sp.Status == job.Pending {
		return sp.UpdatedAt
	}
	return 0
}

// Queues returns up to limit queues after the pair (afterClient, afterType) in the order of client and type, of one client or,
// with "", of all, and whether more follow.
func (s *Store) Queues(client, afterClient, afterType string, limit int) (docs []Queue, more bool, err error) {
	defer catch(&err)
	var heads []string
	s.mu.RLock()
	for _, q := range s.queues.page(client, afterClient, afterType, limit+1, (*queue).committed) {
		docs, heads = append(docs, q.shown), append(heads, q.shownHead)
	}
	s.mu.RUnlock()
	if more = len(docs) > limit; more {
		docs = docs[:limit]
	}
	v := s.view()
	defer v.close()
	for i := range docs {
		docs[i].PendingSince = pendingSince(v, heads[i])
	}
	return docs, more, nil
}
