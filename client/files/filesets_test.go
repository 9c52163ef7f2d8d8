package files_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/directory"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// counting is a proxy that counts requests, and may break some of them.
type counting struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[string]int // by method and the first segment of the path
	cutAt func(r *http.Request) bool
}

func countingProxy(t *testing.T, to string) *counting {
	t.Helper()
	target := testkit.Must(url.Parse(to))(t)
	p := &counting{seen: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen[r.Method+" /"+strings.Split(r.URL.Path, "/")[1]]++
		cut := p.cutAt != nil && p.cutAt(r)
		p.mu.Unlock()
		if cut {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// count returns how many requests there were, and resets the count.
func (p *counting) count(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.seen[what]
	p.seen = map[string]int{}
	return n
}

func writeFiles(t *testing.T, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(files[i+1]), 0o644)))
	}
}

// treeOf lists a directory: the paths, their contents, and which are executable.
func treeOf(t *testing.T, dir string) (list string) {
	t.Helper()
	testkit.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if info.IsDir() {
			list += name + "/ "
			return nil
		}
		text, err := os.ReadFile(path)
		if info.Mode()&0o100 != 0 {
			name += "*"
		}
		list += fmt.Sprintf("%s=%.20s ", name, text)
		return err
	}))
	return list
}

// TestPushAndPull: a directory becomes a fileset, and a fileset a directory. Only missing files are transferred.
func TestPushAndPull(t *testing.T) {
	s := daybooktest.Start(t)
	p := countingProxy(t, s.URL)
	c, ctx := client.New(p.URL, client.Options{}), t.Context()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new", "directory")
	writeFiles(t, from, "a", "A", "d/b", "B", "d/c", "B", "bin/run", "#!")
	testkit.NoError(t, errors.Join(os.Chmod(filepath.Join(from, "bin/run"), 0o755), os.Mkdir(filepath.Join(from, "empty"), 0o755)))
	f, moved, err := c.Filesets("acme").Push(ctx, "in", from, nil)
	testkit.NoError(t, err)
	testkit.MustHold(t, f.Version == 1 && !f.Existed && f.Files == 4 && f.Bytes == 5 && moved.Files == 3 && moved.Skipped == 1, f, moved)
	testkit.Equal(t, p.count("PUT /blobs"), 3, "blobs were sent")
	version, moved := testkit.Must2(c.Filesets("acme").Pull(ctx, "in", to, files.FilesetQuery{}))(t)
	testkit.MustHold(t, version == 1 && moved.Files == 4, version, moved)
	testkit.Equal(t, treeOf(t, to), treeOf(t, from))
	p.count("")
	_, moved, err = c.Filesets("acme").Pull(ctx, "in", to, files.FilesetQuery{})
	testkit.Holds(t, err == nil && moved.Files == 0 && moved.Skipped == 4 && p.count("GET /blobs") == 0, "pulled again", moved, err)
	f, moved, err = c.Filesets("acme").Push(ctx, "in", to, nil)
	testkit.Holds(t, err == nil && f.Existed && moved.Files == 0 && p.count("PUT /blobs") == 0, "pushed again", f, moved, err)
	writeFiles(t, to, "d/b", "other")
	if f, moved, err = c.Filesets("acme").Push(ctx, "in", to, []string{"d/**", "!d/c"}); err != nil || f.Version != 2 || f.Files != 1 || moved.Files != 1 || p.count("PUT /blobs") != 1 {
		t.Errorf("pushed with patterns: %+v, %+v, %v", f, moved, err)
	}
	part := t.TempDir()
	testkit.Must2(c.Filesets("acme").Pull(ctx, "in", part, files.FilesetQuery{Version: 1, Patterns: []string{"d/**"}}))(t)
	testkit.Holds(t, treeOf(t, part) == "d/ d/b=B d/c=B ", "pulled with a pattern", treeOf(t, part))

	testkit.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "link")))
	testkit.Fails2(c.Filesets("acme").Push(ctx, "in", from, nil))(t, directory.ErrNotRegular)
	testkit.Fails2(c.Filesets("acme").Push(ctx, "in", filepath.Join(from, "none"), nil))(t, os.ErrNotExist)
	testkit.Fails2(c.Filesets("acme").Push(ctx, "in", from, []string{"["}))(t, problem.ErrBadRequest, fileset.ErrPattern)
	testkit.Fails2(c.Filesets("acme").Pull(ctx, "none", to, files.FilesetQuery{}))(t, problem.ErrNotFound)
}

// TestPushOfManyFiles: many missing files are sent as one archive, also if its connection breaks.
func TestPushOfManyFiles(t *testing.T) {
	s := daybooktest.Start(t)
	p := countingProxy(t, s.URL)
	c, from := client.New(p.URL, client.Options{}), t.TempDir()
	for i := range 300 {
		writeFiles(t, from, fmt.Sprintf("d%d/f%d", i%7, i), fmt.Sprint("content ", i))
	}
	tries := 0
	p.cutAt = func(r *http.Request) bool {
		if r.Method == http.MethodPut {
			tries++
		}
		return r.Method == http.MethodPut && tries == 1
	}
	f, moved := testkit.Must2(c.Filesets("").Push(t.Context(), "in", from, nil))(t)
	testkit.MustHold(t, f.Files == 300 && moved.Files == 300 && tries == 2, f, moved, "after", tries, "tries")
	testkit.Equal(t, p.count("PUT /blobs"), 0, "blobs were sent one by one")
	to := t.TempDir()
	_, moved, err := c.Filesets("").Pull(t.Context(), "in", to, files.FilesetQuery{})
	testkit.Holds(t, err == nil && moved.Files == 300 && treeOf(t, to) == treeOf(t, from), moved, err)
	for i := range 100 {
		writeFiles(t, from, fmt.Sprintf("d%d/f%d", i%7, i), fmt.Sprint("changed ", i))
	}
	f, moved, err = c.Filesets("").Push(t.Context(), "in", from, nil)
	testkit.Holds(t, err == nil && f.Version == 2 && moved.Files == 100 && p.count("PUT /blobs") == 100, "a third of the files", f, moved, err)
}

// TestPushOfFilesThatChange: if a file changes while a directory is pushed, neither a version nor an archive is stored.
func TestPushOfFilesThatChange(t *testing.T) {
	for name, tt := range map[string]struct {
		files int
		at    string // the request before which a file changes
		keep  bool   // its time
	}{
		"an archive":                         {300, "/blobs/missing", false},
		"an archive, the time stays":         {300, "/blobs/missing", true},
		"an archive, while it is sent":       {300, "/filesets/in", false},
		"a manifest":                         {3, "/blobs/missing", false},
		"a manifest, the time stays":         {3, "/blobs/missing", true},
		"a manifest, after a blob was taken": {3, "/blobs", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := daybooktest.Start(t)
			p := countingProxy(t, s.URL)
			c, from := client.New(p.URL, client.Options{}), t.TempDir()
			for i := range tt.files {
				writeFiles(t, from, fmt.Sprintf("f%03d", i), fmt.Sprint("content ", i))
			}
			var changes int // these two are guarded by p.mu: a request may arrive after the push has ended
			var changed error
			p.cutAt = func(r *http.Request) bool {
				if r.URL.Path != tt.at || changes > 0 {
					return false
				}
				changes++
				path := filepath.Join(from, "f001")
				info, err := os.Stat(path)
				changed = errors.Join(err, os.WriteFile(path, []byte("CONTENT 1"), 0o644))
				if tt.keep && err == nil {
					changed = errors.Join(changed, os.Chtimes(path, info.ModTime(), info.ModTime()))
				}
				return false
			}
			_, _, err := c.Filesets("").Push(t.Context(), "in", from, nil)
			p.mu.Lock()
			testkit.Holds(t, errors.Is(err, directory.ErrChanged) && changes == 1 && changed == nil, err, changes, "changes", changed)
			p.cutAt = nil
			p.mu.Unlock()
			testkit.Fails(c.Filesets("").History(t.Context(), "in"))(t, problem.ErrNotFound)
			if tt.files > 3 {
				for b, err := range c.Blobs("").All(t.Context()) {
					t.Errorf("the blob %+v, %v", b, err)
				}
			}
			f, _ := testkit.Must2(c.Filesets("").Push(t.Context(), "in", from, nil))(t)
			testkit.Holds(t, f.Version == 1 && f.Files == tt.files, "pushed again", f)
		})
	}
}

// TestFilesetRequests: the requests of the client about filesets, and their errors.
func TestFilesetRequests(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := client.New(s.URL, client.Options{}), t.Context()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"a.dat", "b.txt"} {
		testkit.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: 5, Mode: 0o644}))
		io.WriteString(w, name)
	}
	testkit.NoError(t, w.Close())
	for name, r := range map[string]io.Reader{"a": bytes.NewReader(archive.Bytes()), "b": struct{ io.Reader }{bytes.NewReader(archive.Bytes())}} {
		f := testkit.Must(c.Filesets("").Put(ctx, name, r))(t)
		testkit.Holds(t, f.Files == 2 && !f.Existed && f.Name == name, name, f)
	}
	m, version := testkit.Must2(c.Filesets("").Manifest(ctx, "a", files.FilesetQuery{Patterns: []string{"*.dat"}}))(t)
	testkit.Holds(t, version == 1 && len(m.Files) == 1 && m.Files[0].Path == "a.dat", m, version)
	f := testkit.Must(c.Filesets("").PutManifest(ctx, "a", m))(t)
	testkit.Holds(t, f.Version == 2 && f.Files == 1, f)
	m.Files[0].Blob = fileset.AddressOf([]byte("none"))
	var refused *problem.Error
	if _, err := c.Filesets("").PutManifest(ctx, "a", m); !errors.Is(err, problem.ErrConflict) || !errors.As(err, &refused) || len(refused.Missing) != 1 || refused.Missing[0] != addressOf("none") {
		t.Errorf("a blob that is missing: %v", err)
	}
	m.Files[0].Path = "../x"
	testkit.Fails(c.Filesets("").PutManifest(ctx, "a", m))(t, problem.ErrBadRequest)
	testkit.Fails(c.Filesets("").Put(ctx, "a", strings.NewReader("no archive")))(t, problem.ErrBadRequest)
	testkit.Fails(c.Filesets("").Put(ctx, "a/b", &archive))(t, problem.ErrBadRequest)
	r := testkit.Must(c.Filesets("").Tar(ctx, "a", files.FilesetQuery{Version: 1}))(t)
	n := 0
	for in := tar.NewReader(r); ; n++ {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		testkit.NoError(t, err)
		testkit.Equal(t, string(testkit.Must(io.ReadAll(in))(t)), h.Name)
	}
	err := r.Close()
	testkit.Holds(t, err == nil && n == 2, n, "files", err)
	for what, err := range map[string]error{
		"a tar of no version": func() error { _, err := c.Filesets("").Tar(ctx, "a", files.FilesetQuery{Version: 9}); return err }(),
		"no fileset":          func() error { _, _, err := c.Filesets("acme").Manifest(ctx, "a", files.FilesetQuery{}); return err }(),
		"no history":          func() error { _, err := c.Filesets("acme").History(ctx, "a"); return err }(),
		"a delete of nothing": c.Filesets("acme").Delete(ctx, "a"),
	} {
		testkit.Holds(t, errors.Is(err, problem.ErrNotFound), what, err)
	}
	versions := testkit.Must(c.Filesets("").History(ctx, "a"))(t)
	testkit.Holds(t, len(versions) == 2 && versions[0].Version == 2 && versions[0].Newest, versions)
	testkit.Check(t, c.Filesets("").Delete(ctx, "a"))
	var names []string
	for f, err := range c.Filesets("").All(ctx) {
		testkit.NoError(t, err)
		names = append(names, f.Name)
	}
	testkit.MustEqual(t, len(names), 1)
	testkit.Equal(t, names[0], "b", names)
}

// TestFilesetTarThatBreaks: a caller that reads to io.EOF has got the whole archive.
func TestFilesetTarThatBreaks(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-tar")
		w.Write(make([]byte, 1024))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	r := testkit.Must(client.New(s.URL, client.Options{}).Filesets("").Tar(t.Context(), "a", files.FilesetQuery{}))(t)
	defer r.Close()
	testkit.Fails(io.Copy(io.Discard, r))(t, problem.ErrUnavailable)
}
