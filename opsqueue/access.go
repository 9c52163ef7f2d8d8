package opsqueue

import (
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/job"
)

// The protocol has no place for a key, so the listener acts as one key, and Config.Permit judges it for each request and each message
// of a consumer.

// The roles of which the key needs one.
var (
	producers = job.RolesOf(job.RoleOperator, job.RoleProducer)
	workers   = job.RolesOf(job.RoleOperator, job.RoleWorker)
	readers   = producers | workers | job.RolesOf(job.RoleReader)
	watchers  = job.RolesOf(job.RoleOperator, job.RoleReader, job.RoleMetrics, job.RoleBackup)
)

// open is for routes that need no key.
const open = job.Roles(0)

// permits returns why the key of the listener does not permit what needs one of the roles, or nil.
func (s *Server) permits(roles job.Roles) error {
	if roles == open || s.config.Permit == nil {
		return nil
	}
	return s.config.Permit(roles)
}

// forbidden is the refusal of a request that the key does not permit.
func forbidden(err error) error { return &rejection{http.StatusForbidden, err.Error()} }

// recheckEvery is how long a connection may stay open after the key was revoked.
const recheckEvery = time.Second

// watchKey ends the connections of all consumers when the key stops being good for them, and logs each change. Their chunks are
// available again at once.
func (s *Server) watchKey() {
	ticks := time.NewTicker(recheckEvery)
	defer ticks.Stop()
	said := ""
	for {
		reason := ""
		err := s.permits(workers)
		if err != nil {
			reason = err.Error()
		}
		if reason != said && err != nil {
			s.log.Error("the listener for clients of Opsqueue refuses consumers", "reason", reason)
		} else if reason != said {
			s.log.Info("the listener for clients of Opsqueue serves consumers again")
		}
		if said = reason; err != nil {
			s.mu.Lock()
			for c := range s.open {
				go c.closeWith(websocket.StatusPolicyViolation, closeReason(reason))
			}
			s.mu.Unlock()
		}
		select {
		case <-s.running.Done():
			return
		case <-ticks.C:
		}
	}
}

// closeWith ends the connection after a close frame with a reason.
func (c *consumer) closeWith(status websocket.StatusCode, reason string) {
	gone := time.AfterFunc(closeWait, c.cut)
	defer gone.Stop()
	_ = c.conn.Close(status, reason) // the client notices the end of the connection, too
}
