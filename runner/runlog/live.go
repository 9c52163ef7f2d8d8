package runlog

import (
	"context"
	"sync"
	"time"
)

const (
	liveBytes   = 256 << 10              // most bytes that wait; the oldest are dropped
	liveEvery   = 200 * time.Millisecond // between two parts
	liveTimeout = 5 * time.Second        // to send a part
	livePause   = 10 * time.Second       // after an error
)

// live sends a run's output to Logs, as much of it as Logs can take in time.
type live struct {
	to             Logs
	jobID, claimID string
	changed        chan struct{} // capacity 1
	ended          chan struct{} // closed after the last add

	mu      sync.Mutex
	waiting []byte
	offset  int64 // position of waiting in the log
}

func newLive(to Logs, jobID, claimID string) *live {
	return &live{to: to, jobID: jobID, claimID: claimID, changed: make(chan struct{}, 1), ended: make(chan struct{})}
}

// add adds a part of the log. It does not block.
func (l *live) add(offset int64, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) > liveBytes {
		offset += int64(len(p) - liveBytes)
		p = p[len(p)-liveBytes:]
	}
	if drop := len(l.waiting) + len(p) - liveBytes; drop > 0 {
		l.waiting = append(l.waiting[:0], l.waiting[drop:]...)
	}
	l.waiting = append(l.waiting, p...)
	l.offset = offset + int64(len(p)) - int64(len(l.waiting))
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// end must be called after the last add. run then sends the rest and returns.
func (l *live) end() { close(l.ended) }

// run sends parts until end is called or ctx ends.
func (l *live) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ended:
			l.send(ctx)
			return
		case <-l.changed:
		}
		pause := liveEvery
		if !l.send(ctx) {
			pause = livePause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-l.ended:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// send sends the waiting text. It returns false after an error, which loses the text.
func (l *live) send(ctx context.Context) bool {
	l.mu.Lock()
	p, offset := l.waiting, l.offset
	l.waiting = nil
	l.mu.Unlock()
	if len(p) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	return l.to.Append(ctx, l.jobID, l.claimID, offset, p) == nil
}
