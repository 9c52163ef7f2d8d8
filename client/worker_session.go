package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// endSessionIn bounds the request that ends a Worker's session. Without it the server forgets the session after a day.
const endSessionIn = time.Second

// workerSession is the Session of a Worker. Its first request opens it; when the server has forgotten it, the next request opens another.
type workerSession struct {
	runner  string
	opening chan struct{}           // capacity 1: full while one is opened
	current atomic.Pointer[Session] // nil before the first
}

// held is a number that occupies a slot of the session in.
type held struct {
	Number
	in *Session
}

func newWorkerSession(runner string) *workerSession {
	return &workerSession{runner: runner, opening: make(chan struct{}, 1)}
}

// take returns a number for a new request, once a slot is free. c opens the session if there is none.
func (s *workerSession) take(ctx context.Context, c *Client) (*held, error) {
	in, err := s.open(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	n, err := in.Take(ctx)
	if err != nil {
		return nil, err
	}
	return &held{n, in}, nil
}

// give frees the slot of a request that was answered or given up.
func (s *workerSession) give(n *held) { n.in.Answered(n.Number) }

// move replaces n, whose session the server has forgotten, by a number of another session.
func (s *workerSession) move(ctx context.Context, c *Client, n *held) error {
	in, err := s.open(ctx, c, n.in)
	if err != nil {
		return err
	}
	other, err := in.Take(ctx)
	if err != nil {
		return err
	}
	s.give(n)
	*n = held{other, in}
	return nil
}

// open returns the current session. It opens one if there is none, or if the current one is forgotten.
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
	in, err := c.OpenSession(ctx, s.runner)
	if err != nil {
		return nil, err
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

// do makes a request under a number of the session. When the server has forgotten the session, it makes the request again in another one.
// The server cannot know then that it is a repeat, so that only requests that are safe to repeat may be made here.
func (s *workerSession) do(ctx context.Context, c *Client, r request) (answer, error) {
	if r.number == nil {
		n, err := s.take(ctx, c)
		if err != nil {
			return answer{}, err
		}
		defer s.give(n)
		r.number = n
	}
	for {
		a, err := c.repeat(ctx, r)
		if !errors.Is(err, ErrSessionNotFound) {
			return a, err
		}
		if err := s.move(ctx, c, r.number); err != nil {
			return answer{}, err
		}
	}
}
