package fileset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/internal/testkit"
)

func file(path, content string) File {
	return File{Path: path, Blob: AddressOf([]byte(content)), Size: int64(len(content))}
}

func TestPathsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxNameBytes)
	for path, why := range map[string]string{
		"":                                "is empty",
		"/etc/passwd":                     "is absolute",
		"..":                              `has the element ".."`,
		"../a":                            `has the element ".."`,
		"a/../b":                          `has the element ".."`,
		"a/..":                            `has the element ".."`,
		".":                               `has the element "."`,
		"./a":                             `has the element "."`,
		"a/./b":                           `has the element "."`,
		"a//b":                            "has an empty element",
		"a/":                              "has an empty element",
		"a\x00b":                          "has a NUL",
		`a\b`:                             "has a backslash",
		`..\a`:                            "has a backslash",
		"C:/a":                            "begins with a drive",
		"c:":                              "begins with a drive",
		"\xff":                            "is not valid UTF-8",
		"\xed\xa0\x80":                    "is not valid UTF-8",
		long + "x":                        "element of 256 bytes",
		strings.Repeat(long+"/", 4) + "x": "has 1025 bytes",
		"a/" + long + "x":                 "element of 256 bytes",
		strings.Repeat("a/", 600) + "a":   "has 1201 bytes",
		strings.Repeat("é", 128):          "element of 256 bytes",
	} {
		err := CheckPath(path)
		if !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), why) {
			t.Errorf("%.50q: %v, not %q", path, err, why)
		}
		m := &Manifest{Files: []File{file(path, "x")}}
		if _, err := m.Encode(); !errors.Is(err, ErrPath) {
			t.Errorf("a manifest with %.50q: %v", path, err)
		}
		m = &Manifest{EmptyDirectories: []string{path}}
		if _, err := m.Encode(); !errors.Is(err, ErrPath) {
			t.Errorf("a manifest with the directory %.50q: %v", path, err)
		}
	}
	for _, path := range []string{"a", "a/b", "...", "..a", "a..", ".a", "ab:c", "2026-11-23T04:00:00", "a b", "a\nb", "é", "ab:", long, strings.Repeat(long+"/", 3) + long, "-rf"} {
		testkit.Check(t, CheckPath(path))
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	two := file("b", "x")
	two.Size = 2
	negative := file("a", "x")
	negative.Size = -1
	huge := file("a", "x")
	huge.Size = MaxFileBytes + 1
	for name, tt := range map[string]struct {
		m    Manifest
		want error
		text string
	}{
		"a path twice":                    {Manifest{Files: []File{file("a", "x"), file("a", "x")}}, ErrPath, `"a" occurs twice`},
		"a file that is a directory":      {Manifest{Files: []File{file("a", "x"), file("a-b", ""), file("a/b", "y")}}, ErrPath, `"a" is a file and a directory`},
		"a file far above a file":         {Manifest{Files: []File{file("a", "x"), file("a/b/c/d", "y")}}, ErrPath, `"a" is a file and a directory`},
		"a file that is empty directory":  {Manifest{[]File{file("a", "x")}, []string{"a"}}, ErrPath, `"a" is a file and a directory`},
		"an empty directory below a file": {Manifest{[]File{file("a", "x")}, []string{"a/b"}}, ErrPath, `"a" is a file and a directory`},
		"an empty directory with a file":  {Manifest{[]File{file("a/b", "x")}, []string{"a"}}, ErrPath, `directory "a" is listed as empty, but is not`},
		"one with an empty directory":     {Manifest{EmptyDirectories: []string{"a", "a/b"}}, ErrPath, `directory "a" is listed as empty, but is not`},
		"an empty directory twice":        {Manifest{EmptyDirectories: []string{"a", "a"}}, ErrPath, `directory "a" occurs twice`},
		"a blob of two sizes":             {Manifest{Files: []File{file("a", "x"), two}}, ErrManifest, "another file with the same blob"},
		"a negative size":                 {Manifest{Files: []File{negative}}, ErrTooLarge, "has -1 bytes"},
		"a file that is too large":        {Manifest{Files: []File{huge}}, ErrTooLarge, "a file has 0 to"},
	} {
		t.Run(name, func(t *testing.T) { testkit.Fails(tt.m.Encode())(t, tt.want, tt.text) })
	}
	unsorted := Manifest{Files: []File{file("b", ""), file("a", "")}}
	testkit.Failed(t, unsorted.Check(), ErrManifest)
	unsorted = Manifest{EmptyDirectories: []string{"b", "a"}}
	testkit.Failed(t, unsorted.Check(), ErrManifest)
}

func TestTextsThatAreRefused(t *testing.T) {
	a := AddressOf(nil).String()
	for name, tt := range map[string]struct {
		text string
		want error
	}{
		"nothing":                  {"", ErrManifest},
		"an array":                 {"[]", ErrManifest},
		"no format":                {`{"files":[]}`, ErrManifest},
		"another format":           {`{"format":2,"files":[]}`, ErrManifest},
		"an unknown member":        {`{"format":1,"files":[],"links":[]}`, ErrManifest},
		"an unknown member of one": {`{"format":1,"files":[{"path":"a","blob":"` + a + `","size":0,"mode":493}]}`, ErrManifest},
		"a member in another case": {`{"format":1,"files":[{"Path":"a","blob":"` + a + `","size":0}]}`, ErrManifest},
		"a member twice":           {`{"format":1,"files":[],"files":[]}`, ErrManifest},
		"more text":                {`{"format":1,"files":[]}{}`, ErrManifest},
		"invalid UTF-8":            {"{\"format\":1,\"files\":[{\"path\":\"\xff\",\"blob\":\"" + a + "\",\"size\":0}]}", ErrManifest},
		"a broken address":         {`{"format":1,"files":[{"path":"a","blob":"sha256:12","size":0}]}`, ErrManifest},
		"upper-case digits":        {`{"format":1,"files":[{"path":"a","blob":"` + strings.Replace(a, "e", "E", 1) + `","size":0}]}`, ErrManifest},
		"half a byte":              {`{"format":1,"files":[{"path":"a","blob":"` + a + `","size":0.5}]}`, ErrManifest},
		"no path":                  {`{"format":1,"files":[{"blob":"` + a + `","size":0}]}`, ErrPath},
		"a path that escapes":      {`{"format":1,"files":[{"path":"../a","blob":"` + a + `","size":0}]}`, ErrPath},
		"escaped NUL":              {`{"format":1,"files":[{"path":"a\u0000","blob":"` + a + `","size":0}]}`, ErrPath},
		"too long":                 {strings.Repeat(" ", MaxManifestBytes) + `{"format":1,"files":[]}`, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) { testkit.Fails(Decode([]byte(tt.text)))(t, tt.want) })
	}
}

// TestEncodingIsCanonical: the same tree has the same text, whatever the order and the white space.
func TestEncodingIsCanonical(t *testing.T) {
	run := file("bin/run", "#!")
	run.Executable = true
	m := &Manifest{[]File{file("a", "x"), file("a-b", "<y>"), file("a/b", ""), run, file("é\n", "z")}, []string{"empty", "out/none"}}
	m.Files[2].Path = "c/b"
	want := `{"format":1,"files":[` +
		`{"path":"a","blob":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size":1},` +
		`{"path":"a-b","blob":"` + AddressOf([]byte("<y>")).String() + `","size":3},` +
		`{"path":"bin/run","blob":"` + AddressOf([]byte("#!")).String() + `","size":2,"executable":true},` +
		`{"path":"c/b","blob":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0},` +
		`{"path":"é\n","blob":"` + AddressOf([]byte("z")).String() + `","size":1}],` +
		`"empty_directories":["empty","out/none"]}`
	for range 20 {
		rand.Shuffle(len(m.Files), func(i, j int) { m.Files[i], m.Files[j] = m.Files[j], m.Files[i] })
		rand.Shuffle(len(m.EmptyDirectories), func(i, j int) {
			m.EmptyDirectories[i], m.EmptyDirectories[j] = m.EmptyDirectories[j], m.EmptyDirectories[i]
		})
		testkit.MustEqual(t, string(testkit.Must(m.Encode())(t)), want, "not")
	}
	spaced := strings.NewReplacer(",", " ,\n", ":1,", " : 1 ,").Replace(want)
	again := testkit.Must(Decode([]byte(spaced)))(t)
	testkit.Equal(t, string(testkit.Must(again.Encode())(t)), want)
	testkit.Equal(t, again.Bytes(), 7, "bytes")
	for _, empty := range []string{`{"format":1,"files":[]}`, `{"format":1}`, `{"format":1,"files":null}`} {
		testkit.Equal(t, string(testkit.Must(testkit.Must(Decode([]byte(empty)))(t).Encode())(t)), `{"format":1,"files":[]}`)
	}
}

// TestLargestManifests: the limits are inclusive, and one past each is refused.
func TestLargestManifests(t *testing.T) {
	m := &Manifest{}
	for i := range MaxFiles {
		m.Files = append(m.Files, file(fmt.Sprintf("directory-%04d/file-%06d", i/100, i), fmt.Sprint(i)))
	}
	began := time.Now()
	text := testkit.Must(m.Encode())(t)
	testkit.MustHold(t, reflect.DeepEqual(testkit.Must(Decode(text))(t), m), "decoded")
	t.Logf("%d files: %d bytes, encoded and decoded in %s", MaxFiles, len(text), time.Since(began))
	m.EmptyDirectories = []string{"empty"}
	testkit.Fails(m.Encode())(t, ErrTooLarge)

	deep := &Manifest{} // each path except the first has 500 separate directories
	for i := range MaxDirectories / 500 {
		deep.Files = append(deep.Files, file(fmt.Sprintf("%03d/%sf", i, strings.Repeat("a/", 499)), ""))
	}
	testkit.Must(deep.Encode())(t)
	deep.Files = append(deep.Files, file("one/more", ""))
	testkit.Fails(deep.Encode())(t, ErrTooLarge)

	long := &Manifest{}
	for i := range 40_000 {
		long.Files = append(long.Files, file(fmt.Sprintf("%s/%s/%s/%05d", strings.Repeat("x", 250), strings.Repeat("y", 250), strings.Repeat("z", 250), i), ""))
	}
	testkit.Fails(long.Encode())(t, ErrTooLarge, "the manifest has")
}

func TestPatterns(t *testing.T) {
	paths := []string{"a.dat", "b.txt", "out/c.dat", "out/deep/d.dat", "out/deep/e.txt", "[x]", "o/u/t"}
	m := &Manifest{EmptyDirectories: []string{"empty"}}
	for _, path := range paths {
		m.Files = append(m.Files, file(path, ""))
	}
	for _, tt := range []struct{ patterns, want string }{
		{"", "a.dat b.txt out/c.dat out/deep/d.dat out/deep/e.txt [x] o/u/t empty"},
		{"*.dat", "a.dat"},
		{"**/*.dat", "a.dat out/c.dat out/deep/d.dat"},
		{"out/**", "out/c.dat out/deep/d.dat out/deep/e.txt"},
		{"out/*", "out/c.dat"},
		{"out", ""},
		{"out/**/*.dat", "out/c.dat out/deep/d.dat"},
		{"a.dat b.txt", "a.dat b.txt"},
		{"*.{dat,txt}", "a.dat b.txt"},
		{"?.dat", "a.dat"},
		{"[!a-b].dat", ""},
		{`\[x\]`, "[x]"},
		{"**", "a.dat b.txt out/c.dat out/deep/d.dat out/deep/e.txt [x] o/u/t empty"},
		{"!**/*.dat", "b.txt out/deep/e.txt [x] o/u/t empty"},
		{"out/** !**/*.txt", "out/c.dat out/deep/d.dat"},
		{"!**/*.txt out/**", "out/c.dat out/deep/d.dat"},
		{`\!x`, ""},
		{"e*", "empty"},
		{"OUT/**", ""},
	} {
		p, err := ParsePatterns(strings.Fields(tt.patterns))
		if err != nil {
			t.Errorf("%s: %v", tt.patterns, err)
			continue
		}
		part := testkit.Must(p.Select(t.Context(), m))(t)
		var got []string
		for _, f := range part.Files {
			got = append(got, f.Path)
		}
		got = append(got, part.EmptyDirectories...)
		testkit.EqualSlices(t, got, strings.Fields(tt.want), tt.patterns, "selects not", tt.want)
	}
	for _, tt := range []struct{ pattern, why string }{
		{"", "is empty"}, {"!", "is empty"}, {"/a", "begins with a slash"}, {"./a", `begins with a "." element`}, {"../a", `begins with a "." element`},
		{"a/", "ends in a slash"}, {"[", "malformed"}, {"[]", "malformed"}, {"{a", "malformed"}, {"a}", "malformed"}, {`a\`, "malformed"}, {"\xff", "UTF-8"},
		{strings.Repeat("x", MaxPatternBytes+1), "has 1025 bytes"},
		{strings.Repeat("{a,b}", 8), "alternatives in braces"}, {strings.Repeat("{[}],a}", 8), "alternatives in braces"}, {"{" + strings.Repeat(",", 200) + "}", "alternatives"},
	} {
		if _, err := ParsePatterns([]string{"ok", tt.pattern}); !errors.Is(err, ErrPattern) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%.50q: %v, not %q", tt.pattern, err, tt.why)
		}
	}
	testkit.Fails(ParsePatterns(make([]string, MaxPatterns+1)))(t, ErrPattern, "33 patterns")
	testkit.Fails(ParsePatterns([]string{strings.Repeat("{a,b}", 6), strings.Repeat("{a,b}", 6), "x"}))(t, ErrPattern)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, _ := ParsePatterns([]string{"*"})
	testkit.Fails(p.Select(ctx, m))(t, context.Canceled)
}

// FuzzManifest: Check accepts every manifest that Decode returns, and the manifest has one canonical text.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"files":[{"path":"a","blob":"` + AddressOf(nil).String() + `","size":0,"executable":true}],"empty_directories":["b","c/d"]}`))
	f.Add([]byte(`{"format":1,"files":[{"path":"a/b","blob":"` + AddressOf(nil).String() + `","size":0},{"path":"a","blob":"` + AddressOf(nil).String() + `","size":0}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil {
			testkit.MustHold(t, errors.Is(err, ErrManifest) || errors.Is(err, ErrPath) || errors.Is(err, ErrTooLarge), err)
			return
		}
		seen := map[string]bool{}
		for _, file := range m.Files {
			testkit.MustHold(t, wrongPath(file.Path) == "" && !seen[file.Path], "accepted", file.Path)
			seen[file.Path] = true
		}
		for _, file := range m.Files {
			for dir := Parent(file.Path); dir != ""; dir = Parent(dir) {
				testkit.MustHold(t, !seen[dir], dir, "is a file and a directory")
			}
		}
		first := testkit.Must(m.Encode())(t)
		again := testkit.Must(Decode(first))(t)
		second := testkit.Must(again.Encode())(t)
		testkit.MustHold(t, bytes.Equal(first, second), first, "and", second)
	})
}

// FuzzPath: an accepted path, joined to a directory, stays below that directory on any system.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"a/b", "../a", "/a", `a\..\b`, "C:a", "a//b", "..", "a/.", "\x00"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if CheckPath(path) != nil {
			return
		}
		if strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\\x00") || slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." || name == ".." }) {
			t.Fatalf("accepted %q", path)
		}
	})
}

// FuzzPatterns: matching neither panics nor takes long.
func FuzzPatterns(f *testing.F) {
	for _, pattern := range []string{"**/*.dat", "{a,b}/[!c]*", "{a[}],b}", `\{`, "!a", "[a-", "*{a,{b,c}}*"} {
		f.Add(pattern, "a/b.dat")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := ParsePatterns([]string{pattern})
		if err != nil || CheckPath(path) != nil {
			return
		}
		p.Match(path) // the fuzzer reports calls that hang
	})
}
