package ingest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// memoryLog is a Log in memory that several processes share. A test plays the other processes: it stores their commands
// with other, and sets the leader with lead. As in a replicated log, seqs have gaps, and Run delivers all records,
// including those that were stored before the engine started.
type memoryLog struct {
	clock   journal.Clock
	changed broadcast // after each record that was stored

	mu       sync.Mutex
	records  []journal.Record
	proposed []string // verbs that this process proposed since the last call of verbs
	term     uint64   // in which this process leads; 0: another process leads
	unsure   bool     // proposals are stored, but answered with ErrUnknown
	// onLeads, if not nil, is called with each result of Leads before the caller gets it, and may change the leader.
	onLeads func(term uint64)
	// silent, if not nil, makes Barrier wait until it is closed.
	silent chan struct{}

	running bool
	quit    chan struct{} // closed by Close
	ended   chan struct{} // closed when Run has ended
	closing sync.Once
}

func newMemoryLog() *memoryLog {
	l := &memoryLog{quit: make(chan struct{}), ended: make(chan struct{})}
	l.clock.Start(0)
	return l
}

// lead sets the term in which this process leads; 0: another process leads.
func (l *memoryLog) lead(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
}

// watchLeads sets onLeads.
func (l *memoryLog) watchLeads(onLeads func(term uint64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onLeads = onLeads
}

// other stores a command of another process.
func (l *memoryLog) other(cmd job.Command) job.ID {
	fields, body := cmd.Encode()
	r := l.store(journal.Record{Verb: cmd.Verb(), Fields: fields, Body: body}, func(uint64, int64) {})
	return job.NewID(r.At, r.Seq, 0)
}

// store gives a record its seq and time and stores it. It calls done before the record can be delivered.
func (l *memoryLog) store(r journal.Record, done func(seq uint64, at int64)) journal.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Seq, r.At = uint64(2*len(l.records)+1), l.clock.Now()
	done(r.Seq, r.At)
	l.records = append(l.records, r)
	l.changed.send()
	return r
}

// verbs returns the verbs of the commands that this process has proposed since the last call.
func (l *memoryLog) verbs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	verbs := l.proposed
	l.proposed = nil
	return verbs
}

func (l *memoryLog) Propose(ctx context.Context, p *journal.Proposal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	l.proposed = append(l.proposed, p.Verb)
	unsure := l.unsure
	l.mu.Unlock()
	if p.Fill != nil {
		var err error
		if p.Fields, p.Body, err = p.Fill(); err != nil {
			return err
		}
	}
	r := journal.Record{Verb: p.Verb, Fields: p.Fields, Body: p.Body, Tag: p.Tag}
	done := func(seq uint64, at int64) { p.Done(seq, at, nil) }
	if unsure {
		r.Tag, done = nil, func(uint64, int64) { p.Done(0, 0, ErrUnknown) }
	}
	go l.store(r, done)
	return nil
}

func (l *memoryLog) Run(ctx context.Context, after uint64, deliver func([]journal.Record)) error {
	l.mu.Lock()
	l.running = true
	l.mu.Unlock()
	defer close(l.ended)
	for {
		next := l.changed.next()
		l.mu.Lock()
		first, _ := slices.BinarySearchFunc(l.records, after+1, func(r journal.Record, seq uint64) int { return int(r.Seq) - int(seq) })
		group := slices.Clone(l.records[first:])
		l.mu.Unlock()
		if len(group) > 0 {
			deliver(group)
			after = group[len(group)-1].Seq
			continue
		}
		select {
		case <-next:
		case <-l.quit:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *memoryLog) Barrier(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	if silent != nil {
		ctx, cancel := context.WithTimeout(ctx, BarrierWait)
		defer cancel()
		select {
		case <-silent:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return l.Status().Synced, nil
}

func (l *memoryLog) Leads() (term uint64, leads bool) {
	l.mu.Lock()
	term, onLeads := l.term, l.onLeads
	l.mu.Unlock()
	if onLeads != nil {
		onLeads(term)
	}
	return term, term > 0
}

func (l *memoryLog) Status() journal.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := journal.Status{UUID: l.UUID(), Extent: journal.Extent{First: 1}, ClockOffset: l.clock.Offset()}
	if n := len(l.records); n > 0 {
		s.Appended, s.Synced, s.LastAt = l.records[n-1].Seq, l.records[n-1].Seq, l.records[n-1].At
	}
	return s
}

// Records yields nothing, because Run delivers all records.
func (l *memoryLog) Records(uint64) iter.Seq2[journal.Record, error] {
	return func(func(journal.Record, error) bool) {}
}

// IdentityFile returns nothing: this log has no files.
func (l *memoryLog) IdentityFile() (string, []byte) { return "", nil }

// Segments yields an error: this log has no files.
func (l *memoryLog) Segments(uint64, uint64) iter.Seq2[journal.SegmentCopy, error] {
	return func(yield func(journal.SegmentCopy, error) bool) { yield(journal.SegmentCopy{}, errors.ErrUnsupported) }
}

func (l *memoryLog) Close() error {
	l.closing.Do(func() { close(l.quit) })
	l.mu.Lock()
	running := l.running
	l.mu.Unlock()
	if running {
		<-l.ended
	}
	return nil
}

func (l *memoryLog) open(LogOptions) (Log, error)                { return l, nil }
func (l *memoryLog) UUID() string                                { return "11111111-2222-4333-8444-555555555555" }
func (l *memoryLog) First() uint64                               { return 1 }
func (l *memoryLog) Now() int64                                  { return l.clock.Now() }
func (l *memoryLog) AcceptTime()                                 { l.clock.Accept() }
func (l *memoryLog) Health() error                               { return nil }
func (l *memoryLog) Cut(uint64, int64) ([]journal.Volume, error) { return nil, nil }

// startOn runs an engine on a memory log until the test ends. Then it checks the store.
func startOn(t *testing.T, l *memoryLog, o Options) *Engine {
	t.Helper()
	o.QueueIdle, o.OpenLog = time.Minute, l.open
	e := testkit.Must(Open(o))(t)
	end := serve(t, e)
	t.Cleanup(func() {
		n, err := e.Check(func(p string) bool { t.Errorf("check: %s", p); return true })
		testkit.Check(t, err, "check", n, "problems")
		end()
	})
	return e
}
