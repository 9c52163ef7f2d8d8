package deploy_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

var (
	releaseDir = flag.String("release", "", "directory of a release with packages, as `make release` writes it; without it the tests of packages are skipped")
	fullBuild  = flag.Bool("full", false, "let the second build begin with an empty build cache, which takes minutes")
	helmPath   = flag.String("helm", "", "path of helm; without it the test of the chart is skipped")
)

// root returns the absolute path of the tree.
func root(t *testing.T) string { t.Helper(); return testkit.Must(filepath.Abs(".."))(t) }

// must runs a command and returns its output.
func must(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	testkit.NoError(t, err, cmd.Args, out)
	return string(out)
}

// needs skips a test if a program is not installed.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%v", err)
	}
	return path
}

// released returns the only file of the release that matches a pattern.
func released(t *testing.T, pattern string) string {
	t.Helper()
	if *releaseDir == "" {
		t.Skip("-release is not given")
	}
	files, err := filepath.Glob(filepath.Join(*releaseDir, pattern))
	testkit.MustHold(t, err == nil && len(files) == 1, *releaseDir, "has", files, "for", pattern, err)
	return files[0]
}

// newRoot creates the root directory of a system with only a shell, rm, cat and some more programs. Its name is short, so
// that the path of a socket in it is not too long. Only root can use it, by chroot.
func newRoot(t *testing.T, programs ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("it needs Linux, and root")
	}
	dir := testkit.Must(os.MkdirTemp("", "root"))(t)
	t.Cleanup(func() { testkit.Check(t, os.RemoveAll(dir)) })
	testkit.NoError(t, os.Chmod(dir, 0o755))
	files := map[string]string{}
	for _, program := range append([]string{"/bin/sh", "/bin/rm", "/bin/cat"}, programs...) {
		files[program] = program
		for _, library := range regexp.MustCompile(`/\S*lib\S*/\S+`).FindAllString(must(t, exec.Command("ldd", program)), -1) {
			files[library] = library
		}
	}
	for _, name := range []string{"tmp", "run", "var/lib", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/rpm", "etc", "dev"} {
		testkit.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for from, to := range files {
		text := testkit.Must(os.ReadFile(from))(t)
		to = filepath.Join(dir, to)
		testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o755)))
	}
	for _, empty := range []string{"var/lib/dpkg/status", "dev/null"} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, empty), nil, 0o666))
	}
	return dir
}

// unit is a unit file: the values of each name, in order.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	u := unit{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "[") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		testkit.MustHold(t, ok && !strings.HasSuffix(value, `\`), path, "this reader does not understand", line)
		u[name] = append(u[name], value)
	}
	return u
}

// one returns the only value of a name.
func (u unit) one(t *testing.T, name string) string {
	t.Helper()
	testkit.MustEqual(t, len(u[name]), 1, "the unit, for", name)
	return u[name][0]
}

// words splits a command line. The units quote nothing.
func words(t *testing.T, line string) []string {
	t.Helper()
	testkit.MustHold(t, !strings.ContainsAny(line, `"'$%\`), "this reader does not understand", line)
	return strings.Fields(line)
}

// exists reports whether a file exists.
func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// TestUnits: systemd accepts the units without complaints, and rates their restrictions well enough.
func TestUnits(t *testing.T) {
	analyze := needs(t, "systemd-analyze")
	for name, most := range map[string]string{"daybook.service": "15", "daybook-work.service": "45"} {
		text := testkit.Must(os.ReadFile(filepath.Join("systemd", name)))(t)
		self := testkit.Must(os.Executable())(t)
		path := filepath.Join(t.TempDir(), name)
		text = bytes.ReplaceAll(text, []byte("=/usr/bin/daybook "), []byte("="+self+" ")) // the package is not installed here
		testkit.NoError(t, os.WriteFile(path, text, 0o644))
		verify := exec.Command(analyze, "verify", "--man=no", path)
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			if strings.Contains(string(out), "Failed to initialize manager") {
				t.Skipf("systemd-analyze cannot be used here: %s", out)
			}
			t.Errorf("%s: %v: %s", name, err, out)
		}
		out := must(t, exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold="+most, path))
		lines := strings.Split(strings.TrimSpace(out), "\n")
		t.Log(lines[len(lines)-1])
	}
	wrong := filepath.Join(t.TempDir(), "wrong.service")
	testkit.NoError(t, os.WriteFile(wrong, []byte("[Service]\nExecStart=/bin/true\nProtectSytem=strict\n"), 0o644))
	out, err := exec.Command(analyze, "verify", "--man=no", wrong).CombinedOutput()
	testkit.Holds(t, err != nil || len(out) != 0, "systemd-analyze finds no misspelt setting")
}
