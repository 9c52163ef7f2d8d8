package blob

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// MinFiles is the smallest Options.MaxFiles: it allows a batch, a few reads and uploads, and the verifications of
	// long blobs.
	MinFiles = 80
	// defaultFiles is the default of Options.MaxFiles. It is half of the usual limit of a process.
	defaultFiles = 512
	// filesPatience is the time that a call waits until other calls have closed their files.
	filesPatience = 5 * time.Second

	readFiles   = 1  // of an open blob, or of a look-up in the SHA-1 table
	uploadFiles = 3  // of a Put or an Append: the upload, a file that gets its name, and the directory
	renewFiles  = 35 // of a renewal of many blobs: files that wait to be synced, and files that are being synced
	batchFiles  = 48 // of a batch: as in renewFiles, and the files of up to ten goroutines that call Add
)

// openFiles bounds the number of files that a store has open. Short accesses to single files and directories do not
// count.
type openFiles struct {
	most     int64
	free     *semaphore.Weighted
	patience time.Duration // filesPatience; tests set less
}

func newOpenFiles(most int) *openFiles {
	n := int64(most - maxBackground) // of the verifications, which wait for their turn elsewhere
	return &openFiles{n, semaphore.NewWeighted(n), filesPatience}
}

// take counts n files, and returns a function that frees them and that may be called once. If other calls do not close
// their files in time, it returns ErrFiles.
func (o *openFiles) take(ctx context.Context, n int64) (free func(), err error) {
	if !o.free.TryAcquire(n) {
		soon, cancel := context.WithTimeout(ctx, o.patience)
		defer cancel()
		if o.free.Acquire(soon, n) != nil {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %d; next step: try again, or raise the limit of the process (ulimit -n)", ErrFiles, o.most)
		}
	}
	return func() { o.free.Release(n) }, nil
}
