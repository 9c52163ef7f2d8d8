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
			if last := i == len(vols)-1 && k == len(v.segments)-1; !last && room > 0 {
				t.Errorf("%s ends with %d zero bytes", s.path, room)
			}
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
		if room == 0 || room > roomBytes {
			t.Fatalf("%d of %d bytes are room", room, size)
		}
		for i := range 100 {
			r.mustPut("create", fmt.Sprint(i))
		}
		if again, _ := roomOf(t, r.o.Dir); again != size {
			t.Errorf("the segment had %d bytes, and %d after a hundred small groups", size, again)
		}
		r.stop()
		if size, room := roomOf(t, r.o.Dir); room != 0 {
			t.Errorf("after a clean stop the journal ends with %d zero bytes of %d", room, size)
		}
	})
	t.Run("more than the room", func(t *testing.T) {
		r := mustRun(t, Options{})
		for range 12 {
			r.mustPut("create", strings.Repeat("x", 20_000)) // about the sixth does not fit
		}
		size, room := roomOf(t, r.o.Dir)
		if size <= 12*20_000 || room == 0 {
			t.Errorf("%d of %d bytes are room", room, size)
		}
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
			if n := <-room; n > 0 != c.some {
				t.Errorf("after group %d, of %d bytes, %d bytes are room", i, c.bytes, n)
			}
		}
		r.stop()
	})
	t.Run("full segments and volumes have none", func(t *testing.T) {
		for _, segment := range []int{1, 200, 1000, 1 << 20} {
			r := mustRun(t, Options{SegmentBytes: segment, VolumeBytes: 3000})
			for i := range 100 {
				r.mustPut("create", strings.Repeat("x", i))
				if size, room := roomOf(t, r.o.Dir); room > 0 && size > segment {
					t.Errorf("a segment of up to %d bytes has %d, %d of them room", segment, size, room)
				}
			}
			r.stop()
		}
	})
	t.Run("readers end before it", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		r.mustPut("create", "second")
		dir := copyOf(t, r.o.Dir)
		if _, room := roomOf(t, dir); room == 0 {
			t.Fatal("there is no room")
		}
		last := uint64(0)
		for rec, err := range Scan(dir, 1) {
			testkit.NoError(t, err)
			last = rec.Seq
		}
		rep, err := Verify(dir)
		if err != nil || rep.Damage != nil || rep.Verdict != Accept || rep.Case != "room for records" || rep.Last != last || last < 2 {
			t.Errorf("%+v, %v; the last record has seq %d", rep, err, last)
		}
		if got := startOnce(t, dir, last); got.last != last {
			t.Errorf("a start ends at %d, not %d: %v", got.last, last, got.err)
		}
		if _, room := roomOf(t, dir); room != 0 {
			t.Error("the start did not remove the room")
		}
	})
	t.Run("the committer keeps its descriptor", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		var was unix.Rlimit
		testkit.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
		testkit.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}))
		f, err := os.Open(r.o.Dir)
		for range 20 {
			if a := r.put(Bulk, "create", strings.Repeat("x", 20_000)); a.err != nil {
				t.Error(a.err)
			}
		}
		testkit.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("a file could be opened: %v, %v", f, err)
		}
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
			if got, want := calls[i-2:i], []string{"truncate " + last, "sync " + last}; !slices.Equal(got, want) {
				t.Errorf("before volume %s: %q, not %q", next, got, want)
			}
			last, rolls = next, rolls+1
		}
		if rolls == 0 {
			t.Errorf("no volume was begun: %q", calls)
		}
	})
	t.Run("a start after a crash discards nothing", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		j := mustOpen(t, Options{Dir: copyOf(t, r.o.Dir)})
		if st := j.Status(); st.Discarded != "" {
			t.Error(st.Discarded)
		}
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
			if stored := a.err == nil; stored != c.stored {
				t.Fatal(a)
			}
			f.truncate.Store(false)
			if c.stored {
				if _, room := roomOf(t, r.o.Dir); room != 0 {
					t.Errorf("%d bytes of room are left", room)
				}
				before := tried.Load()
				for range 20 {
					r.mustPut("create", "on a full disk")
				}
				if n := tried.Load() - before; n > 0 {
					t.Errorf("room was tried %d times again in the same segment", n)
				}
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
