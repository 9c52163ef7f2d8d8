package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// running is a journal under test, with its committer and a receiver that keeps all delivered records.
type running struct {
	*Journal
	t      *testing.T
	cancel context.CancelFunc
	ran    chan error

	mu  sync.Mutex
	got []Record
}

func mustOpen(t *testing.T, o Options) *Journal {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	j := testkit.Must(Open(o))(t)
	t.Cleanup(func() { testkit.Check(t, j.Close(), "close") })
	return j
}

// mustRun opens a journal and runs it. stop ends it and compares the records on disk with the delivered records.
func mustRun(t *testing.T, o Options) *running {
	t.Helper()
	r := &running{t: t, ran: make(chan error, 1)}
	deliver := o.Deliver
	o.Deliver = func(records []Record) {
		r.mu.Lock()
		r.got = append(r.got, records...)
		r.mu.Unlock()
		if deliver != nil {
			deliver(records)
		}
	}
	r.Journal = mustOpen(t, o)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() { r.ran <- r.Run(ctx) }()
	t.Cleanup(r.cancel)
	return r
}

// stop ends the committer cleanly, closes the journal, and checks it.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	testkit.NoError(r.t, <-r.ran, "run")
	testkit.NoError(r.t, r.Close(), "close")
	rep, err := Verify(r.o.Dir)
	testkit.MustHold(r.t, err == nil && rep.Damage == nil && rep.Verdict == Accept, "verify after a clean stop", rep, err)
	testkit.MustEqual(r.t, rep.Last, r.Synced(), "verify says", "is the last, the journal said")
	r.mu.Lock()
	defer r.mu.Unlock()
	byseq := make(map[uint64]Record)
	last := uint64(0)
	for _, g := range r.got {
		testkit.MustHold(r.t, g.Seq > last, "delivered seq", g.Seq, "after", last)
		last = g.Seq
		byseq[g.Seq] = g
	}
	for rec, err := range Scan(r.o.Dir, 1) {
		testkit.NoError(r.t, err)
		g, ok := byseq[rec.Seq]
		testkit.MustHold(r.t, !ok || sameRecord(g, rec), "delivered", g, "on disk is", rec)
		delete(byseq, rec.Seq)
	}
	testkit.MustHold(r.t, len(byseq) == 0 || rep.First != 1, "delivered, but not on disk", byseq)
}

func sameRecord(a, b Record) bool {
	return a.Verb == b.Verb && a.Salt == b.Salt && a.Seq == b.Seq && a.At == b.At && a.Synced == b.Synced &&
		string(a.Fields) == string(b.Fields) && string(a.Body) == string(b.Body)
}

// answer is the arguments of a call of Done.
type answer struct {
	seq uint64
	at  int64
	err error
}

// propose proposes a command and returns the channel for its answer.
func (r *running) propose(lane Lane, verb, body string) (chan answer, error) {
	ch := make(chan answer, 1)
	err := r.Propose(context.Background(), &Proposal{
		Lane: lane, Verb: verb, Fields: []byte("client=acme"), Body: []byte(body),
		Done: func(seq uint64, at int64, err error) { ch <- answer{seq, at, err} },
	})
	return ch, err
}

// put proposes a command and waits for its answer.
func (r *running) put(lane Lane, verb, body string) answer {
	ch, err := r.propose(lane, verb, body)
	if err != nil {
		return answer{err: err}
	}
	return <-ch
}

func (r *running) mustPut(verb, body string) answer {
	r.t.Helper()
	a := r.put(Bulk, verb, body)
	testkit.NoError(r.t, a.err)
	return a
}

// image is the content of a journal that a test makes: files by their paths in the directory.
type image map[string][]byte

var testIdentity = identity{uuid: "0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e", salt: 0x6f1d2a90}

func newImage() image { return image{identityName: testIdentity.text()} }

// entry returns a record as an entry of a segment. A record without a salt gets the salt of the images.
func entry(r Record) []byte {
	if r.Salt == anySalt {
		r.Salt = testIdentity.salt
	}
	text := AppendRecord(nil, &r)
	return append(binary.AppendUvarint(nil, uint64(len(text))), text...)
}

// seg adds the records from..to to a segment. All have the same synced.
func (m image) seg(volume, segment, from, to, synced uint64, body string) {
	name := filepath.Join(seqName(volume), seqName(segment))
	if m[name] == nil {
		m[name] = []byte{}
	}
	for seq := from; seq <= to; seq++ {
		m[name] = append(m[name], entry(Record{Verb: "create", Seq: seq, At: 1000 + int64(seq), Synced: synced,
			Fields: []byte("client=acme"), Body: fmt.Appendf(nil, "%s%d", body, seq)})...)
	}
}

func (m image) clone() image {
	c := make(image)
	for k, v := range m {
		c[k] = slices.Clone(v)
	}
	return c
}

// write puts the image into a new directory.
func (m image) write(t testing.TB) string {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp(t.TempDir(), ""))(t)
	for name, data := range m {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			testkit.NoError(t, os.MkdirAll(path, 0o750))
			continue
		}
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		testkit.NoError(t, os.WriteFile(path, data, 0o640))
	}
	return dir
}

// readImage is the inverse of write, for segments.
func readImage(t testing.TB, dir string) image {
	t.Helper()
	m := make(image)
	testkit.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			m[name], err = os.ReadFile(path)
		}
		return err
	}))
	return m
}

// outcome is the result of a start.
type outcome struct {
	last    uint64
	refused *CorruptError
	err     error
}

// startOnce opens the journal in dir, reads all of it and closes it. Its fsyncs do nothing; a separate test checks their
// order.
func startOnce(t *testing.T, dir string, applied uint64) outcome {
	t.Helper()
	j, err := Open(Options{Dir: dir, Applied: applied, AllowClockAhead: true, Hooks: Hooks{SyncFile: func(*os.File) error { return nil }}})
	if err != nil {
		out := outcome{err: err}
		errors.As(err, &out.refused)
		return out
	}
	defer func() { testkit.NoError(t, j.Close()) }()
	next := j.First()
	for r, err := range j.Records(next) {
		testkit.NoError(t, err, "the start was accepted, reading says")
		testkit.MustEqual(t, r.Seq, next, "seq", "follows", next-1)
		next++
	}
	testkit.MustEqual(t, next, j.Synced()+1, "read to", next-1, "synced", j.Synced())
	return outcome{last: j.Synced()}
}
