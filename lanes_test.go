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
)

// list returns the words of a variable of the Makefile, whose lines may end with a backslash.
func list(t *testing.T, variable string) []string {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + variable + ` *:= ((?:.*\\\n)*.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the Makefile does not set %s", variable)
	}
	words := strings.Fields(strings.ReplaceAll(string(found[1]), "\\\n", " "))
	for i := range words {
		if strings.HasPrefix(words[i], "./") {
			words[i] = path.Clean(words[i])
		}
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(words))); !slices.Equal(sorted, words) {
		t.Errorf("the Makefile's %s is not in order, or has a word twice: %s", variable, words)
	}
	return words
}

// testFiles returns the files of tests by folder, without those of bench/peers, which is not in the workspace.
func testFiles(t *testing.T) map[string][]*ast.File {
	t.Helper()
	files := map[string][]*ast.File{}
	walkGo(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.ToSlash(name), "bench/peers/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		files[dir] = append(files[dir], file)
	})
	return files
}

// TestLanes: what -short leaves out of the lanes test and test-process runs in prove-short, and the lists of the
// Makefile are those of this tree. A package that no list names is in the lane test.
func TestLanes(t *testing.T) {
	files := testFiles(t)
	process, prove, race, sized, sizedIn := list(t, "PROCESS"), list(t, "PROVE"), list(t, "RACE"), list(t, "SIZED"), list(t, "SIZED_IN")
	for _, dir := range slices.Concat(process, prove, race, sizedIn) {
		if files[dir] == nil {
			t.Errorf("the Makefile names %s, which has no tests", dir)
		}
	}
	for _, dir := range prove {
		if slices.Contains(process, dir) || slices.Contains(race, dir) || slices.Contains(sizedIn, dir) {
			t.Errorf("the Makefile's PROVE and another list have %s", dir)
		}
	}
	unknown := map[string]bool{}
	for _, name := range sized {
		unknown[name] = true
	}
	for dir, files := range files {
		if slices.Contains(prove, dir) {
			continue // runs without -short
		}
		if !slices.Contains(process, dir) && slices.ContainsFunc(files, func(f *ast.File) bool { return imports(f, tree+"client/daybooktest") }) {
			t.Errorf("the tests of %s start the binary: the Makefile's PROCESS must have the package", dir)
		}
		for _, name := range shortTests(files) {
			if !slices.Contains(sized, name) {
				t.Errorf("%s of %s asks testing.Short(): the Makefile's SIZED must name it", name, dir)
			}
			if !slices.Contains(sizedIn, dir) {
				t.Errorf("%s of %s asks testing.Short(): the Makefile's SIZED_IN must name the package", name, dir)
			}
			delete(unknown, name)
		}
	}
	for name := range unknown {
		t.Errorf("the Makefile's SIZED names %s, which does not ask testing.Short()", name)
	}
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"`+path+`"` })
}

// shortTests returns the tests of a package that ask testing.Short(), themselves or in a function of the package.
func shortTests(files []*ast.File) (tests []string) {
	bodies := map[string][]ast.Node{} // methods of one name count as one function
	asks := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				bodies[d.Name.Name] = append(bodies[d.Name.Name], d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if value, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range value.Names {
							bodies[name.Name] = append(bodies[name.Name], value)
						}
					}
				}
			}
		}
	}
	uses := func(n ast.Node) (found bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				found = found || ok && x.Name == "testing" && n.Sel.Name == "Short" || asks[n.Sel.Name]
			case *ast.Ident:
				found = found || asks[n.Name] && (n.Obj == nil || n.Obj.Kind == ast.Fun)
			}
			return !found
		})
		return found
	}
	for more := true; more; {
		more = false
		for name, nodes := range bodies {
			if !asks[name] && slices.ContainsFunc(nodes, uses) {
				asks[name], more = true, true
			}
		}
	}
	for name := range asks {
		if strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests
}
