package web

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// Recheck is how long a stream, or a request that waits, sends or receives, may go on after its key was revoked.
const Recheck = time.Second

// waits are the requests that last, and must not go on after their keys were revoked. A request enters them only when it begins to wait
// or to transfer, so that all others cost nothing.
type waits struct {
	mu  sync.Mutex // guards all
	all map[*wait]struct{}
}

type wait struct {
	grant
	end context.CancelCauseFunc // it must not wait
}

// grant is why a request was let in: its credentials stood for a key with one of the roles, or none was needed.
type grant struct {
	credentials Credentials
	roles       job.Roles
	key         *job.Key
}

// grantOf returns the grant of a request that was let in, or false if its route needs no key.
func (s *Server) grantOf(c echo.Context) (g grant, needed bool) {
	r := s.routes[routeKey{c.Request().Method, c.Path()}]
	if s.Authorize == nil || r == nil || r.Access.open {
		return g, false
	}
	return grant{CredentialsOf(c.Request(), r.Access).Clone(), r.Access.roles, job.KeyOf(c.Request().Context())}, true
}

// ended returns the refusal of a request that would not be let in now.
func (s *Server) ended(g *grant) error {
	now, err := s.Authorize(g.credentials, g.roles)
	if err == nil && Replaced(g.key, now) {
		err = &Problem{Status: http.StatusUnauthorized, Code: "key_refused", Detail: "the key of this request is for something else now; repeat the request"}
	}
	return err
}

// Replaced reports whether a key is for something else now than when a request or stream was let in. A rotated key is not. nil: no key
// was, or is, needed.
func Replaced(before, now *job.Key) bool {
	return now != nil && (before == nil || !now.Equal(&before.Scope) || now.RunnerPrefix != before.RunnerPrefix || !now.Rates.Equal(before.Rates))
}

// grantedSince returns the refusal of a request whose body has arrived so slowly that its key may have been revoked meanwhile.
func (s *Server) grantedSince(c echo.Context, began time.Time) error {
	if time.Since(began) < s.SlowBody {
		return nil
	}
	if g, needed := s.grantOf(c); needed {
		return s.ended(&g)
	}
	return nil
}

// WhileGranted calls end with the refusal when EndRefused finds that the key of a request is not good any more. The caller must call
// stop.
func (s *Server) WhileGranted(c echo.Context, end context.CancelCauseFunc) (stop func()) {
	g, needed := s.grantOf(c)
	if !needed {
		return func() {}
	}
	w := &wait{g, end}
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if s.waits.all == nil {
		s.waits.all = map[*wait]struct{}{}
	}
	s.waits.all[w] = struct{}{}
	return func() {
		s.waits.mu.Lock()
		defer s.waits.mu.Unlock()
		delete(s.waits.all, w)
	}
}

// EndRefused ends the requests that last and whose keys are not good any more: a key was revoked or changed or has expired, or the
// first key was made. It does not wait.
func (s *Server) EndRefused() {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	for w := range s.waits.all {
		if err := s.ended(&w.grant); err != nil {
			w.end(err)
		}
	}
}

// Lasts returns how many requests are ended when their keys are revoked.
func (s *Server) Lasts() int {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	return len(s.waits.all)
}

// lasts reports whether a request waits or transfers for as long as its client or a job takes.
func (a *Access) lasts(r *http.Request) bool {
	if len(a.lasting) == 0 {
		return false
	}
	query := r.URL.RawQuery // a name can be written with %
	return a.lasting == always || strings.Contains(query, a.lasting) || strings.Contains(query, "%")
}

// always: each request of a route lasts; see Access.Lasting.
const always = "*"

// Lasting calls handle, which lasts, and ends it when the key of the request is not good any more. If nothing of the answer was sent,
// the answer is the refusal. Otherwise the connection is closed, so that the client does not take the answer for complete.
func (s *Server) Lasting(c echo.Context, handle echo.HandlerFunc) error {
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	l := lasting{ctx: ctx, conn: ConnectionOf(c.Request()), sends: c.Request().Method == http.MethodGet}
	stop := s.WhileGranted(c, func(refusal error) {
		cancel(refusal)
		l.cut()
	})
	defer stop()
	if l.sends {
		c.Response().Before(l.begin)
	}
	c.SetRequest(c.Request().WithContext(ctx))
	err := handle(c)
	stop()
	if l.end(); err == nil || ctx.Err() == nil {
		return err
	}
	refused, ok := context.Cause(ctx).(*Problem)
	switch {
	case !ok: // the client hung up
		return err
	case c.Response().Committed:
		panic(http.ErrAbortHandler)
	}
	p := *refused
	if !l.sends { // a change may be on its way
		p.Fate = s.ProblemOf(err).Fate
	}
	return &p
}

// lasting is a request of Lasting. The handler, and EndRefused, use it.
type lasting struct {
	ctx   context.Context // of the handler
	conn  *Connection     // nil: in tests of handlers
	sends bool            // the answer can be long

	mu    sync.Mutex // guards state
	state lastingState
}

type lastingState uint8

const (
	unanswered lastingState = iota
	answering               // the answer has begun
	handled                 // the handler has returned
)

// cut ends what the handler waits for other than its context: bytes of the body, or a client that does not read.
func (l *lasting) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.conn == nil || l.state == handled:
	case l.state == answering:
		_ = l.conn.raw.Close() // the handler sees it
	case !l.sends:
		_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // PacedReader looks at the context after it has set another deadline
	}
}

// begin is called before the header of a long answer is written. It does not return if the key was refused, and the handler has not
// noticed it yet.
func (l *lasting) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == unanswered {
		l.state = answering
		if _, refused := context.Cause(l.ctx).(*Problem); refused {
			panic(http.ErrAbortHandler)
		}
	}
}

func (l *lasting) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = handled
}
