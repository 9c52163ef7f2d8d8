package api

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// tarOf returns an archive of files, from path and content in turn.
func tarOf(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644}
		if strings.HasSuffix(files[i], "/") {
			h.Typeflag = tar.TypeDir
		}
		testkit.NoError(t, w.WriteHeader(h))
		testkit.Must(io.WriteString(w, files[i+1]))(t)
	}
	testkit.NoError(t, w.Close())
	return b.String()
}

// untar returns the files of an archive.
func untar(r io.Reader) (map[string]string, error) {
	files := map[string]string{}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return files, err
		}
		content, err := io.ReadAll(t)
		if err != nil {
			return files, err
		}
		files[h.Name] = string(content)
	}
}

func zstded(t testing.TB, text string, o ...zstd.EOption) string {
	z := testkit.Must(zstd.NewWriter(nil, o...))(t)
	return string(z.EncodeAll([]byte(text), nil))
}

func unzstd(t *testing.T, text string) io.Reader {
	z := testkit.Must(zstd.NewReader(strings.NewReader(text)))(t)
	t.Cleanup(z.Close)
	return z
}

// TestFilesets stores archives in all forms, and reads them in all forms.
func TestFilesets(t *testing.T) {
	r := start(t)
	text := tarOf(t, "./", "", "./a.dat", "A", "./out/", "", "./out/b.dat", "B", "./out/c.txt", "C", "./empty/", "")
	want := map[string]string{"a.dat": "A", "out/b.dat": "B", "out/c.txt": "C", "empty/": ""}

	made := r.put("/filesets/input", text)
	doc := made.object(http.StatusCreated)
	if doc["name"] != "input" || doc["client"] != nil || fmt.Sprintf("%v %v %v %v", doc["version"], doc["files"], doc["bytes"], doc["newest"]) != "1 3 3 true" || made.header.Get("Location") != "/filesets/input?version=1" {
		t.Errorf("%s, %v", made.body, made.header)
	}
	manifest := doc["manifest"].(string)
	for name, a := range map[string]reply{
		"again":       r.put("/filesets/input", text),
		"gzip":        r.put("/filesets/input", zipped(text).String()),
		"zstd":        r.put("/filesets/input", zstded(t, text)),
		"named":       r.put("/filesets/input", text, "Content-Type", "application/x-tar"),
		"a form":      r.put("/filesets/input", zipped(text).String(), "Content-Type", "application/x-www-form-urlencoded"),
		"other order": r.put("/filesets/input", tarOf(t, "out/c.txt", "C", "empty/", "", "a.dat", "A", "out/b.dat", "B"), "Content-Type", "application/octet-stream"),
		"chunks":      r.do(http.MethodPut, "/filesets/input", struct{ io.Reader }{strings.NewReader(text)}),
	} {
		if again := a.object(http.StatusOK); again["manifest"] != manifest || again["fileset_id"] != doc["fileset_id"] || a.header.Get("ETag") != `"`+manifest+`"` {
			t.Errorf("%s: %s", name, a.body)
		}
	}

	a := r.get("/filesets/input")
	a.wantStatus(http.StatusOK)
	m, err := fileset.Decode([]byte(a.body))
	testkit.Holds(t, err == nil && addressOf(a.body) == manifest && a.header.Get("ETag") == `"`+manifest+`"` &&
		a.header.Get("Daybook-Fileset-Version") == "1" && len(m.Files) == 3, a.body, a.header, err)
	r.get("/filesets/input", "If-None-Match", `"`+manifest+`"`).wantStatus(http.StatusNotModified)
	testkit.Equal(t, r.blobs.readable(t, m), "ABC", "the blobs")
	tags := map[string]bool{a.header.Get("ETag"): true}
	for kind, open := range map[string]func(text string) io.Reader{
		files.MIMETar:     func(text string) io.Reader { return strings.NewReader(text) },
		files.MIMETarGzip: func(text string) io.Reader { z, _ := gzip.NewReader(strings.NewReader(text)); return z },
		files.MIMETarZstd: func(text string) io.Reader { return unzstd(t, text) },
	} {
		a := r.get("/filesets/input", "Accept", kind)
		a.wantStatus(http.StatusOK)
		got, err := untar(open(a.body))
		tag := a.header.Get("ETag")
		testkit.Holds(t, err == nil && maps.Equal(got, want) && a.header.Get("Content-Type") == kind && a.header.Get("Vary") == "Accept" &&
			!tags[tag], kind, got, err, "with", a.header)
		tags[tag] = true
		testkit.Holds(t, r.get("/filesets/input", "Accept", kind).body == a.body, kind, "another archive the second time")
		r.get("/filesets/input", "Accept", kind, "If-None-Match", tag).wantStatus(http.StatusNotModified)
		head := r.do(http.MethodHead, "/filesets/input", nil, "Accept", kind)
		testkit.Holds(t, head.status == http.StatusOK && head.header.Get("ETag") == tag, "HEAD", kind, head.status, head.header)
	}
	for query, want := range map[string]string{
		"?pattern=**/*.dat":                 "a.dat out/b.dat",
		"?pattern=*.dat":                    "a.dat",
		"?pattern=out/**&pattern=a.dat":     "a.dat out/b.dat out/c.txt",
		"?pattern=out/**&pattern=!**/*.txt": "out/b.dat",
		"?version=1&pattern=empty":          "empty/",
		"?pattern=none":                     "",
		"?client=&pattern=none":             "400",
		"?pattern=[":                        "400",
		"?version=0":                        "400",
		"?version=1&version=1":              "400",
		"?version=2":                        "404",
		"?client=acme":                      "404",
	} {
		query = strings.ReplaceAll(query, "[", "%5B")
		a := r.get("/filesets/input"+query, "Accept", "application/x-tar")
		if a.status != http.StatusOK {
			testkit.Equal(t, fmt.Sprint(a.status), want, query, a.body)
			continue
		}
		got, err := untar(strings.NewReader(a.body))
		names := strings.Join(slices.Sorted(maps.Keys(got)), " ")
		testkit.Holds(t, err == nil && names == want && !tags[a.header.Get("ETag")], query, names, err)
		a = r.get("/filesets/input" + query)
		_, err = fileset.Decode([]byte(a.body))
		testkit.Holds(t, a.status == http.StatusOK && err == nil, query, a.status, err)
	}
}

// TestFilesetMetrics: stored and sent filesets count once, by their form.
func TestFilesetMetrics(t *testing.T) {
	r := start(t)
	r.put("/filesets/x", tarOf(t, "a", "A", "b", "BB")).wantStatus(http.StatusCreated)
	r.put("/filesets/x", tarOf(t, "a", "A", "b", "BB")).wantStatus(http.StatusOK)
	manifest := `{"format":1,"files":[{"path":"b","blob":"` + addressOf("BB") + `","size":2}]}`
	r.put("/filesets/x", manifest, "Content-Type", web.MIMEJSON).wantStatus(http.StatusCreated)
	r.put("/filesets/x", "no archive").wantStatus(http.StatusBadRequest)
	r.get("/filesets/x").wantStatus(http.StatusOK)
	r.do(http.MethodHead, "/filesets/x", nil).wantStatus(http.StatusOK)
	r.do(http.MethodGet, "/filesets/x", nil, "Accept", files.MIMETar).wantStatus(http.StatusOK)
	page := r.get("/metrics").body
	for _, line := range []string{
		`daybook_fileset_puts_total{form="archive",result="new"} 1`, `daybook_fileset_puts_total{form="archive",result="same"} 1`,
		`daybook_fileset_puts_total{form="manifest",result="new"} 1`, `daybook_fileset_puts_total{form="manifest",result="same"} 0`,
		`daybook_fileset_put_files_total{form="archive"} 4`, `daybook_fileset_put_bytes_total{form="archive"} 6`, `daybook_fileset_put_bytes_total{form="manifest"} 2`,
		`daybook_fileset_gets_total{form="archive"} 1`, `daybook_fileset_gets_total{form="manifest"} 1`,
	} {
		testkit.Holds(t, strings.Contains(page, line+"\n"), "the metrics lack", line)
	}
}

// readable reads the blobs of a manifest, in the order of its paths.
func (b *testBlobs) readable(t *testing.T, m *fileset.Manifest) (all string) {
	t.Helper()
	of := testkit.Must(b.Store())(t)
	for _, f := range m.Files {
		x := testkit.Must(of.Get(t.Context(), "", blob.Address(f.Blob)))(t)
		text := testkit.Must(io.ReadAll(x))(t)
		x.Close()
		all += string(text)
	}
	return all
}

// TestFilesetVersions: names have versions, of which the newest are kept; lists and deletes.
func TestFilesetVersions(t *testing.T) {
	r := start(t)
	for i := range job.MaxDocumentVersions + 2 {
		r.put("/filesets/in?client=acme", tarOf(t, "n", fmt.Sprint(i))).wantStatus(http.StatusCreated)
	}
	r.put("/filesets/in", tarOf(t, "n", "all")).wantStatus(http.StatusCreated)
	r.put("/filesets/other", tarOf(t)).wantStatus(http.StatusCreated)
	r.get("/filesets/in?client=acme&version=2").refused(http.StatusNotFound, "fileset_not_found")
	for version, content := range map[int]string{3: "2", job.MaxDocumentVersions + 2: fmt.Sprint(job.MaxDocumentVersions + 1)} {
		a := r.get(fmt.Sprintf("/filesets/in?client=acme&version=%d", version), "Accept", "application/x-tar, */*")
		files, err := untar(strings.NewReader(a.body))
		testkit.Holds(t, err == nil && files["n"] == content, "version", version, files, err)
	}
	versions := r.get("/filesets/in/history?client=acme").object(http.StatusOK)["filesets"].([]any)
	n := len(versions)
	testkit.Holds(t, n == job.MaxDocumentVersions && fmt.Sprint(versions[0].(map[string]any)["version"]) == "22", n, "versions")
	var names []string
	for after := ""; ; {
		page := r.get("/filesets?limit=1" + after).object(http.StatusOK)
		f := page["filesets"].([]any)[0].(map[string]any)
		names = append(names, fmt.Sprintf("%v %v %v", f["name"], f["client"], f["version"]))
		if page["next"] == nil {
			break
		}
		after = "&after=" + page["next"].(string)
	}
	testkit.EqualSlices(t, names, []string{"in <nil> 1", "in acme 22", "other <nil> 1"})
	r.do(http.MethodDelete, "/filesets/in?client=acme", nil).wantStatus(http.StatusNoContent)
	r.do(http.MethodDelete, "/filesets/in?client=acme", nil).refused(http.StatusNotFound, "fileset_not_found")
	r.get("/filesets/in?client=acme").refused(http.StatusNotFound, "fileset_not_found")
	r.get("/filesets/in?client=acme&version=22").refused(http.StatusNotFound, "fileset_not_found")
	history := r.get("/filesets/in/history?client=acme").object(http.StatusOK)["filesets"].([]any)
	if newest := history[0].(map[string]any); len(history) != job.MaxDocumentVersions || fmt.Sprint(newest["version"], newest["deleted"]) != "23true" {
		t.Errorf("%d versions, the newest is %v", len(history), newest)
	}
	r.get("/filesets/in").wantStatus(http.StatusOK)
	r.put("/filesets/in?client=jobs", tarOf(t)).wantStatus(http.StatusBadRequest)
	r.put("/filesets/a%20b", tarOf(t)).wantStatus(http.StatusBadRequest)
}

// TestFilesetsThatAreRefused: a refused fileset leaves no version and no blob.
func TestFilesetsThatAreRefused(t *testing.T) {
	r := start(t)
	good := tarOf(t, "a", "A", "b", strings.Repeat("B", 100_000))
	link := func() string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		w.WriteHeader(&tar.Header{Name: "a", Size: 1, Mode: 0o644})
		w.Write([]byte("A"))
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc/passwd"})
		w.Close()
		return b.String()
	}()
	packed := zipped(good).String()
	damaged := []byte(zstded(t, good))
	damaged[len(damaged)-1] ^= 1
	for name, tt := range map[string]struct {
		body, kind string
		status     int
		code       string
	}{
		"nothing":                {"", "", 400, "bad_archive"},
		"no archive":             {"hello, world", "", 400, "bad_archive"},
		"zeros":                  {strings.Repeat("\x00", 100), "", 400, "bad_archive"},
		"a link":                 {link, "", 400, "bad_archive"},
		"an escape":              {tarOf(t, "a", "A", "../b", "B"), "", 400, "bad_path"},
		"an archive cut off":     {good[:len(good)-1024], "", 400, "bad_archive"},
		"one cut in a file":      {good[:50_000], "", 400, "bad_archive"},
		"gzip cut off":           {packed[:len(packed)-9], "", 400, "bad_archive"},
		"gzip with more":         {packed + "x", "", 400, "bad_archive"},
		"zstd with a wrong sum":  {string(damaged), "", 400, "bad_archive"},
		"zstd with a window":     {zstded(t, strings.Repeat(good, 200), zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false)), "", 400, "bad_archive"},
		"an archive as JSON":     {good, web.MIMEJSON, 400, "bad_manifest"},
		"a text":                 {good, "text/plain", 415, "unsupported_media_type"},
		"no manifest":            {`{"files":[]}`, web.MIMEJSON, 400, "bad_manifest"},
		"a manifest's escape":    {`{"format":1,"files":[{"path":"../a","blob":"` + addressOf("A") + `","size":1}]}`, web.MIMEJSON, 400, "bad_path"},
		"a blob that is missing": {`{"format":1,"files":[{"path":"a","blob":"` + addressOf("A") + `","size":1}]}`, web.MIMEJSON, 409, "blobs_missing"},
		"too many files":         {`{"format":1,"empty_directories":["a"` + strings.Repeat(`,"a"`, fileset.MaxFiles) + `]}`, web.MIMEJSON, 413, "fileset_too_large"},
	} {
		var headers []string
		if tt.kind != "" {
			headers = []string{"Content-Type", tt.kind}
		}
		a := r.put("/filesets/x", tt.body, headers...)
		if a.status != tt.status || !strings.Contains(a.body, `"code":"`+tt.code+`"`) {
			t.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
	}
	missing := r.put("/filesets/x", `{"format":1,"files":[{"path":"a","blob":"`+addressOf("A")+`","size":1}]}`, "Content-Type", web.MIMEJSON).body
	testkit.Contains(t, missing, `"missing":["`+addressOf("A")+`"]`)
	r.get("/filesets/x").refused(http.StatusNotFound, "fileset_not_found")
	page := r.get("/blobs").object(http.StatusOK)
	testkit.Holds(t, len(page["blobs"].([]any)) == 0 && fmt.Sprint(page["bytes"]) == "0", "blobs are left", page)
	r.put("/blobs", "A").wantStatus(http.StatusCreated)
	r.put("/filesets/x", `{"format":1,"files":[{"path":"a","blob":"`+addressOf("A")+`","size":2}]}`, "Content-Type", web.MIMEJSON).refused(http.StatusBadRequest, "bad_manifest")
	r.put("/filesets/x", ` {"files":[{"size":1,"path":"a","blob":"`+addressOf("A")+`"}],"format":1}`, "Content-Type", "application/json; charset=utf-8").wantStatus(http.StatusCreated)
	r.put("/filesets/x", tarOf(t, "a", "A")).wantStatus(http.StatusOK) // the same tree
}

// TestFilesetWhoseConnectionBreaks: an upload that ends early stores nothing, and the name keeps its version.
func TestFilesetWhoseConnectionBreaks(t *testing.T) {
	r := start(t)
	text := tarOf(t, "a", "A", "b", strings.Repeat("B", 1<<20))
	for _, n := range []int{600, 1024, 500_000, len(text) - 1} {
		c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(t)
		fmt.Fprintf(c, "PUT /filesets/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(text), text[:n])
		c.Close()
	}
	// A chunked body without its last chunk has ended early, even if the whole archive has arrived.
	var gzipped bytes.Buffer
	z := gzip.NewWriter(&gzipped)
	io.WriteString(z, text)
	testkit.NoError(t, z.Close())
	for name, body := range map[string]string{"tar": text, "gzip": gzipped.String(), "zstd": zstded(t, text)} {
		c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(t)
		fmt.Fprintf(c, "PUT /filesets/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body)
		testkit.NoError(t, c.(*net.TCPConn).CloseWrite())
		answer, err := io.ReadAll(c)
		testkit.Holds(t, !strings.HasPrefix(string(answer), "HTTP/1.1 20") && err == nil, name, "without its last chunk", answer, err)
		c.Close()
	}
	empty := func() bool {
		uploads := testkit.Must(os.ReadDir(filepath.Join(r.blobs.dir, "uploads")))(t)
		return len(uploads) == 0 && r.blobs.Used() == 0
	}
	testkit.Eventually(t, "no upload is left", func() bool { return empty() })
	r.get("/filesets/x").refused(http.StatusNotFound, "fileset_not_found")
}

// TestFilesetsKeepTheirBlobs: a collection keeps the blobs of all kept versions, and removes the rest.
func TestFilesetsKeepTheirBlobs(t *testing.T) {
	r := start(t)
	r.put("/filesets/x", tarOf(t, "a", "one", "b", "both")).wantStatus(http.StatusCreated)
	r.put("/filesets/x", tarOf(t, "a", "two", "b", "both")).wantStatus(http.StatusCreated)
	r.put("/filesets/y?client=acme", tarOf(t, "a", "three", "b", "both")).wantStatus(http.StatusCreated)
	collect := func(want ...string) {
		t.Helper()
		r.blobs.wait(25 * time.Hour)
		r.post("/blobs/collect", "").object(http.StatusOK)
		for _, content := range []string{"one", "two", "three", "both"} {
			status := http.StatusNotFound
			if slices.Contains(want, content) {
				status = http.StatusOK
			}
			r.get("/blobs/" + addressOf(content) + "?client=acme").wantStatus(status) // which reads the shared ones, too
		}
	}
	collect("one", "two", "three", "both")
	r.do(http.MethodDelete, "/filesets/x", nil).wantStatus(http.StatusNoContent)
	collect("three", "both")
	manifest := r.get("/filesets/y?client=acme").body
	damaged := 0
	err := filepath.WalkDir(r.blobs.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == strings.TrimPrefix(addressOf(manifest), "sha256:") {
			damaged++
			err = os.WriteFile(path, []byte(strings.Replace(manifest, "a", "b", 1)), 0o600)
		}
		return err
	})
	testkit.MustHold(t, err == nil && damaged == 1, damaged, "files are damaged", err)
	r.blobs.wait(25 * time.Hour)
	r.post("/blobs/collect", "").refused(http.StatusInternalServerError, "blob_damaged")
	r.get("/blobs/" + addressOf("three") + "?client=acme").wantStatus(http.StatusOK)
	r.get("/filesets/y?client=acme").refused(http.StatusInternalServerError, "blob_damaged")
	r.put("/filesets/y?client=acme", tarOf(t, "a", "three", "b", "both")).wantStatus(http.StatusOK) // repairs it
	collect("three", "both")
	r.do(http.MethodDelete, "/filesets/y?client=acme", nil).wantStatus(http.StatusNoContent)
	collect()
}

// TestDamagedFileset: the end of an archive with a damaged blob differs from the end of a complete archive.
func TestDamagedFileset(t *testing.T) {
	r := start(t)
	large := strings.Repeat("B", 3<<20)
	r.put("/filesets/x", tarOf(t, "a", "A", "b", large, "c", "C")).wantStatus(http.StatusCreated)
	path := filepath.Join(r.blobs.dir, "blobs", "sha256", strings.TrimPrefix(addressOf(large), "sha256:"))
	for name, damage := range map[string]func() error{
		"a byte":  func() error { return os.WriteFile(path, []byte(strings.Replace(large, "B", "C", 1)), 0o600) },
		"shorter": func() error { return os.WriteFile(path, []byte(large[1:]), 0o600) },
		"none":    func() error { return os.Remove(path) },
	} {
		testkit.NoError(t, damage())
		for _, kind := range []string{files.MIMETar, files.MIMETarGzip, files.MIMETarZstd} {
			req, _ := http.NewRequest(http.MethodGet, r.url+"/filesets/x", nil)
			req.Header.Set("Accept", kind)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // the connection was closed before the header was sent
			}
			_, err = io.Copy(io.Discard, res.Body)
			testkit.Holds(t, errors.Is(err, io.ErrUnexpectedEOF), name, kind, "the answer ends with", err)
			res.Body.Close()
		}
	}
	r.put("/filesets/x", tarOf(t, "a", "A", "b", large, "c", "C")).wantStatus(http.StatusOK)
	files, err := untar(strings.NewReader(r.get("/filesets/x", "Accept", files.MIMETar).body))
	testkit.Holds(t, err == nil && files["b"] == large, "after it was stored again", err)
}

// TestFilesetsInFlatMemory: an archive that is longer than the memory limit passes through.
func TestFilesetsInFlatMemory(t *testing.T) {
	const count, size = 8, 12 << 20
	r := start(t)
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	in, out := io.Pipe()
	go func() {
		w := tar.NewWriter(out)
		for i := range count {
			content[0] = byte(i)
			if err := errors.Join(w.WriteHeader(&tar.Header{Name: fmt.Sprint("f", i), Size: size, Mode: 0o644})); err != nil {
				out.CloseWithError(err)
				return
			}
			if _, err := w.Write(content); err != nil {
				out.CloseWithError(err)
				return
			}
		}
		out.CloseWithError(w.Close())
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	req := testkit.Must(http.NewRequestWithContext(context.Background(), http.MethodPut, r.url+"/filesets/x", in))(t)
	res := testkit.Must(http.DefaultClient.Do(req))(t)
	testkit.MustEqual(t, res.StatusCode, http.StatusCreated, res)
	res.Body.Close()
	req, _ = http.NewRequest(http.MethodGet, r.url+"/filesets/x", nil)
	req.Header.Set("Accept", files.MIMETar)
	res = testkit.Must(http.DefaultClient.Do(req))(t)
	n, err := io.Copy(io.Discard, res.Body)
	res.Body.Close()
	testkit.NoError(t, err)
	testkit.Holds(t, n >= count*size, n, "bytes")
	runtime.ReadMemStats(&after)
	grown := after.TotalAlloc - before.TotalAlloc
	testkit.Holds(t, grown <= count*size/3, grown, "bytes were allocated for", count*size, "bytes in both directions")
	testkit.Eventually(t, "no share is kept", func() bool {
		return r.server.streamed.Used()+r.server.downloads.Used()+r.server.manifests.Used() == 0
	})
}
