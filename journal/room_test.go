package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// roomOf returns the length of the last segment of dir, and the number of zero bytes at its end. It checks that no other
// segment ends with zero bytes.
func roomOf(t *testing.T, dir string) (size, room int) {
	t.Helper()
	vols := testkit.Must(loadVolumes(dir))(t)
	for i, v := range vols {
		for k, s := range v.segments {
			data := testkit.Must(readSegment(s.path, nil))(t)
			size, room = len(data), len(data)-len(bytes.TrimRight(data, "\x00"))
			testkit.Holds(t, (i == len(vols)-1 && k == len(v.segments)-1) || room <= 0, s.path, "ends with", room, "zero bytes")
		}
	}
	return size, room
}

// copyOf returns a copy of the journal in dir, as a killed server would leave it.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	testkit.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func TestRoom(t *testing.T) {
	t.Run("small groups overwrite zero bytes", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		size, room := roomOf(t, r.o.Dir)
		testkit.MustHold(t, room != 0 && room <= roomBytes, room, "of", size, "bytes are room")
		for i := range 100 {
			r.mustPut("create", fmt.Sprint(i))
		}
		again, _ := roomOf(t, r.o.Dir)
		testkit.Equal(t, again, size, "the segment had", "bytes, and", "after a hundred small groups")
		r.stop()
		size, room = roomOf(t, r.o.Dir)
		testkit.Equal(t, room, 0, "after a clean stop the journal ends with", "zero bytes of", size)
	})
	t.Run("more than the room", func(t *testing.T) {
		r := mustRun(t, Options{})
		for range 12 {
			r.mustPut("create", strings.Repeat("x", 20_000)) // about the sixth does not fit
		}
		size, room := roomOf(t, r.o.Dir)
		testkit.Holds(t, size > 12*20_000 && room != 0, room, "of", size, "bytes are room")
		r.stop()
	})
	t.Run("large groups make none", func(t *testing.T) {
		// Deliver is called before the mark of an idle journal. The mark is a small group too.
		var dir string
		room := make(chan int, 1)
		r := mustRun(t, Options{Dir: t.TempDir(), Deliver: func(records []Record) {
			if records[0].Verb == "create" {
				_, n := roomOf(t, dir)
				room <- n
			}
		}})
		dir = r.o.Dir
		for i, c := range []struct {
			bytes int
			some  bool
		}{{maxRoomGroupBytes, false}, {5, true}, {2 * roomBytes, false}, {5, true}} {
			r.mustPut("create", strings.Repeat("x", c.bytes))
			n := <-room
			testkit.Equal(t, n > 0, c.some, "after group", i, "of", c.bytes, "bytes", n, "bytes are room")
		}
		r.stop()
	})
	t.Run("full segments and volumes have none", func(t *testing.T) {
		for _, segment := range []int{1, 200, 1000, 1 << 20} {
			r := mustRun(t, Options{SegmentBytes: segment, VolumeBytes: 3000})
			for i := range 100 {
				r.mustPut("create", strings.Repeat("x", i))
				size, room := roomOf(t, r.o.Dir)
				testkit.Holds(t, room <= 0 || size <= segment, "a segment of up to", segment, "bytes has", size, room, "of them room")
			}
			r.stop()
		}
	})
	t.Run("readers end before it", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		r.mustPut("create", "second")
		dir := copyOf(t, r.o.Dir)
		_, room := roomOf(t, dir)
		testkit.MustHold(t, room != 0, "there is no room")
		last := uint64(0)
		for rec, err := range Scan(dir, 1) {
			testkit.NoError(t, err)
			last = rec.Seq
		}
		rep, err := Verify(dir)
		testkit.Holds(t, err == nil && rep.Damage == nil && rep.Verdict == Accept && rep.Case == "room for records" &&
			rep.Last == last && last >= 2, rep, err, "the last record has seq", last)
		got := startOnce(t, dir, last)
		testkit.Equal(t, got.last, last, "a start ends at", got.err)
		_, room = roomOf(t, dir)
		testkit.Equal(t, room, 0, "the start did")
	})
	t.Run("the committer keeps its descriptor", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		var was unix.Rlimit
		testkit.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
		testkit.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}))
		f, err := os.Open(r.o.Dir)
		for range 20 {
			testkit.Check(t, r.put(Bulk, "create", strings.Repeat("x", 20_000)).err)
		}
		testkit.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
		testkit.Holds(t, errors.Is(err, unix.EMFILE), "a file could be opened", f, err)
		r.stop()
	})
	t.Run("the next volume is made after room is removed", func(t *testing.T) {
		var calls []string // only the committer appends, and this goroutine reads after its end
		note := func(call, path string) { calls = append(calls, call+" "+filepath.Base(path)) }
		r := mustRun(t, Options{VolumeBytes: 3000, Hooks: Hooks{
			Truncate: func(f *os.File, n int64) error { note("truncate", f.Name()); return f.Truncate(n) },
			SyncFile: func(f *os.File) error { note("sync", f.Name()); return f.Sync() },
			Create:   func(path string) (*os.File, error) { note("create", path); return create(path) },
		}})
		begun := len(calls)
		for i := range 30 {
			r.mustPut("create", strings.Repeat("x", 10*i))
		}
		r.stop()
		last, rolls := seqName(1), 0
		for i := begun; i < len(calls); i++ {
			next, ok := strings.CutPrefix(calls[i], "create ")
			if !ok {
				continue
			}
			got, want := calls[i-2:i], []string{"truncate " + last, "sync " + last}
			testkit.Holds(t, slices.Equal(got, want), "before volume", next, got, "not", want)
			last, rolls = next, rolls+1
		}
		testkit.Holds(t, rolls != 0, "no volume was begun", calls)
	})
	t.Run("a start after a crash discards nothing", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		testkit.Equal(t, mustOpen(t, Options{Dir: copyOf(t, r.o.Dir)}).Status().Discarded, "")
	})
	t.Run("records may be given up", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		second := r.mustPut("create", "second").seq
		dir := copyOf(t, r.o.Dir)
		testkit.Must(GiveUp(dir, second-1))(t)
		expect(t, startOnce(t, dir, 0), second-1)
	})
}

// TestFailedRoom: a group is stored even if the disk lacks space for room. If the file cannot be shortened again, the
// group fails, and the repair shortens the file.
func TestFailedRoom(t *testing.T) {
	for name, c := range map[string]struct {
		truncate, stored bool
	}{"no space": {false, true}, "no space, and no truncation": {true, false}} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{t: t}
			h := f.hooks()
			var full atomic.Bool
			var tried atomic.Int64
			h.WriteAt = func(file *os.File, b []byte, offset int64) error {
				tried.Add(1)
				if full.Load() {
					_, err := file.WriteAt(b[:len(b)/2], offset) // as a full disk does
					return errors.Join(err, errDisk)
				}
				_, err := file.WriteAt(b, offset)
				return err
			}
			r := mustRun(t, Options{Hooks: h})
			full.Store(true)
			f.truncate.Store(c.truncate)
			a := r.put(Control, "create", "on a full disk")
			testkit.MustEqual(t, a.err == nil, c.stored, a)
			f.truncate.Store(false)
			if c.stored {
				_, room := roomOf(t, r.o.Dir)
				testkit.Equal(t, room, 0, "bytes of room are left")
				before := tried.Load()
				for range 20 {
					r.mustPut("create", "on a full disk")
				}
				n := tried.Load() - before
				testkit.Holds(t, n <= 0, "room was tried", n, "times again in the same segment")
				full.Store(false)
				r.mustPut("create", "after")
				r.stop()
				return
			}
			full.Store(false)
			for r.Health() != nil {
				r.put(Control, "create", "tries the repair")
			}
			r.mustPut("create", "after")
			r.stop()
		})
	}
}

// TestFill: a command with Fill gets its content exactly once, when the committer takes it into a group.
func TestFill(t *testing.T) {
	t.Run("as late as possible", func(t *testing.T) {
		g := newGate()
		r := mustRun(t, Options{Hooks: Hooks{Sync: g.sync}})
		first := testkit.Must(r.propose(Bulk, "first", ""))(t)
		<-g.entered // the commands below wait for the next group
		var content atomic.Pointer[string]
		var calls atomic.Int64
		filled := make(chan answer, 1)
		err := r.Propose(t.Context(), &Proposal{
			Lane: Bulk, Verb: "filled", Reserve: 100,
			Fill: func() (fields, body []byte, err error) {
				calls.Add(1)
				return []byte("n=1"), []byte(*content.Load()), nil
			},
			Done: func(seq uint64, at int64, err error) { filled <- answer{seq, at, err} },
		})
		testkit.MustHold(t, err == nil && calls.Load() == 0, err, calls.Load())
		used, _ := r.proposals.inFlight()
		testkit.Holds(t, used >= 100, used, "bytes are in flight, and 100 are reserved")
		late := "added after it was proposed"
		content.Store(&late)
		close(g.open)
		a := <-filled
		testkit.MustHold(t, a.err == nil && a.seq == 2, a)
		<-first
		r.stop()
		got := r.got[1]
		testkit.Holds(t, string(got.Body) == late && string(got.Fields) == "n=1" && calls.Load() == 1, got, "after", calls.Load(), "calls")
		used, _ = r.proposals.inFlight()
		testkit.Equal(t, used, 0, "bytes are still in flight")
	})
	t.Run("refused content is not stored, and the rest of the group is", func(t *testing.T) {
		g := newGate()
		r := mustRun(t, Options{Hooks: Hooks{Sync: g.sync}})
		testkit.Must(r.propose(Bulk, "first", ""))(t)
		<-g.entered
		refused := errors.New("refused")
		contents := map[string]func() (fields, body []byte, err error){
			"error":          func() (fields, body []byte, err error) { return nil, nil, refused },
			"line break":     func() (fields, body []byte, err error) { return []byte("a\nb"), nil, nil },
			"over its bound": func() (fields, body []byte, err error) { return nil, make([]byte, 11), nil },
		}
		answers := map[string]chan answer{}
		for name, fill := range contents {
			ch := make(chan answer, 1)
			answers[name] = ch
			done := func(seq uint64, at int64, err error) { ch <- answer{seq, at, err} }
			testkit.NoError(t, r.Propose(t.Context(), &Proposal{Lane: Bulk, Verb: "filled", Reserve: 10, Fill: fill, Done: done}))
		}
		last := testkit.Must(r.propose(Bulk, "last", ""))(t)
		close(g.open)
		for name, ch := range answers {
			a := <-ch
			testkit.Holds(t, errors.Is(a.err, ErrNotStored) && a.seq == 0 && (name != "error" || errors.Is(a.err, refused)), name, a)
		}
		a := <-last
		testkit.Holds(t, a.err == nil && a.seq == 2, "the last command", a)
		r.stop()
		used, _ := r.proposals.inFlight()
		testkit.Equal(t, used, 0, "bytes are still in flight")
	})
	t.Run("not called for a command that is not written", func(t *testing.T) {
		j := mustOpen(t, Options{})
		answered := make(chan error, 1)
		testkit.NoError(t, j.Propose(t.Context(), &Proposal{
			Lane: Bulk, Verb: "filled", Fill: func() (fields, body []byte, err error) { panic("called") },
			Done: func(_ uint64, _ int64, err error) { answered <- err },
		}))
		testkit.NoError(t, j.Close())
		testkit.Failed(t, <-answered, ErrNotStored)
	})
	t.Run("proposals that contradict themselves", func(t *testing.T) {
		j := mustOpen(t, Options{})
		fill := func() (fields, body []byte, err error) { return nil, nil, nil }
		for _, p := range []Proposal{{Fields: []byte("a=1")}, {Body: []byte("x")}, {Reserve: -1}, {Reserve: MaxRecordBytes}} {
			p.Verb, p.Fill, p.Done = "filled", fill, func(uint64, int64, error) {}
			err := j.Propose(t.Context(), &p)
			testkit.Holds(t, errors.Is(err, ErrInvalid), fmt.Sprintf("%+v", p.Reserve), err)
		}
	})
}
