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
	want  *state // what an undamaged start shows
	// shorter is what shows when the last records are missing: one, two, and so on, back to what the store has flushed. Nothing but
	// records behind them, and at last the store's cursor, can prove that they were there.
	shorter []*state
	places  []record // set once all of it is made
}

// state is everything a user can see.
type state struct {
	docs   map[job.ID]string
	queues string
	sweeps string
}

// difference tells what s shows otherwise than want does; what could not be read is not compared.
func (s *state) difference(want *state) string {
	for id, doc := range s.docs {
		if want.docs[id] != doc {
			return fmt.Sprintf("job %v is %s, was %s", id, doc, want.docs[id])
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
func (r *running) see(jobs []job.ID) (*state, error) {
	if err := r.settle(); err != nil {
		return &state{}, err
	}
	var first error
	s := &state{docs: map[job.ID]string{}}
	for _, id := range jobs {
		doc, err := r.Job(context.Background(), 0, id)
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
	queues, _, err := r.Queues(context.Background(), 0, "", "", "", 100)
	if err != nil {
		return s, errors.Join(first, err)
	}
	for _, q := range queues {
		s.queues += fmt.Sprintf("%s/%s %v %v; ", q.Client, q.Type, q.Paused, q.Counts)
	}
	sweeps, err := r.Sweeps(context.Background(), 0)
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
	alone := &fixture{name: "alone", about: "the journal of the first without a store, so that a start reads all of it", jobs: killed.jobs, files: maps.Clone(killed.files)}
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
	r, err := open(engineOptions(dir, retain))
	if err != nil {
		return nil, nil, err
	}
	if err := f.work(r, retain == 0); err != nil {
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
	killed, stopped = &fixture{jobs: f.jobs}, &fixture{jobs: f.jobs}
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
	Client: "acme", Type: "resize", Kind: job.Text, Priority: 4, MaxAttempts: 2, LeaseMs: 3_600_000,
	Backoff: job.Backoff{InitialMs: 1, FactorMilli: 1000, MaxMs: 1}, RetentionMs: 1_000_000_000,
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

// work does one of everything that a journal can hold.
func (f *fixture) work(r *running, cut bool) error {
	ctx := context.Background()
	claim := job.Claim{Runner: "r1", Max: 3, MaxBytes: job.MaxClaimBytes, Types: []string{"resize"}}
	outcome := func(id job.ID, code job.Code) job.Outcome {
		return job.Outcome{ID: id, Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
	}
	several := &job.Create{Frame: job.LenFrame}
	for _, client := range []string{"acme", "other"} {
		g := group
		g.Lines, g.Client, g.Priority = 1, client, 9
		several.Groups = append(several.Groups, g)
	}
	soon := group
	soon.Lines, soon.Type, soon.RunAt = 1, "later", r.Now()+20
	full := group
	full.Lines, full.Type, full.ExpiresAt, full.TimeoutMs = 4, "moved", job.MaxTimeMs, job.MaxTimeoutMs
	full.Meta, full.Traceparent = "colour=red", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	first := 0 // of these, in f.jobs
	move := func(op job.Op, line int) func() error {
		return func() error {
			_, _, err := r.Move(ctx, job.Move{Op: op, Job: f.jobs[first+line]})
			return err
		}
	}
	// Jobs in so many groups that to cancel or redrive all of them is a sweep, which ticks go on with.
	scattered := &job.Create{Frame: job.LineFrame}
	for i := range 8 {
		g := group
		g.Lines, g.Type, g.Priority = 1, "swept", i
		scattered.Groups = append(scattered.Groups, g)
	}
	sweep := func(op job.Op) func() error {
		return func() error {
			answer, _, err := r.MoveAll(ctx, job.Move{Op: op, Client: group.Client, Type: "swept"})
			if err == nil && answer.Sweep.IsZero() {
				err = fmt.Errorf("%v of a queue was done in one command, and was to be a sweep: %+v", op, answer)
			}
			return errors.Join(err, r.settle())
		}
	}
	var claimed store.Claimed
	var docs []job.Job
	steps := []func() error{
		func() error { return f.create(r, job.LineFrame, "one", "two", "three", "four", "five", "six") },
		func() error { return f.create(r, job.LenFrame, "with\nnewline", "", "\n#:end crc=00000000\n") },
		func() error { return f.create(r, job.NoFrame, "", "") },
		func() error { return f.post(r, several, "first group", "second group") },
		func() error {
			return f.post(r, &job.Create{Frame: job.LineFrame, Groups: []job.Group{soon}}, strings.Repeat("later ", 60))
		},
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err },
		func() error {
			_, _, err := r.Tickle(ctx, job.Tickle{Claim: claimed.Claim, Progress: -1})
			return err
		},
		func() error {
			_, _, err := r.Tickle(ctx, job.Tickle{IDs: []job.ID{docs[0].ID}, Step: "half", Progress: 500_000})
			return err
		},
		func() error { _, _, err := r.Tickle(ctx, job.Tickle{Runner: "r1", Progress: -1}); return err },
		func() error {
			ok, failed := outcome(docs[0].ID, job.OK), outcome(docs[1].ID, job.Fail)
			ok.OutputKind, ok.Output, ok.OutputAddr = job.Text, []byte("out\nput"), "sha256-o"
			failed.Error = "no such thing"
			_, _, err := r.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{ok, failed, outcome(docs[2].ID, job.Error)}})
			return err
		},
		func() error { return wait(r, "later", 1) }, // a tick
		func() error { return r.Store().FlushWait() },
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err },
		func() error {
			_, _, err := r.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 201, DelayMs: -1}})
			return err
		},
		func() error {
			_, _, err := r.Pause(ctx, job.Pause{Client: "other", Type: "resize", Paused: true})
			return err
		},
		func() error {
			first = len(f.jobs)
			return f.post(r, &job.Create{Frame: job.LineFrame, Groups: []job.Group{full}, Unique: []job.UniqueKey{{Line: 1, Key: "order 7"}},
				Once: job.Once{Scope: "create acme", Key: "k"}}, "to be cancelled", "to be patched", "to be deleted", "to be swept")
		},
		move(job.Cancel, 0), move(job.Redrive, 0), move(job.Cancel, 0),
		func() error {
			priority, runAt := 7, int64(job.MaxTimeMs)
			_, _, err := r.Patch(ctx, job.Patch{Job: f.jobs[first+1], Priority: &priority, RunAt: &runAt})
			return err
		},
		move(job.Run, 1), move(job.Delete, 2),
		func() error {
			f.jobs = append(f.jobs[:first+2], f.jobs[first+3:]...)
			_, _, err := r.MoveAll(ctx, job.Move{Op: job.Cancel, Client: full.Client, Type: full.Type, Status: job.Pending})
			return err
		},
		func() error { return f.post(r, scattered, strings.Fields(strings.Repeat("s ", scattered.Lines()))...) },
		sweep(job.Cancel), sweep(job.Redrive),
		func() error { _, _, err := r.Switch(ctx, job.Switch{Stopped: true}); return err },
		func() error { _, _, err := r.Switch(ctx, job.Switch{}); return err },
		func() error { return r.Store().FlushWait() },
		func() error {
			for deadline := time.Now().Add(maxSettle); cut && r.Stats().Journal.First == 1; time.Sleep(time.Millisecond) { // it follows the flush
				if time.Now().After(deadline) {
					return errors.New("the journal was not cut")
				}
			}
			_, _, err := r.Pause(ctx, job.Pause{Client: "other", Type: "resize"})
			return err
		},
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err },
		func() error {
			_, _, err := r.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome(docs[0].ID, job.Unget)}})
			return err
		},
		func() (err error) { claimed, docs, _, err = r.Claim(ctx, claim, 0); return err }, // is held at the end
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// wait waits until a queue of acme has n pending jobs.
func wait(r *running, typ string, n int64) error {
	for deadline := time.Now().Add(maxSettle); time.Now().Before(deadline); {
		q, err := r.Queue(context.Background(), 0, "acme", typ)
		if err != nil {
			return err
		}
		if q.Counts[job.Pending] == n {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("undecided, machine too slow: queue %s does not have %d pending jobs after %v", typ, n, maxSettle)
}

// withoutMark returns f without the marks at its end.
func (f *fixture) withoutMark() (*fixture, error) {
	u := &fixture{jobs: f.jobs, files: f.files}
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
	shorter := &fixture{jobs: f.jobs, files: maps.Clone(f.files)}
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
	s, err := r.see(f.jobs)
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
