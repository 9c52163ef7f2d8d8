package daybook_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewriteArchitecture = flag.Bool("rewrite", false, "draw docs/explanation/architecture.md again")

// layers are the folders of the program, from the top down. No import leads upwards, which TestArchitecture checks. To add a
// folder at the root, put it into a layer here, or into notDrawn.
var layers = []struct {
	title   string
	folders []string
}{
	{"the program", []string{"cmd/daybook"}},
	{"what talks to others", []string{"api", "opsqueue", "runner", "internal/load"}},
	{"clients", []string{"client"}},
	{"the engine", []string{"backup", "ingest", "internal/trace"}},
	{"what is stored", []string{"journal", "store", "registry", "blob"}},
	{"rules, formats and libraries", []string{"internal/containerjob", "internal/manifest", "job", "fileset", "mdns", "filelock", "internal/wsframe"}},
}

// notDrawn are folders that are no part of the program, and folders below others that help tests.
var notDrawn = []string{"bench", "proof", "deploy", "docs", "client/daybooktest", "blob/s3/s3test", "internal/testkit", "opsqueue/stockclient", "runner/container/enginetest", "internal/trace/tracetest", "internal/wsframe/wsframetest"}

// TestArchitecture: the picture in docs/explanation/architecture.md is that of the imports, and the functions that the page
// names exist.
func TestArchitecture(t *testing.T) {
	const path = "docs/explanation/architecture.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- imports: drawn by make architecture -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the picture: the lines %q and %q", path, begin, end)
	}
	want := before + begin + "\n```mermaid\n" + drawing(t) + "```\n\n" + end + after
	if want != string(page) {
		if *rewriteArchitecture {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else {
			t.Errorf("%s does not show the imports as they are; draw them with: make architecture", path)
		}
	}
	functions := regexp.MustCompile("\\[`(\\w+)`\\]\\(../../([a-z_/]+\\.go)\\)").FindAllStringSubmatch(want, -1)
	for _, m := range functions {
		src, err := os.ReadFile(m[2])
		if err != nil {
			t.Error(err)
		} else if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + m[1] + `\(`).Match(src) {
			t.Errorf("%s names the function %s, which %s does not have", path, m[1], m[2])
		}
	}
	if len(functions) < 10 {
		t.Errorf("%s names only %d functions", path, len(functions))
	}
}

// drawing is the graph of the folders in the text of mermaid. An arrow that follows from others is left out.
func drawing(t *testing.T) string {
	layerOf := map[string]int{}
	for i, l := range layers {
		for _, folder := range l.folders {
			layerOf[folder] = i
		}
	}
	// node is the drawn folder that a folder belongs to, or "".
	node := func(dir string) string {
		for _, not := range notDrawn {
			if dir == not || strings.HasPrefix(dir, not+"/") {
				return ""
			}
		}
		for at := dir; at != "."; at = filepath.Dir(at) {
			if _, ok := layerOf[at]; ok {
				return at
			}
		}
		t.Errorf("folder %s is in no layer of layers, and not in notDrawn", dir)
		return ""
	}
	parts, imports := map[string]map[string]bool{}, map[string]map[string]bool{}
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		from := node(dir)
		if from == "" {
			return
		}
		if imports[from] == nil {
			parts[from], imports[from] = map[string]bool{}, map[string]bool{}
		}
		if dir != from {
			parts[from][strings.TrimPrefix(dir, from+"/")] = true
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			ours, ok := strings.CutPrefix(name, tree)
			if !ok {
				continue
			}
			to := node(ours)
			switch {
			case to == "":
				t.Errorf("%s imports %s, which is not drawn", path, ours)
			case to != from:
				imports[from][to] = true
				if layerOf[to] < layerOf[from] {
					t.Errorf("%s imports %s, which is in a layer above", path, ours)
				}
			}
		}
	})
	var reaches func(from, to string, seen map[string]bool) bool
	reaches = func(from, to string, seen map[string]bool) bool {
		if seen[from] {
			return false
		}
		seen[from] = true
		for next := range imports[from] {
			if next == to || reaches(next, to, seen) {
				return true
			}
		}
		return false
	}
	id := func(folder string) string { return strings.ReplaceAll(folder, "/", "_") }
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i, l := range layers {
		fmt.Fprintf(&b, "  subgraph layer%d[\"%s\"]\n", i+1, l.title)
		for _, folder := range l.folders {
			if imports[folder] == nil {
				t.Errorf("layers has %s, which has no Go files", folder)
			}
			label := "<b>" + folder + "</b>"
			if below := slices.Sorted(maps.Keys(parts[folder])); len(below) > 0 {
				label += "<br>" + strings.Join(below, ", ")
			}
			fmt.Fprintf(&b, "    %s[\"%s\"]\n", id(folder), label)
		}
		b.WriteString("  end\n")
	}
	edges := 0
	for _, from := range slices.SortedFunc(maps.Keys(imports), func(a, b string) int {
		return cmp.Or(cmp.Compare(layerOf[a], layerOf[b]), strings.Compare(a, b))
	}) {
		for _, to := range slices.Sorted(maps.Keys(imports[from])) {
			follows := false
			for other := range imports[from] {
				follows = follows || other != to && reaches(other, to, map[string]bool{})
			}
			if !follows {
				fmt.Fprintf(&b, "  %s --> %s\n", id(from), id(to))
				edges++
			}
		}
	}
	if edges < 15 {
		t.Errorf("only %d imports were found", edges)
	}
	return b.String()
}
