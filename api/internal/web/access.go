package web

import (
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// Access says who may use a route. The zero value is not valid.
type Access struct {
	open    bool
	changes bool
	roles   job.Roles
}

// Open is the access of routes that need no key.
var Open = Access{open: true}

// For returns the access of routes that need a key with one of the roles.
func For(roles job.Roles) Access { return Access{roles: roles} }

// Changing returns the access of a GET that changes something: with a login, it also needs the token of changes, or the Origin of
// this server.
func (a Access) Changing() Access {
	a.changes = true
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
		key, err := s.Authorize(CredentialsOf(c.Request(), r.Access), r.Access.roles)
		if err != nil {
			c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="daybook"`)
			return err
		}
		if conn := ConnectionOf(c.Request()); conn != nil {
			conn.Key = key
		} else if key != nil {
			c.Set(keyOfRequest, key)
		}
		return next(c)
	}
}

const keyOfRequest = "daybook.key"

// KeyOf returns the key of a request, or nil if it needed none. The request must be the one that is being served.
func KeyOf(c echo.Context) *job.Key {
	if conn := ConnectionOf(c.Request()); conn != nil {
		return conn.Key
	}
	key, _ := c.Get(keyOfRequest).(*job.Key)
	return key
}
