package certificates

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// filesOf returns the files of a certificate of an authority.
func filesOf(t *testing.T, a *testkit.Authority, name string) Files {
	t.Helper()
	cert, key := a.Issue(t, name)
	return Files{Cert: File{"tls-cert", cert}, Key: File{"tls-key", key}, CA: File{"tls-client-ca", a.CA}}
}

// copied writes the contents of a file to another.
func copied(t *testing.T, from, to File) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(to.Path, testkit.Must(os.ReadFile(from.Path))(t), 0o600))
}

// TestLoadRefuses: an error names the flag, the file, the cause and the next step.
func TestLoadRefuses(t *testing.T) {
	a := testkit.NewAuthority(t)
	good, other := filesOf(t, a, "one"), filesOf(t, a, "two")
	l := testkit.Must(good.Load())(t)
	testkit.Holds(t, l.Pair != nil && l.CA != nil && l.Expires.Equal(l.Pair.Leaf.NotAfter), "loaded", l)

	text := File{"tls-cert", filepath.Join(t.TempDir(), "text")}
	testkit.NoError(t, os.WriteFile(text.Path, []byte("text\n"), 0o600))
	missing := text.Path + "-missing"
	for name, c := range map[string]struct {
		change func(*Files)
		want   []any
	}{
		"no certificate": {func(f *Files) { f.Cert.Path = missing }, []any{os.ErrNotExist, "--tls-cert " + missing + ": ", "daybook tls self-signed"}},
		"no key":         {func(f *Files) { f.Key.Path = missing }, []any{os.ErrNotExist, "--tls-key " + missing + ": "}},
		"another's key":  {func(f *Files) { f.Key = other.Key }, []any{"--tls-cert " + good.Cert.Path, "private key does not match", "--tls-key its key"}},
		"text":           {func(f *Files) { f.Cert = text }, []any{"failed to find any PEM data", "both in PEM"}},
		"text for a CA":  {func(f *Files) { f.CA.Path = text.Path }, []any{"--tls-client-ca " + text.Path + ": it has no certificate in PEM"}},
	} {
		files := good
		c.change(&files)
		t.Run(name, func(t *testing.T) { testkit.Fails(files.Load())(t, c.want...) })
	}
	if runtime.GOOS == "windows" {
		return
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o644: true, 0o602: true} {
		testkit.NoError(t, os.Chmod(good.Key.Path, mode))
		_, err := good.Load()
		testkit.Equal(t, err != nil, refused, mode)
		if refused {
			testkit.Failed(t, err, ErrReadable, fmt.Sprintf("mode %04o", mode), "chmod o= "+good.Key.Path)
		}
	}
}

// TestWatched: new contents are used, and bad ones are not. Each failure is logged and counted once, and again after a
// requested look.
func TestWatched(t *testing.T) {
	a := testkit.NewAuthority(t)
	files, next := filesOf(t, a, "one"), filesOf(t, a, "two")
	var log strings.Builder
	made := 0
	w := testkit.Must(Watch(files, func(l Loaded) *tls.Config { made++; return &tls.Config{Certificates: []tls.Certificate{*l.Pair}} }, slog.New(slog.NewTextHandler(&log, nil))))(t)
	uses := func(name string, failures uint64, logged string) {
		t.Helper()
		testkit.Equal(t, w.Config().Certificates[0].Leaf.Subject.CommonName, name)
		testkit.Equal(t, w.Failures(), failures)
		testkit.Contains(t, log.String(), logged)
		testkit.Equal(t, strings.Count(log.String(), "\n") > 1, false, log.String())
		testkit.Holds(t, (logged == "") == (log.String() == ""), "logged", log.String())
		log.Reset()
	}
	first := w.Config()
	w.Look(false)
	testkit.Holds(t, w.Config() == first && made == 1, "the same files make new settings")
	uses("one", 0, "")
	w.Look(true)
	uses("one", 0, "have not changed")

	copied(t, next.Cert, files.Cert) // and not yet its key
	w.Look(false)
	uses("one", 1, "the old ones remain in use")
	w.Look(false)
	uses("one", 1, "")
	w.Look(true)
	uses("one", 2, "private key does not match")
	copied(t, next.Key, files.Key)
	w.Look(false)
	uses("two", 2, "are in use")

	testkit.NoError(t, os.Remove(files.Key.Path))
	w.Look(false)
	uses("two", 3, "no such file")
	copied(t, next.Key, files.Key)
	w.Look(false)
	uses("two", 3, "")
	testkit.NoError(t, os.Remove(files.Key.Path)) // the same failure after an interval without it
	w.Look(false)
	uses("two", 4, "no such file")
}
