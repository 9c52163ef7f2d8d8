package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// session is the identity of a Worker at the server. Its requests have numbers, by which the server knows a repeat and returns the first
// answer, without a row per request as idempotency keys need.
//
// A request occupies a slot of the session until it has been answered or given up, and its number is higher than that of any request
// before it in the slot. The session is opened with its first request, and again when the server has forgotten it.
type session struct {
	c      *Client
	runner string
	room   chan struct{} // as many as there are free slots

	opening chan struct{} // capacity 1: full while it is opened

	mu   sync.Mutex
	id   string // "" before it is opened
	free []int  // slots, the one to use next last: the server keeps a row per slot that was ever used
	last [sessionSlots]uint64
}

const (
	// sessionSlots is how many requests may be under way at once, by the server's limit.
	sessionSlots = 256
	// endSessionIn bounds the request that ends a session. Without it the server forgets the session after a day.
	endSessionIn = time.Second

	headerSession = "Daybook-Session"
	headerSlot    = "Daybook-Session-Slot"
	headerNumber  = "Daybook-Session-Number"
)

// number is that of one request, with its session and slot.
type number struct {
	session string
	slot    int
	n       uint64
}

func newSession(c *Client, runner string) *session {
	s := &session{c: c, runner: runner, room: make(chan struct{}, sessionSlots), opening: make(chan struct{}, 1)}
	for slot := sessionSlots - 1; slot >= 0; slot-- {
		s.free = append(s.free, slot)
		s.room <- struct{}{}
	}
	return s
}

// take returns a number for a new request, once a slot is free. The request is made by c, and so is that which opens the session.
func (s *session) take(ctx context.Context, c *Client) (*number, error) {
	select {
	case <-s.room:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.mu.Unlock()
	n := &number{slot: slot}
	if err := s.renew(ctx, c, n); err != nil {
		s.give(n)
		return nil, err
	}
	return n, nil
}

// give frees the slot of a request that was answered or given up.
func (s *session) give(n *number) {
	s.mu.Lock()
	s.free = append(s.free, n.slot)
	s.mu.Unlock()
	s.room <- struct{}{}
}

// renew gives n a number in the session, which it opens if there is none, or if it is the one that n had before.
func (s *session) renew(ctx context.Context, c *Client, n *number) error {
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.opening }()
	s.mu.Lock()
	known := s.id != "" && s.id != n.session
	s.mu.Unlock()
	id := ""
	if !known {
		r, err := post("/sessions", struct {
			RunnerID string `json:"runner_id"`
		}{s.runner}, true) // one that is opened in vain is forgotten after a day
		if err != nil {
			return err
		}
		a, err := c.repeat(ctx, r)
		if err != nil {
			return err
		}
		var doc struct {
			ID string `json:"session_id"`
		}
		if err := decode(a, &doc); err != nil {
			return err
		}
		id = doc.ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known {
		s.id = id
		clear(s.last[:])
	}
	s.last[n.slot]++
	n.session, n.n = s.id, s.last[n.slot]
	return nil
}

// end ends the session, if it was opened.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	if id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endSessionIn)
	defer cancel()
	_, err := s.c.once(ctx, request{method: http.MethodDelete, path: "/sessions/" + id, repeatable: true})
	return err
}

// numbered makes a request under a number of the session. If the server has forgotten the session it is made again in another one; what
// became of it before is then unknown to the server, so that only what is safe to repeat may be numbered.
func (s *session) numbered(ctx context.Context, c *Client, r request) (answer, error) {
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
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != "session_not_found" {
			return a, err
		}
		if err := s.renew(ctx, c, r.number); err != nil {
			return answer{}, err
		}
	}
}

// set writes the headers of a request.
func (n *number) set(h http.Header) {
	h.Set(headerSession, n.session)
	h.Set(headerSlot, strconv.Itoa(n.slot))
	h.Set(headerNumber, strconv.FormatUint(n.n, 10))
}
