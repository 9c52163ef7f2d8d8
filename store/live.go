package store

import (
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// live is the part of the in-memory state that both Apply and queries use.
type live struct {
	// mu guards meta, queues and running, except the windows and marks of queues, which only the applying goroutine
	// uses. Apply holds it even while it reads rows that the caches lack. Invariant: no goroutine waits for Pebble to
	// take a write while it holds mu, so that queries continue while Pebble holds writers back.
	mu stateLock

	meta    meta
	queues  queues
	running []*sweep // unfinished sweeps, by seq

	ends  jobEnds   // has its own lock
	pages pageCache // payloads for claims; has its own lock
	tally tallies   // of queues, for metrics; has its own lock

	// Of the last commit, published without a lock.
	applied   atomic.Uint64
	nextDue   atomic.Int64
	idleSince atomic.Int64
	totals    atomic.Pointer[Totals]
	// epochs is a copy of meta.epochs. Invariant: it is never older than the rows in a view, because new epochs are
	// published before the command that began the newest one is committed.
	epochs atomic.Pointer[[]epoch]
	// newestHandlers are the newest versions of all handlers.
	newestHandlers atomic.Pointer[map[queueName]Handler]
}

// DefaultPatience is how long a query waits for the current command.
const DefaultPatience = 5 * time.Second

// read locks mu for reading, and fails with ErrBusy if one command is applied for longer than patience.
func (l *live) read() {
	if !l.mu.tryRLock() {
		lsm.Fail("query", ErrBusy)
	}
}

func (l *live) publishEpochs() {
	epochs := l.meta.epochs
	l.epochs.Store(&epochs)
}

// seqs returns the seqs that the command of an id may have; see seqsIn.
func (l *live) seqs(id job.ID) candidates { return seqsIn(*l.epochs.Load(), id) }

// readBatchOf returns the batch of a job or batch id, or nil.
func (l *live) readBatchOf(r lsm.Rows, id job.ID) *batch {
	return rowOf(l.seqs(id), id.WithLine(0), func(seq uint64) *batch { return readBatch(r, seq) })
}

// readBatchHeadOf is readBatchOf without groups, pages and counts.
func (l *live) readBatchHeadOf(r lsm.Rows, id job.ID) *batch {
	return rowOf(l.seqs(id), id.WithLine(0), func(seq uint64) *batch { return readBatchHead(r, seq) })
}

// readClaimOf returns the claim with an id, or nil.
func (l *live) readClaimOf(r lsm.Rows, id job.ID) *claim {
	return rowOf(l.seqs(id), id, func(seq uint64) *claim { return readClaim(r, seq) })
}

// readSessionOf returns the session with an id, or nil.
func (l *live) readSessionOf(r lsm.Rows, id job.ID) *session {
	return rowOf(l.seqs(id), id, func(seq uint64) *session { return readSession(r, seq) })
}

// readHandlerDocumentOf returns the document of a version, or nil.
func (l *live) readHandlerDocumentOf(r lsm.Rows, id job.ID) *handlerDocument {
	return rowOf(l.seqs(id), id, func(seq uint64) *handlerDocument { return readHandlerDocument(r, seq) })
}

func (m *live) queueUse() QueueUse {
	return QueueUse{len(m.queues.byID), m.meta.nextQueue - 1, m.queues.bytes}
}

// readSubmissionOf returns the submission with an id, or nil. A submission that is being deleted counts as deleted.
func (l *live) readSubmissionOf(r lsm.Rows, id job.ID) *submission {
	s := rowOf(l.seqs(id), id, func(seq uint64) *submission { return readSubmission(r, seq) })
	if s == nil || s.deleting {
		return nil
	}
	return s
}
