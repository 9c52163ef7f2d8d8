package guest

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestResult(t *testing.T) {
	for _, r := range []Result{
		{End: Exit, Stderr: []byte{}, Output: []byte{}},
		{End: Exit, Code: 1<<32 - 1, Text: "text", Stderr: []byte("stderr"), Output: []byte("output\x00\xff")},
	} {
		var got Result
		err := got.Decode(r.Append(nil))
		testkit.Holds(t, err == nil && reflect.DeepEqual(got, r), r, "decoded", got, err)
	}
	long := Result{End: Trap, Text: strings.Repeat("x", 2*maxTextBytes)}
	var got Result
	err := got.Decode(long.Append(nil))
	testkit.Holds(t, err == nil && len(got.Text) == maxTextBytes, "a text of", len(got.Text), "bytes", err)
}

func FuzzResult(f *testing.F) {
	f.Add((&Result{End: Exit, Code: 1, Text: "text", Stderr: []byte("stderr"), Output: []byte("output")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Result
		testkit.Holds(t, r.Decode(b) != nil || len(r.Text) > maxTextBytes || bytes.Equal(r.Append(nil), b), r, "has another encoding than", string(b))
	})
}

func FuzzReader(f *testing.F) {
	f.Add(AppendFrame(AppendFrame(nil, Run, 1, []byte("a"), []byte("bc")), Input, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, n := NewReader(bytes.NewReader(b)), 0
		for {
			frame, err := r.Next()
			if err != nil {
				testkit.Holds(t, err != io.EOF || n == len(b), n, "of", len(b), "bytes were frames")
				return
			}
			again := AppendFrame(nil, frame.Kind, frame.Run, frame.Content)
			if !bytes.Equal(again, b[n:n+len(again)]) {
				t.Errorf("%v has another encoding than %q", frame, b[n:])
			}
			n += len(again)
		}
	})
}

// TestMemory: memories of a run share its limit, and the next run gets zeros.
func TestMemory(t *testing.T) {
	var p pages
	a := &account{pages: &p, limit: 3 << 16}
	first, second := a.Allocate(0, 4<<30), a.Allocate(0, 4<<30)
	b := first.Reallocate(1 << 16)
	testkit.MustEqual(t, len(b), 1<<16, "bytes")
	b[0] = 1
	if b = first.Reallocate(2 << 16); len(b) != 2<<16 || b[0] != 1 {
		t.Fatalf("%d bytes, the first is %d", len(b), b[0])
	}
	testkit.Holds(t, second.Reallocate(1<<16) != nil && second.Reallocate(2<<16) == nil &&
		first.Reallocate(3<<16) == nil && a.refused, "the limit does not hold")
	a.free()
	testkit.Equal(t, a.used, 0, "bytes are left")
	next := &account{pages: &p, limit: 3 << 16}
	b = next.Allocate(0, 4<<30).Reallocate(3 << 16)
	testkit.Holds(t, len(b) == 3<<16 && b[0] == 0, "the next run finds what the last one wrote")
	next.free()
}
