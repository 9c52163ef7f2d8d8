package web

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// Access says who may use a route, and how the server finds out whose the things are that a request is about. The zero value
// is not valid.
type Access struct {
	open    bool
	changes bool
	roles   job.Roles
	about   About
	raw     bool
	kept    bool
	lasting string // see Lasting
}

// About says how a server finds the client and type of a request, for keys that are not for all of them.
type About uint8

const (
	Undecided   About = iota
	AboutServer       // all clients: a key with a scope is refused
	AboutNobody       // no client
	InCommand         // the commands of the request name it, or ids whose client Apply knows
	InList            // the answer leaves out what the key is not for
	OfQueue           // the path has the client and type
	OfClient          // the query has the client, or none: then what the request is about is for all clients, and can only be read
	OfOwnClient       // the query has the client
	OfType            // the path has the type of a handler, and the path or the query perhaps a client
	OfJob             // the path has an id of a job
	OfBatch           // the path has an id of a batch
	OfClaim           // the path has an id of a claim
	OfSession         // the path has an id of a session
	OfSweep           // the path has an id of a sweep
	OfRunner          // the path has an id of a runner
	OfVersion         // the path has an id of a version of a handler
)

// Open is the access of routes that need no key.
var Open = Access{open: true}

// For returns the access of routes that need a key with one of the roles.
func For(roles job.Roles, about About) Access { return Access{roles: roles, about: about} }

// Raw marks a route that answers with stored bytes as they are. Keys that hide a part of jobs cannot use it.
func (a Access) Raw() Access {
	a.raw = true
	return a
}

// Kept marks a route whose requests are not refused because a key has used up its rates: work would be lost.
func (a Access) Kept() Access {
	a.kept = true
	return a
}

// Valid reports whether an access says everything.
func (a Access) Valid() bool { return a.open || a.roles != 0 && a.about != Undecided }

// Changing returns the access of a GET that changes something: with a login, it also needs the token of changes, or the Origin of
// this server.
func (a Access) Changing() Access {
	a.changes = true
	return a
}

// Lasting marks a route whose requests last, because they wait or transfer much: all of them, or those with a query parameter. Server.Lasting
// ends them if their keys are revoked.
func (a Access) Lasting(parameter string) Access {
	a.lasting = cmp.Or(parameter, always)
	return a
}

// NeedsKey reports whether requests need a key, once there are keys.
func (a Access) NeedsKey() bool { return !a.open }

// Roles returns the roles of which a key needs one.
func (a Access) Roles() job.Roles { return a.roles }

// guarded refuses requests without a key that the route needs, before anything else of them is read.
func (s *Server) guarded(r *Route, next echo.HandlerFunc) echo.HandlerFunc {
	if s.Authorize == nil || r.Access.open {
		return next
	}
	return func(c echo.Context) error {
		credentials := CredentialsOf(c.Request(), r.Access)
		key, err := s.Authorize(credentials, r.Access.roles)
		if err != nil {
			c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="daybook"`)
			if s.Refused != nil {
				err = s.Refused(PeerOf(c.Request()), &credentials, err)
			}
			return err
		}
		if key == nil {
			return next(c)
		}
		c.SetRequest(c.Request().WithContext(job.WithKey(c.Request().Context(), key)))
		return next(c)
	}
}

// confined refuses requests about what the key of the request is not for. It runs after strictRequest has read the query.
func (s *Server) confined(r *Route) echo.HandlerFunc {
	if s.Authorize == nil || r.Access.open {
		return r.Handle
	}
	return func(c echo.Context) error {
		key := job.KeyOf(c.Request().Context())
		if r.Access.raw && key.Conceals() {
			return &Problem{Status: http.StatusForbidden, Code: CodeOutOfScope, Detail: "the key of this request does not show all of a job, and this answers with stored bytes as they are"}
		}
		if key != nil && key.Rates != nil {
			if err := s.Admit(c.Request(), key, r.Access.kept); err != nil {
				return err
			}
		}
		if key != nil && !key.All() {
			if err := s.Confine(c, r.Access.about, key); err != nil {
				return err
			}
		}
		if r.Access.lasts(c.Request()) {
			return s.Lasting(c, r.Handle)
		}
		return r.Handle(c)
	}
}
