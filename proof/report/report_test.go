package report

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestReplace(t *testing.T) {
	page := "# Page\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nend\n"
	got, err := replace([]byte(page), "b", "\nnew\n\n")
	want := "# Page\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\nnew\n<!-- /b -->\nend\n"
	testkit.NoError(t, err)
	testkit.MustEqual(t, string(got), want)
	testkit.MustEqual(t, string(testkit.Must(replace(got, "b", "new"))(t)), want, "written twice")
	for name, page := range map[string]string{
		"none":     "# Page\n",
		"open":     "<!-- b -->\n",
		"reversed": "<!-- /b -->\n<!-- b -->\n",
		"twice":    "<!-- b -->\n<!-- /b -->\n<!-- b -->\n<!-- /b -->\n",
	} {
		got, err := replace([]byte(page), "b", "new")
		testkit.Holds(t, err != nil, name, got)
	}
}

func TestAdd(t *testing.T) {
	type figures struct {
		Kills  int
		Writes uint64
	}
	sum := figures{1, 2}
	Add(&sum, figures{10, 20})
	testkit.Equal(t, sum, figures{11, 22})
}

// TestWrite: a full run replaces only its block of the page.
func TestWrite(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "explanation", "reliability.md")
	page := testkit.Must(os.ReadFile(path))(t)
	stamp := testkit.Must(stampOf(path))(t)
	testkit.Holds(t, stamp.Commit != "unknown", "the stamp of", path, "is", stamp)
	// The same page in a copy of the tree.
	root := t.TempDir()
	for _, dir := range append([]string{filepath.Join("docs", "explanation")}, storageCode...) {
		testkit.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		testkit.NoError(t, os.WriteFile(filepath.Join(root, dir, "a.go"), []byte("package a\n"), 0o644))
	}
	for name, text := range map[string]string{"CHANGELOG.md": "# Changelog\n", "docs/explanation/reliability.md": string(page)} {
		testkit.NoError(t, os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte(text), 0o644))
	}
	path = filepath.Join(root, "docs", "explanation", "reliability.md")
	t.Setenv(PageVar, path)
	Write(t, "sim", "the figures of a test")
	got := testkit.Must(os.ReadFile(path))(t)
	before, rest, _ := strings.Cut(string(page), "<!-- sim -->\n")
	_, after, _ := strings.Cut(rest, "<!-- /sim -->\n")
	middle, ok := strings.CutPrefix(string(got), before+"<!-- sim -->\nRun on ")
	middle, ok2 := strings.CutSuffix(middle, "\n\nthe figures of a test\n<!-- /sim -->\n"+after)
	testkit.Holds(t, ok && ok2 && !strings.Contains(middle, "\n"), "the page is", got)
}

// TestFigures: each block of docs/explanation/reliability.md names the attacked code, and no block is older than a
// release.
func TestFigures(t *testing.T) {
	root := filepath.Join("..", "..")
	page := testkit.Must(os.ReadFile(filepath.Join(root, "docs", "explanation", "reliability.md")))(t)
	changelog := testkit.Must(os.ReadFile(filepath.Join(root, "CHANGELOG.md")))(t)
	storage := testkit.Must(storageDigest(root))(t)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^<!-- ([a-z-]+) -->$`).FindAllStringSubmatch(string(page), -1) {
		names = append(names, m[1])
		_, block, _ := strings.Cut(string(page), m[0]+"\n")
		block, _, closed := strings.Cut(block, "<!-- /"+m[1]+" -->\n")
		stamp, ok := parseStamp(block)
		if !closed || !ok {
			t.Errorf("the block %s of docs/explanation/reliability.md does not say which commit it is of; next step: run `make prove LANE=%s`", m[1], m[1])
			continue
		}
		testkit.Equal(t, outdated(stamp, storage, releases(string(changelog))), "",
			"the figures of", m[1], "in docs/explanation/reliability.md are outdated; next step: run `make prove LANE="+m[1]+"`")
	}
	for _, lane := range []string{"sim", "corruption", "crash"} {
		testkit.Holds(t, slices.Contains(names, lane), "docs/explanation/reliability.md has no block", lane)
	}
}

// TestOutdated: figures of other storage code are valid up to the release for which they were taken.
func TestOutdated(t *testing.T) {
	const log = "# Changelog\n\n## Unreleased\n\ntext\n\n## 0.3.0 (2027-01-01)\n\n## [0.2.0] - 2026-12-12\n\n## 0.1.0\n"
	list := releases(log)
	want := []string{"0.3.0", "0.2.0", "0.1.0"}
	testkit.MustHold(t, slices.Equal(list, want), "releases", list, "want", want)
	for _, tt := range []struct {
		name, storage, release string
		old                    bool
	}{
		{"the same code, whatever was released since", "aaaaaaaaaaaa", "none", false},
		{"other code, nothing released since", "bbbbbbbbbbbb", "0.3.0", false},
		{"other code, one release since", "bbbbbbbbbbbb", "0.2.0", false},
		{"other code, two releases since", "bbbbbbbbbbbb", "0.1.0", true},
		{"other code, from before the first release", "bbbbbbbbbbbb", "none", true},
	} {
		s := Stamp{Date: "2026-11-21", Commit: "c0ffee", Storage: tt.storage, Release: tt.release}
		testkit.Equal(t, (outdated(s, "aaaaaaaaaaaa", list) != ""), tt.old, tt.name)
		parsed, ok := parseStamp("before\n" + s.String() + "\nafter\n")
		testkit.Holds(t, ok && parsed == s, tt.name, s, "parsed as", parsed)
	}
	testkit.Equal(t, outdated(Stamp{Storage: "bbbbbbbbbbbb", Release: "none"}, "aaaaaaaaaaaa", nil), "", "before the first release")
}
