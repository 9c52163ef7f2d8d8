package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/cluster/internal/entrylog"
	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// Stopped reads the log of a node that does not run. It does not lock the directory and changes nothing.
type Stopped struct {
	*Identity
	Log StoppedLog // of the entries that Commands has read, up to their end or the first damage

	dir         string
	r           entrylog.Reader
	index, term uint64 // of the last entry whose commands were yielded
}

// StoppedLog describes the entries of a log.
type StoppedLog struct {
	Term, Commit   uint64
	Base, BaseTerm uint64            // the last entry that the state of the node included when it got that state; 0: not known
	First, Last    uint64            // the entries; Last is First-1 if there are none
	FirstSeq       uint64            // of the first command that is committed; 0 if there is none
	LastSeq        uint64            // of the last one
	LastAt         int64             // its time
	Verbs          map[string]uint64 // the committed commands by verb
}

// ErrNoLog: the log is not in the directory of a node.
var ErrNoLog = errors.New("the log of the node is missing")

// OpenStopped finds the node in the directory of a cluster. It is nil if no node was ever made there completely.
func OpenStopped(dir string) (*Stopped, error) {
	i, err := ReadIdentity(dir)
	if i == nil || err != nil {
		return nil, err
	}
	if there, err := entrylog.Exists(LogDir(dir)); err != nil {
		return nil, err
	} else if !there {
		return nil, fmt.Errorf("%w: %s is the directory of node %s of cluster %s, and %s is empty; next step: put it back in place, or %s",
			ErrNoLog, dir, i.Node, i.Cluster, LogDir(dir), entrylog.NextJoin)
	}
	return &Stopped{Identity: i, dir: dir}, nil
}

// Commands yields the committed commands of the log from a seq on, in order. Commands that a base has replaced and that are
// still on disk are included, so seqs are left out before the first command after the base.
//
// It checks the whole log, and ends with a *journal.CorruptError at the first damage. If its Verdict is Discard, a start
// discards the rest.
func (s *Stopped) Commands(from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		s.r, s.Log = entrylog.Reader{}, StoppedLog{Verbs: map[string]uint64{}}
		c := chain{salt: s.Salt}
		for e, err := range s.r.Committed(LogDir(s.dir)) {
			s.note()
			var list []journal.Record
			if err == nil {
				if list, err = c.follow(e.Entry); err != nil {
					err = s.r.Contradiction(e, err)
				}
			}
			if err != nil {
				yield(journal.Record{}, err)
				return
			}
			s.index, s.term = e.GetIndex(), e.GetTerm()
			for _, r := range list {
				if s.Log.FirstSeq == 0 {
					s.Log.FirstSeq = r.Seq
				}
				s.Log.LastSeq, s.Log.LastAt = r.Seq, r.At
				s.Log.Verbs[r.Verb]++
				if r.Seq >= from && !yield(r, nil) {
					return
				}
			}
		}
		s.note()
		for _, e := range s.r.Waiting {
			if _, err := c.follow(e.Entry); err != nil {
				yield(journal.Record{}, s.r.Contradiction(e, err))
				return
			}
		}
	}
}

// Entry returns the index and the term of the entry with the command that Commands has yielded last.
func (s *Stopped) Entry() (index, term uint64) { return s.index, s.term }

func (s *Stopped) note() {
	f := &s.r.Found
	s.Log.Term, s.Log.Commit, s.Log.Base, s.Log.BaseTerm, s.Log.First, s.Log.Last = f.Term, f.Commit, f.Base, f.BaseTerm, f.First, f.Last
}

// chain checks the commands of entries that follow each other.
type chain struct {
	salt  uint32
	index uint64 // of the last entry
	seq   uint64 // of the last command since index was interrupted; 0: none
	at    int64
}

// follow returns the commands of the next entry.
func (c *chain) follow(e *pb.Entry) ([]journal.Record, error) {
	list, err := node.Records(e)
	if err != nil {
		return nil, err
	}
	if e.GetIndex() != c.index+1 {
		c.seq = 0
	}
	c.index = e.GetIndex()
	for _, r := range list {
		switch {
		case r.Salt != c.salt:
			err = fmt.Errorf("command %d has the salt %08x, and the journal of this cluster %08x", r.Seq, r.Salt, c.salt)
		case c.seq != 0 && r.Seq != c.seq+1:
			err = fmt.Errorf("command %d follows command %d", r.Seq, c.seq)
		case r.At < c.at && e.GetType() == pb.EntryNormal:
			err = fmt.Errorf("command %d has the time %d, and the one before it %d", r.Seq, r.At, c.at)
		}
		if err != nil {
			return nil, err
		}
		c.seq, c.at = r.Seq, max(c.at, r.At)
	}
	return list, nil
}

// Verify reads the whole log. The report is about the records of the log, and Log about the entries in them. It returns an
// error only if it could not read the log; damage is in the report.
func (s *Stopped) Verify() (journal.Report, error) {
	report, err := journal.Verify(LogDir(s.dir))
	if err != nil {
		return report, err
	}
	for _, err := range s.Commands(1) {
		if errors.As(err, &report.Damage) {
			report.Verdict, report.Case = report.Damage.Verdict, report.Damage.Case
		} else if err != nil {
			return report, err
		}
	}
	return report, nil
}

// Holds returns an error unless a state belongs to the log that Commands has read: it is of the same journal and cluster, and
// the log has the last entry that the state includes, or begins right after it. journalOf is "" if there is no state.
func (s *Stopped) Holds(journalOf string, state *job.Cluster) error {
	if _, err := os.Stat(filepath.Join(s.dir, fetchedMark)); err == nil {
		return fmt.Errorf("%w: this node has fetched the state of another node, and ended before it had installed it; next step: start the node once", journal.ErrCursor)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case journalOf == "":
		return fmt.Errorf("%w: there is no store; next step: %s", journal.ErrCursor, entrylog.NextJoin)
	case journalOf != s.UUID || state.ID != s.Cluster:
		return fmt.Errorf("%w: the store belongs to journal %s and cluster %q, and the log to journal %s and cluster %s; next step: put the store and the folder cluster that belong together back in place",
			journal.ErrForeign, journalOf, state.ID, s.UUID, s.Cluster)
	}
	return fits(s.r.First, s.r.Last, s.r.Term, state)
}

// fits returns an error unless a log with these entries has those that follow a state.
func fits(first, last uint64, term func(index uint64) (uint64, error), state *job.Cluster) error {
	if state.Index+1 < first || state.Index > last {
		return fmt.Errorf("%w: the store includes the entries up to %d, and the log has the entries %d to %d; next step: %s", journal.ErrCursor, state.Index, first, last, entrylog.NextJoin)
	}
	if of, err := term(state.Index); err != nil || of != state.Term {
		return errors.Join(fmt.Errorf("%w: the store includes entry %d of term %d, and the log has one of term %d; next step: %s", journal.ErrCursor, state.Index, state.Term, of, entrylog.NextJoin), err)
	}
	return nil
}
