package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// keys are what programs and people use the server with.
type keys struct {
	engine    backend.Engine
	documents *web.Lane
	authorize *authorizer
}

func (k keys) routes(r operation.Rules) []route {
	about := func(id, summary, text string, answers answers, refusals ...int) operation.About {
		return operation.About{ID: id, Tag: "Access", Summary: summary, Text: text, Answers: answers, Refusals: refusals}
	}
	return []route{
		cold(r, http.MethodGet, "/keys", about("keys", "List keys", "", answers{200: "a page of the list"}, 503), k.list),
		cold(r, http.MethodPost, "/keys", about("createKey", "Create a key",
			"The answer has the text of the key. The server stores its SHA-256 only, so nobody can read the text again. Once there\n"+
				"is a key, every request needs one, so the first key must have the role admin.\n",
			answers{201: "The key is stored."}, 409, 503, 507), k.create),
		cold(r, http.MethodGet, "/keys/:name", about("key", "Read a key", "", answers{200: "the document"}, 404, 503), k.read),
		cold(r, http.MethodPost, "/keys/:name/rotate", about("rotateKey", "Give a key another secret",
			"The answer has the new text of the key. The text before it is good for `overlap_ms` more. An older one is not.\n",
			answers{200: "The key has another secret."}, 404, 503, 507), k.rotate),
		cold(r, http.MethodDelete, "/keys/:name", about("revokeKey", "Revoke a key", "From the answer on, requests with the key are refused.",
			answers{204: "The key is revoked."}, 404, 503, 507), k.revoke),
		cold(r, http.MethodGet, "/whoami", about("whoami", "Read the key of this request", "",
			answers{200: "the name and roles of the key. Without keys, name is null, and everybody has the role admin."}), k.whoami),
	}
}

// keyLimits are what a key may do, and with what.
type keyLimits struct {
	Roles        []string  `json:"roles" schema:"Role" required:"true"`
	Clients      []string  `json:"clients" schema:"Name" maxItems:"100" doc:"the clients whose jobs the key is for; null: all"`
	Types        []string  `json:"types" schema:"Name" maxItems:"100" doc:"the types of jobs that the key is for; null: all"`
	RunnerPrefix *string   `json:"runner_prefix" minLength:"1" maxLength:"64" doc:"with what the ids of its runners begin; null: any. The default of a key for some clients or types is its name and a colon"`
	HidePayloads bool      `json:"hide_payloads" doc:"payloads, outputs and errors are not shown; only with the single role reader"`
	Rates        *keyRates `json:"rates" doc:"how fast the key may be used; null: as fast as the server serves it"`
	Redact       []string  `json:"redact" minLength:"1" maxLength:"128" maxItems:"100" doc:"names of fields of JSON payloads and outputs whose values are not shown; only with the single role reader"`
}

func limitsOf(key *job.Key) keyLimits {
	return keyLimits{Roles: key.Roles.Names(), Clients: key.Clients, Types: key.Types, RunnerPrefix: web.OrNull(key.RunnerPrefix), HidePayloads: key.HidePayloads, Rates: (*keyRates)(key.Rates), Redact: key.Redact}
}

// keyRates are the rates of a key in documents. One that is left out is not bounded.
type keyRates struct {
	Creates      int64 `json:"creates,omitzero" minimum:"1" maximum:"1000000000000" doc:"jobs a second that its requests create"`
	Claims       int64 `json:"claims,omitzero" minimum:"1" maximum:"1000000000000" doc:"jobs a second that its claims get"`
	Reads        int64 `json:"reads,omitzero" minimum:"1" maximum:"1000000000000" doc:"GET requests a second"`
	Bytes        int64 `json:"bytes,omitzero" minimum:"1024" maximum:"1000000000000" doc:"bytes of request bodies a second"`
	Streams      int64 `json:"streams,omitzero" minimum:"1" maximum:"1000000000000" doc:"streams that are open at the same time"`
	ParkedClaims int64 `json:"parked_claims,omitzero" minimum:"1" maximum:"1000000000000" doc:"claims that wait for jobs at the same time"`
}

// fill gives a key what it may do.
func (l *keyLimits) fill(key *job.Key) (err error) {
	if key.Roles, err = rolesOf(l.Roles); err != nil {
		return err
	}
	key.Clients, key.Types, key.Redact, key.HidePayloads = sorted(l.Clients), sorted(l.Types), sorted(l.Redact), l.HidePayloads
	switch {
	case l.RunnerPrefix != nil:
		key.RunnerPrefix = *l.RunnerPrefix
	case !key.All():
		key.RunnerPrefix = job.DefaultRunnerPrefix(key.Name)
	}
	key.Rates = (*job.Rates)(l.Rates)
	if err := key.Check(); err != nil {
		return web.BadRequest("", err.Error())
	}
	return nil
}

// sorted returns names in order, each once.
func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// keyDocument is the document of a key.
type keyDocument struct {
	Name string `json:"name" schema:"Name"`
	keyLimits
	ExpiresAt  *int64 `json:"expires_at" minimum:"1"`
	Generation int    `json:"generation" minimum:"1" doc:"how many secrets the key has had"`
	OldUntil   *int64 `json:"old_until" minimum:"1" doc:"until when the secret before this one is good"`
	ChangedAt  int64  `json:"changed_at" minimum:"0" doc:"when it was created or got its secret"`
	By         string `json:"by,omitzero" doc:"the key that created it or gave it its secret"`
	LastUsedAt *int64 `json:"last_used_at" minimum:"1" doc:"the hour in which this node last got a request with it"`
}

func documentOfKey(key *job.Key, d *document.Named) keyDocument {
	doc := keyDocument{Name: key.Name, keyLimits: limitsOf(key), Generation: key.Generation, ChangedAt: d.CreatedAt, By: d.By}
	if key.ExpiresAt != 0 {
		doc.ExpiresAt = &key.ExpiresAt
	}
	if key.Old != nil {
		doc.OldUntil = &key.Old.Until
	}
	if key.LastUse != nil {
		if hour := key.LastUse.Load(); hour > 0 {
			doc.LastUsedAt = &hour
		}
	}
	return doc
}

// newKeyDocument is the answer to a request that makes a secret.
type newKeyDocument struct {
	keyDocument
	Key string `json:"key,omitzero" doc:"the text of the key, unless the request had its SHA-256"`
}

// secret is the answer with a text that no cache may keep.
type secret struct {
	Seq      uint64 `header:"Daybook-Seq"`
	Location string `header:"Location"`
	Cache    string `header:"Cache-Control"`
	Body     newKeyDocument
}

type keysPage struct {
	Body struct {
		Keys []keyDocument `json:"keys" maxItems:"1000"`
		Next *string       `json:"next"`
	}
}

// list answers with a page of keys, in the order of their names.
func (k keys) list(ctx context.Context, in *globalsQuery) (out keysPage, err error) {
	list, next, err := in.page(ctx, k.engine, k.documents, job.KeyDocument)
	out.Body.Next, out.Body.Keys = next, make([]keyDocument, 0, len(list))
	for i := range list {
		if key := k.engine.Key(list[i].Name); key != nil { // else it was revoked since
			out.Body.Keys = append(out.Body.Keys, documentOfKey(key, &list[i]))
		}
	}
	return out, err
}

func (k keys) create(ctx context.Context, in *struct {
	Body struct {
		Name string `json:"name" schema:"Name" required:"true"`
		keyLimits
		ExpiresAt *int64  `json:"expires_at" minimum:"1" maximum:"253402300799999" doc:"unix ms; default: never"`
		SHA256    *string `json:"sha256" pattern:"^[0-9a-f]{64}$" doc:"the SHA-256 of the text of a key that was made elsewhere; default: the server makes one"`
	} `required:"true"`
}) (out secret, err error) {
	key := job.Key{Actor: job.Actor{Name: in.Body.Name}, Generation: 1}
	if in.Body.ExpiresAt != nil {
		key.ExpiresAt = *in.Body.ExpiresAt
	}
	if err := job.CheckName("name", key.Name); err != nil {
		return out, web.BadField("name", err)
	}
	if err := in.Body.fill(&key); err != nil {
		return out, err
	}
	if key.ExpiresAt != 0 && key.ExpiresAt <= k.engine.Now() {
		return out, web.BadRequest("expires_at", "expires_at has passed")
	}
	if !k.engine.KeysRequired() && (!key.Roles.Has(admins) || key.ExpiresAt != 0) {
		return out, &web.Problem{Status: http.StatusConflict, Code: "admin_key_first", Fate: web.NotStored,
			Detail: "the first key must have the role admin and never expire: once there is a key, every request needs one, and nobody else could make more"}
	}
	if err := k.ownRunners(ctx, &key); err != nil {
		return out, err
	}
	return k.store(ctx, &key, in.Body.SHA256, job.IfNone)
}

// ownRunners returns an error if a key or a rule of an issuer for other clients may name runners of a new key, or if a runner of
// other clients has such an id, which a key that was revoked leaves behind.
func (k keys) ownRunners(ctx context.Context, key *job.Key) error {
	other := ""
	if name := k.engine.SharingRunners(key); name != "" {
		other = "the key " + name
	} else if k.authorize.issuers != nil {
		if issuer, rule := k.authorize.issuers.SharingRunners(key); rule != "" {
			other = fmt.Sprintf("the rule %s of the issuer %s", rule, issuer)
		}
	}
	if other == "" && key.RunnerPrefix != "" && key.Clients != nil {
		runner, err := k.runnerOfOthers(ctx, key)
		if err != nil {
			return err
		}
		if runner != "" {
			other = "the runner " + runner
		}
	}
	if other == "" {
		return nil
	}
	return &web.Problem{Status: http.StatusConflict, Code: "runner_prefix_taken", Fate: web.NotStored, Detail: fmt.Sprintf(
		"%s is for other clients, and its runner prefix overlaps with %q, so both could name the same runners; choose another runner_prefix", other, key.RunnerPrefix)}
}

// runnerOfOthers returns a known runner with the prefix of a new key that works for other clients, or holds jobs of theirs; "" if there is
// none. It looks at all runners.
func (k keys) runnerOfOthers(ctx context.Context, key *job.Key) (string, error) {
	if err := operation.Hold(ctx, k.documents, web.MaxRowsBytes); err != nil {
		return "", err
	}
	own := &job.Scope{Clients: key.Clients}
	for after, more := "", true; more; {
		list, rest, err := runners{engine: k.engine}.after(ctx, after, job.MaxPage)
		if err != nil {
			return "", err
		}
		more = rest && len(list) > 0
		for i := range list {
			if after = list[i].RunnerID; !strings.HasPrefix(after, key.RunnerPrefix) {
				continue
			}
			if info := list[i].Info; info != nil && slices.ContainsFunc(info.Clients, func(client string) bool { return !own.HasClient(client) }) {
				return after, nil
			}
			for _, c := range list[i].Claims {
				if in, err := k.engine.ClaimInScope(own, c.ClaimID); err != nil || !in {
					return after, err
				}
			}
		}
	}
	return "", nil
}

func (k keys) rotate(ctx context.Context, in *struct {
	namedKey
	Body struct {
		OverlapMs int64   `json:"overlap_ms" minimum:"0" maximum:"2592000000" doc:"how long the secret before is good; default: 0"`
		SHA256    *string `json:"sha256" pattern:"^[0-9a-f]{64}$" doc:"as of a new key"`
	}
}) (out secret, err error) {
	for {
		key, d, err := k.find(ctx, in.Name, 0)
		if err != nil {
			return out, err
		}
		next := *key
		next.Generation++
		next.Old = nil
		if in.Body.OverlapMs > 0 {
			next.Old = &job.OldSecret{Sum: key.Sum, Until: k.engine.Now() + in.Body.OverlapMs}
		}
		if out, err = k.store(ctx, &next, in.Body.SHA256, job.IfVersion(d.Version)); !errors.Is(err, job.VersionDiffers) { // else somebody has just rotated it
			return out, err
		}
	}
}

// store gives a key a secret, or the sum of one that was made elsewhere, and stores it.
func (k keys) store(ctx context.Context, key *job.Key, sum *string, cond job.Condition) (out secret, err error) {
	if sum != nil {
		if key.Sum, err = job.ParseKeySum(*sum); err != nil {
			return out, web.BadField("sha256", err)
		}
	} else {
		var random [job.SecretBytes]byte
		_, _ = rand.Read(random[:]) // never fails
		out.Body.Key = job.KeyText(key.Name, random)
		key.Sum = sha256.Sum256([]byte(out.Body.Key))
	}
	p := job.PutDocument{Kind: job.KeyDocument, Name: key.Name, Summary: strings.Join(key.Roles.Names(), ","), Document: key.Document(), If: cond}
	put, receipt, err := k.engine.PutDocument(ctx, p)
	if errors.Is(err, job.VersionDiffers) && cond == job.IfNone {
		err = &web.Problem{Status: http.StatusConflict, Code: "key_exists", Fate: web.NotStored, Detail: "a key has this name; choose another one, or rotate it"}
	}
	if err != nil {
		return secret{Seq: receipt.Seq}, err
	}
	out.Seq, out.Location, out.Cache = receipt.Seq, "/keys/"+key.Name, "no-store"
	out.Body.keyDocument = documentOfKey(key, &put.Document)
	return out, nil
}

// namedKey is the path of a request about a key.
type namedKey struct {
	Name string `path:"name" schema:"Name" doc:"name of the key"`
}

func (k keys) read(ctx context.Context, in *struct {
	namedKey
	caughtUp
}) (out found[keyDocument], err error) {
	key, d, err := k.find(ctx, in.Name, in.MinSeq)
	if err == nil {
		out.Body = documentOfKey(key, &d)
	}
	return out, err
}

// find returns a key and the newest version of its document.
func (k keys) find(ctx context.Context, name string, minSeq uint64) (*job.Key, document.Named, error) {
	if err := k.engine.CatchUp(ctx, minSeq); err != nil {
		return nil, document.Named{}, err
	}
	d, text, err := k.engine.Document(job.KeyDocument, "", name, 0)
	if err != nil {
		return nil, d, err
	}
	key, err := job.DecodeKey(name, text)
	if live := k.engine.Key(name); live != nil {
		key.LastUse = live.LastUse
	}
	return &key, d, err
}

func (k keys) revoke(ctx context.Context, in *namedKey) (removed, error) {
	_, receipt, err := k.engine.DeleteDocument(ctx, job.DeleteDocument{Kind: job.KeyDocument, Name: in.Name})
	return removed{receipt.Seq}, err
}

type whoamiDocument struct {
	Name *string `json:"name" minLength:"1" maxLength:"128" doc:"the name of the key, or oidc/, the name of an issuer, / and the subject of its token"`
	keyLimits
	ExpiresAt *int64 `json:"expires_at" minimum:"1" doc:"of the key, the token or the login"`
	CSRF      string `json:"csrf,omitzero" doc:"with a login: the value of the header Daybook-CSRF, which its changes need"`
}

func (k keys) whoami(ctx context.Context, _ *nothing) (out found[whoamiDocument], err error) {
	key := job.KeyOf(ctx)
	if key == nil {
		out.Body.keyLimits = keyLimits{Roles: admins.Names()}
		return out, nil
	}
	text, until := web.CredentialsOf(operation.RequestOf(ctx), web.Access{}).Logins[0], int64(0)
	if name, ok := job.LoginNameOf(text); ok {
		if login := k.engine.Login(name[:]); login != nil {
			until = login.Until
		}
	}
	out.Body = whoamiOf(key, until, text)
	return out, nil
}

// whoamiOf describes a key. With a login, it has the login's end and the token for changes.
func whoamiOf(key *job.Key, until int64, login string) whoamiDocument {
	doc := whoamiDocument{Name: &key.Name, keyLimits: documentOfKey(key, &document.Named{}).keyLimits, ExpiresAt: web.OrNull(key.ExpiresAt)}
	if login != "" {
		doc.ExpiresAt, doc.CSRF = &until, web.TokenOf(login)
	}
	return doc
}
