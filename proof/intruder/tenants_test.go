package intruder

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }

// absent are names and ids of things that do not exist, as somebody sends them: the typed key is for the victim's client, so it
// knows the name.
func (s *server) absent(who string) map[string]string {
	none := map[string]string{"client": "absent", "type": "absent", "runner": "absent:1", "fileset": "absent", "key": "absent", "node": "9", "upload": "u" + strings.Repeat("0", 32), "address": "sha256:" + strings.Repeat("0", 64)}
	if who == "typed" {
		none["client"] = "victim"
	}
	for name := range s.things {
		if none[name] == "" {
			none[name] = unknownID
		}
	}
	return none
}

// asAbsent replaces the victim's names and ids in an answer by those of things that do not exist.
func (s *server) asAbsent(body, who string) string {
	none := s.absent(who)
	names := []string{}
	for name := range s.things {
		if name != "node" && name != "key" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(s.things[b]) - len(s.things[a]) }) // the client's name begins the runner's
	for _, name := range names {
		body = strings.ReplaceAll(body, s.things[name], none[name])
	}
	return body
}

// marks are texts that only the victim may see, and not somebody.
func (s *server) marks(not string) []string {
	marks := []string{"sealed", "swept", quotaMark, payloadMark, outputMark, errorMark}
	if not != "typed" { // a typed key is for the client, with its blobs
		marks = append(marks, "victim", otherMark, s.things["upload"], s.things["address"])
	}
	for _, name := range []string{"active", "done", "failed", "waiting", "batch", "claim", "session", "sweep", "version"} {
		marks = append(marks, s.things[name])
	}
	return marks
}

func (s *server) lacks(body string, marks []string, context ...any) {
	s.Helper()
	for _, mark := range marks {
		if strings.Contains(body, mark) {
			s.Errorf("%v shows %s: %s", context, mark, body)
			return
		}
	}
}

// TestTenants: a key of another client, and a key of another type, get the answers of things that do not exist, and change nothing.
func TestTenants(t *testing.T) {
	s := start(t)
	for _, who := range []string{"neighbor", "typed"} { // their lists are not empty
		client := map[string]string{"neighbor": "neighbor", "typed": "victim"}[who]
		s.must("POST", "/jobs/create", `[{"client":"`+client+`","type":"plain"},{"client":"`+client+`","type":"plain"}]`, s.as(who)...)
	}
	for _, who := range []string{"neighbor", "typed"} {
		s.eachRequest(func(p *api.Permit, r *request, what string) {
			v := r.client
			if who == "typed" {
				v = r.typ
			}
			if v == own {
				return
			}
			what = fmt.Sprintf("%s with the key %s", what, who)
			before := s.documents()
			a := s.ask(p, r, s.things, s.as(who)...)
			none := s.ask(p, r, s.absent(who), s.as(who)...)
			code := func(want ...string) bool { return p.Method == http.MethodHead || slices.Contains(want, a.code()) }
			switch v {
			case unknown, refused:
				testkit.Holds(t, a.status == none.status && s.asAbsent(a.body, who) == none.body, what, "differs from one for things that do not exist:", a.status, a.body, none.status, none.body)
				if v == refused {
					testkit.Holds(t, a.status == http.StatusForbidden && code("out_of_scope"), what, a.status, a.body)
				}
				s.lacks(none.body, s.marks(who), what)
				s.lacks(s.asAbsent(a.body, who), s.marks(who), what)
			case listed:
				testkit.Holds(t, a.status == http.StatusOK, what, a.status, a.body)
				s.lacks(a.body, s.marks(who), what)
			case outside:
				testkit.Holds(t, a.status == http.StatusForbidden && code("out_of_scope", "role_missing"), what, a.status, a.body)
				s.lacks(a.body, s.marks(who), what)
			case nothing:
				s.lacks(a.body, s.marks(who), what)
			}
			same(t, s.documents(), before, what)
		})
	}
}

// TestListsDoNotMove: lists, counts and pages of a tenant are the same before and after others create, claim, end and store things.
func TestListsDoNotMove(t *testing.T) {
	s := start(t)
	s.must("POST", "/jobs/create", `[{"client":"neighbor","type":"plain"},{"client":"neighbor","type":"sealed"}]`, s.as("neighbor")...)
	s.must("POST", "/jobs/create", `{"client":"victim","type":"plain"}`, s.as("typed")...)
	look := func(who string) map[string]string {
		all := map[string]string{}
		s.eachRequest(func(p *api.Permit, r *request, what string) {
			if p.Method == http.MethodGet && (r.client == listed && who == "neighbor" || r.typ == listed && who == "typed") {
				a := s.ask(p, r, map[string]string{"client": "neighbor", "type": "sealed", "runner": "neighbor:1", "active": unknownID, "batch": unknownID}, s.as(who)...)
				all[what] = ages.ReplaceAllString(a.body, "")
			}
		})
		testkit.MustHold(t, len(all) > 10, "there are", len(all), "lists")
		return all
	}
	before := map[string]map[string]string{"neighbor": look("neighbor"), "typed": look("typed")}
	for range 3 {
		s.fill()
	}
	for who, lists := range before {
		now := look(who)
		for what, body := range lists {
			testkit.Equal(t, now[what], body, what, "with the key", who)
		}
	}
}

// TestRunnersOfOthers: a tenant's key names no runner outside of its prefix, and claims, streams and sessions of others stay theirs,
// although everything else in the request is its own.
func TestRunnersOfOthers(t *testing.T) {
	s := start(t)
	s.must("POST", "/jobs/create", `{"client":"neighbor","type":"plain"}`, s.as("neighbor")...)
	for _, runner := range []string{"victim:1", "neighbor", "neighbor:", "Neighbor:1", "neighbo:1", " neighbor:1"} {
		for _, r := range []struct{ method, path, body string }{
			{"POST", "/jobs/claim", `{"runner_id":"RUNNER"}`}, {"POST", "/jobs/tickle", `{"runner_id":"RUNNER"}`}, {"POST", "/sessions", `{"runner_id":"RUNNER"}`},
			{"POST", "/jobs/complete", `{"runner_id":"RUNNER","outcomes":[]}`}, {"POST", "/jobs/claim", `{"runner_id":"RUNNER","max":5,"wait_ms":0}`},
		} {
			before := s.documents()
			a := s.send(r.method, r.path, strings.ReplaceAll(r.body, "RUNNER", runner), append(s.as("neighbor"), "Content-Type", "application/json")...)
			// A completion without outcomes changes nothing, for anybody.
			testkit.Holds(t, a.status == http.StatusForbidden && a.code() == "out_of_scope" || strings.Contains(r.body, `"outcomes":[]`), r, runner, a.status, a.body)
			same(t, s.documents(), before, r, runner)
		}
	}
}

// TestMixedNames: a request that names things of the key and, anywhere in it, things of others is refused as a whole.
func TestMixedNames(t *testing.T) {
	s := start(t)
	headers := append(s.as("neighbor"), "Content-Type", "application/json")
	s.must("POST", "/jobs/create", `{"client":"neighbor","type":"plain"}`, headers...)
	id := s.must("POST", "/jobs/claim", `{"runner_id":"neighbor:1","max":1}`, headers...)["jobs"].([]any)[0].(map[string]any)["job_id"].(string)
	for _, r := range []struct{ path, body string }{
		{"/jobs/create", `[{"client":"neighbor","type":"plain"},{"client":"victim","type":"plain"}]`},
		{"/jobs/create", `{"batch":{"client":"neighbor"},"jobs":[{"type":"plain"},{"client":"victim","type":"plain"}]}`},
		{"/jobs/create", `{"batch":{"client":"victim","open":true}}`}, {"/jobs/create", `{"batch":{"open":true}}`}, // the default client
		{"/jobs/create", `{"client":"neighbor","type":"plain","on_complete":{"type":"x","on_complete":{"client":"victim","type":"x"}}}`},
		{"/jobs/" + id + "/complete", `{"code":"ok","then":[{"type":"plain"},{"client":"victim","type":"x"}]}`},
		{"/jobs/complete", `{"outcomes":[{"job_id":"` + id + `","code":"ok","then":[{"client":"victim","type":"x"}]}]}`},
		{"/jobs/claim", `{"runner_id":"neighbor:1","clients":["neighbor","victim"]}`},
		{"/jobs/claim", `{"runner_id":"neighbor:1","complete":[{"job_id":"` + id + `","code":"ok","then":[{"client":"victim","type":"x"}]}]}`},
	} {
		before := s.state()
		a := s.send("POST", r.path, r.body, headers...)
		testkit.Holds(t, a.status == http.StatusForbidden && a.code() == "out_of_scope", r, a.status, a.body)
		same(t, s.state(), before, r)
	}
	named := s.must("PUT", "/handlers/plain?client=neighbor", handlerBody, append(headers, "Daybook-By", "boss")...)
	testkit.Equal(t, named["by"], any("neighbor"), "Daybook-By names somebody else")
}

// TestConcealed: keys that hide payloads, or fields of them, do not see them in any answer.
func TestConcealed(t *testing.T) {
	s := start(t)
	s.newKey("hides", `"roles":["reader"],"hide_payloads":true`)
	s.newKey("redacts", `"roles":["reader"],"redact":["secret"]`)
	s.newKey("reader", `"roles":["reader"]`)
	shown := map[string]int{}
	s.eachRequest(func(p *api.Permit, r *request, what string) {
		if !p.Roles.Has(job.RolesOf(job.RoleReader)) || p.Method == http.MethodHead {
			return
		}
		for _, state := range []string{"active", "done", "failed", "waiting"} {
			r := *r
			if r.job = state; strings.Contains(p.Path, ":id") && p.Operation != "job" && p.Operation != "output" && p.Operation != "jobLog" && state != "active" {
				continue
			}
			for who, marks := range map[string][]string{"hides": {payloadMark, outputMark, errorMark}, "redacts": {payloadMark, outputMark}, "reader": nil} {
				a := s.ask(p, &r, s.things, s.as(who)...)
				s.lacks(a.body, marks, what, "with the key", who)
				for _, mark := range []string{payloadMark, outputMark, errorMark} {
					if strings.Contains(a.body, mark) {
						shown[who+" "+mark]++
					}
				}
			}
		}
	})
	for _, mark := range []string{payloadMark, outputMark, errorMark} { // there is something to hide
		testkit.Holds(t, shown["reader "+mark] > 1, "a reader sees", mark, shown["reader "+mark], "times")
	}
}
