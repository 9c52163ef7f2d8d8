package entrylog

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/journal"
)

// readContents returns the contents of a log. It reads the last record of places, and the records after it, as a start does. It
// calls put with these entries.
func readContents(vols []journal.Volume, records func(from uint64) iter.Seq2[journal.Record, error], put func(*pb.Entry)) (*contents, error) {
	c := newContents()
	if len(vols) == 0 {
		return c, nil
	}
	for i := len(vols) - 1; i >= 0 && c.through == 0; i-- {
		for r, err := range records(vols[i].First) {
			if err != nil {
				return nil, ofNode(err)
			}
			if i+1 < len(vols) && r.Seq >= vols[i+1].First {
				break
			}
			if r.Verb == placesVerb {
				if c, err = decodeContents(&r); err != nil {
					return nil, contradiction(vols, &r, err)
				}
			}
		}
	}
	first := vols[0].First
	if c.through == 0 && first > 1 {
		return nil, contradiction(vols, &journal.Record{Seq: first}, errors.New("the records before it were removed, and no record of places says what they were"))
	}
	for r, err := range records(max(c.through+1, first)) {
		if err != nil {
			return nil, ofNode(err)
		}
		e, err := c.replay(&r)
		if err != nil {
			return nil, contradiction(vols, &r, err)
		}
		if e != nil {
			put(e)
		}
	}
	c.cut(first)
	if err := c.whole(); err != nil {
		return nil, contradiction(vols, &journal.Record{Seq: c.through}, err)
	}
	return c, nil
}

// NextJoin is the operator's next step after damage. Nothing may be removed from the log, and no older copy of a file may take
// the place of a damaged one, because the leader counts on each entry that the node has acknowledged.
const NextJoin = "remove this node from the cluster by `daybook cluster remove` at another node, empty its data directory, and let it join again under another name"

// ofNode returns an error of package journal with the next step of a node.
func ofNode(err error) error {
	if e, ok := errors.AsType[*journal.CorruptError](err); ok && e.Next == journal.NextRestore {
		e.Next = NextJoin
	}
	return err
}

// contradiction is the error of an intact record that cannot follow the records before it. vols are the volumes of the log.
func contradiction(vols []journal.Volume, r *journal.Record, err error) *journal.CorruptError {
	e := &journal.CorruptError{
		Seq: r.Seq, Reason: err.Error(), Case: "intact records that contradict each other", Verdict: journal.Refuse, Next: NextJoin,
	}
	if r.Verb != "" {
		e.Reason = fmt.Sprintf("%s %.100s: %v", r.Verb, r.Fields, err)
	}
	for _, v := range vols {
		if v.First <= r.Seq {
			e.File = v.Path
		}
	}
	return e
}

// Reader reads the log of a node that does not run. It does not lock the directory and changes nothing.
type Reader struct {
	// Found describes the records up to the end or the first damage.
	Found

	vols   []journal.Volume
	c      *contents
	places []place // that a start uses, from the next one on
	begun  *contents
}

// Found describes a log.
type Found struct {
	State
	Base, BaseTerm uint64 // the last entry that the state of the node included when the node fetched it or founded a cluster; 0: not known
	First, Last    uint64 // the entries; Last is First-1 if there are none
	// Waiting are the entries at the end that no record says to be committed.
	Waiting []Entry
}

// Entry is an entry in a log.
type Entry struct {
	*pb.Entry
	Record uint64 // the seq of its record
}

// Committed yields the entries of the log in a directory that are committed by the records of the log, in order. Entries
// that a base has replaced and that are still on disk are included, so indexes are left out before the first entry after a base.
//
// It checks all records as a start does, and more: a start reads only the last ones. The iteration ends with a
// *journal.CorruptError at the first damage. If its Verdict is Discard, a start discards the rest.
func (d *Reader) Committed(dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := d.read(dir, func(e Entry) bool { return yield(e, nil) }); err != nil && err != errStop {
			yield(Entry{}, err)
		}
	}
}

// errStop ends a read early. Functions outside this file never see it.
var errStop = errors.New("stop")

func (d *Reader) read(dir string, yield func(Entry) bool) (err error) {
	if d.vols, err = journal.Volumes(dir); err != nil {
		return err
	}
	kept := func(from uint64) iter.Seq2[journal.Record, error] {
		return journal.UntilDiscarded(journal.Scan(dir, from))
	}
	d.begun, err = readContents(d.vols, kept, func(*pb.Entry) {})
	corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
	if err != nil && !isCorrupt {
		return err
	}
	if d.begun != nil {
		d.places = slices.Clone(d.begun.places)
	}
	d.c = newContents()
	d.c.open = len(d.vols) > 0 && d.vols[0].First > 1
	var discarded error
	for r, err := range journal.Scan(dir, 1) {
		if c, ok := errors.AsType[*journal.CorruptError](err); ok && c.Verdict == journal.Discard {
			discarded = err
			break
		}
		if err != nil {
			return ofNode(err)
		}
		if err := d.record(&r, yield); err != nil {
			return err
		}
	}
	if isCorrupt { // only a start finds it
		return corrupt
	}
	return cmp.Or(d.compare(), discarded)
}

// Contradiction is the error of an entry whose content cannot be right.
func (d *Reader) Contradiction(e Entry, err error) error {
	return contradiction(d.vols, &journal.Record{Seq: e.Record}, fmt.Errorf("entry %d: %w", e.GetIndex(), err))
}

// Term returns the term of an entry, or of the one before the first, after Committed has read the log without an error.
func (d *Reader) Term(index uint64) (term uint64, err error) {
	term, ok := d.begun.term(index)
	if !ok {
		return 0, raft.ErrUnavailable
	}
	return term, nil
}

// record takes the next record, and yields the entries that are committed now.
func (d *Reader) record(r *journal.Record, yield func(Entry) bool) error {
	e, err := d.c.replay(r)
	if err == nil && e != nil && d.c.state.Term != 0 && e.GetTerm() > d.c.state.Term {
		err = fmt.Errorf("the node knew no term after %d", d.c.state.Term)
	}
	if err == nil && len(d.places) > 0 && d.places[0].seq <= r.Seq {
		if p := d.places[0]; p.seq != r.Seq || e.GetIndex() != p.index {
			err = fmt.Errorf("the last record of places says that entry %d is record %d", p.index, p.seq)
		}
		d.places = d.places[1:]
	}
	if err == nil && r.Verb == placesVerb {
		err = d.checkPlaces(r)
	}
	if err != nil {
		return contradiction(d.vols, r, err)
	}
	switch {
	case e != nil:
		d.drop(e.GetIndex())
		d.Waiting = append(d.Waiting, Entry{e, r.Seq})
	case r.Verb == baseVerb:
		d.Waiting = nil
		d.Base, d.BaseTerm = d.c.last, d.c.terms[0].term
	}
	d.State, d.First, d.Last = d.c.state, d.c.first, d.c.last
	n := 0
	for ; n < len(d.Waiting) && d.Waiting[n].GetIndex() <= d.Commit; n++ {
		if !yield(d.Waiting[n]) {
			return errStop
		}
		d.Waiting[n].Entry = nil
	}
	d.Waiting = d.Waiting[n:]
	return nil
}

// drop drops the entries from an index on, because another entry replaces them.
func (d *Reader) drop(index uint64) {
	n := len(d.Waiting)
	for n > 0 && d.Waiting[n-1].GetIndex() >= index {
		n--
	}
	d.Waiting = d.Waiting[:n]
}

// checkPlaces checks a record of places. If the records before it were removed, it has the term and the vote.
func (d *Reader) checkPlaces(r *journal.Record) error {
	c, err := decodeContents(r)
	if err == nil && d.c.open && d.c.state.Term == 0 {
		d.c.state.Term, d.c.state.Vote = c.state.Term, c.state.Vote
	}
	return err
}

// compare compares the contents by all records with the contents that a start finds.
func (d *Reader) compare() error {
	c, b := d.c, d.begun
	err := c.whole()
	if err == nil && (b.state != c.state || b.last != c.last || b.first < c.first) {
		err = fmt.Errorf("a start finds %+v and the entries %d to %d, and the records say %+v and %d to %d", b.state, b.first, b.last, c.state, c.first, c.last)
	}
	for _, s := range slices.Concat(b.terms, c.terms) {
		index := max(s.index, b.first)
		of, ok := c.term(index)
		if found, known := b.term(index); err == nil && (found != of || known != ok) {
			err = fmt.Errorf("a start finds term %d of entry %d, and the records say %d", found, index, of)
		}
	}
	if err != nil {
		return contradiction(d.vols, &journal.Record{Seq: c.through}, err)
	}
	d.First = b.first
	return nil
}
