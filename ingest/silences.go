package ingest

import "sync"

// silences are the times at which runners proved silent: a lease ended without a tickle, or the runner was declared lost.
// Earlier requests on the runner's connections then no longer count: its claims end without jobs, and a stream gets no
// more jobs until its client shows life. Otherwise each of them would cost another job an attempt.
//
// They are kept in memory only: after a restart no connection is left.
type silences struct {
	mu      sync.Mutex
	last    uint64                   // number of the last silence
	base    uint64                   // number of the last silence that runners has forgotten
	runners map[string]uint64        // number of the last silence of a runner
	claims  map[string]*runnerClaims // the claims that began after that silence
}

// maxSilences bounds silences.runners. Past it, all are forgotten, and every runner must show life once. Beyond this
// number of entries, silences.claims drops the entry of a runner when its last claim is answered.
const maxSilences = 10_000

// runnerClaims are unanswered claims of a runner. silences.mu guards the fields.
type runnerClaims struct {
	in         *silences
	runner     string
	unanswered int           // plus 1 for the claims before the last silence, if some of these are unanswered
	silent     chan struct{} // closed when the runner proves silent
	answered   chan struct{} // closed when, after that, unanswered is 0; nil before
	next       *runnerClaims // the later claims, which count these as one; nil if unanswered was 0
}

func newSilences() *silences {
	return &silences{runners: map[string]uint64{}, claims: map[string]*runnerClaims{}}
}

// number returns the number of a runner's last silence. It changes with each silence.
func (s *silences) number(runner string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.runners[runner], s.base)
}

// note records that a runner proved silent. It returns a channel that is closed when all earlier claims of the runner are
// answered.
func (s *silences) note(runner string) (answered <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	if len(s.runners) >= maxSilences {
		clear(s.runners)
		s.base = s.last
	}
	s.runners[runner] = s.last
	c := s.of(runner)
	delete(s.claims, runner)
	close(c.silent)
	c.answered = make(chan struct{})
	if c.unanswered == 0 {
		close(c.answered)
	} else { // the next silence must wait for these claims, too
		c.next = s.of(runner)
		c.next.unanswered++
	}
	return c.answered
}

// begin counts a claim of a runner until it is answered. The caller must then call answer.
func (s *silences) begin(runner string) *runnerClaims {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(runner)
	c.unanswered++
	return c
}

// hold counts an unanswered claim once more. The caller must then call answer once more.
func (s *silences) hold(c *runnerClaims) {
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.unanswered++
}

// of returns the claims of a runner since its last silence.
func (s *silences) of(runner string) *runnerClaims {
	c := s.claims[runner]
	if c == nil {
		c = &runnerClaims{in: s, runner: runner, silent: make(chan struct{})}
		s.claims[runner] = c
	}
	return c
}

// answer records that one of the claims is answered, and that its jobs are released if the answer does not name them.
func (s *silences) answer(c *runnerClaims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; c != nil; c = c.next {
		c.unanswered--
		switch {
		case c.unanswered > 0:
			return
		case c.answered != nil:
			close(c.answered)
		case len(s.claims) > maxSilences:
			delete(s.claims, c.runner)
		}
	}
}

// isSilent reports whether the runner has proved silent since it made the claims.
func (c *runnerClaims) isSilent() bool { return isClosed(c.silent) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Silence returns a number that changes whenever a runner proves silent: a lease ended without a tickle, or the runner
// was declared lost. A connection reads the number, and then waits for a sign of life from its client. From then on, it
// may hand jobs to the client until the number changes.
func (e *Engine) Silence(runner string) uint64 { return e.silences.number(runner) }

// WhenLost sets the function that is called when a runner is declared lost, before its jobs are returned. The function
// ends the connections of the runner, and returns a channel that is closed when their jobs have been returned. It must
// not wait.
func (e *Engine) WhenLost(end func(runner string) (returned <-chan struct{})) {
	e.endConnections.Store(&end)
}
