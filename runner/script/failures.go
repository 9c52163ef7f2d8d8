package script

import (
	"sync"
	"time"
)

// How long a handler is not started again after it could not be started.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// failures has the handlers that recently could not be started, so that the next claim does not immediately start a
// process again.
type failures struct {
	mu sync.Mutex
	of map[failing]failure
}

type failing struct{ client, handler string }

type failure struct {
	text    string
	until   time.Time
	backoff time.Duration
}

// last returns why a handler could not be started, and whether it is still too early to try again.
func (f *failures) last(who failing) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.of[who]
	return last.text, ok && time.Now().Before(last.until)
}

// add records that a handler could not be started.
func (f *failures) add(who failing, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for other, last := range f.of {
		if now.Sub(last.until) > maxBackoff {
			delete(f.of, other)
		}
	}
	backoff := min(max(minBackoff, 2*f.of[who].backoff), maxBackoff)
	if f.of == nil {
		f.of = map[failing]failure{}
	}
	f.of[who] = failure{text, now.Add(backoff), backoff}
}

// clear records that a handler works.
func (f *failures) clear(who failing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, who)
}
