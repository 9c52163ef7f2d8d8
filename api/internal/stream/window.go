package stream

import (
	"context"
	"sync"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
)

const (
	// maxStreamRequests bounds the requests of one stream that are outstanding or whose answers are not written yet.
	maxStreamRequests = 256
	// maxStreamBytes bounds the bytes of their messages. One message may exceed it.
	maxStreamBytes = web.MaxBodyBytes
	// An outstanding request, or one with an unread answer, takes about requestBytes in addition to its message and a
	// long answer. A stream may have freeRequests without a share, which the bound on streams covers. It takes shares
	// for requestBlock more at a time.
	requestBytes = 4 << 10
	freeRequests = 4
	requestBlock = 4
)

// requestWindow bounds the outstanding requests of a stream. While it is full, the stream reads no messages, so the
// client's connection fills up and the client has to wait.
type requestWindow struct {
	mu      sync.Mutex
	changed sync.Cond
	count   int
	bytes   int
	closing bool
	idle    time.Time // when the last request ended, or the stream began; only while count is 0

	// Only the goroutine that reads the stream takes memory for more requests. ctx ends its wait.
	ctx    context.Context
	share  web.Share
	paid   int // number of requests that the share covers
	paying bool
}

func (w *requestWindow) init(ctx context.Context, of web.Share) {
	w.changed.L = &w.mu
	w.idle, w.ctx, w.share = time.Now(), ctx, of
}

// begin waits for room for a request. It reports false if the stream accepts no more requests.
func (w *requestWindow) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closing && (w.isFull() || w.count >= freeRequests+w.paid) {
		if w.isFull() {
			w.changed.Wait()
		} else {
			w.pay()
		}
	}
	if w.closing {
		w.repay()
		return false
	}
	w.count++
	return true
}

// pay waits for memory for more requests, or until a request has ended. The caller holds w.mu.
func (w *requestWindow) pay() {
	w.paying = true
	w.mu.Unlock()
	given := w.share.Grow(w.ctx, requestBlock*requestBytes, web.MaxBudgetWait)
	w.mu.Lock()
	w.paying = false
	switch {
	case given:
		w.paid += requestBlock
	case w.ctx.Err() != nil: // the stream ends
		w.closing = true
	}
}

// repay frees the memory for more requests if none is outstanding. The caller holds w.mu.
func (w *requestWindow) repay() {
	if w.count == 0 && w.paid > 0 && !w.paying {
		w.share.Shrink(int64(w.paid) * requestBytes)
		w.paid = 0
	}
}

// idleSince returns the time since which there has been no request, and reports whether there is none now.
func (w *requestWindow) idleSince() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle, w.count == 0 && !w.closing
}

// closeIdle refuses requests from now on, if there has been none since a time that idleSince has returned.
func (w *requestWindow) closeIdle(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > 0 || w.closing || !w.idle.Equal(since) {
		return false
	}
	w.closing = true
	w.changed.Broadcast()
	return true
}

// hold counts the bytes of a message, and release subtracts them again.
func (w *requestWindow) hold(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += bytes
}

func (w *requestWindow) release(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes -= bytes
	w.changed.Broadcast()
}

// end ends n requests.
func (w *requestWindow) end(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count -= n; w.count == 0 {
		w.idle = time.Now()
		w.repay()
	}
	w.changed.Broadcast()
}

// more reports whether more than n requests are outstanding.
func (w *requestWindow) more(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count > n
}

// isFull lets a single message of any length through.
func (w *requestWindow) isFull() bool {
	return w.count >= maxStreamRequests || w.count > 0 && w.bytes >= maxStreamBytes
}

// drain refuses requests from now on, and waits until none is outstanding.
func (w *requestWindow) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	w.changed.Broadcast()
	for w.count > 0 {
		w.changed.Wait()
	}
}
