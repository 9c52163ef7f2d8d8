package api

import "sync"

const (
	// maxStreamRequests bounds the requests of one stream that are under way or whose answers are not written yet.
	maxStreamRequests = 256
	// maxStreamBytes bounds the bytes of their messages. One message may exceed it.
	maxStreamBytes = maxBodyBytes
)

// requestWindow bounds the requests of a stream that are under way. While it is full, the stream reads no messages, so
// the client's connection fills up and the client has to wait.
type requestWindow struct {
	mu      sync.Mutex
	changed sync.Cond
	count   int
	bytes   int
	closing bool
}

func (w *requestWindow) init() { w.changed.L = &w.mu }

// begin waits for room for a request. It reports false if the stream accepts no more requests.
func (w *requestWindow) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.isFull() && !w.closing {
		w.changed.Wait()
	}
	if w.closing {
		return false
	}
	w.count++
	return true
}

// hold counts the bytes of a message, and release stops to.
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
	w.count -= n
	w.changed.Broadcast()
}

// isFull lets a single message of any length through.
func (w *requestWindow) isFull() bool {
	return w.count >= maxStreamRequests || w.count > 0 && w.bytes >= maxStreamBytes
}

// drain refuses requests from now on, and waits until none is under way.
func (w *requestWindow) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	w.changed.Broadcast()
	for w.count > 0 {
		w.changed.Wait()
	}
}
