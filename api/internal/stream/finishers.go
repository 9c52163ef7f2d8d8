package stream

import "sync/atomic"

// maxIdleFinishers bounds the finishers that wait for a request. Each has a stack of about 8 KiB.
const maxIdleFinishers = 256

// finishers are the goroutines that wait for the ends of requests in streams. A new goroutine has a small stack, and
// growing it costs about as much as writing an answer. So a goroutine that has answered a request waits for the next
// one.
type finishers struct {
	requests chan func()
	idle     atomic.Int32
	most     int32           // of idle
	stopped  <-chan struct{} // when it is closed, all waits end
}

func (l *finishers) init(stopped <-chan struct{}) {
	l.requests, l.most, l.stopped = make(chan func()), maxIdleFinishers, stopped
}

// run calls f in a goroutine that waits for a request, or in a new goroutine.
func (l *finishers) run(f func()) {
	select {
	case l.requests <- f:
	default:
		go l.finish(f)
	}
}

// finish calls f, and then the function of each later request that it gets.
func (l *finishers) finish(f func()) {
	for f != nil {
		f()
		f = l.next()
	}
}

// next waits for a request. It returns nil if the goroutine must end.
func (l *finishers) next() (f func()) {
	if l.idle.Add(1) <= l.most {
		select {
		case f = <-l.requests:
		case <-l.stopped:
		}
	}
	l.idle.Add(-1)
	return f
}
