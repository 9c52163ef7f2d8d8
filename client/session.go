package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// MaxSlots is how many requests of a session may be under way at once, by the server's limit.
const MaxSlots = 256

const (
	headerSession = "Daybook-Session"
	headerSlot    = "Daybook-Session-Slot"
	headerNumber  = "Daybook-Session-Number"
)

// Session is the lasting identity of a runner or producer. Its creates, claims and completions have numbers, by which
// the server carries each of them out once and answers a repeat like the first, as it does with an idempotency key. A
// key costs the server a row for a day; a session costs it a row, and one for each request that it ever had under way
// at the same time.
//
// Each request occupies one of the session's slots while it is under way:
//
//	n, err := session.Take(ctx)
//	if err != nil {
//		return err
//	}
//	defer session.Answered(n)
//	claim, err := c.Numbered(n).Claim(ctx, q)
//
// What to do with errors of a numbered request:
//
//   - ErrUnknown: the answer was lost, and the call has already repeated the request for Options.RetryFor. To repeat it
//     for longer, make the same call, with the same arguments and the same Number, before Answered. The server returns
//     the first answer if it carried the request out, and otherwise carries it out now. A call that is given up may
//     call Answered too: what became of it stays unknown.
//   - ErrSessionNotFound: the session was ended, or carried out no request for a day. Open another one, and make the
//     request there with a new number. If an answer to the request was lost before, the error is ErrUnknown as well:
//     what became of it stays unknown, so a create may make its jobs twice, and what a claim handed out returns when
//     its lease ends.
//   - ErrNumberPassed: Answered was called too early, and the slot has carried out a later request. What became of this
//     one is unknown.
//   - ErrKeyReused: the number belongs to another request. One Number was used for two calls.
//   - Everything else is the answer.
//
// Its methods may be called from any goroutine.
type Session struct {
	ID       string
	RunnerID string

	c     *Client
	taken chan struct{} // one for each slot that is taken

	mu      sync.Mutex
	busy    [MaxSlots]bool
	numbers [MaxSlots]uint64 // the last of each slot
}

// Number is what a request of a session is known by. The zero Number is none.
type Number struct {
	Session string
	Slot    int
	Number  uint64
}

// set writes the headers of a request.
func (n *Number) set(h http.Header) {
	h.Set(headerSession, n.Session)
	h.Set(headerSlot, strconv.Itoa(n.Slot))
	h.Set(headerNumber, strconv.FormatUint(n.Number, 10))
}

// SessionDocument is what the server knows of a session. Times are unix ms.
type SessionDocument struct {
	ID        string        `json:"session_id"`
	RunnerID  string        `json:"runner_id"`
	CreatedAt int64         `json:"created_at"`
	UsedAt    int64         `json:"used_at"`    // when it was opened, or carried out a request last
	ExpiresAt int64         `json:"expires_at"` // when it is forgotten unless it carries out a request before
	Slots     []SessionSlot `json:"slots"`      // those that were used
}

// SessionSlot is a slot, and the number of its last request.
type SessionSlot struct {
	Slot   int    `json:"slot"`
	Number uint64 `json:"number"`
}

// OpenSession opens a session for a runner or producer; runnerID is shown to people and may be empty. ErrOverloaded
// when as many are open as may. Repeated when the answer is lost: the session that the lost answer named is forgotten
// by itself.
func (c *Client) OpenSession(ctx context.Context, runnerID string) (*Session, error) {
	r, err := post("/sessions", struct {
		RunnerID string `json:"runner_id,omitzero"`
	}{runnerID}, repeatable)
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	var doc SessionDocument
	if err := decode(a, &doc); err != nil {
		return nil, err
	}
	if doc.ID == "" {
		return nil, a.unreadable(errors.New("a session without an id"))
	}
	return &Session{ID: doc.ID, RunnerID: runnerID, c: c, taken: make(chan struct{}, MaxSlots)}, nil
}

// Session returns the document of a session; ErrSessionNotFound when there is none.
func (c *Client) Session(ctx context.Context, id string) (doc SessionDocument, err error) {
	path, err := idPath("/sessions/", id, "")
	if err != nil {
		return doc, err
	}
	a, err := c.do(ctx, get(path))
	if err != nil {
		return doc, err
	}
	return doc, decode(a, &doc)
}

// End ends the session, so that it does not remain for a day. No request of it may be under way. What its claims hold
// stays theirs. One that has ended already is no error.
func (s *Session) End(ctx context.Context) error {
	path, err := idPath("/sessions/", s.ID, "")
	if err != nil {
		return err
	}
	_, err = s.c.do(ctx, request{method: http.MethodDelete, path: path, repeat: repeatable})
	if errors.Is(err, ErrSessionNotFound) {
		return nil
	}
	return err
}

// Take returns the number of the next request, in a slot that no other request occupies, and waits for one while all
// are occupied. Answered must be called with it.
func (s *Session) Take(ctx context.Context) (Number, error) {
	select {
	case s.taken <- struct{}{}:
	case <-ctx.Done():
		return Number{}, fmt.Errorf("wait for a slot of session %s: %w", s.ID, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := 0
	for s.busy[slot] { // the lowest one, so that the server keeps few
		slot++
	}
	s.busy[slot] = true
	s.numbers[slot]++
	return Number{s.ID, slot, s.numbers[slot]}, nil
}

// Answered says that nobody will repeat the request of a number: it was answered, or given up. Its slot is free again.
func (s *Session) Answered(n Number) {
	s.mu.Lock()
	if n.Session != s.ID || !s.busy[n.Slot] || s.numbers[n.Slot] != n.Number {
		s.mu.Unlock()
		panic(fmt.Sprintf("client: number %d of slot %d of session %s is not under way in session %s", n.Number, n.Slot, n.Session, s.ID))
	}
	s.busy[n.Slot] = false
	s.mu.Unlock()
	<-s.taken
}

// Numbered returns a client whose next create, claim, completion or release has the number n, and is repeated when its
// answer is lost. It is for one of these calls, or for the same call again; its other calls have no number. Such a call
// must have no Key.
func (c *Client) Numbered(n Number) *Client {
	p := *c
	p.own = &held{Number: n}
	return &p
}

// numbered gives a request the client's own number, where it has one.
func (c *Client) numbered(r request) request {
	if c.own != nil {
		r.number, r.repeat, r.inSession = c.own, repeatable, false
	}
	return r
}
