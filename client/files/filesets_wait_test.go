package files

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestWaitForFiles: the time for the answer grows with the number of files.
func TestWaitForFiles(t *testing.T) {
	for files, want := range map[int]time.Duration{0: 5 * time.Minute, 1000: 5*time.Minute + 10*time.Second, fileset.MaxFiles: 5*time.Minute + 1000*time.Second} {
		testkit.Equal(t, waitForFiles(files), want, files, "files")
	}
}
