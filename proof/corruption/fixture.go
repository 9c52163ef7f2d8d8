package corruption

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// fixture is a data directory that a server left, with the answers that its users got.
type fixture struct {
	name  string
	about string
	files map[string][]byte // by path below the directory
	jobs  []job.ID
	chain int // index in jobs of the first job of a chain; see createChain
	lost  int // index in jobs of two jobs that lost runners held; see loseRunner
	// sessions are an open session and an ended one.
	sessions []job.ID
	// batches are batches with attributes, in all statuses.
	batches []job.ID
	want    *state // as a start without damage shows it
	// shorter are the states that a start shows when the last one, two, … records are missing, back to the store's last
	// flush. Only later records, and at last the store's cursor, can prove that these records existed.
	shorter []*state
	places  []record // set when the fixture is complete
}

// fixtures makes the data directories in dir.
func fixtures(dir string) ([]*fixture, error) {
	killed, stopped, err := makeFixture(filepath.Join(dir, "whole"), 1<<30)
	if err != nil {
		return nil, err
	}
	killed.name, killed.about = "killed", "a journal that begins at 1, a store that has flushed half of it, a server that was killed when idle"
	stopped.name, stopped.about = "stopped", "the same after a clean stop"
	cut, _, err := makeFixture(filepath.Join(dir, "cut"), 0)
	if err != nil {
		return nil, err
	}
	cut.name, cut.about = "cut", "a journal whose beginning has left, so that it is in the store alone; killed when idle"
	unproven, err := killed.withoutMark()
	if err != nil {
		return nil, err
	}
	unproven.name, unproven.about = "unproven", "killed before a mark was written, so that nothing proves the last record"
	alone := killed.with(maps.Clone(killed.files))
	alone.name, alone.about = "alone", "the journal of the first without a store, so that a start reads all of it"
	maps.DeleteFunc(alone.files, func(path string, _ []byte) bool { return strings.HasPrefix(path, "store/") })
	all := []*fixture{killed, alone, stopped, cut, unproven}
	for _, f := range all {
		f.places = f.records()
		seen := filepath.Join(dir, "seen")
		if f.want, err = f.seen(seen); err != nil {
			return nil, fmt.Errorf("read fixture %s: %w", f.name, err)
		}
		for shorter := f; ; {
			if shorter, _, err = shorter.withoutLast(); err != nil {
				break // no record is left
			}
			s, err := shorter.seen(seen)
			if err != nil {
				break // the store's cursor proves the missing record
			}
			f.shorter = append(f.shorter, s)
		}
	}
	return all, nil
}

// makeFixture lets a server carry out everything once. It returns the directory as a killed server leaves it, and as a
// stopped server does.
func makeFixture(dir string, retain int64) (killed, stopped *fixture, err error) {
	f := &fixture{}
	o := engineOptions(dir, retain)
	o.QueueIdle = job.MinQueueIdleMs * time.Millisecond
	// The clock is slow by more than QueueIdle, and is set right later. So a queue becomes idle without a wait.
	var behind atomic.Int64
	behind.Store(int64(o.QueueIdle + time.Second))
	o.Journal.Wall = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
	r, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	if err := f.work(r, retain == 0, func() { behind.Store(0) }); err != nil {
		return nil, nil, errors.Join(err, r.stop())
	}
	if err := r.stop(); err != nil {
		return nil, nil, err
	}
	// The second start gives a grace to the leases that are held, and appends records after the flushed ones. One of them
	// is the loss of a runner.
	if r, err = open(engineOptions(dir, retain)); err != nil {
		return nil, nil, err
	}
	if err = f.loseRunner(r, "lost later", 1); err == nil {
		err = f.create(r, job.LineFrame, "last", "line")
	}
	var idle map[string][]byte
	if err == nil {
		idle, err = r.idle(dir)
	}
	if err := errors.Join(err, r.stop()); err != nil {
		return nil, nil, err
	}
	left, err := load(dir)
	return f.with(idle), f.with(left), err
}

var group = job.Group{
	Client: "acme", Type: "resize", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 2, LeaseMs: 3_600_000,
		Backoff: job.Backoff{InitialMs: 1, FactorMilli: 1000, MaxMs: 1}, RetentionMs: 1_000_000_000},
}

func (f *fixture) create(r *running, frame job.Frame, payloads ...string) error {
	g := group
	g.Lines = len(payloads)
	return f.post(r, &job.Create{Frame: frame, Groups: []job.Group{g}}, payloads...)
}

func (f *fixture) post(r *running, c *job.Create, payloads ...string) error {
	for _, p := range payloads {
		c.Payloads = c.Frame.Append(c.Payloads, []byte(p))
		if c.Frame != job.NoFrame {
			c.Longest = max(c.Longest, len(p))
		}
	}
	_, receipt, err := r.Create(context.Background(), c)
	for i := range payloads {
		f.jobs = append(f.jobs, job.NewID(receipt.At, receipt.Seq, i))
	}
	return err
}

// with returns f with other files, and without its states.
func (f *fixture) with(files map[string][]byte) *fixture {
	return &fixture{jobs: f.jobs, chain: f.chain, lost: f.lost, sessions: f.sessions, batches: f.batches, files: files}
}

// withoutMark returns f without the marks at its end.
func (f *fixture) withoutMark() (*fixture, error) {
	u := f.with(f.files)
	for {
		shorter, verb, err := u.withoutLast()
		if err != nil || verb != journal.MarkVerb {
			return u, err
		}
		u = shorter
	}
}

// withoutLast returns f without the last record of its journal, and the verb of that record.
func (f *fixture) withoutLast() (*fixture, string, error) {
	records := f.records()
	if len(records) == 0 {
		return nil, "", errors.New("the journal is empty")
	}
	last := records[len(records)-1]
	shorter := f.with(maps.Clone(f.files))
	shorter.files[last.file] = f.files[last.file][:last.from]
	segments := f.segments() // it also removes the empty segments after it
	for _, empty := range segments[slices.Index(segments, last.file)+1:] {
		delete(shorter.files, empty)
	}
	return shorter, last.verb, nil
}

// record is the place of a record, and the records that it proves.
type record struct {
	file        string
	from, to    int
	verb        string
	seq, synced uint64
}

// records lists the journal's records in order.
func (f *fixture) records() (all []record) {
	for _, file := range f.segments() {
		data := f.files[file]
		for at := 0; at < len(data); {
			size, n := binary.Uvarint(data[at:])
			if size == 0 { // the room after the last record
				break
			}
			r := record{file: file, from: at, to: at + n + int(size)}
			if _, err := fmt.Sscanf(string(data[at+n:r.to]), "\n#:%s v=1 salt=%x seq=%d at=%d synced=%d", &r.verb, new(uint32), &r.seq, new(int64), &r.synced); err != nil {
				panic(fmt.Sprintf("%s, offset %d: %v", file, at, err)) // the fixture is damaged
			}
			all = append(all, r)
			at = r.to
		}
	}
	return all
}

// roomBytes is how much of the preallocated room after the last record a fixture keeps: a sector and a part of a sector.
// A server preallocates more, but damage there would show nothing else.
const roomBytes = 600

// trimRoom makes the room after the last record shorter.
func (f *fixture) trimRoom() {
	for _, file := range f.segments() {
		data := f.files[file]
		records := len(bytes.TrimRight(data, "\x00"))
		f.files[file] = data[:min(records+roomBytes, len(data))]
	}
}

// segments lists the journal's segments in order.
func (f *fixture) segments() (names []string) {
	for path := range f.files {
		if strings.HasPrefix(path, "journal/") && strings.Count(path, "/") == 2 {
			names = append(names, path)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(filepath.Base(a)+filepath.Dir(a), filepath.Base(b)+filepath.Dir(b))
	})
	return names
}

// seen starts a server on f and returns the state that it shows.
func (f *fixture) seen(dir string) (*state, error) {
	if err := f.write(dir); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r, err := open(engineOptions(dir, 1<<30))
	if err != nil {
		return nil, err
	}
	s, err := r.see(f)
	return s, errors.Join(err, r.stop())
}

// load reads the files of a directory.
func load(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if name == "ballast" {
			return nil // nobody reads its bytes
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	return files, err
}

// write writes the files to a directory.
func (f *fixture) write(dir string) error {
	for name, data := range f.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			return err
		}
	}
	return nil
}
