package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// endSessionIn bounds the request that ends a Worker's session. If it fails, the server deletes the session after a
	// day.
	endSessionIn = time.Second
	// withoutSession is how long a Worker works without a session if the server lacks room for one.
	withoutSession = time.Minute
)

// workerSession is the Session of a Worker. The first request opens it. If the server has deleted it, the next request
// opens another.
//
// While the server lacks room for a session, requests are sent without numbers, so that claims and reports continue.
// Reports are still safe, since they name their claim. But if the answer to a claim is lost, the claim is sent again
// and gets other jobs. The jobs of the lost answer return to their queues when their lease ends.
type workerSession struct {
	runner  string
	opening chan struct{}           // capacity 1; full while a session is opened
	current atomic.Pointer[Session] // nil before the first is open
	refused time.Time               // when the server refused a session for lack of room; guarded by opening
}

// held is a number that occupies a slot of a session.
type held struct {
	Number
	in *Session
}

func newWorkerSession(runner string) *workerSession {
	return &workerSession{runner: runner, opening: make(chan struct{}, 1)}
}

// take returns a number for a new request as soon as a slot is free, or nil if the server lacks room for a session. c
// opens the session if there is none.
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

// renumber replaces n, whose session the server has deleted, by a number of another session, or by none.
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

// open returns the current session. It opens another if there is none, or if the current one is forgotten. It returns
// nil if the server lacks room for a session.
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
	default: // for example, the server is starting
		if in, err = c.OpenSession(ctx, s.runner); err != nil {
			return nil, err
		}
	}
	s.current.Store(in)
	return in, nil
}

// end ends the session, if one is open.
func (s *workerSession) end(ctx context.Context) error {
	in := s.current.Load()
	if in == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endSessionIn)
	defer cancel()
	return in.End(ctx)
}

// do sends a request with a number of the session. If the server has deleted the session, do sends the request again in
// a new session. The server then does not recognize the repeat, so only requests that are safe to repeat may use do.
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
