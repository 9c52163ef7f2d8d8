package daybook_test

import (
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

var rewriteArchitecture = flag.Bool("rewrite", false, "draw docs/explanation/architecture.md again")

// folders are the folders at the root, from the top down, and which of the others their code may import; tests may import
// everything. Inside a folder, the compiler keeps imports one way, and closes folders named internal. A new folder at the root
// is a line here.
var folders = []struct {
	name, layer string
	imports     []string
}{
	{"cmd", "the program", []string{"api", "blob", "client", "cluster", "ingest", "internal", "job", "journal", "mdns", "opsqueue", "runner", "store"}},
	{"api", "what talks to others", []string{"blob", "client/fileset", "ingest", "internal", "job", "store"}},
	{"opsqueue", "what talks to others", []string{"ingest", "internal", "job", "store"}},
	{"runner", "what talks to others", []string{"client", "internal", "job"}},
	{"ingest", "the engine", []string{"blob", "internal", "job", "journal", "store"}},
	{"cluster", "the engine", []string{"job", "journal"}},
	{"journal", "what is stored", []string{"internal"}},
	{"store", "what is stored", []string{"job"}},
	{"blob", "what is stored", []string{"internal", "job"}},
	{"internal", "what several share", []string{"client", "job"}},
	{"client", "the other modules", []string{"job", "mdns"}},
	{"job", "the other modules", nil},
	{"mdns", "the other modules", nil},
	// These are not drawn. Nothing that is drawn imports them.
	{"bench", "", []string{""}},
	{"deploy", "", nil},
	{"docs", "", []string{"client"}},
	{"proof", "", []string{""}},
}

// top returns the folder at the root that dir is in.
func top(dir string) string { first, _, _ := strings.Cut(dir, "/"); return first }

// within says whether dir is one of some folders, or in one of them. The folder "" has all.
func within(dir string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return f == "" || dir == f || strings.HasPrefix(dir, f+"/") })
}

// TestImports: code imports only what folders allows.
func TestImports(t *testing.T) {
	allowed := map[string][]string{}
	for _, f := range folders {
		allowed[f.name] = append(f.imports, f.name)
	}
	sources(t, func(dir, path string, file *ast.File, _ []byte) {
		for _, ours := range ourImports(file) {
			may, known := allowed[top(dir)]
			testkit.Holds(t, known, path, "the table folders has no line for", top(dir))
			testkit.Holds(t, !known || within(ours, may), path, "imports", ours, "its folder may import only", may)
		}
	})
}

// ourImports returns the folders of this repository that a file imports.
func ourImports(file *ast.File) []string {
	var ours []string
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if folder, ok := strings.CutPrefix(name, tree); ok {
			ours = append(ours, folder)
		}
	}
	return ours
}

// TestArchitecture: the picture in docs/explanation/architecture.md is that of the imports, and the functions that the page
// names exist.
func TestArchitecture(t *testing.T) {
	const path = "docs/explanation/architecture.md"
	page := testkit.Must(os.ReadFile(path))(t)
	begin, end := "<!-- imports: drawn by go test . -run TestArchitecture -rewrite -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	testkit.MustHold(t, found && ended, path, "has no place for the picture: the lines", begin, "and", end)
	want := before + begin + "\n```mermaid\n" + drawing(t) + "```\n\n" + end + after
	if want != string(page) {
		if *rewriteArchitecture {
			testkit.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		} else {
			t.Errorf("%s does not show the imports as they are; draw them with: go test . -run TestArchitecture -rewrite", path)
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
	testkit.Holds(t, len(functions) >= 10, path, "names only", len(functions), "functions")
}

// drawing is the graph of the folders in the text of mermaid. An arrow that follows from others is left out.
func drawing(t *testing.T) string {
	parts, imports := map[string]map[string]bool{}, map[string]map[string]bool{}
	sources(t, func(dir, _ string, file *ast.File, _ []byte) {
		from := top(dir)
		if imports[from] == nil {
			parts[from], imports[from] = map[string]bool{}, map[string]bool{}
		}
		if below, ok := strings.CutPrefix(dir, from+"/"); ok {
			parts[from][below] = true
		}
		for _, ours := range ourImports(file) {
			if top(ours) != from {
				imports[from][top(ours)] = true
			}
		}
	})
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		for next := range imports[from] {
			if next == to || reaches(next, to) {
				return true
			}
		}
		return false
	}
	var nodes, arrows strings.Builder
	layer := ""
	for _, f := range folders {
		if f.layer == "" {
			continue
		}
		if f.layer != layer {
			if layer != "" {
				nodes.WriteString("  end\n")
			}
			layer = f.layer
			fmt.Fprintf(&nodes, "  subgraph %s[\"%s\"]\n", strings.ReplaceAll(layer, " ", "_"), layer)
		}
		label := "<b>" + f.name + "</b>"
		if below := slices.Sorted(maps.Keys(parts[f.name])); len(below) > 0 {
			label += "<br>" + strings.Join(below, ", ")
		}
		fmt.Fprintf(&nodes, "    %s[\"%s\"]\n", f.name, label)
		for _, to := range slices.Sorted(maps.Keys(imports[f.name])) {
			follows := false
			for other := range imports[f.name] {
				follows = follows || other != to && reaches(other, to)
			}
			if !follows {
				fmt.Fprintf(&arrows, "  %s --> %s\n", f.name, to)
			}
		}
	}
	return "flowchart TD\n" + nodes.String() + "  end\n" + arrows.String()
}
