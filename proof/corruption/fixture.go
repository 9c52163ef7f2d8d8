package corruption

import (
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

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// fixture is a data directory as a server left it, and what its users were told.
type fixture struct {
	name  string
	about string
	files map[string][]byte // by path below the directory
	jobs  []job.ID
	// sessions are one that is open and one that was ended.
	sessions []job.ID
	want     *state // what an undamaged start shows
	// shorter is what shows when the last records are missing: one, two, and so on, back to what the store has flushed. Nothing but
	// records behind them, and at last the store's cursor, can prove that they were there.
	shorter []*state
	places  []record // set once all of it is made
}

// state is everything a user can see.
type state struct {
	docs     map[job.ID]string
	sessions map[job.ID]string
	queues   string
	sweeps   string
}

// difference tells what s shows otherwise than want does; what could not be read is not compared.
func (s *state) difference(want *state) string {
	for id, doc := range s.docs {
		if want.docs[id] != doc {
			return fmt.Sprintf("job %v is %s, was %s", id, doc, want.docs[id])
		}
	}
	for id, doc := range s.sessions {
		if want.sessions[id] != doc {
			return fmt.Sprintf("session %v is %s, was %s", id, doc, want.sessions[id])
		}
	}
	if s.queues != "" && s.queues != want.queues {
		return fmt.Sprintf("queues are %s, were %s", s.queues, want.queues)
	}
	if s.sweeps != "" && s.sweeps != want.sweeps {
		return fmt.Sprintf("sweeps are %s, were %s", s.sweeps, want.sweeps)
	}
	return ""
}

// engineOptions make small segments and volumes, and a small disk, so that the ballast is small.
func engineOptions(dir string, retain int64) ingest.Options {
	return ingest.Options{
		Dir: dir, JournalRetain: retain, AllowClockAhead: true,
		Journal: journal.Options{SegmentBytes: 900, VolumeBytes: 2500},
		Store:   store.Options{Small: true, MemtableBytes: 1 << 20, CacheBytes: 1 << 20},
		Statfs:  func(string) (free, total uint64, err error) { return 1 << 20, 1 << 20, nil },
	}
}

// errUnsettled: what is due was not done in time, so what a user would see in the end is not known.
var errUnsettled = errors.New("undecided, machine too slow: what is due was not done")

// errPanicked wraps what a panic said.
var errPanicked = errors.New("panic")

// running is an engine that serves.
type running struct {
	*ingest.Engine
	cancel context.CancelFunc
	ended  chan error
}

// open starts an engine and waits until it serves.
func open(o ingest.Options) (r *running, err error) {
	e, err := ingest.Open(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r = &running{e, cancel, make(chan error, 1)}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.ended <- fmt.Errorf("%w: %v", errPanicked, p)
			}
		}()
		r.ended <- e.Run(ctx)
	}()
	for e.Ready() != nil {
		select {
		case err := <-r.ended:
			if err == nil {
				err = errors.New("it ended without saying why")
			}
			return nil, err
		case <-time.After(50 * time.Microsecond):
		}
	}
	return r, nil
}

func (r *running) stop() error {
	r.cancel()
	return <-r.ended
}

// settle waits until nothing is due: until then what users see still changes.
func (r *running) settle() error {
	for deadline := time.Now().Add(maxSettle); ; time.Sleep(time.Millisecond) {
		switch st := r.Stats(); {
		case st.NextDue == 0 || st.NextDue > st.Now:
			return nil
		case r.Ready() != nil: // it refuses writes, and so ticks; its reads say why
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w within %v", errUnsettled, maxSettle)
		}
	}
}

// maxSettle is how long a server may take to do what is due; most take some milliseconds.
const maxSettle = 2 * time.Minute

// see reads everything. An error is the first that a read was answered with; what could be read is in the state.
func (r *running) see(f *fixture) (*state, error) {
	if err := r.settle(); err != nil {
		return &state{}, err
	}
	if err := r.CatchUp(context.Background(), 0); err != nil {
		return &state{}, err
	}
	var first error
	s := &state{docs: map[job.ID]string{}, sessions: map[job.ID]string{}}
	for _, id := range f.jobs {
		doc, err := r.Queries().Job(id)
		switch {
		case errors.Is(err, job.NotFound):
			s.docs[id] = "not found"
		case err != nil:
			first = errors.Join(first, err)
			delete(s.docs, id)
		default:
			s.docs[id] = fmt.Sprintf("%v %s %q %v %d %d/%d %q %q %s %d attempts, by %v", doc.Status, doc.Client, doc.Payload, doc.Code, doc.ExitCode,
				doc.RunAttempts, doc.MaxAttempts, doc.Error, doc.Output, doc.OutputAddr, len(doc.Attempts), doc.Claim)
		}
	}
	for _, id := range f.sessions {
		doc, err := r.Queries().SessionDocument(id)
		switch {
		case errors.Is(err, job.SessionNotFound):
			s.sessions[id] = "not found"
		case err != nil:
			first = errors.Join(first, err)
		default:
			s.sessions[id] = fmt.Sprintf("of %q, used at %d, slots %v", doc.Runner, doc.UsedAt, doc.Slots)
		}
	}
	queues, _, err := r.Queries().Queues("", "", "", 100)
	if err != nil {
		return s, errors.Join(first, err)
	}
	for _, q := range queues {
		s.queues += fmt.Sprintf("%s/%s %v %v; ", q.Client, q.Type, q.Paused, q.Counts)
	}
	sweeps, err := r.Queries().Sweeps()
	if err != nil {
		return s, errors.Join(first, err)
	}
	s.sweeps = fmt.Sprintf("%d: ", len(sweeps)) // not empty, which would say that they could not be read
	for _, w := range sweeps {                  // their times are those of the ticks, which may have to be repeated
		s.sweeps += fmt.Sprintf("%v: %v %s/%s %v moved %d, left %d, finished %v; ", w.ID, w.Op, w.Client, w.Type, w.Batch, w.Moved, w.Skipped, w.FinishedAt != 0)
	}
	return s, first
}

// fixtures makes the data directories, in dir.
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
	alone := &fixture{name: "alone", about: "the journal of the first without a store, so that a start reads all of it", jobs: killed.jobs, sessions: killed.sessions, files: maps.Clone(killed.files)}
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
				break // none is left
			}
			s, err := shorter.seen(seen)
			if err != nil {
				break // the store's cursor proves what was there
			}
			f.shorter = append(f.shorter, s)
		}
	}
	return all, nil
}

// makeFixture has a server do one of everything, and returns what it leaves when it is killed, and when it is stopped.
func makeFixture(dir string, retain int64) (killed, stopped *fixture, err error) {
	f := &fixture{}
	o := engineOptions(dir, retain)
	o.QueueIdle = job.MinQueueIdleMs * time.Millisecond
	// Its clock is slow by more than that, and is set right on the way, so that a queue has been idle for as long without a wait.
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
	// The start after that gives the leases that are held a grace, and goes on behind what is flushed.
	if r, err = open(engineOptions(dir, retain)); err != nil {
		return nil, nil, err
	}
	err = f.create(r, job.LineFrame, "last", "line")
	killed, stopped = &fixture{jobs: f.jobs, sessions: f.sessions}, &fixture{jobs: f.jobs, sessions: f.sessions}
	if err == nil {
		killed.files, err = r.idle(dir)
	}
	if err := errors.Join(err, r.stop()); err != nil {
		return nil, nil, err
	}
	stopped.files, err = load(dir)
	return killed, stopped, err
}

// idle waits until nothing is due and the journal ends with a mark, and returns the files of dir as they are then.
func (r *running) idle(dir string) (map[string][]byte, error) {
	for deadline := time.Now().Add(maxSettle); ; time.Sleep(10 * time.Millisecond) {
		if err := r.settle(); err != nil {
			return nil, err
		}
		before := r.Stats().Appended
		files, err := load(dir)
		if err != nil || before != r.Stats().Appended {
			continue // something happened meanwhile, such as that a file was removed
		}
		records := (&fixture{files: files}).records()
		if n := len(records); n > 0 && records[n-1].verb == journal.MarkVerb {
			return files, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("undecided, machine too slow: the journal has no mark after %v", maxSettle)
		}
	}
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

// withoutMark returns f without the marks at its end.
func (f *fixture) withoutMark() (*fixture, error) {
	u := &fixture{jobs: f.jobs, sessions: f.sessions, files: f.files}
	for {
		shorter, verb, err := u.withoutLast()
		if err != nil || verb != journal.MarkVerb {
			return u, err
		}
		u = shorter
	}
}

// withoutLast returns f without its journal's last record, and that record's verb.
func (f *fixture) withoutLast() (*fixture, string, error) {
	records := f.records()
	if len(records) == 0 {
		return nil, "", errors.New("the journal is empty")
	}
	last := records[len(records)-1]
	shorter := &fixture{jobs: f.jobs, sessions: f.sessions, files: maps.Clone(f.files)}
	shorter.files[last.file] = f.files[last.file][:last.from]
	segments := f.segments() // empty ones behind it go with it
	for _, empty := range segments[slices.Index(segments, last.file)+1:] {
		delete(shorter.files, empty)
	}
	return shorter, last.verb, nil
}

// record is where a record lies, and what it proves.
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
			r := record{file: file, from: at, to: at + n + int(size)}
			if _, err := fmt.Sscanf(string(data[at+n:r.to]), "\n#:%s v=1 seq=%d at=%d synced=%d", &r.verb, &r.seq, new(int64), &r.synced); err != nil {
				panic(fmt.Sprintf("%s, offset %d: %v", file, at, err)) // a fixture that is not whole
			}
			all = append(all, r)
			at = r.to
		}
	}
	return all
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

// seen starts a server on f and returns what it shows.
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

// load reads a directory.
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
			return nil // bytes that nobody reads
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	return files, err
}

// write makes the directory.
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
