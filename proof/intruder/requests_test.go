package intruder

import (
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/internal/testkit"
)

// request is a request of an operation. Names in braces stand for things of the victim; see fill.
type request struct {
	query, body string
	kind        string   // the media type of the body; "": JSON
	headers     []string // besides the credentials
	job         string   // the thing for :id of a job; "": active
	changes     bool     // the victim changes the state with it
	idle        bool     // the change is only a command in the journal, because there is nothing to start, resume, redrive or delete, or no list has it
	status      int      // that the victim gets, or the admin if the victim may not; 0: one below 400
	// How a key of another client, and a key of another type of the same client, is answered.
	client, typ verdict
}

// verdict is how somebody else is answered.
type verdict int

const (
	unknown verdict = iota // as for things that do not exist; usually with status 404
	refused                // with out_of_scope, and as for things that do not exist
	listed                 // with a list that has nothing of the victim
	outside                // with 403: it is about all clients
	nothing                // with what is about nobody
	own                    // the key is for this, too
)

const octets, text, tarball = "application/octet-stream", "text/plain", "application/x-tar"

// tus returns the headers of an upload.
func tus(more ...string) []string { return append([]string{"Tus-Resumable", "1.0.0"}, more...) }

const handlerBody, miniqBody = `{"kind":"script","lang":"node","source":"1"}`, `{"lang":"sh","body":"handle() { cat; }"}`

// ofVictim are requests about the victim's client: keys for its other types may send them.
func ofVictim(r request) request {
	r.query, r.client, r.typ = "client={client}", refused, own
	return r
}

// ofJob are requests about a job in a state.
func ofJob(state, body string) []request {
	return []request{{job: state, body: body, changes: true}}
}

var (
	read        = []request{{}}
	lists       = []request{{client: listed, typ: listed}}
	whole       = []request{{client: outside, typ: outside}}
	wholeChange = []request{{client: outside, typ: outside, changes: true}}
	wholeIdle   = []request{{client: outside, typ: outside, changes: true, idle: true}}
	public      = []request{{client: nothing, typ: nothing}}
	change      = []request{{changes: true}}
	idle        = []request{{changes: true, idle: true}}
)

// requests has the requests of each operation.
var requests = map[string][]request{
	"create": {
		{body: `{"client":"{client}","type":"{type}"}`, changes: true, client: refused, typ: refused},
		{body: `[{"client":"{client}","type":"{type}"},{"client":"{client}","type":"{type}"}]`, changes: true, client: refused, typ: refused},
		{body: `{"client":"{client}","type":"{type}","on_complete":{"client":"{client}","type":"{type}"}}`, changes: true, client: refused, typ: refused},
		{body: `{"batch":{"client":"{client}","type":"{type}"},"jobs":[{}]}`, changes: true, client: refused, typ: refused},
	},
	"add":        {{query: "client={client}&jobtype={type}", kind: text, body: "line\n", changes: true, client: refused, typ: refused}},
	"addToQueue": {{kind: text, body: "line\n", changes: true, client: refused, typ: refused}},
	"addToBatch": {{body: `{"payload":"x"}`, changes: true}},
	"claim": {
		{body: `{"runner_id":"{runner}","clients":["{client}"],"types":["{type}"]}`, changes: true, client: refused, typ: refused},
		{body: `{"runner_id":"{runner}","complete":[{"job_id":"{active}","code":"ok"}]}`, changes: true, client: refused, typ: refused},
	},
	"tickleMany": {
		{body: `{"job_ids":["{active}"],"lease_ms":7200000}`, changes: true},
		{body: `{"claim_id":"{claim}","lease_ms":7200000}`, changes: true},
		{body: `{"runner_id":"{runner}","lease_ms":7200000}`, changes: true, client: refused, typ: refused},
	},
	"tickle": {{body: `{"lease_ms":7200000}`, changes: true}},
	"completeMany": {
		{body: `{"outcomes":[{"job_id":"{active}","code":"ok"}]}`, changes: true},
		{body: `{"outcomes":[{"job_id":"{active}","code":"ok","claim_id":"{claim}","runner_id":"{runner}"}]}`, changes: true, client: refused, typ: refused},
		{body: `{"claim_id":"{claim}","code":"ok"}`, changes: true},
	},
	"complete": {{body: `{"code":"ok","claim_id":"{claim}"}`, changes: true}, {body: `{"code":"failed","error":"x"}`, changes: true}},
	"release":  {{body: `{"how":"unget","claim_id":"{claim}"}`, changes: true}, {body: `{"how":"retry"}`, changes: true}},
	"stream":   {{status: http.StatusUpgradeRequired, client: nothing, typ: nothing}}, // see verbs

	"jobs": {
		{client: listed, typ: listed}, {query: "limit=1", client: listed, typ: listed}, {query: "status=pending", client: listed, typ: listed},
		{query: "type={type}", client: listed, typ: listed}, {query: "client={client}", client: listed, typ: listed},
		{query: "batch_id={batch}"}, {query: "claim_id={claim}"}, {query: "runner_id={runner}", client: listed, typ: listed}, {query: "after={active}", client: listed, typ: listed},
	},
	"job": read, "output": {{job: "done"}}, "jobLog": read, "claimDocument": read,
	"patch": ofJob("waiting", `{"priority":1}`), "delete": ofJob("waiting", ""), "cancel": ofJob("waiting", ""), "redrive": ofJob("failed", ""), "run": ofJob("waiting", "{}"),
	"appendLog": {{query: "offset=21&claim_id={claim}", kind: text, body: "more", changes: true}},

	"batches": {{client: listed, typ: listed}, {query: "limit=1", client: listed, typ: listed}, {query: "client={client}", client: listed, typ: listed}, {query: "after={batch}", client: listed, typ: listed}},
	"batch":   read, "batchMetadata": read, "results": read,
	"closeBatch": change, "cancelBatch": change, "deleteBatch": {{changes: true}, {query: "status=all", changes: true}}, "resumeBatch": idle, "redriveBatch": idle,

	"queues": {{client: listed, typ: listed}, {query: "client={client}", client: listed, typ: listed}, {query: "waiting=true", client: listed, typ: listed}},
	"queue":  read, "deleteQueue": {{status: http.StatusConflict, changes: true, idle: true}}, "pause": change, "resume": idle, "cancelQueue": change, "redriveQueue": change,
	"deleteQueueJobs": {{query: "status=all", changes: true}},

	"runners": lists, "runner": {{client: refused, typ: refused}},
	"heartbeat": {{body: `{"instance":"{instance}"}`, changes: true, client: refused, typ: refused}},
	"goodbye":   {{query: "instance={instance}", changes: true, client: refused, typ: refused}},
	"sweeps":    lists, "sweep": read,
	"openSession": {{body: `{"runner_id":"{runner}"}`, changes: true, idle: true, client: refused, typ: refused}},
	"session":     read, "endSession": change,

	"handlers": lists,
	"putHandler": {
		{query: "client={client}", body: handlerBody, changes: true, client: refused, typ: refused},
	},
	"handler": {{query: "client={client}", client: refused}}, "handlerHistory": {{query: "client={client}", client: refused}}, "handlerVersion": read,
	"deleteHandler": {{query: "client={client}", changes: true, client: refused, typ: refused}},
	"addHandler":    {{body: miniqBody, changes: true, client: refused, typ: refused}}, "addHandlerOfMiniq": {{body: miniqBody, changes: true, client: refused, typ: refused}},
	"getHandler": read, "getHandlerOfMiniq": read,
	"removeHandler": {{changes: true, client: refused, typ: refused}}, "removeHandlerOfMiniq": {{changes: true, client: refused, typ: refused}},

	"quotas": lists, "quota": {{client: refused}}, "deleteQuota": wholeChange,
	"putQuota": {{body: `{"queues":1000}`, changes: true, client: outside, typ: outside}},
	"keys":     whole, "key": whole, "whoami": public,
	"createKey": {{body: `{"name":"another","roles":["admin"]}`, changes: true, client: outside, typ: outside}},
	"rotateKey": wholeChange, "revokeKey": wholeChange,

	"putBlob": {ofVictim(request{kind: octets, body: "content", changes: true})}, "listBlobs": {ofVictim(request{})},
	"putBlobAt": {ofVictim(request{kind: octets, body: otherMark})}, "blob": {ofVictim(request{})},
	"missingBlobs":    {ofVictim(request{body: `{"addresses":["{address}"]}`})},
	"putCastawayBlob": {{kind: octets, body: "castaway", changes: true, client: outside, typ: outside}}, "castawayBlob": {ofVictim(request{})},
	"collectBlobs": whole,

	"uploadOptions": {{headers: tus(), client: nothing, typ: nothing}},
	"createUpload":  {ofVictim(request{headers: tus("Upload-Length", "20"), changes: true})},
	"upload":        {ofVictim(request{headers: tus()})},
	"appendUpload":  {ofVictim(request{headers: tus("Upload-Offset", "0"), kind: "application/offset+octet-stream", body: "0123456789", changes: true})},
	"removeUpload":  {ofVictim(request{headers: tus(), changes: true})},

	"listFilesets": {{client: listed, typ: own}},
	"putFileset":   {ofVictim(request{kind: tarball, body: "TAR", changes: true})},
	"fileset":      {ofVictim(request{})}, "filesetHistory": {ofVictim(request{})}, "deleteFileset": {ofVictim(request{changes: true})},

	"start": wholeIdle, "stop": wholeChange, "startByGet": wholeIdle, "stopByGet": wholeChange, "quit": wholeChange, "quitByGet": wholeChange,
	"acceptTime": whole, "level": whole, "raiseLevel": wholeIdle,
	"cluster": {{client: outside, typ: outside, status: http.StatusConflict}}, "transferLeadership": {{body: `{}`, client: outside, typ: outside, status: http.StatusConflict}},
	"removeNode": {{client: outside, typ: outside, status: http.StatusConflict}},
	"backup":     whole, "backupClients": whole, "metrics": whole, "stats": whole, "audit": whole,

	// Anybody may try to log in. Nobody can without a key or a token. The issuer of the server is none at which people log in.
	"login":      {{body: `{"key":"absent"}`, status: http.StatusUnauthorized, client: nothing, typ: nothing}},
	"beginLogin": {{status: http.StatusNotFound, client: nothing, typ: nothing}}, "finishLogin": {{status: http.StatusNotFound, client: nothing, typ: nothing}},
	"logout": {{status: http.StatusBadRequest, client: nothing, typ: nothing}}, // of the login of the request, and these have keys

	"root": public, "ping": public, "openapi": public, "openapiJSON": public, "docs": public, "docsFile": public, "healthz": public, "readyz": public, "version": public,
}

// path returns the path of a request about things.
func (r *request) path(route api.Route, things map[string]string) string {
	id := map[string]string{"batches": "{batch}", "claims": "{claim}", "runners": "{runner}", "sweeps": "{sweep}", "sessions": "{session}", "handler-versions": "{version}", "uploads": "{upload}"}
	of := strings.Split(route.Path, "/")[1]
	if id["jobs"] = "{active}"; r.job != "" {
		id["jobs"] = "{" + r.job + "}"
	}
	name := "{fileset}"
	if of == "keys" {
		name = "{key}"
	}
	path := strings.NewReplacer(":id", id[of], ":client", "{client}", ":type", "{type}", ":name", name, ":address", "{address}", ":node", "{node}", ":file", "swagger-ui-bundle.js").Replace(route.Path)
	if r.query != "" {
		path += "?" + r.query
	}
	return fillIn(path, things)
}

// ask sends a request about things with some credentials.
func (s *server) ask(p *api.Permit, r *request, things map[string]string, credentials ...string) answer {
	s.Helper()
	headers, body := append(append([]string{}, credentials...), r.headers...), fillIn(r.body, things)
	if body == "TAR" {
		body = tarOf(s, "b", "content")
	}
	if p.Method == http.MethodHead {
		body = ""
	}
	if body != "" {
		kind := r.kind
		if kind == "" {
			kind = "application/json"
		}
		headers = append(headers, "Content-Type", kind)
	}
	return s.send(p.Method, r.path(p.Route, things), body, headers...)
}

// eachRequest calls f for each request of each route.
func (s *server) eachRequest(f func(p *api.Permit, r *request, what string)) {
	s.Helper()
	for _, p := range api.Permits() {
		for i := range requests[p.Operation] {
			if r := &requests[p.Operation][i]; p.Method != "" {
				f(&p, r, p.Method+" "+r.path(p.Route, nil)+" "+r.body)
			}
		}
	}
}

// TestEveryRouteIsAttacked: each operation and each verb has requests here, and there are requests of no others.
func TestEveryRouteIsAttacked(t *testing.T) {
	known := map[string]bool{}
	for _, p := range api.Permits() {
		if p.Method == "" {
			testkit.Holds(t, len(verbs[p.Operation]) > 0, "no request has the verb", p.Operation)
			known["verb "+p.Operation] = true
			continue
		}
		testkit.Holds(t, len(requests[p.Operation]) > 0, p.Method, p.Path, "has no requests: add them for the operation", p.Operation)
		known[p.Operation] = true
	}
	for operation := range requests {
		testkit.Holds(t, known[operation], "there is no operation", operation)
	}
	for verb := range verbs {
		testkit.Holds(t, known["verb "+verb], "there is no verb", verb)
	}
	for _, r := range api.Routes() {
		found := false
		for _, p := range api.Permits() {
			found = found || p.Route == r
		}
		testkit.Holds(t, found, "api.Permits leaves out", r)
	}
}

// TestOwnersGetIn: each request succeeds with a key that may send it, and the tests of this package notice each change.
func TestOwnersGetIn(t *testing.T) {
	start(t).ownersGetIn()
}

func (s *server) ownersGetIn() {
	s.Helper()
	var heads []func()
	s.eachRequest(func(p *api.Permit, r *request, what string) {
		owner := "victim"
		if r.client == outside {
			owner = "boss"
		}
		try := func() {
			before, seen := s.state(), s.documents()
			a := s.ask(p, r, s.things, s.as(owner)...)
			good := a.status < 400
			if r.status != 0 {
				good = a.status == r.status
			}
			testkit.Holds(s, good, what, "of", owner, a.status, a.body)
			if p.Operation == "rotateKey" || p.Operation == "revokeKey" {
				_ = s.send("DELETE", "/keys/victim", "", s.as("boss")...) // it may be revoked already
				s.newKey("victim", `"roles":["operator","producer","worker"],"clients":["victim"]`)
			}
			if !r.changes || p.Method == http.MethodHead {
				same(s, s.state(), before, what)
				return
			}
			testkit.Holds(s, s.state() != before && (s.documents() != seen || r.idle), what, "changed nothing that the tests of this package see", a.status, a.body)
			s.must("POST", "/start", "", s.as("boss")...)
			s.must("POST", "/queues/victim/sealed/resume", "", s.as("victim")...)
			s.fill()
		}
		if p.Method == http.MethodHead {
			heads = append(heads, try)
			return
		}
		try()
	})
	for _, try := range heads {
		try()
	}
}
