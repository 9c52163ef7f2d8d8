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
	testkit.Equal(t, ok(t, "blob", "put", files[0], "--server", s.url), address("first")+"\n")
	testkit.Equal(t, ok(t, "blob", "put", files[0], files[1], "--server", s.url),
		address("first")+"  "+files[0]+"\n"+address("second")+"  "+files[1]+"\n", "put of two")
	execute(t, "from stdin", "blob", "put", "--server", s.url, "--json").ends(t, terminal.ExitOK).prints(t, `"address":"`+address("from stdin")+`"`, `"sha1":`)
	testkit.Equal(t, ok(t, "blob", "get", address("second"), "--server", s.url), "second")
	to := filepath.Join(dir, "copy")
	ok(t, "blob", "get", strings.TrimPrefix(address("second"), "sha256:"), "-o", to, "--server", s.url)
	testkit.Equal(t, string(testkit.Must(os.ReadFile(to))(t)), "second", "get -o")
	got := ok(t, "blob", "ls", "--server", s.url)
	testkit.Holds(t, strings.Count(got, "\n") == 3 && strings.Contains(got, address("first")+"             5  20"), "ls", got)
	testkit.Equal(t, strings.Count(ok(t, "blob", "ls", "--server", s.url, "--json"), `"size":`), 3, "ls --json")
	testkit.Equal(t, ok(t, "blob", "gc", "--server", s.url), "0 blobs with 0B removed; blobs that are younger than a day stay\n")
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
		execute(t, "", append(append([]string{"blob"}, c.args...), "--server", s.url)...).ends(t, c.code)
	}
	testkit.Fails(os.Stat(filepath.Join(dir, "none")))(t, os.ErrNotExist)
	// Stored blobs are there after a kill, and the data of the blobs does not disturb the commands for data.
	testkit.NoError(t, s.Process.Kill())
	<-s.ended
	s.ended <- nil
	ok(t, "check", "--data", s.data)
	testkit.Equal(t, ok(t, "blob", "get", address("first"), "--server", serving(t, s.data).url), "first", "after a kill")
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
	testkit.Equal(t, len(testkit.Must(os.ReadDir(uploads))(t)), 0)
	testkit.Equal(t, ok(t, "blob", "ls", "--server", again.url), "")
}

func TestServeBlobSettings(t *testing.T) {
	blobs := t.TempDir()
	s := serving(t, t.TempDir(), "--blobs", blobs, "--blob-quota", "10")
	execute(t, "12345678901", "blob", "put", "--server", s.url).ends(t, terminal.ExitRefused, "blob_quota") // above the quota
	execute(t, "1234567890", "blob", "put", "--server", s.url).ends(t, terminal.ExitOK)                     // at the quota
	testkit.Equal(t, len(testkit.Must(os.ReadDir(filepath.Join(blobs, "blobs", "sha256")))(t)), 1)
	none := serving(t, t.TempDir(), "--blobs", "none")
	execute(t, "x", "blob", "put", "--server", none.url).ends(t, terminal.ExitRefused, "no_blobs")
	for _, args := range [][]string{{"--blobs-collect", "1s"}, {"--blob-quota", "-1"}} {
		execute(t, "", append([]string{"serve", "--data", t.TempDir(), "--init"}, args...)...).ends(t, terminal.ExitUsage)
	}
	// Two servers cannot use the same blobs.
	execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init", "--blobs", blobs).ends(t, terminal.ExitDataInUse)
}
