package ingest

import (
	"slices"
	"sync"
)

// silences are the times at which runners proved silent: a lease had ended and nobody had tickled it, or the runner was
// declared lost. What a connection of such a runner asked for before counts for nothing: its parked claims end without
// jobs, and a stream gets no more before its client shows life. Otherwise each of them would cost another job an attempt.
//
// They are kept in memory only: after a restart no connection is left.
type silences struct {
	mu      sync.RWMutex
	last    uint64                     // number of the last silence
	base    uint64                     // of the last one that runners has forgotten
	runners map[string]uint64          // number of the last silence of a runner
	parked  map[string][]chan struct{} // closed by the next silence of a runner
}

// maxSilences bounds silences.runners. When there are more, all are forgotten, and every runner must show life once.
const maxSilences = 10_000

func newSilences() *silences {
	return &silences{runners: map[string]uint64{}, parked: map[string][]chan struct{}{}}
}

// of returns the number of a runner's last silence. It changes with each one.
func (s *silences) of(runner string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return max(s.runners[runner], s.base)
}

// note notes that runners proved silent.
func (s *silences) note(runners []string) {
	if len(runners) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range runners {
		s.last++
		if len(s.runners) >= maxSilences {
			clear(s.runners)
			s.base = s.last
		}
		s.runners[r] = s.last
		for _, c := range s.parked[r] {
			close(c)
		}
		delete(s.parked, r)
	}
}

// watch returns a channel that is closed by the next silence of a runner after the one with a number. The caller must call
// stop.
func (s *silences) watch(runner string, after uint64) (silent <-chan struct{}, stop func()) {
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if max(s.runners[runner], s.base) != after {
		close(c)
		return c, func() {}
	}
	s.parked[runner] = append(s.parked[runner], c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		list := s.parked[runner]
		if i := slices.Index(list, c); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		if s.parked[runner] = list; len(list) == 0 {
			delete(s.parked, runner)
		}
	}
}

// Silence returns a number that changes whenever a runner proves silent: when a lease of it has ended and nobody had tickled
// it, or it was declared lost. A connection whose client was heard of after it had read the number may be trusted until the
// number changes.
func (e *Engine) Silence(runner string) uint64 { return e.silences.of(runner) }

// WhenLost sets what is called when a runner is declared lost, before its jobs are returned. It ends the connections of the
// runner, and returns a channel that is closed when what they held has been returned. It must not wait.
func (e *Engine) WhenLost(end func(runner string) (returned <-chan struct{})) {
	e.endConnections.Store(&end)
}
