package main

import (
	"archive/tar"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/blob/s3/s3test"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestServeS3: a server keeps its blobs in a bucket.
func TestServeS3(t *testing.T) {
	bucket := s3test.Start(t, "bucket")
	data := t.TempDir()
	serve := func() *server { return serving(t, data, "--blobs", bucket.Address("bucket/daybook")) }
	s := serve()
	files := t.TempDir()
	for name, content := range map[string]string{"first": "first", "second": strings.Repeat("second", 1<<20)} {
		testkit.NoError(t, os.WriteFile(filepath.Join(files, name), []byte(content), 0o600))
	}
	first := strings.TrimSpace(ok(t, "blob", "put", filepath.Join(files, "first"), "--server", s.url))
	second := strings.TrimSpace(ok(t, "blob", "put", filepath.Join(files, "second"), "--client", "acme", "--server", s.url))
	if _, err := os.Stat(filepath.Join(bucket.Dir, "bucket", "daybook", "clients", "acme", "blobs", "sha256", strings.TrimPrefix(second, "sha256:"))); err != nil {
		t.Error(err)
	}
	if got := ok(t, "fileset", "push", files, "input", "--server", s.url); got != "input: stored as version 1; 1 file (6MB) sent, 1 were there\n" && !strings.HasPrefix(got, "input: stored as version 1; 1 file") {
		t.Errorf("push: %q", got)
	}
	check := func() {
		t.Helper()
		testkit.Equal(t, ok(t, "blob", "get", first, "--server", s.url), "first")
		testkit.Equal(t, len(ok(t, "blob", "get", second, "--client", "acme", "--server", s.url)), 6<<20, "get of a client")
		testkit.Contains(t, ok(t, "blob", "ls", "--server", s.url), first)
		got := ok(t, "blob", "gc", "--server", s.url)
		testkit.Holds(t, strings.HasPrefix(got, "0 blobs with 0B removed;"), "gc", got)
		to := filepath.Join(t.TempDir(), "to")
		ok(t, "fileset", "pull", "input", to, "--server", s.url)
		testkit.Equal(t, len(testkit.Must(os.ReadFile(filepath.Join(to, "second")))(t)), 6<<20, "pull bytes")
	}
	check()
	if text := get(t, s.url+"/metrics"); !strings.Contains(text, `daybook_blob_store_requests_total{method="PUT"} `) || strings.Contains(text, `daybook_blob_store_requests_total{method="PUT"} 0`) {
		t.Error("the metrics have no requests to the bucket")
	}
	t.Run("collect", func(t *testing.T) {
		lone := strings.TrimSpace(ok(t, "blob", "put", filepath.Join(files, "second"), "--client", "lone", "--server", s.url))
		at := time.Now().Add(-25 * time.Hour)
		testkit.NoError(t, filepath.WalkDir(bucket.Dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return os.Chtimes(path, at, at)
		}))
		s.post(t, "/jobs/create", `{"payload":{"input":"`+first+`"}}`)
		s.post(t, "/jobs/create", `{"payload":"`+lone+`"}`) // acme's blob has the same digest
		got := ok(t, "blob", "gc", "--server", s.url)
		testkit.Holds(t, strings.HasPrefix(got, "0 blobs with 0B removed;"), "gc of named blobs", got)
		old := strings.TrimSpace(ok(t, "blob", "put", os.Args[0], "--client", "old", "--server", s.url))
		testkit.NoError(t, os.Chtimes(filepath.Join(bucket.Dir, "bucket", "daybook", "clients", "old", "blobs", "sha256", strings.TrimPrefix(old, "sha256:")), at, at))
		got = ok(t, "blob", "gc", "--server", s.url)
		testkit.Holds(t, strings.HasPrefix(got, "1 blobs with "), "gc of an old blob", got)
		execute(t, "", "blob", "get", old, "--client", "old", "--server", s.url).ends(t, terminal.ExitNotFound) // get of a collected blob
		check()
	})
	t.Run("a second server", func(t *testing.T) {
		r := execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init", "--blobs", bucket.Address("bucket/daybook"))
		testkit.Holds(t, r.code != terminal.ExitOK && strings.Contains(r.errs, "another server owns the bucket"), r)
	})
	t.Run("the bucket is away", func(t *testing.T) {
		bucket.Kill()
		text := get(t, s.url+"/blobs/"+first)
		testkit.Holds(t, strings.Contains(text, `"blobs_unavailable"`) && !strings.Contains(text, bucket.Addr), "get", text)
		s.post(t, "/jobs/create", `{"payload":"jobs go on"}`)
		testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")
		s = serve() // it starts without the bucket
		s.post(t, "/jobs/create", `{"payload":"jobs go on"}`)
		bucket.Restart()
		testkit.Eventually(t, "the blobs come back", func() bool { return get(t, s.url+"/blobs/"+first) == "first" })
		check()
	})
	testkit.Lacks(t, s.log.String(), s3test.SecretKey)
}

// TestFilesetTarFromS3: several files of an archive are read from the bucket in parallel, and sent in their order.
func TestFilesetTarFromS3(t *testing.T) {
	bucket := s3test.Start(t, "bucket")
	proxy := s3test.NewProxy(t, bucket.Addr)
	s := serving(t, t.TempDir(), "--blobs", s3test.Address("bucket/daybook", proxy.Addr))
	files := t.TempDir()
	const n = 40
	for i := range n {
		testkit.NoError(t, os.WriteFile(filepath.Join(files, fmt.Sprintf("f%02d", i)), []byte(fmt.Sprint("content ", i)), 0o600))
	}
	ok(t, "fileset", "push", files, "set", "--client", "acme", "--server", s.url)
	var now, most atomic.Int64
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if at := now.Add(1); at > most.Load() {
			most.Store(at)
		}
		time.Sleep(20 * time.Millisecond) // real time: a service that is far away
		now.Add(-1)
		return false
	})
	began := time.Now()
	rq := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/filesets/set?client=acme", nil))(t)
	rq.Header.Set("Accept", "application/x-tar")
	res := testkit.Must(http.DefaultClient.Do(rq))(t)
	defer res.Body.Close()
	archive := tar.NewReader(res.Body)
	for i := range n {
		h := testkit.Must(archive.Next())(t)
		content, err := io.ReadAll(archive)
		testkit.Holds(t, err == nil && h.Name == fmt.Sprintf("f%02d", i) && string(content) == fmt.Sprint("content ", i), i, h.Name, content, err)
	}
	testkit.Fails(archive.Next())(t, io.EOF) // at its end
	t.Logf("%s for each file", time.Since(began)/n)
	testkit.Holds(t, most.Load() >= 4, most.Load(), "requests at once")
}

// TestKilledUploadToS3: if a server is killed while it copies a blob, its next start removes the remains. A resumable
// upload continues.
func TestKilledUploadToS3(t *testing.T) {
	bucket := s3test.Start(t, "bucket")
	proxy := s3test.NewProxy(t, bucket.Addr)
	data := t.TempDir()
	serve := func() *server { return serving(t, data, "--blobs", s3test.Address("bucket/daybook", proxy.Addr)) }
	long := filepath.Join(t.TempDir(), "long")
	f := testkit.Must(os.Create(long))(t)
	defer f.Close()
	testkit.NoError(t, f.Truncate(200<<20))
	s := serve()
	for _, c := range []struct {
		name string
		put  func()
	}{
		{"PUT", func() {
			request, err := http.NewRequest(http.MethodPut, s.url+"/blobs", io.NewSectionReader(f, 0, 200<<20))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(request); err == nil {
				resp.Body.Close()
				t.Errorf("a PUT to a server that was killed: %s", resp.Status)
			}
		}},
		{"resumable", func() {
			cmd := command("blob", "put", long, "--server", s.url)
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			err := <-s.ended
			s.ended <- err
			_ = cmd.Process.Kill() // it would wait for the server
			_ = cmd.Wait()
		}},
	} {
		name, put := c.name, c.put
		var held atomic.Int64
		proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !r.URL.Query().Has("partNumber") || held.Add(1) <= 1 {
				return false
			}
			<-proxy.Ended
			return true
		})
		var running sync.WaitGroup
		running.Go(put)
		testkit.Eventually(t, "two parts are sent, and the bucket has stored the first", func() bool {
			stored := false // otherwise the bucket could store it after the new server has aborted the upload
			_ = filepath.WalkDir(bucket.Dir, func(path string, d os.DirEntry, err error) error {
				stored = stored || err == nil && d.Type().IsRegular() && strings.Contains(path, "multipart")
				return nil
			})
			return held.Load() >= 2 && stored
		})
		testkit.Equal(t, s.end(t, syscall.SIGKILL), -1, "exit code")
		running.Wait()
		proxy.Before(nil)
		s = serve()
		got := ok(t, "blob", "ls", "--server", s.url)
		testkit.Holds(t, !strings.Contains(got, "sha256:"), name, "ls", got)
		for _, dir := range []string{data, bucket.Dir} {
			testkit.Check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				testkit.Holds(t, err != nil || !d.Type().IsRegular() || !strings.Contains(path, "put-") &&
					!strings.Contains(path, "multipart"), name, path, "is left")
				return err
			}))
		}
		if name == "PUT" {
			testkit.Contains(t, get(t, s.url+"/metrics"), "\ndaybook_blob_bytes 0\n")
		}
	}
	address := strings.TrimSpace(ok(t, "blob", "put", long, "--server", s.url))
	testkit.Contains(t, ok(t, "blob", "ls", "--server", s.url), address)
}

// TestS3Settings: a mistake in the settings is an error at the start, and no output has a secret.
func TestS3Settings(t *testing.T) {
	const secret = "SeCrEt"
	for _, blobs := range []string{"s3://key:" + secret + "@bucket/p", "s3://bucket?secret=" + secret, "https://key:" + secret + "@host/bucket", "s3:bucket"} {
		for _, command := range []string{"serve --init", "config serve --"} {
			r := execute(t, "", append(strings.Fields(command), "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--blobs", blobs)...)
			r.ends(t, terminal.ExitUsage, "s3://BUCKET").lacks(t, secret)
		}
	}
	bucket := s3test.Start(t, "bucket")
	for variable, want := range map[string]string{"": "NoSuchBucket", "AWS_SECRET_ACCESS_KEY": "SignatureDoesNotMatch"} {
		t.Run(want, func(t *testing.T) {
			if variable != "" {
				t.Setenv(variable, secret)
			}
			r := execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init", "--blobs", bucket.Address("none/p"))
			testkit.Holds(t, r.code != terminal.ExitOK && strings.Contains(r.errs, want) && !strings.Contains(r.errs+r.out, secret), r)
		})
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp := testkit.Must(http.Get(url))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	return string(text)
}
