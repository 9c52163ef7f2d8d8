package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// roomOf returns how many bytes the last segment of dir has, and how many of them are zero bytes at its end. It checks
// that no other segment ends with one.
func roomOf(t *testing.T, dir string) (size, room int) {
	t.Helper()
	vols, err := loadVolumes(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vols {
		for k, s := range v.segments {
			data, err := readSegment(s.path, nil)
			if err != nil {
				t.Fatal(err)
			}
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
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
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
			r.mustPut("create", strings.Repeat("x", 20_000)) // the sixth one or so does not fit
		}
		size, room := roomOf(t, r.o.Dir)
		if size <= 12*20_000 || room == 0 {
			t.Errorf("%d of %d bytes are room", room, size)
		}
		r.stop()
	})
	t.Run("large groups make none", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", strings.Repeat("x", maxRoomGroupBytes))
		if size, room := roomOf(t, r.o.Dir); room != 0 {
			t.Errorf("%d of %d bytes are room", room, size)
		}
		r.mustPut("create", "small")
		if _, room := roomOf(t, r.o.Dir); room == 0 {
			t.Error("a small group after a large one made no room")
		}
		r.mustPut("create", strings.Repeat("x", 2*roomBytes)) // overwrites the room and more
		if size, room := roomOf(t, r.o.Dir); room != 0 {
			t.Errorf("%d of %d bytes are room", room, size)
		}
		r.mustPut("create", "small")
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
			if err != nil {
				t.Fatal(err)
			}
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
		if _, err := GiveUp(dir, second-1); err != nil {
			t.Fatal(err)
		}
		expect(t, startOnce(t, dir, 0), second-1)
	})
}

// TestFailedRoom: a group is stored although there is no space for room. If the file cannot be made shorter again, the
// group fails, and the repair makes it so.
func TestFailedRoom(t *testing.T) {
	for name, c := range map[string]struct {
		truncate, stored bool
	}{"no space": {false, true}, "no space, and no truncation": {true, false}} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{t: t}
			h := f.hooks()
			var full atomic.Bool
			h.WriteAt = func(file *os.File, b []byte, offset int64) error {
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
