package daybook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// list returns the words of a variable of the Makefile, whose lines may end with a backslash.
func list(t *testing.T, variable string) []string {
	t.Helper()
	text := testkit.Must(os.ReadFile("Makefile"))(t)
	found := regexp.MustCompile(`(?m)^` + variable + ` *:= ((?:.*\\\n)*.*)$`).FindSubmatch(text)
	testkit.MustHold(t, found != nil, "the Makefile does not set", variable)
	words := strings.Fields(strings.ReplaceAll(string(found[1]), "\\\n", " "))
	for i := range words {
		if strings.HasPrefix(words[i], "./") {
			words[i] = path.Clean(words[i])
		}
	}
	testkit.EqualSlices(t, slices.Compact(slices.Sorted(slices.Values(words))),
		words, "the Makefile's", variable, "is not in order, or has a word twice")
	return words
}

// inSeparate reports whether a file is in a module that is not in the workspace.
func inSeparate(name string) bool {
	return slices.ContainsFunc(separate, func(dir string) bool { return strings.HasPrefix(filepath.ToSlash(name), dir+"/") })
}

// testFiles returns the files of tests by folder, except those of modules that are not in the workspace.
func testFiles(t *testing.T) map[string][]*ast.File {
	t.Helper()
	files := map[string][]*ast.File{}
	walkGo(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") || inSeparate(name) {
			return
		}
		file := testkit.Must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		dir := filepath.ToSlash(filepath.Dir(name))
		files[dir] = append(files[dir], file)
	})
	return files
}

// TestLanes: the lists of the Makefile agree with the tree. A package that no list names is in the lane test.
func TestLanes(t *testing.T) {
	files := testFiles(t)
	process, prove, race, part := list(t, "PROCESS"), list(t, "PROVE"), list(t, "RACE"), list(t, "RACE_PART")
	for _, dir := range slices.Concat(process, prove, race) {
		testkit.Holds(t, files[dir] != nil, "the Makefile names", dir, "which has no tests")
	}
	for _, dir := range prove {
		testkit.Holds(t, !slices.Contains(process, dir) && !slices.Contains(race, dir), "the Makefile's PROVE and another list have", dir)
	}
	for _, dir := range race {
		skips := slices.ContainsFunc(files[dir], func(f *ast.File) bool { return mentions(f, "testkit", "Race") })
		testkit.Equal(t, slices.Contains(part, dir), skips, "RACE_PART has each package of RACE whose tests use testkit.Race, and no other:", dir)
	}
	for dir, files := range files {
		if !slices.Contains(process, dir) && !slices.Contains(prove, dir) && slices.ContainsFunc(files, func(f *ast.File) bool { return imports(f, tree+"client/daybooktest") }) {
			t.Errorf("the tests of %s start the binary: the Makefile's PROCESS must have the package", dir)
		}
	}
}

// mentions reports whether a file uses a name of a package.
func mentions(f *ast.File, pkg, name string) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && x.Name == pkg
		}
		return !found
	})
	return found
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"`+path+`"` })
}

// unhurried are folders whose tests attack a server for some real time, or measure it. If a test waits too long, it
// proves nothing, and reports this.
var unhurried = []string{"bench", "proof/cluster", "proof/crash", "proof/limits", "proof/runners"}

// mostReal is a ratchet: it bounds the lines of tests that sleep or compare in real time. Each such line has a reason.
const mostReal = 40

// TestNoRealTime: tests do not sleep, and do not fail because something took long. On a busy machine everything takes
// long. A test waits for a signal. If there is no signal, as from another process, it waits with testkit.Eventually, or
// in a bubble of testing/synctest, whose clock is not real. A line that cannot do so gives its reason in a comment "real
// time: reason", or "fake time: reason" if only bubbles call it. Figures of speed belong to benchmarks.
func TestNoRealTime(t *testing.T) {
	real, bubbles := 0, bubbleHelpers(testFiles(t))
	walkGo(t, func(name string) {
		dir := filepath.ToSlash(filepath.Dir(name))
		if !strings.HasSuffix(name, "_test.go") || inSeparate(name) || slices.Contains(unhurried, dir) {
			return
		}
		fset := token.NewFileSet()
		file := testkit.Must(parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
		reasons := map[int]bool{}
		for _, group := range file.Comments {
			for _, c := range group.List {
				isReal, isFake := strings.HasPrefix(c.Text, "// real time: "), strings.HasPrefix(c.Text, "// fake time: ")
				if isReal {
					real++
				}
				reasons[fset.Position(c.Pos()).Line] = isReal || isFake
			}
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasPrefix(f.Name.Name, "Benchmark") {
				continue
			}
			for _, found := range hurries(f, bubbles[dir]) {
				at := fset.Position(found.node.Pos())
				testkit.Holds(t, reasons[at.Line], at, f.Name.Name, found.what, "see the comment of this test")
			}
		}
	})
	testkit.Holds(t, real <= mostReal, real, "lines have the comment that they need real time, more than", mostReal)
	t.Logf("%d lines need real time", real)
}

// bubbleHelpers returns, by folder, the functions that create a bubble for their callers.
func bubbleHelpers(files map[string][]*ast.File) map[string]map[string]bool {
	helpers := map[string]map[string]bool{}
	for dir, files := range files {
		helpers[dir] = map[string]bool{}
		for _, f := range files {
			for _, d := range f.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && !strings.HasPrefix(f.Name.Name, "Test") {
					ast.Inspect(f, func(n ast.Node) bool {
						if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Test" {
							if x, ok := sel.X.(*ast.Ident); ok && x.Name == "synctest" {
								helpers[dir][f.Name.Name] = true
							}
						}
						return true
					})
				}
			}
		}
	}
	return helpers
}

type hurry struct {
	node ast.Node
	what string
}

// hurries returns the places outside of a bubble at which a function sleeps, or checks whether something took too long.
func hurries(f *ast.FuncDecl, bubbles map[string]bool) (found []hurry) {
	isTime := func(n ast.Node, name string) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == "time"
	}
	took := map[string]bool{} // variables with results of time.Since
	bubble := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			bubble = bubble || n.Name == "synctest" || bubbles[n.Name]
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if name, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && isTime(value, "Since") {
					took[name.Name] = true
				}
			}
		}
		return true
	})
	if bubble {
		return nil
	}
	isTook := func(n ast.Expr) bool { name, ok := n.(*ast.Ident); return isTime(n, "Since") || ok && took[name.Name] }
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isTime(n, "Sleep") {
				found = append(found, hurry{n, "sleeps"})
			}
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "After" && isTime(sel.X, "Now") {
				found = append(found, hurry{n, "ends at a time"})
			}
		case *ast.BinaryExpr:
			above := (n.Op == token.GTR || n.Op == token.GEQ) && isTook(n.X)
			if below := (n.Op == token.LSS || n.Op == token.LEQ) && isTook(n.Y); above || below {
				found = append(found, hurry{n, "compares how long something took"})
			}
		}
		return true
	})
	return found
}
