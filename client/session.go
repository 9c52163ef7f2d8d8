package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// MaxSlots is how many requests of a session may be outstanding. It is a limit of the server.
const MaxSlots = 256

// Session is a session of a runner or producer. Its creates, claims and completions have numbers. The server recognizes
// a repeated request by its number, carries it out once, and gives a repeat the first answer, as with an idempotency
// key. A key costs the server one row for a day. A session costs it one row, and one for each slot that was ever used.
//
// Each request occupies one slot of the session until Answered is called:
//
//	n, err := session.Take(ctx)
//	if err != nil {
//		return err
//	}
//	defer session.Answered(n)
//	claim, err := c.Numbered(n).Claim(ctx, q)
//
// Handle the error of a numbered request as follows:
//
//   - ErrUnknown: the answer was lost, and the call has already repeated the request for Options.RetryFor. To repeat it
//     for longer, make the same call with the same arguments and the same Number before calling Answered. The server
//     returns the first answer if it has carried the request out, and otherwise carries it out now. A program that
//     gives up also calls Answered; it then remains unknown whether the request was carried out.
//   - ErrSessionNotFound: the session was ended, or the server carried out no request of it for a day. Open another
//     session, and make the request there with a new number. If an answer to the request was lost before, the error is
//     ErrUnknown as well. Then a repeated create may create its jobs twice, and the jobs of a lost claim return to
//     their queues when their lease ends.
//   - ErrNumberPassed: Answered was called too early, and the server has carried out a later request in the slot. It is
//     unknown whether this request was carried out.
//   - ErrKeyReused: the number belongs to another request. The program used one Number for two calls.
//   - All other errors are answers of the server.
//
// Any goroutine may call its methods.
type Session struct {
	ID       string
	RunnerID string

	c     *Client
	taken chan struct{} // holds one element for each slot that is taken

	mu      sync.Mutex // guards the fields below
	busy    [MaxSlots]bool
	numbers [MaxSlots]uint64 // the last number of each slot
}

// Number identifies a request of a session. The zero Number means none.
type Number struct {
	Session string
	Slot    int
	Number  uint64
}

// SessionDocument is the document of a session. Times are unix ms.
type SessionDocument struct {
	ID        string        `json:"session_id"`
	RunnerID  string        `json:"runner_id"`
	CreatedAt int64         `json:"created_at"`
	UsedAt    int64         `json:"used_at"`    // when the session was opened, or the server last carried out a request of it
	ExpiresAt int64         `json:"expires_at"` // when the server deletes the session, unless it carries out a request of it before
	Slots     []SessionSlot `json:"slots"`      // the slots that were ever used
}

// SessionSlot is a slot, and the number of its last request.
type SessionSlot struct {
	Slot   int    `json:"slot"`
	Number uint64 `json:"number"`
}

// OpenSession opens a session for a runner or producer. runnerID is shown to people and may be empty. The error is
// ErrOverloaded if the server lacks room for another session. OpenSession is repeated when the answer is lost; the
// server deletes the session of the lost answer after a day.
func (c *Client) OpenSession(ctx context.Context, runnerID string) (*Session, error) {
	a, err := c.conn.Do(ctx, post("/sessions", struct {
		RunnerID string `json:"runner_id,omitzero"`
	}{runnerID}, transport.Repeatable))
	if err != nil {
		return nil, err
	}
	var doc SessionDocument
	if err := transport.Decode(a, &doc); err != nil {
		return nil, err
	}
	if doc.ID == "" {
		return nil, a.Unreadable(errors.New("a session without an id"))
	}
	return &Session{ID: doc.ID, RunnerID: runnerID, c: c, taken: make(chan struct{}, MaxSlots)}, nil
}

// Session returns the document of a session. The error is ErrSessionNotFound if there is no such session.
func (c *Client) Session(ctx context.Context, id string) (SessionDocument, error) {
	return transport.Ask[SessionDocument](ctx, &c.conn, about(http.MethodGet, "/sessions/", id, ""))
}

// End ends the session, so that the server does not keep it for a day. No request of the session may be outstanding.
// Its claims keep their jobs. Ending a session again is no error.
func (s *Session) End(ctx context.Context) error {
	err := s.c.conn.Tell(ctx, about(http.MethodDelete, "/sessions/", s.ID, ""))
	if errors.Is(err, problem.ErrSessionNotFound) {
		return nil
	}
	return err
}

// Take returns a number for the next request, in a free slot. It waits while all slots are taken. The caller must call
// Answered with the number.
func (s *Session) Take(ctx context.Context) (Number, error) {
	select {
	case s.taken <- struct{}{}:
	case <-ctx.Done():
		return Number{}, fmt.Errorf("wait for a slot of session %s: %w", s.ID, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := 0
	for s.busy[slot] { // the lowest free slot, so that the server keeps few
		slot++
	}
	s.busy[slot] = true
	s.numbers[slot]++
	return Number{s.ID, slot, s.numbers[slot]}, nil
}

// Answered frees the slot of a number, after the request was answered or given up. Nobody may repeat the request then.
func (s *Session) Answered(n Number) {
	s.mu.Lock()
	if n.Session != s.ID || !s.busy[n.Slot] || s.numbers[n.Slot] != n.Number {
		s.mu.Unlock()
		panic(fmt.Sprintf("client: Answered(number %d of slot %d of session %s): session %s has no such request under way", n.Number, n.Slot, n.Session, s.ID))
	}
	s.busy[n.Slot] = false
	s.mu.Unlock()
	<-s.taken
}

// Numbered returns a client whose next create, claim, completion or release has the number n and is repeated when its
// answer is lost. Use it for one call, or for the same call again. Its other calls have no number. The call must not
// have a Key.
func (c *Client) Numbered(n Number) *Client {
	p := *c
	p.own = transport.Number(n)
	return &p
}

// numbered sets the number of the client, if it has one, in a request.
func (c *Client) numbered(r transport.Request) transport.Request {
	if c.own != (transport.Number{}) {
		r.Number, r.Repeat = c.own, transport.Repeatable
	}
	return r
}
