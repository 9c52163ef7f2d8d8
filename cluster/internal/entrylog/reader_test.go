package entrylog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// close closes the log, and compares what a Reader finds with what is known.
func (p *player) close() {
	p.t.Helper()
	first := testkit.Must(p.log.FirstIndex())(p.t)
	testkit.NoError(p.t, p.log.Close())
	d := &Reader{}
	next := uint64(0)
	for e, err := range d.Committed(p.options.Dir) {
		testkit.NoError(p.t, err)
		if next = e.GetIndex(); next > p.k.base {
			p.same(e.Entry)
		}
	}
	testkit.Holds(p.t, next == p.k.state.Commit || p.k.state.Commit < d.First, "the last entry that is read is", next, "and the commit index is", p.k.state.Commit)
	for i, e := range d.Waiting {
		testkit.Equal(p.t, e.GetIndex(), p.k.state.Commit+1+uint64(i))
		p.same(e.Entry)
	}
	testkit.Equal(p.t, p.k.state.Commit+uint64(len(d.Waiting)), p.k.last, "the entries that are not committed")
	testkit.Equal(p.t, d.State, p.k.state)
	testkit.Equal(p.t, [2]uint64{d.First, d.Last}, [2]uint64{first, p.k.last})
}

// same compares an entry with what is known.
func (p *player) same(e *pb.Entry) {
	p.t.Helper()
	if index := e.GetIndex(); e.GetTerm() != p.k.terms[index] || string(e.Data) != p.k.entries[index] {
		p.t.Fatalf("entry %d is %v, want term %d and %q", index, e, p.k.terms[index], p.k.entries[index])
	}
}

// read reads a log, and returns the indexes of the committed entries, and the error.
func read(dir string) (d *Reader, indexes []uint64, err error) {
	d = &Reader{}
	for e, err := range d.Committed(dir) {
		if err != nil {
			return d, indexes, err
		}
		indexes = append(indexes, e.GetIndex())
	}
	return d, indexes, nil
}

// written is a record that a test writes into a log.
type written struct{ verb, fields, body string }

func entry(index, term, commit int) written {
	return written{EntryVerb, fmt.Sprintf("index=%d term=%d commit=%d type=empty", index, term, commit), ""}
}

// writeLog makes a log of these records.
func writeLog(t *testing.T, list ...written) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := testkit.Must(journal.Open(journal.Options{Dir: dir}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	for _, w := range list {
		stored := make(chan error, 1)
		testkit.NoError(t, j.Propose(ctx, &journal.Proposal{Lane: journal.Bulk, Verb: w.verb, Fields: []byte(w.fields), Body: []byte(w.body), Done: func(_ uint64, _ int64, err error) { stored <- err }}))
		testkit.NoError(t, <-stored)
	}
	cancel()
	testkit.NoError(t, <-ended)
	testkit.NoError(t, j.Close())
	return dir
}

// TestReaderFindsContradictions: intact records that cannot follow each other are an error, of a reader and, if a start reads
// them, of a start.
func TestReaderFindsContradictions(t *testing.T) {
	voted := written{stateVerb, "term=1 vote=1 commit=0", ""}
	for name, c := range map[string]struct {
		list []written
		want string
		fine bool // for a start
	}{
		"an index is left out":           {[]written{voted, entry(1, 1, 0), entry(3, 1, 0)}, "entry 3 follows entries 1 to 1", false},
		"a term goes down":               {[]written{voted, {stateVerb, "term=2 vote=1 commit=0", ""}, entry(1, 2, 0), entry(2, 1, 0)}, "entry 2 has term 1, and the one before it has 2", false},
		"a term of the node goes down":   {[]written{{stateVerb, "term=2 vote=1 commit=0", ""}, voted}, "it follows term 2 with a vote for 1", false},
		"a second vote in a term":        {[]written{voted, {stateVerb, "term=1 vote=2 commit=0", ""}}, "it follows term 1 with a vote for 1", false},
		"a committed entry is replaced":  {[]written{voted, entry(1, 1, 0), entry(2, 1, 1), entry(1, 1, 1)}, "entry 1 is written again, and the entries up to 1 were committed", false},
		"a base before committed ones":   {[]written{voted, entry(1, 1, 0), entry(2, 1, 2), {baseVerb, "index=1 term=1", ""}}, "the base includes the entries up to 1, and those up to 2 were committed", false},
		"an entry that a base includes":  {[]written{voted, {baseVerb, "index=7 term=1", ""}, entry(7, 1, 7)}, "entry 7 follows entries 8 to 7", false},
		"an entry older than the base":   {[]written{{stateVerb, "term=3 vote=1 commit=0", ""}, {baseVerb, "index=7 term=3", ""}, entry(8, 2, 7)}, "entry 8 has term 2, and the one before it has 3", false},
		"a commit index without entries": {[]written{voted, entry(1, 1, 1), {stateVerb, "term=2 vote=1 commit=3", ""}}, "the commit index is 3, and the last entry is 1", false},
		"an unknown record":              {[]written{voted, {"create", "n=1", ""}}, "the verb is unknown", false},
		"a term that the node never had": {[]written{voted, entry(1, 2, 0)}, "the node knew no term after 1", true},
		"places of other entries":        {[]written{voted, entry(1, 1, 0), {placesVerb, "through=2 term=1 vote=1 commit=0 first=1 last=1", "term 0 0\nterm 1 1\nplace 1 1\n"}}, "entry 1 is record 1", true},
		"places with another term":       {[]written{voted, entry(1, 1, 0), {placesVerb, "through=2 term=1 vote=1 commit=0 first=1 last=1", "term 0 0\nplace 1 2\n"}}, "a start finds term 0 of entry 1, and the records say 1", true},
		"places with another vote":       {[]written{voted, entry(1, 1, 0), {placesVerb, "through=2 term=1 vote=2 commit=0 first=1 last=1", "term 0 0\nterm 1 1\nplace 1 2\n"}}, "a start finds {Term:1 Vote:2", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeLog(t, c.list...)
			_, _, err := read(dir)
			testkit.Failed(t, err, c.want, "next step: remove this node from the cluster", filepath.Join(dir, "00000000000000000001"))
			l, err := Open(Options{Dir: dir})
			if c.fine {
				testkit.NoError(t, err)
				testkit.NoError(t, l.Close())
			} else {
				testkit.Failed(t, err, c.want, "next step: remove this node from the cluster")
			}
		})
	}
}

// TestReaderReplacedEntries: entries of an old leader, a base, and entries that nobody has committed.
func TestReaderReplacedEntries(t *testing.T) {
	state := func(term, commit int) written {
		return written{stateVerb, fmt.Sprintf("term=%d vote=0 commit=%d", term, commit), ""}
	}
	dir := writeLog(t, state(1, 0), entry(1, 1, 0), entry(2, 1, 1), entry(3, 1, 1), entry(4, 1, 1), // the leader of term 1 loses 3 and 4
		state(2, 1), entry(3, 2, 2), entry(4, 2, 3), entry(5, 2, 3), written{baseVerb, "index=9 term=4", ""}, state(5, 9), entry(10, 5, 9), entry(11, 5, 10))
	d, indexes, err := read(dir)
	testkit.NoError(t, err)
	testkit.Equal(t, fmt.Sprint(indexes), "[1 2 3 10]")
	testkit.Equal(t, fmt.Sprint(d.State, d.Base, d.BaseTerm, d.First, d.Last, len(d.Waiting)), "{5 0 10} 9 4 10 11 1")

	dir = writeLog(t, written{baseVerb, "index=9 term=4", ""}) // of a node that has just fetched it
	d, indexes, err = read(dir)
	testkit.NoError(t, err)
	testkit.Equal(t, fmt.Sprint(indexes, d.State, d.Base, d.BaseTerm, d.First, d.Last), "[] {0 0 9} 9 4 10 9")
}

// TestReaderDamage: a byte that has changed is an error of durable entries, and the end of a file that is missing is one that
// a start discards. The entries before are read.
func TestReaderDamage(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	l := testkit.Must(Open(o))(t)
	answered := make(chan error, 1)
	for i := range uint64(5) {
		l.Append([]*pb.Entry{{Index: proto.Uint64(i + 1), Term: proto.Uint64(1), Data: fmt.Appendf(nil, "number=%d\nbody %d", i+1, i+1)}}, State{1, 1, i}, func(err error) { answered <- err })
		testkit.NoError(t, <-answered)
	}
	testkit.NoError(t, l.Close())
	path := filepath.Join(testkit.Must(journal.Volumes(o.Dir))(t)[0].Path, "00000000000000000001")
	whole := testkit.Must(os.ReadFile(path))(t)
	_, indexes, err := read(o.Dir)
	testkit.NoError(t, err)
	testkit.Equal(t, fmt.Sprint(indexes), "[1 2 3 4]")

	flipped := bytes.Replace(whole, []byte("body 3"), []byte("bodY 3"), 1)
	testkit.NoError(t, os.WriteFile(path, flipped, 0o600))
	_, indexes, err = read(o.Dir)
	testkit.Failed(t, err, "refuse", "next step: remove this node from the cluster")
	testkit.Equal(t, fmt.Sprint(indexes), "[1]", "the entries before the damage, as far as the records there know that they are committed")
	testkit.Fails(Open(o))(t, "next step: remove this node from the cluster")

	testkit.NoError(t, os.WriteFile(path, whole[:bytes.Index(whole, []byte("body 5"))], 0o600))
	d, indexes, err := read(o.Dir)
	testkit.Failed(t, err, "discard")
	testkit.Equal(t, fmt.Sprint(indexes, d.Commit, d.Last, len(d.Waiting)), "[1 2 3] 3 4 1")
}
