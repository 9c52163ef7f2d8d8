package daybook_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/daybookq/daybook/internal/testkit"
)

// modules are the folders of the modules that go.work joins. A release publishes them.
var modules = []string{".", "client", "job", "mdns"}

// separate are the folders of the modules that go.work leaves out, so that their requirements never reach the modules of
// go.work. They are not published, so their go.mod files replace the modules of this tree by folders.
var separate = []string{"bench/peers", "proof/issuer"}

// unreleased is the version in which the modules of this tree require each other.
const unreleased = "v0.0.0"

// readMod returns the go.mod of a folder.
func readMod(t *testing.T, dir string) *modfile.File {
	t.Helper()
	path := filepath.Join(dir, "go.mod")
	text := testkit.Must(os.ReadFile(path))(t)
	mod := testkit.Must(modfile.Parse(path, text, nil))(t)
	return mod
}

// published returns an environment in which the go command finds the modules of this tree as if they were released. It
// looks for all other modules in the module cache before the network.
func published(t *testing.T) []string {
	t.Helper()
	proxy := t.TempDir()
	for _, dir := range modules {
		mod := readMod(t, dir)
		testkit.Holds(t, len(mod.Replace) == 0, dir+"/go.mod", "replaces modules, so that `go install` of a version refuses it")
		versions := filepath.Join(proxy, mod.Module.Mod.Path, "@v")
		testkit.NoError(t, os.MkdirAll(versions, 0o755))
		text := testkit.Must(os.ReadFile(filepath.Join(dir, "go.mod")))(t)
		for name, content := range map[string][]byte{unreleased + ".mod": text, unreleased + ".info": []byte(`{"Version":"` + unreleased + `"}`), "list": []byte(unreleased + "\n")} {
			testkit.NoError(t, os.WriteFile(filepath.Join(versions, name), content, 0o644))
		}
		archive := testkit.Must(os.Create(filepath.Join(versions, unreleased+".zip")))(t)
		testkit.NoError(t, modzip.Create(archive, module.Version{Path: mod.Module.Mod.Path, Version: unreleased}, moduleFiles(t, dir)))
		testkit.NoError(t, archive.Close())
	}
	known := testkit.Must(exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output())(t)
	cache, network, _ := strings.Cut(strings.TrimSpace(string(known)), "\n")
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GONOSUMDB=github.com/daybookq/*", "GOMODCACHE="+t.TempDir(),
		fmt.Sprintf("GOPROXY=file://%s,file://%s,%s", proxy, filepath.Join(cache, "cache", "download"), network))
}

// moduleFile is a file of a module, by its path in the module.
type moduleFile struct{ dir, path string }

func (f moduleFile) Path() string                 { return f.path }
func (f moduleFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.path)) }
func (f moduleFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.path)) }

// moduleFiles returns the files in a release of a module. It skips bin, whose build results may be hundreds of megabytes.
func moduleFiles(t *testing.T, dir string) (all []modzip.File) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (name == "bin" || strings.HasPrefix(d.Name(), ".") || isModule(path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && d.Name() != ".git" { // in a second working tree, .git is a file
			all = append(all, moduleFile{dir, filepath.ToSlash(name)})
		}
		return nil
	})
	testkit.NoError(t, err)
	return all
}

func isModule(dir string) bool { _, err := os.Stat(filepath.Join(dir, "go.mod")); return err == nil }

// TestClientModule: a program that imports the client, and whose tests start a server, gets the client's modules and none
// of the server's.
func TestClientModule(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the client anew; make lint does")
	}
	environ, dir := published(t), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/producer\n\ngo 1.26.0\n",
		"main.go": `package main

import "github.com/daybookq/daybook/client"

func main() { client.New("http://127.0.0.1:1717", client.Options{}) }
`,
		"main_test.go": `package main

import (
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
)

func Test(t *testing.T) { daybooktest.Start(t) }
`,
	} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	goIn := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, environ
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if strings.Contains(said.String(), "dial tcp") {
			t.Skipf("a go.mod of another module is neither in the module cache nor to be had from the network: %s", said.String())
		}
		testkit.NoError(t, err, "go", args, &said)
		return string(out)
	}
	goIn("get", "github.com/daybookq/daybook/client@"+unreleased)
	goIn("vet", "./...")
	built := strings.Fields(goIn("list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all"))
	slices.Sort(built)
	want := []string{
		"github.com/daybookq/daybook/client", "github.com/daybookq/daybook/job", "github.com/daybookq/daybook/mdns",
		"github.com/bmatcuk/doublestar/v4",
		"github.com/coder/websocket", "github.com/go-json-experiment/json", "github.com/hashicorp/mdns", "github.com/miekg/dns",
		"github.com/google/go-cmp", "github.com/yuin/goldmark", // golang.org/x/tools names them, which miekg/dns requires
	}
	others := slices.DeleteFunc(slices.Clone(built), func(name string) bool { return slices.Contains(want, name) || strings.HasPrefix(name, "golang.org/x/") })
	testkit.Holds(t, len(others) == 0 && len(built) >= len(want), "the build list has", others, "beside what the client imports", built)

	// `go install` must be able to install the server in a version, which it refuses if go.mod replaces modules. With -n
	// it compiles nothing.
	goIn("install", "-n", "github.com/daybookq/daybook/cmd/daybook@"+unreleased)
}

// TestModules: go.work uses all modules of the tree except the separate ones, they agree on the versions of their
// requirements, and none of them requires a separate one.
func TestModules(t *testing.T) {
	text := testkit.Must(os.ReadFile("go.work"))(t)
	work, err := modfile.ParseWork("go.work", text, nil)
	testkit.NoError(t, err)
	var used []string
	for _, use := range work.Use {
		used = append(used, filepath.Clean(use.Path))
	}
	slices.Sort(used)
	testkit.EqualSlices(t, used, modules, "the modules that go.work uses")
	var all []string
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.Name() == "go.mod" {
			all = append(all, filepath.ToSlash(filepath.Dir(path)))
		}
		return nil
	})
	testkit.NoError(t, err)
	known := slices.Concat(modules, separate)
	slices.Sort(known)
	slices.Sort(all)
	testkit.EqualSlices(t, all, known, "the folders with a go.mod file")
	var apart []string
	for _, dir := range separate {
		apart = append(apart, readMod(t, dir).Module.Mod.Path)
	}
	versions := map[string]string{}
	for _, dir := range modules {
		for _, r := range readMod(t, dir).Require {
			other := versions[r.Mod.Path]
			testkit.Holds(t, other == "" || other == r.Mod.Version, dir+"/go.mod", "requires", r.Mod, "another one", other)
			testkit.Holds(t, !slices.Contains(apart, r.Mod.Path), dir+"/go.mod", "requires", r.Mod, "whose libraries must not reach other modules")
			versions[r.Mod.Path] = r.Mod.Version
		}
	}
}
