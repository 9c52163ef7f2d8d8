package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestCompare(t *testing.T) {
	wrapped := fmt.Errorf("open f: %w", fs.ErrNotExist)
	for name, c := range map[string]struct {
		check func(t testing.TB)
		want  string // the report, if there is one
	}{
		"equal":                {func(t testing.TB) { Equal(t, 7, 7) }, ""},
		"another number":       {func(t testing.TB) { Equal(t, 7, 8, "line", 3) }, "line 3: 7, want 8"},
		"case of bytes":        {func(t testing.TB) { Equal(t, 7, 8, []byte("line"), 3) }, "line 3: 7, want 8"},
		"another text":         {func(t testing.TB) { Equal(t, "a\n", "a") }, `"a\n", want "a"`},
		"equal slices":         {func(t testing.TB) { EqualSlices(t, nil, []int{}) }, ""},
		"another slice":        {func(t testing.TB) { EqualSlices(t, []int{1}, []int{2}) }, "[1], want [2]"},
		"other bytes":          {func(t testing.TB) { EqualSlices(t, []byte("a"), []byte("b")) }, `"a", want "b"`},
		"deeply equal":         {func(t testing.TB) { DeepEqual(t, []*int{new(int)}, []*int{new(int)}) }, ""},
		"not deeply":           {func(t testing.TB) { DeepEqual(t, map[int]int{1: 1}, nil) }, "map[1:1], want map[]"},
		"holds":                {func(t testing.TB) { Holds(t, 1 < 2, 1) }, ""},
		"does not hold":        {func(t testing.TB) { Holds(t, 2 < 1, "jobs", 2) }, "jobs 2: not as wanted"},
		"contains":             {func(t testing.TB) { Contains(t, "abc", "a", "bc") }, ""},
		"does not contain":     {func(t testing.TB) { Contains(t, "abc", "a", "d") }, `"d" is not in "abc"`},
		"lacks":                {func(t testing.TB) { Lacks(t, "abc", "d") }, ""},
		"does not lack":        {func(t testing.TB) { Lacks(t, "abc", "d", "c") }, `"c" is in "abc"`},
		"the error":            {func(t testing.TB) { Failed(t, wrapped, fs.ErrNotExist, "open f") }, ""},
		"no error":             {func(t testing.TB) { Failed(t, nil, "open") }, "there was no error; want [open]"},
		"another error":        {func(t testing.TB) { Failed(t, wrapped, fs.ErrExist) }, `the error is "open f: file does not exist", not "file already exists"`},
		"another error's text": {func(t testing.TB) { Fails(0, errors.New("a"))(t, "b") }, `the error is "a", without "b"`},
		"after two values":     {func(t testing.TB) { Fails2(0, 0, nil)(t) }, "there was no error; want []"},
		"neither":              {func(t testing.TB) { Failed(t, wrapped, 7) }, "7 is neither an error nor a text"},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			c.check(&r)
			if got := fmt.Sprint(r.reported...); got != c.want || len(r.fatal) > 0 {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	var r recorder
	MustEqual(&r, 7, 7)
	MustEqual(&r, 7, 8)
	MustHold(&r, true)
	MustHold(&r, false, "lost")
	if fmt.Sprint(r.fatal) != "[7, want 8 lost: not as wanted]" || len(r.reported) > 0 {
		t.Errorf("a value that the test needs: %v, %v", r.fatal, r.reported)
	}
}
