package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// confiner refuses requests about what a key with a scope is not for. It answers a read of something that belongs to others as
// if there were no such thing. The ids in commands are not read here: Apply knows whose they are when it carries the commands
// out, and the engine checks the names in them.
type confiner struct{ engine backend.Engine }

func (f confiner) confine(c echo.Context, about web.About, key *job.Key) error {
	switch about {
	case web.AboutNobody, web.InCommand, web.InList:
		return nil
	case web.OfQueue:
		if !key.Has(c.Param("client"), c.Param("type")) {
			return job.QueueNotFound
		}
		return nil
	case web.OfClient, web.OfOwnClient:
		return confineClient(c, about == web.OfOwnClient, key)
	case web.OfType:
		if !key.HasType(c.Param("type")) {
			return job.HandlerNotFound
		}
		return confineClient(c, false, key)
	case web.OfRunner:
		return key.PermitsRunner(c.Param("id"))
	case web.OfJob, web.OfBatch, web.OfClaim, web.OfSession, web.OfSweep, web.OfVersion:
		id, err := pathID(c)
		if err != nil {
			return err
		}
		if err := web.CatchUp(c, f.engine.CatchUp); err != nil {
			return err
		}
		return f.confineID(id, about, key)
	}
	return &web.Problem{Status: http.StatusForbidden, Code: web.CodeOutOfScope, Detail: "the key of this request is not for all clients and types, and this is about all of them"}
}

// confineClient checks the client in the path or the query. Without one, a request is about what all clients share, and must be a read.
func confineClient(c echo.Context, own bool, key *job.Key) error {
	client := c.Param("client")
	given := client != ""
	for _, p := range web.Parameters(c) {
		if p.Key == "client" {
			client, given = p.Value, true
		}
	}
	if !given && !own || key.HasClient(client) {
		return nil
	}
	detail := "the key of this request is not for this client"
	if !given {
		detail = "the key of this request is not for all clients; name one with client="
	}
	return &web.Problem{Status: http.StatusForbidden, Code: web.CodeOutOfScope, Detail: detail}
}

// confineID checks the id in the path. It returns the same errors as for something that does not exist.
func (f confiner) confineID(id job.ID, about web.About, key *job.Key) (err error) {
	in, unknown := false, job.NotFound
	switch about {
	case web.OfJob:
		in, err = f.engine.JobInScope(&key.Scope, id)
	case web.OfBatch:
		unknown = job.BatchNotFound
		in, err = f.engine.BatchInScope(&key.Scope, id)
	case web.OfClaim:
		unknown = job.ClaimNotFound
		in, err = f.engine.ClaimInScope(&key.Scope, id)
	case web.OfSession:
		if in, _, err = f.engine.SessionInScope(&key.Actor, id); err == nil && !in {
			return sessionGone(job.SessionNotFound)
		}
	case web.OfSweep:
		unknown = job.SweepNotFound
		sweep, notFound := f.engine.Sweep(id)
		if notFound != nil {
			return notFound
		}
		in, err = f.engine.SweepInScope(&key.Scope, &sweep)
	case web.OfVersion:
		unknown = job.HandlerNotFound
		d, _, notFound := f.engine.DocumentByID(job.HandlerDocument, id)
		if notFound != nil {
			return notFound
		}
		in = key.HasDocument(job.HandlerDocument, d.Client, d.Name)
	}
	if err == nil && !in {
		err = unknown
	}
	return err
}
