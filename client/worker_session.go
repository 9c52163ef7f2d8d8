package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// endSessionIn bounds the request that ends a Worker's session. Without it the server forgets the session after a
	// day.
	endSessionIn = time.Second
	// withoutSession is how long a Worker works without a session when the server has no room for one.
	withoutSession = time.Minute
)

// workerSession is the Session of a Worker. Its first request opens it; when the server has forgotten it, the next
// request opens another. While the server has no room for one, requests have no numbers: claims and reports must go on,
// and their claims fence them. Then a claim whose answer was lost is made again, and the jobs that nobody got return to
// their queues when their lease ends.
type workerSession struct {
	runner  string
	opening chan struct{}           // capacity 1: full while one is opened
	current atomic.Pointer[Session] // nil before the first
	refused time.Time               // when the server had no room for one; guarded by opening
}

// held is a number that occupies a slot of the session in.
type held struct {
	Number
	in *Session
}

func newWorkerSession(runner string) *workerSession {
	return &workerSession{runner: runner, opening: make(chan struct{}, 1)}
}

// take returns a number for a new request, once a slot is free; nil, when the server has no room for a session. c opens
// the session if there is none.
func (s *workerSession) take(ctx context.Context, c *Client) (*held, error) {
	in, err := s.open(ctx, c, nil)
	if err != nil || in == nil {
		return nil, err
	}
	n, err := in.Take(ctx)
	if err != nil {
		return nil, err
	}
	return &held{n, in}, nil
}

// give frees the slot of a request that was answered or given up.
func (s *workerSession) give(n *held) {
	if n != nil && n.in != nil {
		n.in.Answered(n.Number)
	}
}

// renumber replaces n, whose session the server has forgotten, by a number of another session, or by none.
func (s *workerSession) renumber(ctx context.Context, c *Client, n *held) error {
	in, err := s.open(ctx, c, n.in)
	if err != nil {
		return err
	}
	var other held
	if in != nil {
		if other.Number, err = in.Take(ctx); err != nil {
			return err
		}
		other.in = in
	}
	s.give(n)
	*n = other
	return nil
}

// open returns the current session. It opens one if there is none, or if the current one is forgotten. It returns nil
// when the server has no room for one.
func (s *workerSession) open(ctx context.Context, c *Client, forgotten *Session) (*Session, error) {
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.opening }()
	if in := s.current.Load(); in != nil && in != forgotten {
		return in, nil
	}
	if time.Since(s.refused) < withoutSession {
		return nil, nil
	}
	in, err := c.single(c.o.Timeout).OpenSession(ctx, s.runner)
	var full *Error
	switch {
	case err == nil:
	case errors.As(err, &full) && full.Code == "too_many_sessions":
		c.o.Logger.Warn("the server has no room for a session; the worker continues without one", "for", withoutSession, "error", err)
		s.refused = time.Now()
		return nil, nil
	default: // it starts, say
		if in, err = c.OpenSession(ctx, s.runner); err != nil {
			return nil, err
		}
	}
	s.current.Store(in)
	return in, nil
}

// end ends the session, if one was opened.
func (s *workerSession) end(ctx context.Context) error {
	in := s.current.Load()
	if in == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endSessionIn)
	defer cancel()
	return in.End(ctx)
}

// do makes a request under a number of the session. When the server has forgotten the session, it makes the request
// again in another one. The server cannot know then that it is a repeat, so that only requests that are safe to repeat
// may be made here.
func (s *workerSession) do(ctx context.Context, c *Client, r request) (answer, error) {
	if r.number == nil {
		n, err := s.take(ctx, c)
		if err != nil {
			return answer{}, err
		}
		if n == nil {
			return c.repeat(ctx, r)
		}
		defer s.give(n)
		r.number = n
	}
	for {
		a, err := c.repeat(ctx, r)
		if !errors.Is(err, ErrSessionNotFound) {
			return a, err
		}
		if err := s.renumber(ctx, c, r.number); err != nil {
			return answer{}, err
		}
	}
}
