package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/job"
)

// Sets of roles for the table below. A key with the role admin may use every route.
var (
	operators = job.RolesOf(job.RoleOperator)
	producers = operators | job.RolesOf(job.RoleProducer)
	workers   = operators | job.RolesOf(job.RoleWorker)
	uploaders = producers | workers
	readers   = uploaders | job.RolesOf(job.RoleReader)
	watchers  = operators | job.RolesOf(job.RoleReader, job.RoleMetrics, job.RoleBackup)
	admins    = job.RolesOf(job.RoleAdmin)
)

// access has the roles of which a key needs one to use an operation, by the id of the operation. This is the whole policy. A
// server with an operation that is not here does not start.
var access = map[string]web.Access{
	// These tell nothing about jobs.
	"root": web.Open, "ping": web.Open, "healthz": web.Open, "readyz": web.Open, "version": web.Open,
	"login": web.Open, "beginLogin": web.Open, "finishLogin": web.Open,
	"openapi": web.Open, "openapiJSON": web.Open, "docs": web.Open, "docsFile": web.Open,

	"create": web.For(producers), "add": web.For(producers), "addToQueue": web.For(producers), "addToBatch": web.For(producers), "closeBatch": web.For(producers),
	"cancel": web.For(producers), "cancelBatch": web.For(producers),

	"claim": web.For(workers), "tickle": web.For(workers), "tickleMany": web.For(workers), "complete": web.For(workers), "completeMany": web.For(workers),
	"release": web.For(workers), "appendLog": web.For(workers), "heartbeat": web.For(workers), "goodbye": web.For(workers),

	// streamAccess has the roles of the verbs.
	"stream": web.For(uploaders).Changing(), "openSession": web.For(uploaders), "session": web.For(uploaders), "endSession": web.For(uploaders),

	"putBlob": web.For(uploaders), "putBlobAt": web.For(uploaders), "putCastawayBlob": web.For(uploaders), "missingBlobs": web.For(uploaders),
	"uploadOptions": web.For(uploaders), "createUpload": web.For(uploaders), "upload": web.For(uploaders), "appendUpload": web.For(uploaders), "removeUpload": web.For(uploaders),
	"putFileset": web.For(producers), "deleteFileset": web.For(producers),

	"jobs": web.For(readers), "job": web.For(readers), "output": web.For(readers), "jobLog": web.For(readers), "claimDocument": web.For(readers),
	"batches": web.For(readers), "batch": web.For(readers), "batchMetadata": web.For(readers), "results": web.For(readers),
	"queues": web.For(readers), "queue": web.For(readers), "runners": web.For(readers), "runner": web.For(readers), "sweeps": web.For(readers), "sweep": web.For(readers),
	"handlers": web.For(readers), "handler": web.For(readers), "handlerHistory": web.For(readers), "handlerVersion": web.For(readers),
	"getHandler": web.For(readers), "getHandlerOfMiniq": web.For(readers),
	"listBlobs": web.For(readers), "blob": web.For(readers), "castawayBlob": web.For(readers),
	"listFilesets": web.For(readers), "fileset": web.For(readers), "filesetHistory": web.For(readers),

	"patch": web.For(operators), "delete": web.For(operators), "redrive": web.For(operators), "run": web.For(operators),
	"resumeBatch": web.For(operators), "redriveBatch": web.For(operators), "deleteBatch": web.For(operators),
	"deleteQueue": web.For(operators), "pause": web.For(operators), "resume": web.For(operators),
	"cancelQueue": web.For(operators), "redriveQueue": web.For(operators), "deleteQueueJobs": web.For(operators),
	"putHandler": web.For(operators), "deleteHandler": web.For(operators), "addHandler": web.For(operators), "addHandlerOfMiniq": web.For(operators),
	"removeHandler": web.For(operators), "removeHandlerOfMiniq": web.For(operators),
	"start": web.For(operators), "stop": web.For(operators), "startByGet": web.For(operators).Changing(), "stopByGet": web.For(operators).Changing(),

	"metrics": web.For(watchers), "stats": web.For(watchers), "cluster": web.For(watchers), "level": web.For(watchers),
	"backup": web.For(job.RolesOf(job.RoleBackup)), "backupClients": web.For(job.RolesOf(job.RoleBackup)),

	"quit": web.For(admins), "quitByGet": web.For(admins).Changing(), "acceptTime": web.For(admins), "raiseLevel": web.For(admins), "collectBlobs": web.For(admins),
	"transferLeadership": web.For(admins), "removeNode": web.For(admins),
	"keys": web.For(admins), "createKey": web.For(admins), "key": web.For(admins), "rotateKey": web.For(admins), "revokeKey": web.For(admins),
	"whoami": web.For(readers | watchers | admins), "logout": web.For(readers | watchers | admins),
}

// streamAccess has the same for the verbs of a stream. A verb that is not here needs the role admin.
var streamAccess = map[string]job.Roles{
	"hello": uploaders, "create": producers,
	"subscribe": workers, "credit": workers, "unsubscribe": workers, "complete": workers, "tickle": workers, "release": workers, "begin": workers,
}

// checkAccess returns an error that names an operation without access.
func checkAccess(routes []route) error {
	for _, r := range routes {
		if access[r.id] == (web.Access{}) {
			return fmt.Errorf("operation %s of %s %s is not in the table of access", r.id, r.method, r.path)
		}
	}
	return nil
}

// authorizer finds out which key a request has, or which one the token or login of a request stands for.
type authorizer struct {
	engine  backend.Engine
	issuers *oidc.Issuers // nil: no tokens are accepted
}

// errNoKey and errWrongKey say nothing about keys that exist.
var (
	errNoKey      = &web.Problem{Status: http.StatusUnauthorized, Code: "key_required", Detail: "this server answers only requests with a key; send it as Authorization: Bearer KEY"}
	errWrongKey   = &web.Problem{Status: http.StatusUnauthorized, Code: "key_refused", Detail: "the key is not one of this server: it is wrong, was revoked, or has expired"}
	errLoginEnded = &web.Problem{Status: http.StatusUnauthorized, Code: "login_ended", Detail: "the login of this browser has ended; log in again"}
	errNoToken    = &web.Problem{Status: http.StatusForbidden, Code: "csrf_required", Detail: "a change by a browser with a login needs the header " + web.HeaderToken + ", with the csrf of GET /whoami"}
	errNoIssuer   = &web.Problem{Status: http.StatusNotFound, Code: "no_issuer", Detail: "no issuer is configured at which people log in (client-id in the file of --oidc-file); log in with a key: POST /login"}
)

// authorize returns the key that credentials stand for. It must have one of the roles, or the role admin. authorize returns nil as
// long as there was never a key, and there are no issuers: then everybody who can connect may do everything.
func (a *authorizer) authorize(c web.Credentials, roles job.Roles) (key *job.Key, err error) {
	if !a.engine.KeysRequired() && a.issuers == nil {
		return nil, nil
	}
	switch {
	case len(c.Authorization) > 1:
		return nil, errWrongKey
	case len(c.Authorization) == 1:
		var h holder
		h, err = a.holder(keyText(c.Authorization[0]))
		key = h.key
	case c.Logins[0] == "":
		return nil, errNoKey
	default:
		key, err = a.login(&c)
	}
	if err != nil {
		return nil, err
	}
	if !key.Roles.Has(roles | admins) {
		return nil, &web.Problem{Status: http.StatusForbidden, Code: "role_missing",
			Detail: fmt.Sprintf("the key %s has the roles %s; this needs one of %s", key.Name, strings.Join(key.Roles.Names(), ", "), strings.Join((roles|admins).Names(), ", "))}
	}
	return key, nil
}

// holder returns who holds the text of a key, or a token.
func (a *authorizer) holder(text string) (holder, error) {
	name, sum, err := job.ParseKeyText(text)
	now := a.engine.Now()
	if err != nil {
		if a.issuers == nil || !oidc.IsToken(text) {
			return holder{}, errWrongKey
		}
		id, err := a.issuers.Verify(text, now)
		if err != nil {
			return holder{}, tokenProblem(err)
		}
		return holder{&id.Key, id.Issuer, id.Rule}, nil
	}
	key := a.engine.Key(name)
	if key == nil || !key.Matches(&sum, now) || key.Expired(now) {
		return holder{}, errWrongKey
	}
	return holder{key: key}, nil
}

// login returns the key for which a login stands, as it is now.
func (a *authorizer) login(c *web.Credentials) (*job.Key, error) {
	name, ok := job.LoginNameOf(c.Logins[0])
	if !ok || c.Logins[1] != "" {
		return nil, errLoginEnded
	}
	login, now := a.engine.Login(name[:]), a.engine.Now()
	if login == nil || login.Ended(now) {
		return nil, errLoginEnded
	}
	var key *job.Key
	if login.Issuer == "" {
		if key = a.engine.Key(login.By); key != nil && (key.Sum != login.KeySum || key.Expired(now)) {
			key = nil
		}
	} else if a.issuers != nil {
		key = a.issuers.KeyOf(login.Issuer, login.Rule, login.By)
	}
	switch {
	case key == nil:
		return nil, errLoginEnded
	case c.TokenNeeded && !web.GoodToken(c.Logins[0], c.Token):
		return nil, errNoToken
	}
	return key, nil
}

// tokenProblem returns the problem for a refusal of package oidc.
func tokenProblem(err error) error {
	switch detail := err.Error(); {
	case errors.Is(err, oidc.ErrToken):
		return &web.Problem{Status: http.StatusUnauthorized, Code: "token_refused", Detail: detail}
	case errors.Is(err, oidc.ErrNoRule):
		return &web.Problem{Status: http.StatusForbidden, Code: "no_rule", Detail: detail}
	case errors.Is(err, oidc.ErrUnavailable): // the log has why
		return &web.Problem{Status: http.StatusServiceUnavailable, Code: "issuer_unavailable", Detail: detail, Reported: true}
	case errors.Is(err, oidc.ErrFlow):
		return &web.Problem{Status: http.StatusUnauthorized, Code: "login_failed", Detail: detail}
	case errors.Is(err, oidc.ErrBusy):
		return &web.Problem{Status: http.StatusTooManyRequests, Code: web.CodeOverloaded, Detail: detail}
	case errors.Is(err, oidc.ErrNoLogin):
		return errNoIssuer
	}
	return err
}

// keyText returns the text of the key in a header: a Bearer token, or the password of Basic.
func keyText(header string) string {
	scheme, rest, _ := strings.Cut(header, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return rest
	case strings.EqualFold(scheme, "Basic"):
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			return password
		}
	}
	return ""
}

// rolesOf reads the names of roles.
func rolesOf(names []string) (roles job.Roles, err error) {
	for i, name := range names {
		role, err := job.ParseRole(name)
		if err != nil {
			return 0, web.BadField(web.Item("roles", i), err)
		}
		if slices.Contains(names[:i], name) {
			return 0, web.BadRequest(web.Item("roles", i), fmt.Sprintf("role %s is given twice", name))
		}
		roles |= job.RolesOf(role)
	}
	if roles == 0 {
		return 0, web.BadRequest("roles", "a key needs at least one role")
	}
	return roles, nil
}
