package main

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestBlobCommands(t *testing.T) {
	s := serving(t, t.TempDir())
	dir := t.TempDir()
	address := func(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }
	var files []string
	for _, content := range []string{"first", "second"} {
		files = append(files, filepath.Join(dir, content))
		testkit.NoError(t, os.WriteFile(files[len(files)-1], []byte(content), 0o600))
	}
	if got := ok(t, "blob", "put", files[0], "--server", s.url); got != address("first")+"\n" {
		t.Errorf("put: %q", got)
	}
	if got, want := ok(t, "blob", "put", files[0], files[1], "--server", s.url), address("first")+"  "+files[0]+"\n"+address("second")+"  "+files[1]+"\n"; got != want {
		t.Errorf("put of two: %q, want %q", got, want)
	}
	if r := execute(t, "from stdin", "blob", "put", "--server", s.url, "--json"); r.code != terminal.ExitOK || !strings.Contains(r.out, `"address":"`+address("from stdin")+`"`) || !strings.Contains(r.out, `"sha1":`) {
		t.Errorf("put of stdin: %+v", r)
	}
	if got := ok(t, "blob", "get", address("second"), "--server", s.url); got != "second" {
		t.Errorf("get: %q", got)
	}
	to := filepath.Join(dir, "copy")
	ok(t, "blob", "get", strings.TrimPrefix(address("second"), "sha256:"), "-o", to, "--server", s.url)
	if text, err := os.ReadFile(to); err != nil || string(text) != "second" {
		t.Errorf("get -o: %q, %v", text, err)
	}
	if got := ok(t, "blob", "ls", "--server", s.url); strings.Count(got, "\n") != 3 || !strings.Contains(got, address("first")+"             5  20") {
		t.Errorf("ls: %q", got)
	}
	if got := ok(t, "blob", "ls", "--server", s.url, "--json"); strings.Count(got, `"size":`) != 3 {
		t.Errorf("ls --json: %q", got)
	}
	if got := ok(t, "blob", "gc", "--server", s.url); got != "0 blobs with 0B removed; blobs that are younger than a day stay\n" {
		t.Errorf("gc: %q", got)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"get", address("none"), "-o", filepath.Join(dir, "none")}, terminal.ExitNotFound},
		{[]string{"get", "guest.wasm"}, terminal.ExitUsage},
		{[]string{"get", address("first"), "-o", filepath.Join(dir, "no", "where")}, terminal.ExitFile},
		{[]string{"put", filepath.Join(dir, "none")}, terminal.ExitFile},
		{[]string{"put", files[0], "--client", "a/b"}, terminal.ExitUsage},
	} {
		if r := execute(t, "", append(append([]string{"blob"}, c.args...), "--server", s.url)...); r.code != c.code {
			t.Errorf("%v: %+v, want the code %d", c.args, r, c.code)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a file of a blob that is not there: %v", err)
	}
	// Stored blobs are there after a kill, and the data of the blobs does not disturb the commands for data.
	testkit.NoError(t, s.Process.Kill())
	<-s.ended
	s.ended <- nil
	ok(t, "check", "--data", s.data)
	again := serving(t, s.data)
	if got := ok(t, "blob", "get", address("first"), "--server", again.url); got != "first" {
		t.Errorf("after a kill: %q", got)
	}
}

// TestKilledUpload: an upload that breaks off because the server is killed leaves nothing.
func TestKilledUpload(t *testing.T) {
	s := serving(t, t.TempDir())
	c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(t)
	defer c.Close()
	const sent = 8 << 20
	testkit.Must(fmt.Fprintf(c, "PUT /blobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 2*sent, strings.Repeat("x", sent)))(t)
	uploads := filepath.Join(s.data, "blobs", "uploads")
	testkit.Eventually(t, "half of the blob has arrived", func() bool {
		entries := testkit.Must(os.ReadDir(uploads))(t)
		if len(entries) != 1 {
			return false
		}
		info, err := entries[0].Info()
		return err == nil && info.Size() >= sent/2
	})
	testkit.NoError(t, s.Process.Signal(syscall.SIGKILL))
	<-s.ended
	s.ended <- nil
	again := serving(t, s.data)
	entries, err := os.ReadDir(uploads)
	if err != nil || len(entries) != 0 {
		t.Errorf("%d uploads are left, %v", len(entries), err)
	}
	if got := ok(t, "blob", "ls", "--server", again.url); got != "" {
		t.Errorf("blobs: %q", got)
	}
}

func TestServeBlobSettings(t *testing.T) {
	blobs := t.TempDir()
	s := serving(t, t.TempDir(), "--blobs", blobs, "--blob-quota", "10")
	if r := execute(t, "12345678901", "blob", "put", "--server", s.url); r.code != terminal.ExitRefused || !strings.Contains(r.errs, "blob_quota") {
		t.Errorf("above the quota: %+v", r)
	}
	if r := execute(t, "1234567890", "blob", "put", "--server", s.url); r.code != terminal.ExitOK {
		t.Errorf("at the quota: %+v", r)
	}
	if entries, err := os.ReadDir(filepath.Join(blobs, "blobs", "sha256")); err != nil || len(entries) != 1 {
		t.Errorf("%d blobs in --blobs, %v", len(entries), err)
	}
	none := serving(t, t.TempDir(), "--blobs", "none")
	if r := execute(t, "x", "blob", "put", "--server", none.url); r.code != terminal.ExitRefused || !strings.Contains(r.errs, "no_blobs") {
		t.Errorf("--blobs none: %+v", r)
	}
	for _, args := range [][]string{{"--blobs-collect", "1s"}, {"--blob-quota", "-1"}} {
		if r := execute(t, "", append([]string{"serve", "--data", t.TempDir(), "--init"}, args...)...); r.code != terminal.ExitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
	// Two servers cannot use the same blobs.
	if r := execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init", "--blobs", blobs); r.code != terminal.ExitDataInUse {
		t.Errorf("blobs of another server: %+v", r)
	}
}
