// Package daybook_test holds the tests of the tree itself: what may import what, which packages may look at the clock,
// whether the links in the documents lead somewhere.
package daybook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const tree = "github.com/daybookq/daybook/"

// mayImport is the one-way chain: a folder, and which of our folders its code (not its tests) may import.
var mayImport = map[string][]string{
	"backup":                       {"blob", "filelock", "ingest", "job", "journal", "store"},
	"blob":                         {"filelock", "job/digest"},
	"blob/s3":                      {"blob"},
	"blob/s3/s3test":               {},
	"filelock":                     {},
	"fileset":                      {},
	"fileset/archive":              {"fileset"},
	"fileset/directory":            {"fileset", "fileset/archive"},
	"job":                          {},
	"job/digest":                   {},
	"job/handler":                  {"job", "job/digest"},
	"job/runs":                     {"job"},
	"journal":                      {"filelock"},
	"store":                        {"job", "job/runs", "store/lsm"},
	"store/lsm":                    {},
	"internal/testkit":             {}, // for tests: nothing may import it
	"registry":                     {"job"},
	"registry/onlost":              {"registry"},
	"ingest":                       {"filelock", "job", "job/runs", "journal", "registry", "store"},
	"api":                          {"backup", "blob", "internal/containerjob", "fileset", "fileset/archive", "job", "job/handler", "job/runs", "api/joblog", "ingest", "internal/manifest", "registry", "store", "internal/wsframe"},
	"client":                       {"fileset", "fileset/directory", "job", "job/digest", "job/handler", "job/runs", "mdns"},
	"client/daybooktest":           {"client"},
	"internal/containerjob":        {"job"},
	"internal/manifest":            {"job/handler"},
	"mdns":                         {},
	"opsqueue":                     {"ingest", "job", "job/runs", "opsqueue/wire", "store", "internal/wsframe"},
	"opsqueue/stockclient":         {"opsqueue/wire"}, // for tests: nothing may import it
	"opsqueue/wire":                {},
	"internal/trace":               {"job"},
	"runner/container/enginetest":  {},
	"internal/trace/tracetest":     {},
	"internal/wsframe":             {},
	"internal/wsframe/wsframetest": {}, // for tests: nothing may import it
	"internal/load":                {},
	"deploy/release":               {},
	"docs/check":                   {},
	"docs/examples":                {},
	"docs/examples/go/producer":    {"client"},
	"docs/examples/go/worker":      {"client"},
	"internal/load/works":          {"client", "internal/load"},
	"internal/load/limits":         {"internal/load", "internal/load/works"},
	"runner":                       {"client", "fileset", "job", "job/handler", "runner/container", "runner/program", "runner/runlog", "runner/sandbox", "runner/script", "runner/slots", "runner/task", "runner/wasi", "runner/webhook"},
	"api/joblog":                   {"job"},
	"runner/answers":               {"client", "job", "job/handler", "runner/task"},
	"runner/disk":                  {},
	"runner/pool":                  {},
	"runner/runlog":                {"client", "runner/task"},
	"runner/container":             {"client", "internal/containerjob", "filelock", "fileset", "job", "job/handler", "runner/disk", "runner/program", "runner/runlog", "runner/task"},
	"runner/program":               {"client", "job", "job/handler", "runner/answers", "runner/runlog", "runner/sandbox", "runner/task"},
	"runner/sandbox":               {"runner/sandbox/helper"},
	"runner/sandbox/helper":        {},
	"runner/script":                {"client", "filelock", "job", "job/handler", "runner/answers", "runner/disk", "runner/pool", "runner/sandbox", "runner/script/protocol", "runner/task"},
	"runner/script/protocol":       {"client"},
	"runner/slots":                 {},
	"runner/webhook":               {"client", "job", "job/handler", "runner/answers", "runner/task"},
	"runner/wasi":                  {"client", "job/digest", "job/handler", "runner/disk", "runner/pool", "runner/runlog", "runner/sandbox", "runner/task", "runner/wasi/guest", "runner/webhook"},
	"runner/wasi/guest":            {},
	"runner/task":                  {"client"},
	"cmd/daybook":                  {"api", "backup", "blob", "blob/s3", "client", "filelock", "fileset", "ingest", "job", "job/digest", "job/handler", "journal", "internal/load", "internal/load/limits", "internal/load/works", "internal/manifest", "mdns", "opsqueue", "runner", "runner/container", "runner/sandbox", "runner/program", "runner/script", "runner/webhook", "registry", "registry/onlost", "store", "internal/trace"},
}

// onlyIn names libraries that belong to certain folders.
var onlyIn = map[string][]string{
	"github.com/tidwall/wal":               {"journal"},
	"github.com/cockroachdb/pebble/v2":     {"store/lsm"},
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
	"github.com/bmatcuk/doublestar/v4":     {"fileset"},
	"github.com/minio/minio-go/v7":         {"blob/s3"},
	"github.com/tetratelabs/wazero":        {"runner/wasi/guest"},
	"github.com/fxamacker/cbor/v2":         {"opsqueue/wire"},
	"go.opentelemetry.io/":                 {"internal/trace", "internal/trace/tracetest"},
	"github.com/go-logr/logr":              {"internal/trace"},
	"github.com/yuin/goldmark":             {"docs/check"},
	"google.golang.org/protobuf":           {"api", "internal/trace/tracetest"},
}

// walkGo calls visit with the path of every Go file, tests included.
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
	if err != nil {
		t.Fatal(err)
	}
}

// sources calls visit with every Go file that is not a test.
func sources(t *testing.T, visit func(dir, path string, file *ast.File, src []byte)) {
	t.Helper()
	walkGo(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		visit(filepath.ToSlash(filepath.Dir(path)), path, file, src)
	})
}

func TestImportEdges(t *testing.T) {
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		if top, _, _ := strings.Cut(dir, "/"); top == "bench" || top == "proof" {
			return // may import everything, and nothing of the product imports them
		}
		allowed, known := mayImport[dir]
		if !known {
			t.Errorf("%s: folder %s has no line in mayImport: what may it import?", path, dir)
			return
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, ok := strings.CutPrefix(name, tree); ok {
				if !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s; %s may import only %v", path, ours, dir, allowed)
				}
				continue
			}
			for library, homes := range onlyIn {
				if (name == library || strings.HasPrefix(name, strings.TrimSuffix(library, "/")+"/")) && !slices.Contains(homes, dir) {
					t.Errorf("%s imports %s, which belongs to %s", path, name, homes)
				}
			}
			if dir == "job" && strings.Contains(name, ".") {
				t.Errorf("%s imports %s; job is pure", path, name)
			}
		}
	})
}

// TestServerRunsNoCode: of the program, only the verb work can reach package runner. The files of the verb serve neither
// import it nor name anything that the files of work declare.
func TestServerRunsNoCode(t *testing.T) {
	declared, serve := map[string]string{}, map[string]*ast.File{}
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		if top, _, _ := strings.Cut(dir, "/"); slices.Contains([]string{"api", "ingest", "store", "journal", "job"}, top) {
			for _, of := range mayImport[dir] {
				if strings.HasPrefix(of, "runner") {
					t.Errorf("%s may import %s", dir, of)
				}
			}
		}
		name := filepath.Base(path)
		switch {
		case dir != "cmd/daybook":
		case strings.HasPrefix(name, "work"):
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					declared[d.Name.Name] = name
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						if typ, ok := spec.(*ast.TypeSpec); ok {
							declared[typ.Name.Name] = name
						}
					}
				}
			}
		default:
			for _, spec := range file.Imports {
				if strings.HasPrefix(spec.Path.Value, `"`+tree+"runner") {
					t.Errorf("%s imports %s", path, spec.Path.Value)
				}
			}
			if strings.HasPrefix(name, "serve") {
				serve[path] = file
			}
		}
	})
	if len(serve) == 0 || declared["newWork"] == "" {
		t.Fatalf("%d files of serve, and newWork is declared in %q", len(serve), declared["newWork"])
	}
	for path, file := range serve {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && declared[id.Name] != "" && id.Obj == nil {
				t.Errorf("%s uses %s of %s", path, id.Name, declared[id.Name])
			}
			return true
		})
	}
}

// TestNoClock: state and rules know no clock and no chance; times and seeds are in commands.
func TestNoClock(t *testing.T) {
	forbidden := map[string]bool{"time.Now": true, "time.Since": true, "time.After": true, "time.Sleep": true}
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		if dir != "job" && dir != "store" {
			return
		}
		for _, spec := range file.Imports {
			if strings.HasPrefix(spec.Path.Value, `"math/rand`) {
				t.Errorf("%s imports %s", path, spec.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && forbidden[pkg.Name+"."+sel.Sel.Name] {
					t.Errorf("%s calls %s.%s", path, pkg.Name, sel.Sel.Name)
				}
			}
			return true
		})
	})
}

// fileLines is a ratchet, not a law: no file is longer than the longest was when this was last looked at. Split a file
// by its ideas before raising it.
const fileLines = 560

func TestFileGrowth(t *testing.T) {
	sources(t, func(_, path string, _ *ast.File, src []byte) {
		if n := strings.Count(string(src), "\n"); n > fileLines {
			t.Errorf("%s has %d lines, more than %d", path, n, fileLines)
		}
	})
}

// TestDependencies: docs/dependencies.md justifies exactly the direct requirements of the modules.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \|`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = false
	}
	for _, dir := range slices.Concat(modules, separate) {
		for _, r := range readMod(t, dir).Require {
			if r.Indirect || strings.HasPrefix(r.Mod.Path, tree) {
				continue
			}
			if _, ok := listed[r.Mod.Path]; !ok {
				t.Errorf("docs/dependencies.md does not justify %s", r.Mod.Path)
			}
			listed[r.Mod.Path] = true
		}
	}
	for name, required := range listed {
		if !required {
			t.Errorf("docs/dependencies.md lists %s, which no go.mod requires", name)
		}
	}
}

// listsFiles are the folders whose doc.go lists their files.
var listsFiles = []string{
	"api", "backup", "bench", "bench/compare", "bench/demo", "bench/matrix", "bench/open", "bench/peers", "bench/peers/daybook", "bench/peers/measure", "bench/peers/peer", "bench/peers/process",
	"bench/peers/report", "blob", "blob/s3", "blob/s3/s3test", "client", "cmd/daybook", "docs/check", "filelock", "fileset", "fileset/archive", "fileset/directory", "ingest", "job", "api/joblog", "journal", "internal/load", "internal/load/limits", "internal/load/works", "internal/manifest", "mdns", "opsqueue", "opsqueue/stockclient", "opsqueue/wire", "proof/corruption", "proof/crash", "proof/hostile", "proof/limits",
	"proof/powerfs", "proof/report", "proof/runners", "proof/sim", "registry", "registry/onlost", "runner/answers", "runner/container", "runner/container/enginetest", "runner/disk", "runner/pool", "runner/program", "runner/runlog", "runner/sandbox", "runner/sandbox/helper", "runner/script", "runner/script/protocol", "runner/slots", "runner/wasi", "runner/wasi/guest", "runner/webhook", "store", "store/lsm", "internal/trace", "internal/trace/tracetest",
}

// TestDocListsFiles: the doc.go of a folder names each of its files.
func TestDocListsFiles(t *testing.T) {
	for _, dir := range listsFiles {
		text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		for _, found := range regexp.MustCompile(`[^/a-z_]([a-z_]+\.go)\b`).FindAllStringSubmatch(string(text), -1) {
			name := found[1] // of this folder, since no slash precedes it
			named[name] = true
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s/doc.go names %s: %v", dir, name, err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && name != "doc.go" && !named[name] {
				t.Errorf("%s/doc.go does not name %s", dir, name)
			}
		}
	}
}

// TestGuarantees: every test that docs/explanation/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	text, err := os.ReadFile("docs/explanation/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(text), -1) {
		folder := ""
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1) {
			if !strings.HasPrefix(m[1], "Test") {
				folder = m[1]
				continue
			}
			named++
			files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(path string) bool {
				src, err := os.ReadFile(path)
				return err == nil && strings.Contains(string(src), "\nfunc "+m[1]+"(")
			}) {
				t.Errorf("docs/explanation/guarantees.md names %s of %s, which is not there", m[1], folder)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d tests are named", named)
	}
}

// TestFilesAreInLayers: the doc.go of these folders lists their files in an order in which each file uses only those
// before it: types, fields, functions, methods and constants. Uses through another package's types are not seen.
func TestFilesAreInLayers(t *testing.T) {
	for _, dir := range []string{"store", "store/lsm"} {
		text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		place := map[string]int{}
		for i, line := range regexp.MustCompile(`(?m)^//\t([a-z_]+\.go) `).FindAllStringSubmatch(string(text), -1) {
			place[line[1]] = i
		}
		fset := token.NewFileSet()
		var files []*ast.File
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		uses := map[*ast.Ident]types.Object{}
		checker := types.Config{Importer: noImports{}, Error: func(error) {}}
		checker.Check(dir, fset, files, &types.Info{Uses: uses}) // its errors are of what is imported
		if len(uses) < 100*len(files) {
			t.Fatalf("%s: only %d uses of names were found in %d files", dir, len(uses), len(files))
		}
		back := map[string]bool{}
		for id, object := range uses {
			if object.Pkg() == nil || object.Pkg().Path() != dir || !object.Pos().IsValid() {
				continue
			}
			from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
			if place[to] > place[from] {
				back[from+" uses "+object.Name()+" of "+to] = true
			}
		}
		for _, use := range slices.Sorted(maps.Keys(back)) {
			t.Errorf("%s: %s, which comes after it in doc.go", dir, use)
		}
	}
}

// noImports stands for all imported packages: what is used of them is not looked at.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}
