package entrylog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/tidwall/wal"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// known is what a log must have, as a test knows it.
type known struct {
	state   State
	base    uint64 // index
	terms   map[uint64]uint64
	entries map[uint64]string // data by index
	last    uint64
}

// player appends to a log and compares it with what is known.
type player struct {
	*rand.Rand
	t       *testing.T
	options Options
	log     *Log
	k       known
}

func newPlayer(t *testing.T, seed uint64) *player {
	p := &player{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, k: known{terms: map[uint64]uint64{0: 0}, entries: map[uint64]string{}}}
	p.options = Options{Dir: t.TempDir(), SegmentBytes: 1 << (10 + p.IntN(12)), VolumeBytes: 1 << (12 + p.IntN(12)), CacheBytes: int64(1 << p.IntN(20))}
	p.log = testkit.Must(Open(p.options))(t)
	return p
}

// append appends some entries, which often replace some that were not committed, and sometimes a state.
func (p *player) append() {
	s := p.k.state
	from := p.k.last + 1
	if p.IntN(4) == 0 {
		s.Term++
		s.Vote = uint64(p.IntN(3))
		from = s.Commit + 1 + uint64(p.IntN(int(p.k.last-s.Commit)+1))
	}
	var entries []*pb.Entry
	for i := range p.IntN(6) {
		e := &pb.Entry{Index: proto.Uint64(from + uint64(i)), Term: proto.Uint64(s.Term)}
		switch p.IntN(10) {
		case 0:
			e.Type, e.Data = pb.EntryConfChangeV2.Enum(), []byte{1, '\n', 0, byte(p.IntN(256))}
		case 1:
		default:
			e.Data = fmt.Appendf(nil, "origin=%d number=%d\n#:create\n%0*d\n", p.Uint64(), i, p.IntN(3000), i)
		}
		entries = append(entries, e)
	}
	if len(entries) > 0 {
		for index := from; index <= p.k.last; index++ {
			delete(p.k.entries, index)
			delete(p.k.terms, index)
		}
		p.k.last = from - 1 + uint64(len(entries))
		for _, e := range entries {
			p.k.entries[e.GetIndex()], p.k.terms[e.GetIndex()] = string(e.Data), e.GetTerm()
		}
	}
	s.Commit += uint64(p.IntN(int(p.k.last-s.Commit) + 1))
	answered := make(chan error, 1)
	if s == p.k.state {
		s = State{}
	}
	p.log.Append(entries, s, func(err error) { answered <- err })
	testkit.NoError(p.t, <-answered)
	if s != (State{}) {
		p.k.state = s
	}
}

// compare reads everything.
func (p *player) compare() {
	p.t.Helper()
	first := testkit.Must(p.log.FirstIndex())(p.t)
	testkit.Equal(p.t, testkit.Must(p.log.LastIndex())(p.t), p.k.last, "the last index")
	got := p.log.State()
	testkit.Equal(p.t, [2]uint64{got.Term, got.Vote}, [2]uint64{p.k.state.Term, p.k.state.Vote}, "term and vote")
	if got.Commit > p.k.state.Commit {
		p.t.Errorf("commit %d, and only %d is committed", got.Commit, p.k.state.Commit)
	}
	for index := p.k.base; index <= p.k.last; index++ {
		term, err := p.log.Term(index)
		if index+1 < first {
			testkit.Equal(p.t, err, raft.ErrCompacted, "the term of", index)
		} else if err != nil || term != p.k.terms[index] {
			p.t.Errorf("term of %d: %d, %v; want %d", index, term, err, p.k.terms[index])
		}
	}
	for lo := first; lo <= p.k.last; {
		size := uint64(p.IntN(10_000))
		list, err := p.log.Entries(lo, p.k.last+1, size)
		if err != nil || len(list) == 0 {
			p.t.Fatalf("entries %d to %d: %v", lo, p.k.last, err)
		}
		var bytes uint64
		for i, e := range list {
			if e.GetIndex() != lo || e.GetTerm() != p.k.terms[lo] || string(e.Data) != p.k.entries[lo] {
				p.t.Fatalf("entry %d is %v, want term %d and %q", lo, e, p.k.terms[lo], p.k.entries[lo])
			}
			if bytes += sizeOf(e); i > 0 && bytes > size {
				p.t.Errorf("%d bytes, and %d were wanted", bytes, size)
			}
			lo++
		}
	}
	_, err := p.log.Entries(p.k.last+1, p.k.last+2, 1)
	testkit.Equal(p.t, err, raft.ErrUnavailable)
	_, err = p.log.Term(p.k.last + 1)
	testkit.Equal(p.t, err, raft.ErrUnavailable)
	if first > 1 {
		_, err = p.log.Entries(first-1, first, 1)
		testkit.Equal(p.t, err, raft.ErrCompacted)
	}
}

// TestRandom appends, replaces, cuts, restarts, and takes bases, and compares the log with what was appended.
func TestRandom(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPlayer(t, uint64(seed))
			for range 60 {
				switch p.IntN(20) {
				case 0:
					p.close()
					p.log = testkit.Must(Open(p.options))(t)
				case 1:
					first := testkit.Must(p.log.FirstIndex())(t)
					index := p.k.base + 1 + uint64(p.IntN(int(p.k.state.Commit-p.k.base)+1))
					testkit.Must(p.log.Cut(index))(t)
					if now := testkit.Must(p.log.FirstIndex())(t); now > max(first, index) {
						t.Errorf("cut to %d, and the first entry is %d now", index, now)
					}
				case 2:
					if p.IntN(4) == 0 {
						p.k.base = p.k.last + uint64(p.IntN(10))
						p.k.last, p.k.state.Commit = p.k.base, p.k.base
						p.k.entries, p.k.terms = map[uint64]string{}, map[uint64]uint64{p.k.base: p.k.state.Term}
						answered := make(chan error, 1)
						p.log.Base(p.k.base, p.k.state.Term, func(err error) { answered <- err })
						testkit.NoError(t, <-answered)
					}
				default:
					p.append()
				}
				if p.IntN(5) == 0 {
					p.compare()
				}
			}
			p.compare()
			p.close()
			p.log = testkit.Must(Open(p.options))(t)
			p.compare()
			testkit.Equal(t, p.log.State(), p.k.state, "after a clean stop")
			testkit.NoError(t, p.log.Close())
		})
	}
}

// TestStartReadsPlaces: a start finds the entries of all volumes by the newest record of places, also after the first
// volumes were removed.
func TestStartReadsPlaces(t *testing.T) {
	o := Options{Dir: t.TempDir(), VolumeBytes: 8 << 20}
	l := testkit.Must(Open(o))(t)
	data := append([]byte("number=1\n"), make([]byte, 1<<20)...)
	const n = 80
	answered := make(chan error, n)
	for i := range uint64(n) {
		l.Append([]*pb.Entry{{Index: proto.Uint64(i + 1), Term: proto.Uint64(1 + i/50), Data: data}}, State{1 + i/50, 1, i}, func(err error) { answered <- err })
	}
	for range n {
		testkit.NoError(t, <-answered)
	}
	freed := testkit.Must(l.Cut(40))(t)
	first := testkit.Must(l.FirstIndex())(t)
	if freed == 0 || first < 20 || first > 40 {
		t.Errorf("%d bytes freed, the first entry is %d", freed, first)
	}
	testkit.NoError(t, l.Close())
	l = testkit.Must(Open(o))(t)
	defer l.Close()
	if len(l.c.places) < int(n-first) {
		t.Errorf("%d places for entries %d to %d", len(l.c.places), first, n)
	}
	for _, index := range []uint64{first, 40, 51, n} {
		list := testkit.Must(l.Entries(index, index+1, 0))(t)
		testkit.Equal(t, len(list), 1, "entries")
		testkit.Equal(t, testkit.Must(l.Term(index))(t), 1+(index-1)/50, "the term of", index)
	}
	testkit.Equal(t, l.State(), State{2, 1, n - 1})
}

// TestFailedWrite: after a failed write the log answers all calls with the reason, and a start has what was durable.
func TestFailedWrite(t *testing.T) {
	failing := false
	o := Options{Dir: t.TempDir()}
	o.Hooks.Write = func(l *wal.Log, b *wal.Batch) error {
		if failing {
			return errors.New("the disk is broken")
		}
		return l.WriteBatch(b)
	}
	l := testkit.Must(Open(o))(t)
	answered := make(chan error, 3)
	put := func(index uint64) error {
		l.Append([]*pb.Entry{{Index: proto.Uint64(index), Term: proto.Uint64(1), Data: []byte("number=1\nx")}}, State{1, 1, 0}, func(err error) { answered <- err })
		return <-answered
	}
	testkit.NoError(t, put(1))
	failing = true
	if err := put(2); err == nil {
		t.Error("a write that failed is answered")
	}
	failing = false
	for range 2 {
		if err := put(2); err == nil {
			t.Error("the log goes on after a failed write")
		}
	}
	if l.Failed() == nil {
		t.Error("the log has not failed")
	}
	l.Close()
	l = testkit.Must(Open(o))(t)
	defer l.Close()
	testkit.Equal(t, testkit.Must(l.LastIndex())(t), uint64(1))
	testkit.NoError(t, put(2))
}

// TestNothingFollowsAFailedWrite: entries that wait while a write fails are not written after it has been undone, so the log
// can be opened again.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	var fails atomic.Bool
	begun, appended := make(chan struct{}), make(chan struct{})
	o.Hooks.Write = func(l *wal.Log, b *wal.Batch) error {
		if fails.CompareAndSwap(true, false) {
			close(begun)
			<-appended
			return errors.New("the disk failed")
		}
		return l.WriteBatch(b)
	}
	l := testkit.Must(Open(o))(t)
	answers := make(chan error, 3)
	put := func(index uint64) {
		l.Append([]*pb.Entry{{Index: proto.Uint64(index), Term: proto.Uint64(1), Data: []byte("number=1\nx")}}, State{1, 1, 0}, func(err error) { answers <- err })
	}
	put(1)
	testkit.NoError(t, <-answers)
	fails.Store(true)
	put(2)
	<-begun
	put(3)
	close(appended)
	testkit.Failed(t, <-answers)
	testkit.Failed(t, <-answers)
	testkit.Check(t, l.Close())
	l = testkit.Must(Open(o))(t)
	defer l.Close()
	testkit.Equal(t, testkit.Must(l.LastIndex())(t), uint64(1))
}

// TestCutTail: a log that lost any number of its last records has no commit index beyond its last entry, also if Raft has
// handed over several committed entries at once.
func TestCutTail(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	l := testkit.Must(Open(o))(t)
	answered := make(chan error, 1)
	var entries []*pb.Entry
	for i := range uint64(5) {
		entries = append(entries, &pb.Entry{Index: proto.Uint64(i + 1), Term: proto.Uint64(1), Data: []byte("number=1\nx")})
	}
	l.Append(entries, State{1, 1, 5}, func(err error) { answered <- err })
	testkit.NoError(t, <-answered)
	testkit.NoError(t, l.Close())
	path := filepath.Join(testkit.Must(journal.Volumes(o.Dir))(t)[0].Path, "00000000000000000001")
	whole := testkit.Must(os.ReadFile(path))(t)
	last := uint64(9)
	for end := len(whole); end > 0; end -= 20 {
		testkit.NoError(t, os.WriteFile(path, whole[:end], 0o600))
		l := testkit.Must(Open(o))(t)
		last = min(last, testkit.Must(l.LastIndex())(t))
		if s := l.State(); s.Commit > last {
			t.Errorf("after %d of %d bytes the commit index is %d, and the last entry is %d", end, len(whole), s.Commit, last)
		}
		testkit.NoError(t, l.Close())
	}
	testkit.Equal(t, last, uint64(0), "the last entry of the shortest log")
}

// TestRefusesGaps: entries that do not follow the others are an error, at once and at the next start.
func TestRefusesGaps(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	l := testkit.Must(Open(o))(t)
	answered := make(chan error, 1)
	l.Append([]*pb.Entry{{Index: proto.Uint64(7), Term: proto.Uint64(1)}}, State{}, func(err error) { answered <- err })
	if <-answered == nil {
		t.Error("entry 7 follows nothing")
	}
	l.Close()
	if l, err := Open(o); err == nil {
		t.Error("opened", l.Close())
	}
}

// TestRecords: records read back as they were, and others are refused.
func TestRecords(t *testing.T) {
	c := &contents{through: 10, state: State{3, 2, 7}, first: 4, last: 12, terms: []start{{3, 2}, {9, 3}}, places: []place{{4, 5}, {9, 10}}}
	fields, body := c.encode()
	r := record(placesVerb, string(fields), string(body))
	if got := testkit.Must(decodeContents(&r))(t); !reflect.DeepEqual(got, c) {
		t.Errorf("%+v", got)
	}
	for _, r := range []struct{ verb, fields, body string }{
		{EntryVerb, "term=1 index=1 commit=0 type=empty", ""},
		{EntryVerb, "index=1 term=1 commit=0", ""},
		{EntryVerb, "index=x term=1 commit=0 type=empty", ""},
		{EntryVerb, "index=1 term=1 commit=0 type=other", ""},
		{stateVerb, "term=1 vote=1", ""},
		{stateVerb, "term=1 vote=1 commit=1 more=1", ""},
		{baseVerb, "index=-1 term=1", ""},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=2", "term 0 0\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=2", "term 0 0\nplace 2 1\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=2", "term 0 0\nplace 1 2\n"},
		{placesVerb, "through=2 term=1 vote=1 commit=1 first=1 last=2", "term 0 0\nplace 1 2\nplace 2 1\n"},
		{placesVerb, "through=20 term=1 vote=1 commit=1 first=1 last=0", "term 0 0\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=0", "term 1 0\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=1", "term 0 1\nterm 1 1\nplace 1 1\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=3 last=1", "term 0 0\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=0", "term 0 x\n"},
		{placesVerb, "through=1 term=1 vote=1 commit=1 first=1 last=0", "word 0 0\n"},
		{"create", "", ""},
	} {
		of := record(r.verb, r.fields, r.body)
		_, err := newContents().replay(&of)
		if r.verb == placesVerb {
			_, err = decodeContents(&of)
		}
		if err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

func record(verb, fields, body string) journal.Record {
	return journal.Record{Seq: 20, Verb: verb, Fields: []byte(fields), Body: []byte(body)}
}
