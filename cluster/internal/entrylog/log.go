package entrylog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/journal"
)

// volumeBytes is the size of the journal's volumes: a start reads one, and Cut frees one.
const volumeBytes = 64 << 20

// Options are the settings of a log. Dir must be given.
type Options struct {
	Dir        string
	CacheBytes int64 // of the newest entries, which stay in memory; default 64 MiB
	// VolumeBytes and SegmentBytes are those of the journal; 0: 64 MiB and its default.
	VolumeBytes  int64
	SegmentBytes int
	Hooks        journal.Hooks // for tests
	Logger       *slog.Logger
}

// Log is the log of a group. Its methods are safe for concurrent use. It is the raft.Storage of a node, apart from
// InitialState and Snapshot, which need the state of the store.
type Log struct {
	j      *journal.Journal
	cancel context.CancelFunc
	ended  chan error // the result of the journal's Run

	mu      sync.Mutex
	c       *contents
	cache   cache
	written State // by the last record that was proposed
	since   int64 // bytes of entries since the last record of places was proposed
	waiting []*ticket
	failed  error
}

// ticket is a call of Append that is not answered yet.
type ticket struct {
	left int // records that are not durable yet
	done func(error)
}

// Exists reports whether a directory has a log.
func Exists(dir string) (bool, error) {
	vols, err := journal.Volumes(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(vols) > 0, err
}

// Open opens the log in a directory, or makes one without entries. It fails if package journal refuses the directory, for
// example because durable records are damaged.
func Open(o Options) (*Log, error) {
	l := &Log{ended: make(chan error, 1), cache: cache{limit: cmp.Or(o.CacheBytes, 64<<20)}}
	var removed uint64 // the last record that Cut has removed
	if vols, err := journal.Volumes(o.Dir); err == nil && len(vols) > 0 {
		removed = vols[0].First - 1
	}
	j, err := journal.Open(journal.Options{
		Dir: o.Dir, Applied: removed, VolumeBytes: cmp.Or(o.VolumeBytes, volumeBytes), SegmentBytes: o.SegmentBytes, Hooks: o.Hooks, Logger: o.Logger,
		AllowClockAhead: true, // the times of these records decide nothing
	})
	if err != nil {
		return nil, ofNode(err)
	}
	l.j = j
	if l.c, err = readContents(j.Volumes(), j.Records, l.cache.put); err != nil {
		return nil, errors.Join(fmt.Errorf("read entries: %w", err), j.Close())
	}
	l.written = l.c.state
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() { l.ended <- j.Run(ctx) }()
	return l, nil
}

// put adds an entry that is durable. The caller holds l.mu.
func (l *Log) put(seq uint64, e *pb.Entry) error {
	if err := l.c.put(seq, e.GetIndex(), e.GetTerm(), len(e.Data)); err != nil {
		return err
	}
	l.cache.put(e)
	return nil
}

func (l *Log) setBase(index, term uint64) {
	l.c.setBase(index, term)
	l.c.state.Commit = max(l.c.state.Commit, index)
	l.cache.clear()
}

// Append writes entries, and a state unless it is the zero value. It calls done once all of it is on disk, in the order of
// the calls, or with the reason if it failed; from then on all calls fail. done must not block and must not call the log.
// Nobody may change the entries from now on. Append waits while 64 MiB of entries are on their way to the disk.
//
// Invariant: the commit index of a record is that of an entry before it, or its own. Raft also hands over entries that are
// committed already, several at a time, and a power cut may keep only the first of them. Raft does not start with a
// commit index that is beyond the last entry.
func (l *Log) Append(entries []*pb.Entry, s State, done func(error)) {
	l.mu.Lock()
	var proposals []*journal.Proposal
	t := &ticket{done: done}
	if s != (State{}) {
		if s.Term != l.written.Term || s.Vote != l.written.Vote {
			commit := s.Commit
			if len(entries) > 0 {
				commit = min(commit, entries[0].GetIndex()-1)
			}
			proposals = append(proposals, l.record(t, stateVerb, encodeNumbers("term", s.Term, "vote", s.Vote, "commit", commit), nil, func(uint64) error {
				l.c.state = State{s.Term, s.Vote, max(l.c.state.Commit, commit)}
				return nil
			}))
		}
		l.written = s
	}
	for _, e := range entries {
		commit := min(l.written.Commit, e.GetIndex())
		fields, body := encodeEntry(e, commit)
		proposals = append(proposals, l.record(t, EntryVerb, fields, body, func(seq uint64) error {
			err := l.put(seq, e)
			l.c.state.Commit = max(l.c.state.Commit, commit)
			return err
		}))
		l.since += int64(len(e.Data))
	}
	if l.since >= placesEvery {
		proposals = append(proposals, l.places(t))
	}
	l.add(t, proposals)
}

// Base writes that the state of the node includes the entries up to index, which were written elsewhere. It drops all
// entries.
func (l *Log) Base(index, term uint64, done func(error)) {
	l.mu.Lock()
	t := &ticket{done: done}
	l.written.Commit = max(l.written.Commit, index)
	l.add(t, []*journal.Proposal{l.record(t, baseVerb, encodeNumbers("index", index, "term", term), nil, func(uint64) error {
		l.setBase(index, term)
		return nil
	})})
}

// record returns a record of a ticket. put adds it to the contents once it is durable; l.mu is held then.
func (l *Log) record(t *ticket, verb string, fields, body []byte, put func(seq uint64) error) *journal.Proposal {
	t.left++
	return &journal.Proposal{
		Lane: journal.Bulk, Verb: verb, Done: l.answer(t, put), Reserve: len(fields) + len(body),
		// Invariant: nothing follows a record that could not be written. The journal goes on after it has undone a write, but
		// the next entry would not follow the last one then, and no later start could read the log.
		Fill: func() ([]byte, []byte, error) { return fields, body, l.Failed() },
	}
}

// answer returns the Done of a record.
func (l *Log) answer(t *ticket, put func(seq uint64) error) func(uint64, int64, error) {
	return func(seq uint64, _ int64, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil && l.failed == nil {
			l.c.through = seq
			err = put(seq)
		}
		t.left--
		l.settle(err)
	}
}

// places returns a record of places, which the committer fills with what is durable then.
func (l *Log) places(t *ticket) *journal.Proposal {
	l.since = 0
	_, body := l.c.encode()
	p := l.record(t, placesVerb, nil, nil, func(uint64) error { return nil })
	p.Reserve = min(2*len(body)+1<<20, journal.MaxRecordBytes-1<<10)
	p.Fill = func() (fields, body []byte, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fields, body = l.c.encode()
		return fields, body, l.failed
	}
	return p
}

// add proposes the records of a ticket. It unlocks l.mu.
func (l *Log) add(t *ticket, proposals []*journal.Proposal) {
	l.waiting = append(l.waiting, t)
	l.settle(nil)
	l.mu.Unlock()
	for _, p := range proposals {
		if err := l.j.Propose(context.Background(), p); err != nil {
			l.mu.Lock()
			l.settle(err)
			l.mu.Unlock()
			return
		}
	}
}

// settle answers the calls whose records are durable, or all if err is not nil. The caller holds l.mu.
func (l *Log) settle(err error) {
	if err != nil && l.failed == nil {
		l.failed = err
	}
	n := 0
	for n < len(l.waiting) && (l.failed != nil || l.waiting[n].left == 0) {
		l.waiting[n].done(l.failed)
		n++
	}
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
}

// Failed returns why the log takes nothing more, or nil.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// State returns the term, the vote and the commit index that are durable.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.state
}

// FirstIndex returns the index of the first entry that Entries can return.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.first, nil
}

// LastIndex returns the index of the last durable entry, or of the base if there is none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.last, nil
}

// Term returns the term of an entry, or of the one before the first.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term, ok := l.c.term(index); ok {
		return term, nil
	}
	if index < l.c.first {
		return 0, raft.ErrCompacted
	}
	return 0, raft.ErrUnavailable
}

// Entries returns the entries from lo to hi-1, or the first of them if they have more than size bytes in all.
func (l *Log) Entries(lo, hi, size uint64) ([]*pb.Entry, error) {
	l.mu.Lock()
	switch {
	case lo < l.c.first:
		l.mu.Unlock()
		return nil, raft.ErrCompacted
	case hi > l.c.last+1:
		l.mu.Unlock()
		return nil, raft.ErrUnavailable
	}
	list := l.cache.get(lo, hi, size)
	if len(list) > 0 || lo >= hi {
		l.mu.Unlock()
		return list, nil
	}
	at, until := l.c.near(lo)
	l.mu.Unlock()
	list, err := l.fromDisk(at, lo, min(hi, until), size)
	if errors.Is(err, journal.ErrCut) {
		return nil, raft.ErrCompacted
	}
	return list, err
}

// fromDisk reads entries in the records from a place on.
func (l *Log) fromDisk(at place, lo, hi, size uint64) (list []*pb.Entry, err error) {
	var bytes uint64
	for r, err := range l.j.Records(at.seq) {
		if err != nil {
			return nil, err
		}
		if r.Verb != EntryVerb {
			continue
		}
		e, _, err := decodeEntry(&r)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		if e.GetIndex() != lo+uint64(len(list)) {
			if len(list) == 0 && e.GetIndex() < lo {
				continue
			}
			break
		}
		bytes += sizeOf(e)
		if len(list) > 0 && bytes > size {
			return list, nil
		}
		if list = append(list, e); lo+uint64(len(list)) == hi {
			return list, nil
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("entry %d is not where it was written, from record %d on", lo, at.seq)
	}
	return list, nil
}

// Cut removes entries before index that nobody needs, in whole volumes, and returns the bytes that this freed.
func (l *Log) Cut(index uint64) (freed int64, err error) {
	l.mu.Lock()
	if l.failed != nil || index <= l.c.first || len(l.c.places) == 0 {
		defer l.mu.Unlock()
		return 0, l.failed
	}
	at, _ := l.c.near(min(index, l.c.last))
	if vols := l.j.Volumes(); len(vols) < 2 || vols[1].First > at.seq {
		l.mu.Unlock()
		return 0, nil
	}
	written := make(chan error, 1) // the places must not be in a volume that is removed
	t := &ticket{done: func(err error) { written <- err }}
	l.add(t, []*journal.Proposal{l.places(t)})
	if err := <-written; err != nil {
		return 0, err
	}
	removed, err := l.j.Cut(at.seq-1, 0)
	for _, v := range removed {
		freed += v.Bytes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c.cut(l.j.First())
	return freed, err
}

// Bytes returns the size of the log on disk, and of the entries that are on their way there.
func (l *Log) Bytes() (stored, inFlight int64) {
	s := l.j.Status()
	return s.Bytes, s.InFlightBytes
}

// Close writes the commit index, waits for what was appended, and closes the files.
func (l *Log) Close() error {
	l.mu.Lock()
	if s := l.written; l.failed == nil && s.Commit > l.c.state.Commit {
		t := &ticket{done: func(error) {}}
		l.add(t, []*journal.Proposal{l.record(t, stateVerb, encodeNumbers("term", s.Term, "vote", s.Vote, "commit", s.Commit), nil, func(uint64) error {
			l.c.state = s
			return nil
		})})
	} else {
		l.mu.Unlock()
	}
	l.cancel()
	return errors.Join(<-l.ended, l.j.Close())
}
