package files

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestUploadPath: the client finds the path of an upload in the Location, whether the server or a proxy before it wrote
// it.
func TestUploadPath(t *testing.T) {
	for _, c := range []struct{ server, location, path string }{
		{"http://127.0.0.1:1717", "/uploads/u5b0c", "/uploads/u5b0c"},
		{"http://127.0.0.1:1717", "/uploads/u5b0c?client=acme", "/uploads/u5b0c"},
		{"https://queue.example/queue", "/uploads/u5b0c", "/uploads/u5b0c"},
		{"https://queue.example/queue", "/queue/uploads/u5b0c?client=acme", "/uploads/u5b0c"},
		{"https://a:b@queue.example/queue", "https://queue.example/queue/uploads/u5b0c", "/uploads/u5b0c"},
		{"https://queue.example/queue", "/other/uploads/u5b0c", ""},
		{"http://127.0.0.1:1717", "/uploads/", ""},
		{"http://127.0.0.1:1717", "", ""},
	} {
		path, ok := uploadPath(c.server, c.location)
		testkit.Holds(t, ok == (c.path != "") && (!ok || path == c.path), c.location, "of", c.server, path, ok)
	}
}

// TestWaitForFiles: the time for the answer grows with the number of files.
func TestWaitForFiles(t *testing.T) {
	for files, want := range map[int]time.Duration{0: 5 * time.Minute, 1000: 5*time.Minute + 10*time.Second, fileset.MaxFiles: 5*time.Minute + 1000*time.Second} {
		testkit.Equal(t, waitForFiles(files), want, files, "files")
	}
}
