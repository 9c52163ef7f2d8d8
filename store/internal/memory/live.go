package memory

import (
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Live is the part of the in-memory state that both Apply and queries use.
type Live struct {
	// mu guards meta, queues and running, except the windows and marks of queues, which only the applying goroutine
	// uses. Apply holds it even while it reads rows that the caches lack. Invariant: no goroutine waits for Pebble to
	// take a write while it holds mu, so that queries continue while Pebble holds writers back.
	Mu stateLock

	Meta      row.Meta
	AllQueues queues
	Running   []*row.Sweep // unfinished sweeps, by seq

	Ends  jobEnds   // has its own lock
	Pages pageCache // payloads for claims; has its own lock
	Tally tallies   // of queues, for metrics; has its own lock

	// Of the last commit, published without a lock.
	LastApplied   atomic.Uint64
	LastNextDue   atomic.Int64
	LastIdleSince atomic.Int64
	LastTotals    atomic.Pointer[document.Totals]
	// epochs is a copy of meta.epochs. Invariant: it is never older than the rows in a view, because new epochs are
	// published before the command that began the newest one is committed.
	epochs      atomic.Pointer[[]row.Epoch]
	Keys        Keys        // has its own lock
	Logins      Logins      // has its own lock
	DocumentUse DocumentUse // has its own lock
	// NewestDocuments are the newest versions of the existing documents of each kind that is kept in memory.
	NewestDocuments [job.NumDocumentKinds]atomic.Pointer[map[row.DocumentName]document.Named]
}

// DefaultPatience is how long a query waits for the current command.
const DefaultPatience = 5 * time.Second

// Read locks mu for reading, and fails with ErrBusy if one command is applied for longer than patience.
func (l *Live) Read() {
	if !l.Mu.TryRLock() {
		lsm.Fail("query", row.ErrBusy)
	}
}

func (l *Live) PublishEpochs() {
	epochs := l.Meta.Epochs
	l.epochs.Store(&epochs)
}

// Seqs returns the seqs that the command of an id may have; see SeqsIn.
func (l *Live) Seqs(id job.ID) candidates { return SeqsIn(*l.epochs.Load(), id) }

// ReadBatchOf returns the batch of a job or batch id, or nil.
func (l *Live) ReadBatchOf(r lsm.Rows, id job.ID) *row.Batch {
	return RowOf(l.Seqs(id), id.WithLine(0), func(seq uint64) *row.Batch { return row.ReadBatch(r, seq) })
}

// ReadBatchHeadOf is ReadBatchOf without groups, pages and counts.
func (l *Live) ReadBatchHeadOf(r lsm.Rows, id job.ID) *row.Batch {
	return RowOf(l.Seqs(id), id.WithLine(0), func(seq uint64) *row.Batch { return row.ReadBatchHead(r, seq) })
}

// ReadClaimOf returns the claim with an id, or nil.
func (l *Live) ReadClaimOf(r lsm.Rows, id job.ID) *row.Claim {
	return RowOf(l.Seqs(id), id, func(seq uint64) *row.Claim { return row.ReadClaim(r, seq) })
}

// ReadSessionOf returns the session with an id, or nil.
func (l *Live) ReadSessionOf(r lsm.Rows, id job.ID) *row.Session {
	return RowOf(l.Seqs(id), id, func(seq uint64) *row.Session { return row.ReadSession(r, seq) })
}

// ReadDocumentTextOf returns the text of a version of a named document, or nil.
func (l *Live) ReadDocumentTextOf(r lsm.Rows, id job.ID) *row.DocumentText {
	return RowOf(l.Seqs(id), id, func(seq uint64) *row.DocumentText { return row.ReadDocumentText(r, seq) })
}

func (m *Live) QueueUse() document.QueueUse {
	return document.QueueUse{len(m.AllQueues.ByID), m.Meta.NextQueue - 1, m.AllQueues.Bytes}
}

// ReadSubmissionOf returns the submission with an id, or nil. A submission that is being deleted counts as deleted.
func (l *Live) ReadSubmissionOf(r lsm.Rows, id job.ID) *row.Submission {
	s := RowOf(l.Seqs(id), id, func(seq uint64) *row.Submission { return row.ReadSubmission(r, seq) })
	if s == nil || s.Deleting {
		return nil
	}
	return s
}
