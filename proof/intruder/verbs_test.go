package intruder

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// verbs has the requests of each verb of a stream. A key of another client or type sends them after a hello of its own.
var verbs = map[string][]request{
	"hello":       {{body: `{"runner_id":"{runner}"}`, client: refused, typ: refused}, {body: `{"runner_id":"OWN","claims":["{claim}"]}`}},
	"subscribe":   {{body: `{"credit":1,"clients":["{client}"],"types":["{type}"]}`, client: refused, typ: refused}},
	"credit":      {{body: `{"subscription":1,"credit":5}`, client: nothing, typ: nothing}}, // streams number their own subscriptions
	"unsubscribe": {{body: `{"subscription":1}`, client: nothing, typ: nothing}},
	"create": {
		{body: `{"client":"{client}","type":"{type}"}`, client: refused, typ: refused},
		{body: `[{"client":"{client}","type":"{type}"},{"client":"{client}","type":"{type}"}]`, client: refused, typ: refused},
	},
	"complete": {
		{body: `{"job_id":"{active}","code":"ok"}`}, {body: `{"job_id":"{active}","claim_id":"{claim}","code":"ok"}`},
		{body: `[{"job_id":"{active}","claim_id":"{claim}","code":"failed"},{"job_id":"{waiting}","code":"ok"}]`},
	},
	"tickle":  {{body: `{"lease_ms":7200000}`, client: nothing, typ: nothing}}, // it is about the jobs of the stream
	"release": {{body: `{"job_id":"{active}","claim_id":"{claim}","how":"unget"}`}},
	"begin":   {{body: `{"claim_id":"{claim}","job_ids":["{active}"]}`}},
}

// stream is the client's end of a stream.
type stream struct {
	s    *server
	conn *websocket.Conn
	n    int
}

func (s *server) open(key string) *stream {
	s.Helper()
	conn, _, err := websocket.Dial(s.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/stream",
		&websocket.DialOptions{Subprotocols: []string{"daybook.v1"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + s.keys[key]}}})
	testkit.NoError(s, err, "open a stream with the key", key)
	s.Cleanup(func() { _ = conn.CloseNow() })
	return &stream{s, conn, 0}
}

// send sends a request, and returns the answer without its number, and the code if it is a refusal. An error means that
// the stream has ended.
func (c *stream) send(verb, body string) (text, code string, err error) {
	c.n++
	request := fmt.Sprintf(`{"n":%d,%q:%s}`, c.n, verb, body)
	if err := c.conn.Write(c.s.Context(), websocket.MessageText, []byte(request)); err != nil {
		return "", "", err
	}
	for {
		ctx, cancel := context.WithTimeout(c.s.Context(), time.Minute)
		_, message, err := c.conn.Read(ctx)
		cancel()
		if err != nil {
			return "", "", err
		}
		for line := range strings.Lines(string(message)) {
			var doc struct {
				N       int
				Problem struct{ Code string }
			}
			testkit.NoError(c.s, json.Unmarshal([]byte(line), &doc), line)
			if doc.N == c.n {
				return strings.Replace(line, fmt.Sprintf(`"n":%d`, c.n), `"n":0`, 1), doc.Problem.Code, nil
			}
		}
	}
}

func (s *server) eachVerb(f func(p *api.Permit, r *request, what string)) {
	for _, p := range api.Permits() {
		for i := range verbs[p.Operation] {
			if r := &verbs[p.Operation][i]; p.Method == "" {
				f(&p, r, p.Operation+" "+r.body)
			}
		}
	}
}

// TestVerbsOfRoles: a stream refuses each verb for which its key has no role.
func TestVerbsOfRoles(t *testing.T) {
	s := start(t)
	for _, role := range []job.Role{job.RoleOperator, job.RoleProducer, job.RoleWorker} { // TestRoles: others open no stream
		s.newKey(role.String(), `"roles":["`+role.String()+`"]`)
		s.eachVerb(func(p *api.Permit, r *request, what string) {
			if p.Roles.Has(job.RolesOf(role)) {
				return
			}
			before := s.state()
			_, code, err := s.open(role.String()).send(p.Operation, strings.ReplaceAll(fillIn(r.body, s.things), "OWN", "own-1"))
			testkit.Holds(t, err == nil && code == "role_missing", what, "with the role", role, code, err)
			same(t, s.state(), before, what)
		})
	}
}

// TestVerbsOfSpentKeys: an open stream refuses each verb from the moment on at which its key is revoked, rotated or expired, or is
// replaced by one of the same name and secret for another client.
func TestVerbsOfSpentKeys(t *testing.T) {
	s := start(t)
	spent := map[string]func(name string){
		"revoked": func(name string) { s.must("DELETE", "/keys/"+name, "", s.as("boss")...) },
		"rotated": func(name string) { s.must("POST", "/keys/"+name+"/rotate", "{}", s.as("boss")...) },
		"expired": func(string) { s.ahead.Add(60_000) },
		"replaced": func(name string) {
			s.must("DELETE", "/keys/"+name, "", s.as("boss")...)
			_, sum, err := job.ParseKeyText(s.keys[name])
			testkit.NoError(t, err)
			s.must("POST", "/keys", `{"name":"`+name+`","roles":["operator"],"clients":["victim"],"runner_prefix":"victim:","sha256":"`+sum.String()+`"}`, s.as("boss")...)
		},
	}
	i := 0
	for how, spend := range spent {
		s.eachVerb(func(p *api.Permit, r *request, what string) {
			i++
			name := fmt.Sprintf("key%d", i)
			now := int64(s.must("GET", "/stats", "", s.as("boss")...)["now"].(float64))
			s.newKey(name, `"roles":["operator","producer","worker"],"clients":["victim"],"expires_at":`+number(now+50_000))
			c := s.open(name)
			if p.Operation != "hello" {
				_, code, err := c.send("hello", `{"runner_id":"`+name+`:1"}`)
				testkit.Holds(t, err == nil && code == "", code, err)
			}
			spend(name)
			before := s.state()
			answer, code, err := c.send(p.Operation, strings.ReplaceAll(fillIn(r.body, s.things), "OWN", name+"-1"))
			testkit.Holds(t, err != nil || code == "key_refused", what, "with a key that is", how, answer)
			same(t, s.state(), before, what, "with a key that is", how)
			_ = c.conn.CloseNow()
		})
	}
}

// TestWaitsOfSpentKeys: a request that waits ends soon after its key was revoked.
func TestWaitsOfSpentKeys(t *testing.T) {
	s := start(t)
	const tenant = `"roles":["operator","producer","worker"],"clients":["victim"]`
	for what, wait := range map[string][3]string{
		"claim":   {"POST", "/jobs/claim", `{"runner_id":"waits:1","types":["late"],"max":1,"wait_ms":60000}`},
		"log":     {"GET", "/jobs/" + s.things["active"] + "/log?follow=true", ""},
		"results": {"GET", "/batches/" + s.things["batch"] + "/results?follow=true", ""},
	} {
		s.newKey("waits", tenant)
		answers := make(chan string, 1)
		began := make(chan struct{})
		go func() {
			defer close(answers)
			r, err := http.NewRequestWithContext(t.Context(), wait[0], s.url+wait[1], strings.NewReader(wait[2]))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+s.keys["waits"])
			r.Header.Set("Content-Type", "application/json")
			if what == "claim" {
				close(began)
			}
			resp, err := http.DefaultClient.Do(r)
			if what != "claim" {
				close(began)
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			answers <- fmt.Sprint(resp.StatusCode, " ", string(text), " ", err)
		}()
		<-began
		if what == "claim" {
			testkit.Eventually(t, "the claim waits", func() bool {
				return len(answers) > 0 || s.must("GET", "/stats", "", s.as("boss")...)["parked_claims"] == 1.0
			})
			testkit.Holds(t, len(answers) == 0, "the claim does not wait")
		}
		s.must("DELETE", "/keys/waits", "", s.as("boss")...)
		answer := <-answers // nothing has happened that it waited for
		switch what {
		case "claim":
			testkit.Contains(t, answer, "401", "key_refused")
		default:
			testkit.Contains(t, answer, "200", "unexpected EOF") // it is cut off
		}
	}
}

// TestVerbsOfTenants: in a stream of another client or type, things of the victim are things that do not exist.
func TestVerbsOfTenants(t *testing.T) {
	s := start(t)
	for _, who := range []string{"neighbor", "typed"} {
		s.eachVerb(func(p *api.Permit, r *request, what string) {
			v := r.client
			if who == "typed" {
				v = r.typ
			}
			what += " with the key " + who
			ask := func(things map[string]string) (string, string) {
				c := s.open(who)
				defer c.conn.CloseNow()
				own := who + ":" + number(time.Now().UnixNano()) // a stream keeps its runner for a while
				if p.Operation != "hello" {
					text, code, err := c.send("hello", `{"runner_id":"`+own+`"}`)
					testkit.Holds(t, err == nil && code == "", text, err)
				}
				text, code, err := c.send(p.Operation, strings.ReplaceAll(fillIn(r.body, things), "OWN", own))
				testkit.NoError(t, err)
				return text, code
			}
			before := s.documents()
			text, code := ask(s.things)
			none, _ := ask(s.absent(who))
			if p.Operation == "hello" && v == unknown {
				text, none = withoutResume(t, text), withoutResume(t, none)
			}
			testkit.Equal(t, ages.ReplaceAllString(s.asAbsent(text, who), ""), ages.ReplaceAllString(none, ""), what)
			testkit.Holds(t, v != refused || code == "out_of_scope", what, text)
			s.lacks(s.asAbsent(text, who), s.marks(who), what)
			same(t, s.documents(), before, what)
		})
	}
}

// withoutResume returns the answer to a hello without the random id of its stream.
func withoutResume(t *testing.T, text string) string {
	t.Helper()
	var doc struct {
		OK map[string]any
	}
	testkit.NoError(t, json.Unmarshal([]byte(text), &doc))
	testkit.Holds(t, doc.OK["claims"] != nil, text)
	delete(doc.OK, "stream_id")
	delete(doc.OK, "stream")
	return string(testkit.Must(json.Marshal(doc.OK))(t))
}
