//go:build unix

package check

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// pages returns the root of the repository, and all of its pages that are for readers.
func pages(t *testing.T) (root string, pages []*page) {
	t.Helper()
	root = testkit.Must(filepath.Abs("../.."))(t)
	for _, path := range files(t, root, "*.md") {
		p := testkit.Must(readPage(root, path))(t)
		pages = append(pages, p)
	}
	testkit.MustHold(t, len(pages) >= 50, "there are only", len(pages), "pages")
	return root, pages
}

// files returns the files that match a pattern and that git knows or would add.
func files(t *testing.T, root, pattern string) (paths []string) {
	t.Helper()
	listed := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", pattern)
	listed.Dir = root
	list, err := listed.Output()
	testkit.NoError(t, err, "list the files with git")
	for path := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil { // git also lists deleted files until the deletion is added
			paths = append(paths, path)
		}
	}
	return paths
}

// TestLinks: each link of a page leads to a file or folder that git knows, and its anchor to a heading.
func TestLinks(t *testing.T) {
	root, pages := pages(t)
	byPath := map[string]*page{}
	for _, p := range pages {
		byPath[p.path] = p
	}
	known := map[string]bool{".": true}
	for _, file := range files(t, root, "*") {
		for at := file; !known[at]; at = path.Dir(at) {
			known[at] = true
		}
	}
	for _, p := range pages {
		for _, l := range p.links {
			testkit.Holds(t, known[path.Clean(l.path)], p.path, l.line, "a link leads to", l.path, "which does not exist or is not in git")
			target := byPath[l.path]
			testkit.Holds(t, l.anchor == "" || target == nil || target.anchors[l.anchor], p.path, l.line, l.path, "has no heading", l.anchor)
		}
	}
}

// needed is the environment variable that is set where `scripts/tools` has succeeded. With it, a test fails if a program is
// missing; without it, the test is skipped.
const needed = "TESTS_NEED_PROGRAMS"

func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(needed) != "" {
		t.Fatalf(needed+" is set, and "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}

var rewrite = flag.Bool("rewrite", false, "write testdata/not-run.txt")

// TestNotRun: testdata/not-run.txt lists the blocks that no test runs, with their reasons. To add one is a decision, so a
// change of the page must also change this file.
func TestNotRun(t *testing.T) {
	const golden = "testdata/not-run.txt"
	_, pages := pages(t)
	var list strings.Builder
	for _, p := range pages {
		for _, b := range p.blocks {
			if b.note != "" && !b.tested && !b.checked {
				fmt.Fprintf(&list, "%s: %s: %s\n", p.path, b.heading, b.note)
			}
		}
	}
	t.Logf("blocks that no test runs:\n%s", list.String())
	if *rewrite {
		write(t, golden, list.String())
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != list.String() {
		t.Errorf("%s differs (%v); if the list is right, write it with go test ./docs/check -run TestNotRun -rewrite", golden, err)
	}
}

// TestPages runs the code of each page.
func TestPages(t *testing.T) {
	root, pages := pages(t)
	for _, p := range pages {
		if len(p.blocks) == 0 {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			for _, b := range p.blocks {
				checkBlock(t, root, p, b)
			}
			s := testkit.Must(newScript(p))(t)
			if len(s.commands) == 0 {
				return
			}
			for _, program := range programs(s) {
				if _, err := exec.LookPath(program); err != nil {
					skip(t, "the commands of %s need %s, which is not installed", p.path, program)
				}
			}
			for _, err := range s.compare(p, run(t, root, t.TempDir(), p, s)) {
				t.Error(err)
			}
		})
	}
}

// testNote is the note of a block that another test runs: the test's folder and name. checkNote is the note for a weaker
// test, and also says what that test checks.
var (
	testNote  = regexp.MustCompile(`^(\S+) (Test\w+)$`)
	checkNote = regexp.MustCompile(`^(\S+) (Test\w+) \(.+\)$`)
)

// fileOfTest returns the file with a test, parsed without its comments, or nil if there is none.
func fileOfTest(t *testing.T, root, folder, name string) *ast.File {
	t.Helper()
	files := testkit.Must(filepath.Glob(filepath.Join(root, folder, "*_test.go")))(t)
	for _, path := range files {
		file := testkit.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
				return file
			}
		}
	}
	return nil
}

// names reports whether a string in the code of a file has this text. Comments do not count.
func names(file *ast.File, text string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.Contains(s.Value, text) {
			found = true
		}
		return !found
	})
	return found
}

// checkBlock checks the notes and the syntax of a block, without running commands.
func checkBlock(t *testing.T, root string, p *page, b block) {
	t.Helper()
	switch {
	case b.tested:
		m := testNote.FindStringSubmatch(b.note)
		if m == nil {
			t.Errorf("%s:%d: the comment does not name a folder and a test", p.path, b.line)
			return
		}
		file := fileOfTest(t, root, m[1], m[2])
		testkit.Holds(t, file != nil, p.path, b.line, m[1], "has no test", m[2])
		testkit.Holds(t, file == nil || names(file, filepath.Base(p.path)),
			p.path, b.line, "no string in the file of", m[2], "has the name of the page, so the test cannot read it")
		if b.title != "" {
			checkSyntax(t, p, b)
		}
	case b.checked:
		m := checkNote.FindStringSubmatch(b.note)
		if m == nil {
			t.Errorf("%s:%d: the comment does not name a folder and a test, and what it checks in brackets", p.path, b.line)
		} else if fileOfTest(t, root, m[1], m[2]) == nil {
			t.Errorf("%s:%d: %s has no test %s", p.path, b.line, m[1], m[2])
		}
	case b.note != "":
		t.Logf("%s:%d is not run: %s", p.path, b.line, b.note)
		if b.title != "" {
			checkSyntax(t, p, b)
		}
	case b.language == "json":
		var v any
		err := json.Unmarshal([]byte(b.text), &v)
		if err == nil {
			err = checkDocument(p, b, v)
		}
		testkit.Check(t, err, p.path, b.line)
	case b.title != "":
		checkSyntax(t, p, b)
	}
}

// checkSyntax checks a file of a page with the program that runs it.
func checkSyntax(t *testing.T, p *page, b block) {
	t.Helper()
	checkers := map[string][]string{
		"python": {"python3", "-c", "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')"},
		"js":     {"node", "--check"},
		"php":    {"php", "-l"},
		"ruby":   {"ruby", "-c"},
	}
	if b.language == "go" {
		_, err := parser.ParseFile(token.NewFileSet(), b.title, b.text, parser.AllErrors)
		testkit.Check(t, err, p.path, b.line)
	}
	checker := checkers[b.language]
	if checker == nil {
		return
	}
	if _, err := exec.LookPath(checker[0]); err != nil {
		// If the program is missing, the other blocks of the page are still checked.
		report := t.Logf
		if os.Getenv(needed) != "" {
			report = t.Errorf
		}
		report("%s:%d: the syntax is not checked: %s is not installed", p.path, b.line, checker[0])
		return
	}
	file := filepath.Join(t.TempDir(), filepath.Base(b.title))
	write(t, file, b.text)
	out, err := exec.Command(checker[0], append(checker[1:], file)...).CombinedOutput()
	testkit.Check(t, err, p.path, b.line, out)
}

// programs returns the programs that a script needs and that a machine may lack.
func programs(s *script) []string {
	var names []string
	for _, c := range s.commands {
		for _, name := range regexp.MustCompile(`\b(curl|jq|node|npx|python3|php|ruby|nginx|caddy|go|redis-cli|npm|celery|sidekiq)\b`).FindAllString(c.text, -1) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// TestNames: only strings in the code count as the name of a page that a test reads. Comments do not.
func TestNames(t *testing.T) {
	file := fileOfTest(t, "../..", "docs/check", "TestNames") // it has a comment about p.example.txt
	testkit.MustHold(t, file != nil, "the test does not find its own file")
	testkit.Holds(t, names(file, "not-run.txt") && !names(file, "p.example"+".txt"), "a comment counts, or a string does not")
	testkit.Holds(t, fileOfTest(t, "../..", "docs/check", "TestOfNothing") == nil, "there is a test that does not exist")
}
