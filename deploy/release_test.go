package deploy_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestRelease: the sums are right. An archive has the program, the licences, the manual pages and the completions. The
// list of parts names the modules of which the program is built.
func TestRelease(t *testing.T) {
	archive := released(t, "*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	check := exec.Command(needs(t, "sha256sum"), "--strict", "-c", "SHA256SUMS")
	check.Dir = *releaseDir
	out := must(t, check)
	for _, name := range []string{filepath.Base(archive), ".deb", ".rpm", ".cdx.json"} {
		testkit.Contains(t, out, name)
	}
	dir, _ := unpack(t, archive)
	text, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	testkit.Holds(t, err == nil && strings.Contains(string(text), "Apache License"), "LICENSE", err)
	text, err = os.ReadFile(filepath.Join(dir, "licenses.txt"))
	testkit.Holds(t, err == nil && strings.Contains(string(text), "github.com/cockroachdb/pebble"), "licenses.txt", err)
	for name, want := range map[string]string{"man/daybook-work.1": ".SH NAME\ndaybook-work - ", "completions/daybook.bash": "complete ", "completions/_daybook": "#compdef daybook", "completions/daybook.fish": "complete -c daybook", "completions/daybook.ps1": "Register-ArgumentCompleter"} {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		testkit.Holds(t, err == nil && strings.Contains(string(text), want), name, "does not have", want, err)
	}
	got := must(t, exec.Command(filepath.Join(dir, "daybook"), "version"))
	testkit.Holds(t, strings.HasPrefix(got, "daybook ") && !strings.HasPrefix(got, "daybook dev"), got)
	text = testkit.Must(os.ReadFile(strings.TrimSuffix(archive, ".tar.gz") + ".cdx.json"))(t)
	var parts struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version string }
	}
	err = json.Unmarshal(text, &parts)
	testkit.MustHold(t, err == nil && parts.BOMFormat == "CycloneDX", parts, err)
	named := map[string]string{}
	for _, c := range parts.Components {
		named[c.Name] = c.Version
	}
	testkit.Holds(t, named["github.com/cockroachdb/pebble/v2"] != "" &&
		named["github.com/anishathalye/porcupine"] == "", "the list of parts has", named)
}

// TestReproducible: the same tree in another directory gives the same archive; with -full, even with an empty build
// cache.
func TestReproducible(t *testing.T) {
	archive := released(t, "*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	dir, epoch := unpack(t, archive)
	var built struct{ Version, Commit string }
	testkit.NoError(t, json.Unmarshal([]byte(must(t, exec.Command(filepath.Join(dir, "daybook"), "version", "--json"))), &built))
	other := filepath.Join(t.TempDir(), "another directory")
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root(t)
	for name := range strings.Lines(must(t, list)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if os.IsNotExist(err) {
			continue // it was removed
		}
		testkit.NoError(t, err)
		to := filepath.Join(other, name)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		testkit.NoError(t, os.WriteFile(to, text, 0o644))
	}
	again := exec.Command("go", "run", "./deploy/release", "-out", "out", "-version", built.Version, "-commit", built.Commit, "-epoch", strconv.FormatInt(epoch, 10), "-systems", runtime.GOOS+"/"+runtime.GOARCH)
	again.Dir = other
	again.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK="+filepath.Join(other, "go.work"))
	if *fullBuild {
		again.Env = append(again.Env, "GOCACHE="+t.TempDir())
	}
	must(t, again)
	a := testkit.Must(os.ReadFile(archive))(t)
	b := testkit.Must(os.ReadFile(filepath.Join(other, "out", filepath.Base(archive))))(t)
	testkit.Holds(t, string(a) == string(b), "the archive has", len(a), "bytes, and built again", len(b), "other ones")
}

// unpack unpacks an archive. It returns the archive's only directory and the time of its files.
func unpack(t *testing.T, archive string) (dir string, epoch int64) {
	t.Helper()
	f := testkit.Must(os.Open(archive))(t)
	defer f.Close()
	packed := testkit.Must(gzip.NewReader(f))(t)
	to := t.TempDir()
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir, epoch
		}
		testkit.NoError(t, err)
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		top, _, _ := strings.Cut(h.Name, "/")
		dir, epoch = filepath.Join(to, top), h.ModTime.Unix()
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, testkit.Must(io.ReadAll(r))(t), os.FileMode(h.Mode)))
	}
}
