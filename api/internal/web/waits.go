package web

import (
	"context"
	"sync"

	"github.com/daybookq/daybook/job"
)

// waits are the requests that wait for something, and must not go on after their keys were revoked.
type waits struct {
	mu  sync.Mutex // guards all
	all map[*wait]struct{}
}

type wait struct {
	grant
	end context.CancelCauseFunc
}

// grant is why a request was let in: its credentials were good for one of the roles.
type grant struct {
	credentials Credentials
	roles       job.Roles
}

type grantOfContext struct{}

// anyRole: a request that needed no key waits until keys are needed.
var anyRole = job.Roles(^job.Roles(0))

// WhileGranted calls end with the refusal when EndRefused finds that the key of a request with this context is not good any more. The
// caller must call stop. The route must be Waiting.
func (s *Server) WhileGranted(ctx context.Context, end context.CancelCauseFunc) (stop func()) {
	if s.Authorize == nil {
		return func() {}
	}
	w := &wait{grant{roles: anyRole}, end}
	if g, there := ctx.Value(grantOfContext{}).(*grant); there {
		w.grant = *g
	}
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

// EndRefused ends the waits of requests whose keys are not good any more: a key was revoked, rotated or changed or has expired, or the
// first key was made. It does not wait.
func (s *Server) EndRefused() {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	for w := range s.waits.all {
		if _, err := s.Authorize(w.credentials, w.roles); err != nil {
			w.end(err)
		}
	}
}
