package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
)

const (
	// endSessionIn bounds the request that ends a Worker's session. If it fails, the server deletes the session after a
	// day.
	endSessionIn = time.Second
	// withoutSession is how long a Worker works without a session if the server lacks room for one.
	withoutSession = time.Minute
)

// session is the Session of a Worker. The first request opens it. If the server has deleted it, the next request
// opens another.
//
// While the server lacks room for a session, requests are sent without numbers, so that claims and reports continue.
// Reports are still safe, since they name their claim. But if the answer to a claim is lost, the claim is sent again
// and gets other jobs. The jobs of the lost answer return to their queues when their lease ends.
type session struct {
	runner  string
	logger  *slog.Logger
	opening chan struct{}                  // capacity 1; full while a session is opened
	current atomic.Pointer[client.Session] // nil before the first is open
	refused time.Time                      // when the server refused a session for lack of room; guarded by opening
}

// numbered is a request of a session. It occupies a slot from the first call until end.
type numbered struct {
	s      *session
	in     *client.Session // nil: the request has no number
	number client.Number
}

func newSession(runner string, logger *slog.Logger) *session {
	return &session{runner: runner, logger: logger, opening: make(chan struct{}, 1)}
}

// begin returns a new request as soon as a slot is free. c opens the session if there is none.
func (s *session) begin(ctx context.Context, c *client.Client) (*numbered, error) {
	n := &numbered{s: s}
	return n, n.take(ctx, c)
}

// take gives the request a number of the current session, or of another if the server has deleted n.in. It gives none
// if the server lacks room for a session.
func (n *numbered) take(ctx context.Context, c *client.Client) error {
	in, err := n.s.open(ctx, c, n.in)
	if err != nil {
		return err
	}
	var number client.Number
	if in != nil {
		if number, err = in.Take(ctx); err != nil {
			return err
		}
	}
	n.end()
	n.in, n.number = in, number
	return nil
}

// end frees the slot of a request that was answered or given up.
func (n *numbered) end() {
	if n.in != nil {
		n.in.Answered(n.number)
		n.in = nil
	}
}

// send calls call with a client that gives its request the number. If the server has deleted the session, send calls it
// again with a number of a new session. The server then does not recognize the repeat, so call must make a request that
// is safe to repeat.
func (n *numbered) send(ctx context.Context, c *client.Client, call func(*client.Client) error) error {
	for {
		with := c
		if n.in != nil {
			with = c.Numbered(n.number)
		}
		err := call(with)
		if !errors.Is(err, client.ErrSessionNotFound) {
			return err
		}
		if err := n.take(ctx, c); err != nil {
			return err
		}
	}
}

// send makes one request with a number of the session.
func (s *session) send(ctx context.Context, c *client.Client, call func(*client.Client) error) error {
	n, err := s.begin(ctx, c)
	if err != nil {
		return err
	}
	defer n.end()
	return n.send(ctx, c, call)
}

// open returns the current session. It opens another if there is none, or if the current one is forgotten. It returns
// nil if the server lacks room for a session.
func (s *session) open(ctx context.Context, c *client.Client, forgotten *client.Session) (*client.Session, error) {
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
	in, err := c.With(func(o *client.Options) { o.RetryFor = -1 }).OpenSession(ctx, s.runner)
	var full *client.Error
	switch {
	case err == nil:
	case errors.As(err, &full) && full.Code == "too_many_sessions":
		s.logger.Warn("the server has no room for a session; the worker continues without one", "for", withoutSession, "error", err)
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
func (s *session) end(ctx context.Context) error {
	in := s.current.Load()
	if in == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endSessionIn)
	defer cancel()
	return in.End(ctx)
}
