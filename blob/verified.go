package blob

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// verifiedFor is how long a verified file is trusted. Within it the file is mostly read from memory anyway.
	verifiedFor = 10 * time.Minute
	// maxVerified bounds the memory of the list, to about 200 KB.
	maxVerified = 1024
)

// fileID changes whenever the file changes, or another one takes its name.
type fileID struct {
	address      Address
	inode        uint64
	size         int64
	mtime, ctime unix.Timespec
}

// verified remembers which files were verified a short while ago, so that reading a blob in many ranges verifies it
// once. Times are those of the process and not of the wall clock.
type verified struct {
	mu      sync.Mutex // guards the fields below
	at      map[fileID]time.Time
	running map[fileID]chan struct{}
}

func (v *verified) init() {
	v.at, v.running = map[fileID]time.Time{}, map[fileID]chan struct{}{}
}

// once calls verify, unless the file was verified recently. While one goroutine verifies a file, others wait for it
// rather than read the file as well.
func (v *verified) once(ctx context.Context, id fileID, verify func() error) error {
	for {
		v.mu.Lock()
		if at, ok := v.at[id]; ok && time.Since(at) < verifiedFor {
			v.mu.Unlock()
			return nil
		}
		other, busy := v.running[id]
		if !busy {
			break
		}
		v.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan struct{})
	v.running[id] = done
	v.mu.Unlock()
	err := verify()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.running, id)
	close(done)
	if err == nil {
		v.remember(id)
	}
	return err
}

// remember adds a file, and removes others if there are too many. The caller holds the mutex.
func (v *verified) remember(id fileID) {
	for other := range v.at {
		if len(v.at) < maxVerified {
			break
		}
		delete(v.at, other) // any one: a file that is still read is verified again
	}
	v.at[id] = time.Now()
}
