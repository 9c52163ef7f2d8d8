// Package daybook_test has the tests of the tree itself: its imports, the packages that may look at the clock, and the
// links in the documents.
package daybook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

const tree = "github.com/daybookq/daybook/"

// onlyIn names libraries that belong to certain folders.
var onlyIn = map[string][]string{
	"github.com/tidwall/wal":               {"journal"},
	"github.com/cockroachdb/pebble/v2":     {"store/internal/lsm"},
	"github.com/labstack/echo/v4":          {"api"},
	"github.com/prometheus/client_golang/": {"api", "opsqueue", "runner"},
	"github.com/prometheus/client_model/":  {"api"},
	"github.com/spf13/cobra":               {"cmd/daybook"},
	"github.com/hashicorp/mdns":            {"mdns"},
	"github.com/coreos/go-systemd/v22":     {"cmd/daybook"},
	"github.com/moby/moby/":                {"runner/container"},
	"github.com/containerd/errdefs":        {"runner/container"},
	"github.com/distribution/reference":    {"runner/container"},
	"github.com/HdrHistogram/":             {"internal/load"},
	"github.com/bmatcuk/doublestar/v4":     {"client/fileset"},
	"github.com/minio/minio-go/v7":         {"blob/s3"},
	"github.com/tetratelabs/wazero":        {"runner/wasi/guest"},
	"github.com/fxamacker/cbor/v2":         {"opsqueue/wire"},
	"go.opentelemetry.io/":                 {"internal/trace", "internal/trace/tracetest"},
	"github.com/go-logr/logr":              {"internal/trace"},
	"github.com/yuin/goldmark":             {"docs/check"},
	"google.golang.org/protobuf":           {"api", "cluster", "internal/trace/tracetest"},
	"go.etcd.io/raft":                      {"cluster"},
}

// walkGo calls visit with the path of every Go file, including tests.
func walkGo(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") {
			visit(path)
		}
		return nil
	})
	testkit.NoError(t, err)
}

// sources calls visit with every Go file that is not a test.
func sources(t *testing.T, visit func(dir, path string, file *ast.File, src []byte)) {
	t.Helper()
	walkGo(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		src := testkit.Must(os.ReadFile(path))(t)
		file := testkit.Must(parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments))(t)
		visit(filepath.ToSlash(filepath.Dir(path)), path, file, src)
	})
}

// TestLibraries: a library is imported where it belongs, and package job imports the standard library only.
func TestLibraries(t *testing.T) {
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		if top(dir) == "bench" || top(dir) == "proof" {
			return // they may use the parts of a library below the ones that the product uses
		}
		for _, spec := range file.Imports {
			name := testkit.Must(strconv.Unquote(spec.Path.Value))(t)
			for library, homes := range onlyIn {
				testkit.Holds(t, !strings.HasPrefix(name+"/", strings.TrimSuffix(library, "/")+"/") || within(dir, homes),
					path, "imports", name, "which belongs to", homes)
			}
			testkit.Holds(t, top(dir) != "job" || !strings.Contains(name, ".") || strings.HasPrefix(name, tree+"job"), path, "imports", name)
		}
	})
}

// TestServerRunsNoCode: the server cannot reach package runner, through whatever it imports. In the program only the verb
// work imports it.
func TestServerRunsNoCode(t *testing.T) {
	const serve = "cmd/daybook/internal/serve"
	imports := map[string][]string{}
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		imports[dir] = append(imports[dir], ourImports(file)...)
		testkit.Holds(t, top(dir) != "cmd" || strings.HasPrefix(path, "cmd/daybook/work") || dir == "cmd/daybook/internal/work" ||
			!slices.ContainsFunc(ourImports(file), func(ours string) bool { return top(ours) == "runner" }), path, "imports the runner")
	})
	reached := []string{serve}
	for i := 0; i < len(reached); i++ {
		for _, ours := range imports[reached[i]] {
			if top(ours) == "runner" {
				t.Errorf("the server imports the runner: %s imports %s", reached[i], ours)
			}
			if !slices.Contains(reached, ours) {
				reached = append(reached, ours)
			}
		}
	}
	testkit.Holds(t, len(reached) >= 10 && len(imports["runner"]) != 0, "the server imports only", reached)
}

// TestOneExit: only main ends the process of the program. Package runner ends processes of its own before their main begins.
func TestOneExit(t *testing.T) {
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		if path == filepath.FromSlash("cmd/daybook/main.go") || slices.Contains([]string{"bench", "deploy", "docs", "proof", "runner"}, top(dir)) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Exit" {
				pkg, ok := sel.X.(*ast.Ident)
				testkit.Holds(t, !ok || pkg.Name != "os", path, "uses os.Exit")
			}
			return true
		})
	})
}

// TestNoClock: state and rules use neither clock nor chance; times and seeds are in commands.
func TestNoClock(t *testing.T) {
	forbidden := map[string]bool{"time.Now": true, "time.Since": true, "time.After": true, "time.Sleep": true}
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		if top(dir) != "job" && top(dir) != "store" || dir == "store/internal/lsm" {
			return
		}
		for _, spec := range file.Imports {
			testkit.Holds(t, !strings.HasPrefix(spec.Path.Value, `"math/rand`), path, "imports", spec.Path.Value)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				pkg, ok := sel.X.(*ast.Ident)
				testkit.Holds(t, !ok || !forbidden[pkg.Name+"."+sel.Sel.Name], path, "calls", sel.X, sel.Sel.Name)
			}
			return true
		})
	})
}

// fileLines is a ratchet, not a law: it is the length of the longest file when it was last set. Before you raise it, try
// to split the file by its ideas.
const fileLines = 560

func TestFileGrowth(t *testing.T) {
	sources(t, func(_, path string, _ *ast.File, src []byte) {
		n := strings.Count(string(src), "\n")
		testkit.Holds(t, n <= fileLines, path, "has", n, "lines, more than", fileLines)
	})
}

// TestDependencies: docs/dependencies.md justifies exactly the direct requirements of the modules.
func TestDependencies(t *testing.T) {
	text := testkit.Must(os.ReadFile("docs/dependencies.md"))(t)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \|`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = false
	}
	for _, dir := range slices.Concat(modules, separate) {
		for _, r := range readMod(t, dir).Require {
			if r.Indirect || strings.HasPrefix(r.Mod.Path+"/", tree) {
				continue
			}
			_, ok := listed[r.Mod.Path]
			testkit.Holds(t, ok, "docs/dependencies.md does not justify", r.Mod.Path)
			listed[r.Mod.Path] = true
		}
	}
	for name, required := range listed {
		testkit.Holds(t, required, "docs/dependencies.md lists", name, "which no go.mod requires")
	}
}

// TestGuarantees: every test that docs/explanation/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	text := testkit.Must(os.ReadFile("docs/explanation/guarantees.md"))(t)
	named := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(text), -1) {
		folder := ""
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1) {
			if !strings.HasPrefix(m[1], "Test") {
				folder = m[1]
				continue
			}
			named++
			files := testkit.Must(filepath.Glob(filepath.Join(folder, "*_test.go")))(t)
			if !slices.ContainsFunc(files, func(path string) bool {
				src, err := os.ReadFile(path)
				return err == nil && strings.Contains(string(src), "\nfunc "+m[1]+"(")
			}) {
				t.Errorf("docs/explanation/guarantees.md names %s of %s, which is not there", m[1], folder)
			}
		}
	}
	testkit.Holds(t, named >= 50, "only", named, "tests are named")
}

// TestMust: no test drops the function that testkit.Must or Must2 returns, because only this function looks at the error.
func TestMust(t *testing.T) {
	for dir, files := range testFiles(t) {
		for _, f := range files {
			for n := range ast.Preorder(f) {
				statement, _ := n.(*ast.ExprStmt)
				if statement == nil {
					continue
				}
				if call, ok := statement.X.(*ast.CallExpr); ok {
					if f, ok := call.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Must" || f.Sel.Name == "Must2") {
						t.Errorf("a test of %s has testkit.%s(...) without (t) after it, which ignores the error", dir, f.Sel.Name)
					}
				}
			}
		}
	}
}
