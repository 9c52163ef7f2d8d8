package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestEveryOperationHasAccess: the table of access has each operation and no other.
func TestEveryOperationHasAccess(t *testing.T) {
	s := unserved()
	routes := append(s.routes(), s.getSwitches()...)
	testkit.NoError(t, checkAccess(routes))
	known := map[string]bool{}
	for _, r := range routes {
		known[r.id] = true
	}
	for id := range access {
		testkit.Holds(t, known[id], "there is no operation", id)
	}
	err := checkAccess([]route{{id: "unknown", method: "GET", path: "/x"}})
	testkit.Holds(t, err != nil && strings.Contains(err.Error(), "operation unknown"), err)
}

// as returns the headers of a request with a key.
func as(key string) []string { return []string{"Authorization", "Bearer " + key} }

// newKey creates a key and returns its text.
func (r *rig) newKey(by, name, role string) string {
	r.Helper()
	var headers []string
	if by != "" {
		headers = as(by)
	}
	a := r.post("/keys", `{"name":"`+name+`","roles":["`+role+`"]}`, headers...)
	testkit.Equal(r, a.header.Get("Cache-Control"), "no-store")
	return a.object(http.StatusCreated)["key"].(string)
}

// TestKeys: without a key everybody may do everything. From the first key on each request needs one, with a role of its route.
func TestKeys(t *testing.T) {
	r := start(t)
	r.get("/jobs").object(http.StatusOK)
	testkit.Equal(t, r.get("/whoami").object(http.StatusOK)["name"], nil)
	r.post("/keys", `{"name":"p","roles":["producer"]}`).refused(http.StatusConflict, "admin_key_first")
	r.post("/keys", `{"name":"p","roles":["admin"],"expires_at":253402300799999}`).refused(http.StatusConflict, "admin_key_first")
	r.post("/keys", `{"name":"a/b","roles":["admin"]}`).wrong("name")
	r.post("/keys", `{"name":"p","roles":[]}`).wrong("roles")
	r.post("/keys", `{"name":"p","roles":["root"]}`).wrong("roles[0]")
	admin := r.newKey("", "boss", "admin")
	testkit.Holds(t, strings.HasPrefix(admin, "dbk_boss_"), admin)

	for _, path := range []string{"/ping", "/healthz", "/readyz", "/version", "/openapi.json", "/docs", "/"} {
		testkit.Equal(t, r.get(path).status, http.StatusOK, path)
	}
	none := r.get("/jobs")
	none.refused(http.StatusUnauthorized, "key_required")
	testkit.Holds(t, strings.HasPrefix(none.header.Get("Www-Authenticate"), "Bearer"), none.header)
	r.get("/jobs", as(admin)...).object(http.StatusOK)
	for _, wrong := range []string{"", "x", admin[:len(admin)-1], admin + "0", job.KeyText("boss", [job.SecretBytes]byte{}), job.KeyText("nobody", [job.SecretBytes]byte{})} {
		r.get("/jobs", as(wrong)...).refused(http.StatusUnauthorized, "key_refused")
	}
	r.get("/jobs", append(as(admin), as(admin)...)...).refused(http.StatusUnauthorized, "key_refused")
	basic := r.get("/whoami", "Authorization", "basic "+base64.StdEncoding.EncodeToString([]byte("anything:"+admin)))
	testkit.Equal(t, basic.object(http.StatusOK)["name"], any("boss"))

	producer, worker, reader := r.newKey(admin, "p", "producer"), r.newKey(admin, "w", "worker"), r.newKey(admin, "r", "reader")
	r.post("/keys", `{"name":"p","roles":["reader"]}`, as(admin)...).refused(http.StatusConflict, "key_exists")
	r.post("/keys", `{"name":"team","roles":["worker"],"clients":["acme"]}`, as(admin)...).object(http.StatusCreated)
	r.post("/keys", `{"name":"team-b","roles":["worker"],"clients":["other"]}`, as(admin)...).object(http.StatusCreated)
	for _, prefix := range []string{"team:", "team:x", "te"} {
		text := `{"name":"q","roles":["worker"],"clients":["other"],"runner_prefix":"` + prefix + `"}`
		r.post("/keys", text, as(admin)...).refused(http.StatusConflict, "runner_prefix_taken")
	}
	r.post("/keys", `{"name":"q","roles":["worker"],"clients":["acme"],"runner_prefix":"team:x"}`, as(admin)...).object(http.StatusCreated)
	r.post("/keys", `{"name":"all","roles":["worker"],"runner_prefix":"team:"}`, as(admin)...).refused(http.StatusConflict, "runner_prefix_taken")
	for _, name := range []string{"q", "team", "team-b"} {
		testkit.Equal(t, r.do(http.MethodDelete, "/keys/"+name, nil, as(admin)...).status, http.StatusNoContent)
	}
	r.post("/jobs/create", `{}`, as(producer)...).object(http.StatusCreated)
	r.post("/jobs/create", `{}`, as(worker)...).refused(http.StatusForbidden, "role_missing")
	r.post("/jobs/claim", `{"runner_id":"r1"}`, as(producer)...).refused(http.StatusForbidden, "role_missing")
	r.post("/jobs/claim", `{"runner_id":"r1"}`, as(worker)...).object(http.StatusOK)
	r.get("/jobs", as(reader)...).object(http.StatusOK)
	r.get("/keys", as(reader)...).refused(http.StatusForbidden, "role_missing")
	r.post("/keys", `{"name":"x","roles":["admin"]}`, as(producer)...).refused(http.StatusForbidden, "role_missing")

	list := r.get("/keys", as(admin)...)
	testkit.Holds(t, !strings.Contains(list.body, "sha256") && !strings.Contains(list.body, "dbk_"), list.body)
	testkit.Equal(t, len(list.object(http.StatusOK)["keys"].([]any)), 4)
	one := r.get("/keys?limit=1&after=boss", as(admin)...).object(http.StatusOK)
	testkit.Equal(t, one["next"], any("p"))

	overlapped := r.post("/keys/p/rotate", `{"overlap_ms":60000}`, as(admin)...).object(http.StatusOK)["key"].(string)
	r.get("/jobs", as(producer)...).object(http.StatusOK)
	r.get("/jobs", as(overlapped)...).object(http.StatusOK)
	newest := r.post("/keys/p/rotate", ``, as(admin)...).object(http.StatusOK)["key"].(string)
	r.get("/jobs", as(producer)...).refused(http.StatusUnauthorized, "key_refused")
	r.get("/jobs", as(overlapped)...).refused(http.StatusUnauthorized, "key_refused")
	r.get("/jobs", as(newest)...).object(http.StatusOK)

	elsewhere := job.KeyText("imported", [job.SecretBytes]byte{9})
	_, sum, err := job.ParseKeyText(elsewhere)
	testkit.NoError(t, err)
	imported := r.post("/keys", `{"name":"imported","roles":["reader"],"sha256":"`+sum.String()+`"}`, as(admin)...).object(http.StatusCreated)
	testkit.Equal(t, imported["key"], nil)
	testkit.Equal(t, r.get("/whoami", as(elsewhere)...).object(http.StatusOK)["name"], any("imported"))

	testkit.Equal(t, r.do(http.MethodDelete, "/keys/p", nil, as(admin)...).status, http.StatusNoContent)
	r.get("/jobs", as(newest)...).refused(http.StatusUnauthorized, "key_refused")
	r.get("/keys/p", as(admin)...).refused(http.StatusNotFound, "key_not_found")
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/boss", nil, as(admin)...).status, http.StatusNoContent)
	r.get("/jobs").refused(http.StatusUnauthorized, "key_required") // also after the last admin has gone
}

// TestKeysOfStreams: a stream needs a key, each verb a role, and a stream ends soon after its key was revoked or the first key was
// made. The jobs that it holds go back.
func TestKeysOfStreams(t *testing.T) {
	r := start(t)
	before := r.open()
	before.ok(before.send("hello", `{"runner_id":"early"}`))
	admin := r.newKey("", "boss", "admin")
	ended := func(c *streamClient) {
		t.Helper()
		_, _, err := c.conn.Read(t.Context())
		for err == nil { // messages that were on their way
			_, _, err = c.conn.Read(t.Context())
		}
	}
	ended(before)
	_, refused, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/stream", &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}})
	testkit.Holds(t, err != nil && refused.StatusCode == http.StatusUnauthorized, err)

	with := func(key string) func(*websocket.DialOptions) {
		return func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Authorization": {"Bearer " + key}} }
	}
	producer := r.open(with(r.newKey(admin, "p", "producer")))
	producer.ok(producer.send("create", `{"type":"resize"}`))
	producer.refusal(producer.send("complete", `{"job_ids":[]}`), "role_missing")
	producer.refusal(producer.send("subscribe", `{}`), "role_missing")
	worker := r.open(with(r.newKey(admin, "w", "worker")))
	worker.ok(worker.send("hello", `{"runner_id":"r1","linger_ms":60000}`))
	worker.refusal(worker.send("create", `{}`), "role_missing")
	_, ids := worker.pushed(worker.send("subscribe", `{"credit":1}`))
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/w", nil, as(admin)...).status, http.StatusNoContent)
	ended(worker)
	r.until("the job goes back at once", func() bool {
		return r.get("/jobs/"+ids[0], as(admin)...).object(http.StatusOK)["status"] == "pending"
	})
}

// TestRequireKeys: a server that requires keys refuses requests before its first key, and is not ready before its caller says so.
func TestRequireKeys(t *testing.T) {
	var why atomic.Pointer[error]
	r := start(t, func(s *setup) {
		s.RequireKeys = true
		s.Unready = func() error {
			if err := why.Load(); err != nil {
				return *err
			}
			return nil
		}
	})
	reason := errors.New("the key of the admin is not stored yet")
	why.Store(&reason)
	unready := r.get("/readyz")
	unready.refused(http.StatusServiceUnavailable, "not_ready")
	testkit.Contains(t, unready.body, reason.Error())
	r.get("/healthz").object(http.StatusOK)
	why.Store(nil)
	r.get("/readyz").object(http.StatusOK)
	r.get("/jobs").refused(http.StatusUnauthorized, "key_required")
	r.post("/keys", `{"name":"boss","roles":["admin"]}`).refused(http.StatusUnauthorized, "key_required")
}

// TestWrongKeys: an address gets 429 after ten wrong keys a minute, and one more answer each six seconds. Neither requests without
// a key nor those of other addresses count, and a right key passes all the time. The table of addresses is bounded.
func TestWrongKeys(t *testing.T) {
	now := int64(1_000_000)
	w := &wrongKeys{now: func() int64 { return now }}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::")
	for range 2 * wrongKeysPerMinute {
		testkit.Equal(t, w.refuse(a, errNoKey), error(errNoKey))
	}
	for range wrongKeysPerMinute {
		testkit.Equal(t, w.refuse(a, errWrongKey), error(errWrongKey))
	}
	limited := func(peer netip.Addr, seconds int) {
		t.Helper()
		p, ok := errors.AsType[*web.Problem](w.refuse(peer, errWrongKey))
		testkit.Holds(t, ok && p.Code == "rate_limited" && p.RetryAfter.Round(time.Millisecond) == time.Duration(seconds)*time.Second, p)
	}
	limited(a, 6)
	testkit.Equal(t, w.refuse(b, errWrongKey), error(errWrongKey))
	now += 5000
	limited(a, 1)
	now += 1000
	testkit.Equal(t, w.refuse(a, errWrongKey), error(errWrongKey))
	limited(a, 6)
	for i := range 2 * maxWrongPeers {
		_ = w.refuse(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), errWrongKey)
		testkit.MustHold(t, len(w.peers) <= maxWrongPeers, "the table has", len(w.peers), "addresses")
	}
	now += 60_000
	testkit.Equal(t, w.refuse(netip.MustParseAddr("203.0.113.1"), errWrongKey), error(errWrongKey))
	testkit.Equal(t, len(w.peers), 1) // all others sent none for a minute
}

// TestRightKeyAmongWrongOnes: the limit of wrong keys refuses no right key of the same address.
func TestRightKeyAmongWrongOnes(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	for range wrongKeysPerMinute {
		r.get("/jobs", as("wrong")...).refused(http.StatusUnauthorized, "key_refused")
	}
	limited := r.get("/jobs", as(job.KeyText("boss", [job.SecretBytes]byte{}))...)
	limited.refused(http.StatusTooManyRequests, "rate_limited")
	testkit.Holds(t, limited.header.Get("Retry-After") != "", limited.header)
	r.get("/jobs", as(admin)...).object(http.StatusOK)
	r.get("/jobs").refused(http.StatusUnauthorized, "key_required")
}

// TestLastUse: a key shows the hour of its last use, which a rotation keeps and a revocation ends.
func TestLastUse(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	used := func(name string) any { return r.get("/keys/"+name, as(admin)...).object(http.StatusOK)["last_used_at"] }
	reader := r.newKey(admin, "r", "reader")
	testkit.Equal(t, used("r"), nil)
	r.get("/jobs", as(job.KeyText("r", [job.SecretBytes]byte{}))...).refused(http.StatusUnauthorized, "key_refused")
	testkit.Equal(t, used("r"), nil) // a wrong secret is no use
	r.get("/jobs", as(reader)...).object(http.StatusOK)
	hour := used("r")
	n := testkit.Must(strconv.ParseInt(fmt.Sprint(hour), 10, 64))(t)
	testkit.Holds(t, n > 0 && n%(60*60*1000) == 0, n)
	r.post("/keys/r/rotate", ``, as(admin)...).object(http.StatusOK)
	testkit.Equal(t, used("r"), hour)
	for _, k := range r.get("/keys", as(admin)...).object(http.StatusOK)["keys"].([]any) {
		testkit.Holds(t, k.(map[string]any)["last_used_at"] != nil, k)
	}
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/r", nil, as(admin)...).status, http.StatusNoContent)
	r.newKey(admin, "r", "reader")
	testkit.Equal(t, used("r"), nil)
}

// TestTrustedDoesNotListen: a server whose requests need no keys serves only its own process.
func TestTrustedDoesNotListen(t *testing.T) {
	s := testkit.Must(newServer(Options{Trusted: true}, idle{}))(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	testkit.Failed(t, s.Run(t.Context(), l, 0), "does not listen")
}

// withKey is an engine with one key.
type withKey struct {
	backend.Engine
	key *job.Key
}

func (k withKey) Key(string) *job.Key { return k.key }
func (withKey) KeysRequired() bool    { return true }
func (withKey) KeysKnown() bool       { return true }
func (withKey) Now() int64            { return 5 }

// replaying is an engine that has not applied its log yet.
type replaying struct{ backend.Engine }

func (replaying) KeysKnown() bool    { return false }
func (replaying) KeysRequired() bool { return false }

// TestNobodyPassesBeforeKeysAreKnown: a server that replays its log does not know yet whether there are keys, so nobody passes: not
// as anybody, and not with a key that may have been revoked.
func TestNobodyPassesBeforeKeysAreKnown(t *testing.T) {
	a := &authorizer{engine: replaying{}}
	for _, c := range []web.Credentials{{}, {Authorization: []string{"Bearer " + job.KeyText("k", [job.SecretBytes]byte{7})}}} {
		testkit.Fails(a.authorize(c, admins))(t, ingest.ErrNotReady)
	}
	a.trusted = true
	testkit.Must(a.authorize(web.Credentials{}, admins))(t)
}

// TestRolesOfRoutes: a key with one role passes at a route if and only if the table says so; an expired key passes nowhere.
func TestRolesOfRoutes(t *testing.T) {
	text := job.KeyText("k", [job.SecretBytes]byte{7})
	_, sum, err := job.ParseKeyText(text)
	testkit.NoError(t, err)
	headers := []string{"Bearer " + text}
	for _, r := range unserved().routes() {
		for _, name := range (admins | readers | watchers).Names() {
			role := job.RolesOf(testkit.Must(job.ParseRole(name))(t))
			key := &job.Key{Actor: job.Actor{Name: "k"}, Roles: role, Sum: sum, LastUse: new(atomic.Int64)}
			_, err := (&authorizer{engine: withKey{key: key}}).authorize(web.Credentials{Authorization: headers}, access[r.id].Roles())
			want := role == admins || access[r.id].Roles().Has(role)
			testkit.Holds(t, !access[r.id].NeedsKey() || (err == nil) == want, r.id, "with role", name, "gives", err)
			key.ExpiresAt = 5
			_, err = (&authorizer{engine: withKey{key: key}}).authorize(web.Credentials{Authorization: headers}, access[r.id].Roles())
			testkit.Holds(t, err == error(errWrongKey), r.id, "with an expired key gives", err)
		}
	}
	g := &authorizer{engine: withKey{key: &job.Key{Actor: job.Actor{Name: "k"}, Roles: readers, Sum: sum, LastUse: new(atomic.Int64)}}}
	if n := testing.AllocsPerRun(100, func() { _, _ = g.authorize(web.Credentials{Authorization: headers}, readers) }); n != 0 {
		t.Errorf("a check takes %v allocations", n)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	text := job.KeyText("acme.producer", [job.SecretBytes]byte{7})
	_, sum, err := job.ParseKeyText(text)
	testkit.NoError(b, err)
	g, headers := &authorizer{engine: withKey{key: &job.Key{Actor: job.Actor{Name: "acme.producer"}, Roles: readers, Sum: sum, LastUse: new(atomic.Int64)}}}, []string{"Bearer " + text}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.authorize(web.Credentials{Authorization: headers}, readers); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRates: a key that has used up a rate gets 429 until there is something left. What must not be lost is never refused.
func TestRates(t *testing.T) {
	began := time.Now()
	var passed atomic.Int64
	r := start(t, func(o *setup) { o.now = func() time.Time { return began.Add(time.Duration(passed.Load())) } })
	admin := r.newKey("", "boss", "admin")
	r.post("/keys", `{"name":"x","roles":["reader"],"rates":{}}`, as(admin)...).wrong("")
	r.post("/keys", `{"name":"x","roles":["reader"],"rates":{"creates":0}}`, as(admin)...).wrong("")
	r.post("/keys", `{"name":"x","roles":["reader"],"rates":{"bytes":1000}}`, as(admin)...).wrong("")
	r.post("/keys", `{"name":"x","roles":["reader"],"rates":{"more":1}}`, as(admin)...).wrong("rates.more")
	made := r.post("/keys", `{"name":"k","roles":["producer","worker"],"rates":{"creates":2,"claims":2,"reads":2,"bytes":2000,"streams":1,"parked_claims":1}}`, as(admin)...).object(http.StatusCreated)
	key := made["key"].(string)
	want := map[string]any{"creates": 2.0, "claims": 2.0, "reads": 2.0, "bytes": 2000.0, "streams": 1.0, "parked_claims": 1.0}
	testkit.Equal(t, fmt.Sprint(made["rates"]), fmt.Sprint(want))
	testkit.Equal(t, fmt.Sprint(r.get("/keys/k", as(admin)...).object(http.StatusOK)["rates"]), fmt.Sprint(want))
	testkit.Equal(t, r.get("/whoami", as(admin)...).object(http.StatusOK)["rates"], nil)
	testkit.Equal(t, fmt.Sprint(r.get("/whoami", as(key)...).object(http.StatusOK)["rates"]), fmt.Sprint(want))
	limited := func(a reply) {
		t.Helper()
		a.refused(http.StatusTooManyRequests, "rate_limited")
		testkit.Equal(t, a.header.Get("Retry-After"), fmt.Sprint(a.object(http.StatusTooManyRequests)["retry_after"]))
		testkit.Equal(t, a.object(http.StatusTooManyRequests)["outcome"], any("not_stored"))
	}

	r.get("/jobs", as(key)...).object(http.StatusOK)
	limited(r.get("/jobs", as(key)...))
	r.post("/jobs/create", `[{},{}]`, as(key)...).object(http.StatusCreated)
	limited(r.post("/jobs/create", `{}`, as(key)...))
	limited(r.post("/add", "a\n", as(key)...))
	stream := r.open(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Authorization": {"Bearer " + key}} })
	stream.refusal(stream.send("create", `{}`), "rate_limited")
	_, refused, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/stream", &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
	testkit.Holds(t, err != nil && refused.StatusCode == http.StatusTooManyRequests, err)

	passed.Add(int64(time.Hour))
	claim := r.post("/jobs/claim", `{"runner_id":"r1","max":5}`, as(key)...).object(http.StatusOK)
	jobs := claim["jobs"].([]any)
	testkit.Equal(t, len(jobs), 2)
	limited(r.post("/jobs/claim", `{"runner_id":"r1","wait_ms":60000}`, as(key)...))
	r.put("/blobs?client=default", strings.Repeat("y", 5000), as(key)...).object(http.StatusCreated)
	limited(r.put("/blobs?client=default", strings.Repeat("x", 5000), as(key)...))
	id := func(i int) string { return jobs[i].(map[string]any)["job_id"].(string) }
	r.post("/jobs/"+id(0)+"/tickle", `{}`, as(key)...).object(http.StatusOK)
	both := r.post("/jobs/claim", `{"runner_id":"r1","complete":{"outcomes":[{"job_id":"`+id(0)+`","status":"completed"}]}}`, as(key)...).object(http.StatusOK)
	testkit.Contains(t, fmt.Sprint(both), "rate_limited")
	testkit.Equal(t, r.get("/jobs/"+id(0), as(admin)...).object(http.StatusOK)["status"], any("completed"))
	stream.ok(stream.send("complete", `{"outcomes":[{"job_id":"`+id(1)+`","status":"completed"}]}`))
	stream.refusal(stream.send("create", `{}`), "rate_limited")
}

// TestRunnersOfARevokedKey: nobody else's key may name the runners that a revoked key has left.
func TestRunnersOfARevokedKey(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	create := func(name, client, prefix string) reply {
		return r.post("/keys", fmt.Sprintf(`{"name":%q,"roles":["producer","worker"],"clients":[%q],"runner_prefix":%q}`, name, client, prefix), as(admin)...)
	}
	holding := create("holding", "bolt", "h:").object(http.StatusCreated)["key"].(string)
	r.post("/jobs/create", `{"client":"bolt"}`, as(holding)...).object(http.StatusCreated)
	claim := r.post("/jobs/claim", `{"runner_id":"h:1","clients":["bolt"]}`, as(holding)...).object(http.StatusOK)["claim_id"].(string)
	alive := create("alive", "bolt", "a:").object(http.StatusCreated)["key"].(string)
	r.post("/runners/a:1", `{"instance":"one","clients":["bolt"]}`, as(alive)...).object(http.StatusOK)
	for _, name := range []string{"holding", "alive"} {
		testkit.Equal(t, r.do(http.MethodDelete, "/keys/"+name, nil, as(admin)...).status, http.StatusNoContent)
	}
	for _, prefix := range []string{"h:", "h", "a:", "a:1"} {
		create("other", "acme", prefix).refused(http.StatusConflict, "runner_prefix_taken")
	}
	create("again", "bolt", "h:").object(http.StatusCreated)
	create("again2", "bolt", "a:").object(http.StatusCreated)
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/again", nil, as(admin)...).status, http.StatusNoContent)
	r.post("/jobs/complete", `{"claim_id":"`+claim+`","status":"completed"}`, as(admin)...).object(http.StatusOK)
	create("other", "acme", "h:").object(http.StatusCreated)
}
