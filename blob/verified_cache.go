package blob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// verifiedFor is the time for which a verified file is trusted. During it, the file is mostly read from memory
	// anyway.
	verifiedFor = 10 * time.Minute
	// maxVerified bounds the memory of the list, to about 200 KB.
	maxVerified = 1024
	// backgroundFrom is the size from which a verification continues without its reader, who may give up before it
	// ends. A shorter one takes less than a second.
	backgroundFrom = 64 << 20
	// maxBackground is the number of these verifications that run at a time. Each needs 1 MiB of memory and an open
	// file.
	maxBackground = 8
	// unaskedFor is the time that this verification continues after its last reader has gone. A client tries again
	// within seconds.
	unaskedFor = time.Minute
	// verifyPatience is the time that Verify waits for a verification. It is shorter than the time after which clients
	// and proxies usually end a silent connection.
	verifyPatience = 10 * time.Second
)

// verified remembers recently verified versions of blobs (Content.Version), so that reading a blob in many ranges
// verifies it once. It uses the process's monotonic time, not the wall clock.
type verified struct {
	unaskedFor, patience time.Duration // the constants; tests set less
	backgroundFrom       int64
	maxBackground        int

	ending context.Context // of the verifications in the background; done after close
	end    context.CancelFunc
	all    sync.WaitGroup // the verifications in the background

	mu         sync.Mutex // guards the fields below
	at         map[any]time.Time
	running    map[any]*verification
	background int           // number of verifications in the background
	freed      chan struct{} // closed when one of them has ended
}

// verification is a running verification. At most one runs for each file, and all readers share it.
type verification struct {
	ids    []any         // versions. There are several if the blob is renewed during the verification
	cancel func()        // nil: it runs in the goroutine of a reader
	done   chan struct{} // closed when err is set
	err    error
	asking int         // readers that wait for it
	idle   *time.Timer // ends it when no reader has waited for unaskedFor
}

func newVerified() *verified {
	v := &verified{unaskedFor: unaskedFor, patience: verifyPatience, backgroundFrom: backgroundFrom, maxBackground: maxBackground,
		at: map[any]time.Time{}, running: map[any]*verification{}, freed: make(chan struct{})}
	v.ending, v.end = context.WithCancel(context.Background())
	return v
}

// close ends the verifications in the background, and waits for them. None begins later.
func (v *verified) close() {
	v.mu.Lock()
	v.end()
	v.mu.Unlock()
	v.all.Wait()
}

// share verifies a version by calling here, unless it was verified recently. While one goroutine verifies it, other
// goroutines wait for it instead of reading the blob as well. share verifies a long blob in the background, with the
// function that begin returns. If that takes longer than patience, it returns ErrVerifying, unless patience is 0.
func (v *verified) share(ctx context.Context, id any, size int64, patience time.Duration, here func() error, begin func() (func(context.Context) error, error)) error {
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	for {
		v.mu.Lock()
		if at, ok := v.at[id]; ok && time.Since(at) < verifiedFor {
			v.mu.Unlock()
			return nil
		}
		r := v.running[id]
		if r == nil && size < v.backgroundFrom {
			r = v.add(id)
			v.mu.Unlock()
			err := here()
			v.ended(r, err)
			return err
		}
		if r == nil && v.background < v.maxBackground && v.ending.Err() == nil {
			var err error
			if r, err = v.start(id, begin); err != nil {
				v.mu.Unlock()
				return err
			}
		}
		next := v.freed
		if r != nil {
			next = r.done
			r.asks()
		}
		v.mu.Unlock()
		var err error
		select {
		case <-next:
		case <-late:
			err = fmt.Errorf("%w: its %d bytes are read; next step: try again in a few seconds", ErrVerifying, size)
		case <-ctx.Done():
			err = ctx.Err()
		case <-v.ending.Done():
			err = errClosed
		}
		if r != nil {
			v.leaves(r)
		}
		if err != nil {
			return err
		}
		if r != nil && !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, context.DeadlineExceeded) {
			return r.err
		}
	}
}

// add adds a verification. The caller holds the mutex.
func (v *verified) add(id any) *verification {
	r := &verification{ids: []any{id}, done: make(chan struct{})}
	v.running[id] = r
	return r
}

// start begins a verification in the background. The caller holds the mutex.
func (v *verified) start(id any, begin func() (func(context.Context) error, error)) (*verification, error) {
	verify, err := begin()
	if err != nil {
		return nil, err
	}
	r := v.add(id)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(v.ending)
	v.background++
	v.all.Go(func() {
		err := verify(ctx)
		r.cancel()
		v.ended(r, err)
	})
	return r, nil
}

// ended records how a verification has ended.
func (v *verified) ended(r *verification, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range r.ids {
		delete(v.running, id)
		if err == nil {
			v.remember(id, time.Now())
		}
	}
	r.err = err
	close(r.done)
	if r.idle != nil {
		r.idle.Stop()
	}
	if r.cancel != nil {
		v.background--
		close(v.freed)
		v.freed = make(chan struct{})
	}
}

// asks counts a reader who waits. The caller holds the mutex.
func (r *verification) asks() {
	r.asking++
	if r.idle != nil {
		r.idle.Stop()
		r.idle = nil
	}
}

// leaves counts a reader who no longer waits. After the last one, a verification in the background continues for
// unaskedFor.
func (v *verified) leaves(r *verification) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.asking--; r.asking > 0 || r.cancel == nil {
		return
	}
	select {
	case <-r.done:
	default:
		r.idle = time.AfterFunc(v.unaskedFor, r.cancel)
	}
}

// renewed records that only the age of a file was changed, so that its verification stays valid.
func (v *verified) renewed(before, after any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.at[before]; ok {
		delete(v.at, before)
		v.remember(after, at)
	}
	if r := v.running[before]; r != nil && v.running[after] == nil {
		r.ids = append(r.ids, after)
		v.running[after] = r
	}
}

// remember adds a file, and removes other files if there are too many. The caller holds the mutex.
func (v *verified) remember(id any, at time.Time) {
	for other := range v.at {
		if len(v.at) < maxVerified {
			break
		}
		delete(v.at, other) // any one: a file that is still read is verified again
	}
	v.at[id] = at
}
