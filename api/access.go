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
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// Sets of roles for the table below. A key with the role admin may use every route.
var (
	operators   = job.RolesOf(job.RoleOperator)
	producers   = operators | job.RolesOf(job.RoleProducer)
	workers     = operators | job.RolesOf(job.RoleWorker)
	uploaders   = producers | workers
	readers     = uploaders | job.RolesOf(job.RoleReader)
	blobReaders = readers | job.RolesOf(job.RoleBackup) // a backup has the blobs
	watchers    = operators | job.RolesOf(job.RoleReader, job.RoleMetrics, job.RoleBackup)
	admins      = job.RolesOf(job.RoleAdmin)
)

// access has the roles of which a key needs one to use an operation, by the id of the operation, and how the server finds out
// whose the things are that a request is about. This is the whole policy. A server with an operation that is not here does not
// start.
var access = table([]grant{
	{producers, web.InCommand, "create add addToQueue closeBatch cancel cancelBatch"},
	{producers, web.OfBatch, "addToBatch"}, // its jobs inherit from the batch
	{workers, web.InCommand, "claim tickle tickleMany complete completeMany release"},
	{workers, web.OfJob, "appendLog"},
	{workers, web.OfRunner, "heartbeat goodbye"},
	{uploaders, web.InCommand, "stream openSession endSession"}, // streamAccess has the roles of the verbs
	{uploaders, web.OfSession, "session"},

	{uploaders, web.OfOwnClient, "putBlob putBlobAt missingBlobs createUpload upload appendUpload removeUpload"},
	{uploaders, web.AboutNobody, "uploadOptions"},
	{uploaders, web.AboutServer, "putCastawayBlob"},
	{producers, web.OfOwnClient, "putFileset deleteFileset"},

	{readers, web.InList, "jobs batches queues runners sweeps handlers listFilesets"},
	{readers, web.OfJob, "job output jobLog"},
	{readers, web.OfClaim, "claimDocument"},
	{readers, web.OfBatch, "batch batchMetadata results"},
	{readers, web.OfQueue, "queue"},
	{readers, web.OfRunner, "runner"},
	{readers, web.OfSweep, "sweep"},
	{readers, web.OfType, "handler handlerHistory getHandler getHandlerOfMiniq"},
	{readers, web.OfVersion, "handlerVersion"},
	{blobReaders, web.OfOwnClient, "listBlobs"},
	{blobReaders, web.OfClient, "blob castawayBlob"},
	{readers, web.OfClient, "fileset filesetHistory"},

	{operators, web.InCommand, "patch delete redrive run resumeBatch redriveBatch deleteBatch"},
	{operators, web.InCommand, "deleteQueue pause resume cancelQueue redriveQueue deleteQueueJobs"},
	{operators, web.InCommand, "putHandler deleteHandler addHandler addHandlerOfMiniq removeHandler removeHandlerOfMiniq"},
	{operators, web.AboutServer, "start stop startByGet stopByGet"},

	{operators, web.AboutServer, "audit"},
	{watchers, web.AboutServer, "metrics stats cluster level"},
	{job.RolesOf(job.RoleBackup), web.AboutServer, "backup backupClients"},

	{admins, web.AboutServer, "quit quitByGet acceptTime raiseLevel collectBlobs transferLeadership removeNode"},
	{admins, web.AboutServer, "keys createKey key rotateKey revokeKey"},
	{operators, web.InList, "quotas"},
	{operators, web.OfClient, "quota"},
	{admins, web.AboutServer, "putQuota deleteQuota"},
	{readers | watchers | admins, web.AboutNobody, "whoami logout"},
})

// open are the operations that need no key: they tell nothing about jobs.
const open = "root ping healthz readyz version openapi openapiJSON docs docsFile login beginLogin finishLogin"

// raw are the operations that answer with stored bytes as they are.
const raw = "output jobLog batchMetadata blob castawayBlob fileset"

// changing are the operations by GET that change something.
const changing = "stream startByGet stopByGet quitByGet"

// kept are the operations that the rates of a key never refuse, because that would lose work. A claim can have outcomes; the rate
// of claims limits the rest of it.
const kept = "complete completeMany release tickle tickleMany claim heartbeat goodbye appendLog"

// lasting are the operations whose requests wait or transfer for long: all of them, or those with the query parameter after the ?. They end
// when their key is revoked. Claims, and outputs that are blobs, see to it themselves, because only they know whether they last.
const lasting = "jobLog results?follow output?wait_ms batch?wait_ms " +
	"blob castawayBlob putBlob putBlobAt putCastawayBlob createUpload appendUpload fileset putFileset backup"

// grant gives roles to operations, whose ids are separated by spaces.
type grant struct {
	roles job.Roles
	about web.About
	ids   string
}

func table(grants []grant) map[string]web.Access {
	all := map[string]web.Access{}
	for _, g := range grants {
		for id := range strings.FieldsSeq(g.ids) {
			all[id] = web.For(g.roles, g.about)
		}
	}
	for id := range strings.FieldsSeq(raw) {
		all[id] = all[id].Raw()
	}
	for id := range strings.FieldsSeq(changing) {
		all[id] = all[id].Changing()
	}
	for id := range strings.FieldsSeq(kept) {
		all[id] = all[id].Kept()
	}
	for of := range strings.FieldsSeq(lasting) {
		id, parameter, _ := strings.Cut(of, "?")
		all[id] = all[id].Lasting(parameter)
	}
	for id := range strings.FieldsSeq(open) {
		all[id] = web.Open
	}
	return all
}

// streamAccess has the same for the verbs of a stream. A verb that is not here needs the role admin.
var streamAccess = map[string]job.Roles{
	"hello": uploaders, "create": producers,
	"subscribe": workers, "credit": workers, "unsubscribe": workers, "complete": workers, "tickle": workers, "release": workers, "begin": workers,
}

// checkAccess returns an error that names an operation without access.
func checkAccess(routes []route) error {
	for _, r := range routes {
		if !access[r.id].Valid() {
			return fmt.Errorf("operation %s of %s %s is not in the table of access", r.id, r.method, r.path)
		}
	}
	return nil
}

// authorizer finds out which key a request has, or which one the token or login of a request stands for.
type authorizer struct {
	engine   backend.Engine
	issuers  *oidc.Issuers // nil: no tokens are accepted
	required bool          // also before the first key
	trusted  bool          // requests need no key; see Options

	certificates []CertificateRule
}

// errNoKey and errWrongKey say nothing about keys that exist.
var (
	errNoKey      = &web.Problem{Status: http.StatusUnauthorized, Code: "key_required", Detail: "this server answers only requests with a key; send it as Authorization: Bearer KEY"}
	errWrongKey   = &web.Problem{Status: http.StatusUnauthorized, Code: "key_refused", Detail: "the key is not one of this server: it is wrong, was revoked, or has expired"}
	errTwoKeys    = &web.Problem{Status: http.StatusUnauthorized, Code: "key_refused", Detail: "the request has several headers Authorization; send one"}
	errLoginEnded = &web.Problem{Status: http.StatusUnauthorized, Code: "login_ended", Detail: "the login of this browser has ended; log in again"}
	errNoToken    = &web.Problem{Status: http.StatusForbidden, Code: "csrf_required", Detail: "a change by a browser with a login needs the header " + web.HeaderToken + ", with the csrf of GET /whoami"}
	errNoIssuer   = &web.Problem{Status: http.StatusNotFound, Code: "no_issuer", Detail: "no issuer is configured at which people log in (client-id in the file of --oidc-file); log in with a key: POST /login"}
)

// authorize returns the key that credentials stand for. It must have one of the roles, or the role admin. authorize returns nil as
// long as there was never a key, and there are no issuers, unless keys are required: then everybody who can connect may do everything.
func (a *authorizer) authorize(c web.Credentials, roles job.Roles) (key *job.Key, err error) {
	switch {
	case a.trusted:
		return nil, nil
	case !a.engine.KeysKnown(): // there may be keys, and the ones that are known may be revoked
		return nil, ingest.ErrNotReady
	case !a.required && !a.engine.KeysRequired() && a.issuers == nil:
		return nil, nil
	}
	switch {
	case len(c.Authorization) > 1:
		return nil, errTwoKeys
	case len(c.Authorization) == 1:
		var h holder
		h, err = a.holder(keyText(c.Authorization[0]))
		key = h.key
	case c.Logins[0] == "" && c.Certificate == nil:
		return nil, errNoKey
	case c.Logins[0] == "":
		key, err = a.certified(c.Certificate)
	default:
		key, err = a.login(&c)
	}
	if err != nil {
		return nil, err
	}
	key.Used(a.engine.Now())
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
