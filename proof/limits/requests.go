package limits

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// attack sends the requests whose commands must find their way through all the data that fill has made.
func (s *server) attack(n amounts) {
	s.t.Helper()
	s.claims()
	s.creates(n)
	s.operations()
	s.leases()
	s.sweeps()
}

// claims claims a thousand jobs by each strategy, with and without named clients and types, and ends them in several
// ways.
func (s *server) claims() {
	s.t.Helper()
	var clients, types []string
	for i := range job.MaxClaimNames {
		clients, types = append(clients, fmt.Sprint("c", i)), append(types, fmt.Sprint("t", i))
	}
	strategies := []any{"oldest", "newest", "random", "fair"}
	for _, base := range []string{"oldest", "newest", "random"} {
		strategies = append(strategies, map[string]any{"name": "prefer_distinct", "meta_key": "order", "underlying": map[string]any{"name": base}})
	}
	for _, strategy := range strategies {
		for _, named := range []struct {
			what           string
			clients, types []string
		}{{"all", nil, nil}, {"values", nil, []string{"values"}}, {"100 clients", clients, nil}, {"100 types", nil, types}, {"100 of both", clients, types}, {"groups", nil, []string{"groups"}}} {
			body := map[string]any{"runner_id": "all", "max": job.MaxClaimJobs, "strategy": strategy, "lease_ms": 60_000}
			if named.clients != nil {
				body["clients"] = named.clients
			}
			if named.types != nil {
				body["types"] = named.types
			}
			s.step(fmt.Sprintf("claim %v of %s, then complete, twice", name(strategy), named.what), func() {
				for i := range 2 {
					if claimed := s.ask(http.MethodPost, "/jobs/claim", body); claimed["claim_id"] != nil {
						s.end(claimed, i == 0)
					}
				}
			})
		}
	}
}

func name(strategy any) any {
	if m, ok := strategy.(map[string]any); ok {
		return fmt.Sprintf("%v/%v", m["name"], m["underlying"].(map[string]any)["name"])
	}
	return strategy
}

// end gives back the claimed jobs, all at once or each with a separate outcome.
func (s *server) end(claimed map[string]any, atOnce bool) {
	s.t.Helper()
	claim := claimed["claim_id"]
	if atOnce {
		s.ask(http.MethodPost, "/jobs/complete", map[string]any{"claim_id": claim, "code": "retry", "delay_ms": 0})
		return
	}
	var outcomes []any
	for i, j := range claimed["jobs"].([]any) {
		outcomes = append(outcomes, map[string]any{
			"job_id": j.(map[string]any)["job_id"], "claim_id": claim, "code": []string{"ok", "retry", "error"}[i%3], "error": "why",
		})
	}
	s.ask(http.MethodPost, "/jobs/complete", map[string]any{"outcomes": outcomes})
}

// creates creates as much as one request may.
func (s *server) creates(n amounts) {
	s.t.Helper()
	for _, c := range []struct {
		what, path, kind string
		body             []byte
	}{
		{"create a thousand groups", "/jobs/create", ndjson, groupsBody("more", 7)},
		{"create a thousand values of meta", "/jobs/create", ndjson, valuesBody("more", 0)},
		{"create a payload of 4 MiB", "/acme/job/more/add", plain, largeBody},
		{"create all lines that a batch may have", "/acme/job/more/add", plain, bytes.Repeat([]byte("p\n"), n.lines)},
		{"create a thousand unique keys", "/jobs/create", ndjson, uniqueBody()},
		{"create the same unique keys", "/jobs/create", ndjson, uniqueBody()},
	} {
		s.step(c.what, func() {
			if !s.create(c.path, c.kind, c.body) {
				s.t.Errorf("%s: refused", c.what)
			}
		})
	}
}

func uniqueBody() []byte {
	var body strings.Builder
	for i := range job.MaxUniqueKeys {
		fmt.Fprintf(&body, `{"client":"acme","type":"more","payload":"p","unique_key":"key %d"}`+"\n", i)
	}
	return []byte(body.String())
}

// none is a document without fields.
var none = struct{}{}

// operations sends an operator's requests about a job, and about the queues.
func (s *server) operations() {
	s.t.Helper()
	id := s.ask(http.MethodPost, "/jobs/create", map[string]any{"client": "acme", "type": "values", "payload": "p"})["job_id"].(string)
	for _, op := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPatch, "/jobs/" + id, map[string]any{"priority": 7}}, {http.MethodPost, "/jobs/" + id + "/cancel", none},
		{http.MethodPost, "/jobs/" + id + "/redrive", none}, {http.MethodDelete, "/jobs/" + id, nil},
		{http.MethodPost, "/queues/acme/values/pause", none}, {http.MethodPost, "/queues/acme/values/resume", none},
	} {
		s.once(op.method+" "+strings.ReplaceAll(op.path, id, "{id}"), func() {
			s.ask(op.method, op.path, op.body)
		})
	}
}

// leases lets leases of a thousand jobs end.
func (s *server) leases() {
	s.t.Helper()
	const claims = 5
	s.step(fmt.Sprintf("%d leases of a thousand jobs each end", claims), func() {
		before := s.metrics()[`daybook_jobs{status="active"}`]
		for range claims {
			s.ask(http.MethodPost, "/jobs/claim", map[string]any{"runner_id": "gone", "max": job.MaxClaimJobs, "types": []string{"values"}, "lease_ms": job.MinLeaseMs})
		}
		testkit.Eventually(s.t, "the jobs of the leases wait again", func() bool { return s.metrics()[`daybook_jobs{status="active"}`] <= before })
	})
}

// sweeps begins to cancel, redrive and delete all jobs of the largest queues, and lets ticks continue this for a while.
func (s *server) sweeps() {
	s.t.Helper()
	for _, op := range []struct{ what, method, path string }{
		{"cancel all values", http.MethodPost, "/queues/acme/values/cancel"},
		{"redrive all values", http.MethodPost, "/queues/acme/values/redrive?status=cancelled"},
		{"delete all lines", http.MethodDelete, "/queues/acme/lines/jobs?status=all"},
		{"delete all groups", http.MethodDelete, "/queues/acme/groups/jobs?status=all"},
		{"delete all large payloads", http.MethodDelete, "/queues/acme/large/jobs?status=all"},
	} {
		s.once(op.what+": the first ticks", func() {
			const ticks = 100
			before := s.commandTimes()["tick"].commands
			if op.method == http.MethodDelete {
				s.ask(op.method, op.path, nil)
			} else {
				s.ask(op.method, op.path, none)
			}
			testkit.Eventually(s.t, "ticks go on", func() bool {
				return s.commandTimes()["tick"].commands-before > ticks || s.ask(http.MethodGet, "/stats", nil)["sweeps"] == 0.0
			})
		})
	}
}
