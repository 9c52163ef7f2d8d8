package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

func TestClaim(t *testing.T) {
	r := start(t)
	t.Run("nothing there", func(t *testing.T) {
		for _, body := range []string{`{"runner_id":"r"}`, `{"runner_id":"r","max":5}`, `{"runner_id":"r","wait_ms":1}`} {
			a := r.post("/jobs/claim", body)
			testkit.Holds(t, a.status == http.StatusNoContent && a.body == "", body, a.status, a.body)
		}
	})
	t.Run("a single job", func(t *testing.T) {
		r.post("/jobs/create", `{"payload":"x"}`).object(http.StatusCreated)
		a := r.post("/jobs/claim", `{"runner_id":"r one"}`)
		o := a.object(http.StatusOK)
		want(t, o, "status", "active", "runner_id", "r one", "run_attempts", 1, "payload", "x")
		testkit.Holds(t, a.header.Get("Daybook-Seq") != "" && o["claim_id"] != nil && o["deadline_at"] != nil, a.body)
		testkit.Equal(t, r.get("/jobs/"+o["job_id"].(string)).body, a.body, "claimed")
	})
	t.Run("many", func(t *testing.T) {
		r.add("/a/job/b/add", "one\ntwo\nthree\n").object(http.StatusCreated)
		o := r.post("/jobs/claim", `{"runner_id":"r","max":2,"clients":["a"],"types":["b","c"],"lease_ms":1500,"max_bytes":100}`).object(http.StatusOK)
		want(t, o, "lease_ms", 1500)
		jobs := o["jobs"].([]any)
		testkit.MustEqual(t, len(jobs), 2, "jobs")
		want(t, jobs[0].(map[string]any), "payload", "one", "claim_id", o["claim_id"], "lease_ms", 1500)
		o = r.post("/jobs/claim", `{"runner_id":"r","max":1000,"clients":["a"]}`).object(http.StatusOK)
		testkit.Equal(t, len(o["jobs"].([]any)), 1, o)
	})
	t.Run("NDJSON", func(t *testing.T) {
		// A JSON value with newlines must stay on one line.
		r.post("/jobs/create", "{\"client\":\"nd\",\"payload\":{\"a\":\n1,\r\n\"b\":\"x\\ny\"}}").object(http.StatusCreated)
		r.post("/jobs/create", `{"client":"nd","payload":"two\nlines"}`).object(http.StatusCreated)
		a := r.post("/jobs/claim", `{"runner_id":"r","max":5,"clients":["nd"]}`, "Accept", "application/x-ndjson")
		lines := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
		testkit.MustEqual(t, len(lines), 3, "lines:", a.body)
		testkit.MustEqual(t, a.header.Get("Content-Type"), "application/x-ndjson", len(lines), "lines:", a.body)
		var head, first, second map[string]any
		for i, o := range []*map[string]any{&head, &first, &second} {
			testkit.NoError(t, json.Unmarshal([]byte(lines[i]), o), "line", i)
		}
		want(t, head, "lease_ms", 300000)
		want(t, first, "payload", map[string]any{"a": 1, "b": "x\ny"}, "claim_id", head["claim_id"])
		want(t, second, "payload", "two\nlines")
	})
	t.Run("with complete", func(t *testing.T) {
		r.add("/w/job/w/add", "1\n2\n3\n4\n5\n").object(http.StatusCreated)
		claim := func(body string) map[string]any {
			return r.post("/jobs/claim", `{"runner_id":"r","clients":["w"],`+body+`}`).object(http.StatusOK)
		}
		first := claim(`"max":2,"complete":[]`)
		want(t, first, "results", "[]")
		list := ids(first)
		// A list of outcomes, whose items have their own fences.
		second := claim(fmt.Sprintf(`"max":1,"complete":[{"job_id":%q,"code":"ok","claim_id":%q},{"job_id":%q,"code":"ok"}]`, list[0], unknownID, list[0]))
		results := second["results"].([]any)
		want(t, results[0].(map[string]any), "job_id", list[0], "status", nil, "code", "claim_lost")
		want(t, results[1].(map[string]any), "job_id", list[0], "status", "completed")
		// An outcome for all jobs of the claim.
		third := claim(fmt.Sprintf(`"max":10,"complete":{"claim_id":%q,"status":"failed"}`, first["claim_id"]))
		want(t, third, "ended", 1, "results", "[]")
		testkit.Equal(t, len(ids(third)), 2, third)
		// If no job can be claimed, the answer is still 200, without a claim.
		last := claim(fmt.Sprintf(`"complete":{"claim_id":%q,"outcomes":[{"job_id":%q,"code":"ok"}]}`, third["claim_id"], ids(third)[0]))
		want(t, last, "claim_id", nil, "lease_ms", nil, "jobs", "[]")
		// The answer reports that the completed claim holds no jobs. The server makes the new claim anyway.
		lost := claim(fmt.Sprintf(`"complete":{"claim_id":%q,"status":"completed"}`, unknownID))
		want(t, lost, "ended", 0, "complete_refused", map[string]any{"code": "claim_lost", "detail": job.ClaimLost.Error()}, "jobs", "[]")
	})
	for _, c := range []struct{ name, body, field string }{
		{"no runner", `{}`, "runner_id"},
		{"empty runner", `{"runner_id":""}`, "runner_id"},
		{"long runner", `{"runner_id":"` + repeat('r', 129) + `"}`, "runner_id"},
		{"max 0", `{"runner_id":"r","max":0}`, "max"},
		{"max above", `{"runner_id":"r","max":1001}`, "max"},
		{"lease below", `{"runner_id":"r","lease_ms":999}`, "lease_ms"},
		{"lease above", `{"runner_id":"r","lease_ms":86400001}`, "lease_ms"},
		{"wait below", `{"runner_id":"r","wait_ms":-1}`, "wait_ms"},
		{"wait above", `{"runner_id":"r","wait_ms":60001}`, "wait_ms"},
		{"bytes 0", `{"runner_id":"r","max_bytes":0}`, "max_bytes"},
		{"bytes above", `{"runner_id":"r","max_bytes":8388609}`, "max_bytes"},
		{"clients of the wrong type", `{"runner_id":"r","clients":"a"}`, "clients"},
		{"bad client", `{"runner_id":"r","clients":["a","b c"]}`, "clients[1]"},
		{"client of the wrong type", `{"runner_id":"r","clients":["a",5]}`, "clients[1]"},
		{"null client", `{"runner_id":"r","clients":[null]}`, "clients[0]"},
		{"bad type", `{"runner_id":"r","types":[""]}`, "types[0]"},
		{"too many types", `{"runner_id":"r","types":["a"` + strings.Repeat(`,"a"`, job.MaxClaimNames) + `]}`, "types"},
		{"unknown", `{"runner_id":"r","order":"fair"}`, "order"},
		{"depth", `{"runner_id":"r","complete":` + repeat('[', 10_001), "complete" + strings.Repeat("[0]", 83) + "…"},
		{"strategy unknown", `{"runner_id":"r","strategy":"best"}`, "strategy"},
		{"strategy distinct by its name alone", `{"runner_id":"r","strategy":"prefer_distinct"}`, "strategy"},
		{"strategy without a name", `{"runner_id":"r","strategy":{}}`, "strategy.name"},
		{"strategy of more", `{"runner_id":"r","strategy":{"name":"fair","by":"x"}}`, "strategy.by"},
		{"strategy of a base with a key", `{"runner_id":"r","strategy":{"name":"fair","meta_key":"x"}}`, "strategy.meta_key"},
		{"strategy of a base over another", `{"runner_id":"r","strategy":{"name":"fair","underlying":"random"}}`, "strategy.underlying"},
		{"strategy distinct as a name", `{"runner_id":"r","strategy":"prefer_distinct"}`, "strategy"},
		{"strategy distinct as a record has it", `{"runner_id":"r","strategy":"prefer_distinct:a/random"}`, "strategy"},
		{"strategy distinct without a key", `{"runner_id":"r","strategy":{"name":"prefer_distinct"}}`, "strategy.meta_key"},
		{"strategy distinct of an odd key", `{"runner_id":"r","strategy":{"name":"prefer_distinct","meta_key":"a b"}}`, "strategy.meta_key"},
		{"strategy distinct of a long key", `{"runner_id":"r","strategy":{"name":"prefer_distinct","meta_key":"` + repeat('k', job.MaxMetaNameBytes+1) + `"}}`, "strategy.meta_key"},
		{"strategy distinct over an unknown one", `{"runner_id":"r","strategy":{"name":"prefer_distinct","meta_key":"a","underlying":{"name":"best"}}}`, "strategy.underlying"},
		{"strategy distinct nested too often", `{"runner_id":"r","strategy":` + nestedDistinct(job.MaxDistinctKeys+1) + `}`, "strategy" + strings.Repeat(".underlying", job.MaxDistinctKeys)},
		{"strategy of a number", `{"runner_id":"r","strategy":3}`, "strategy"},
		{"complete of the wrong type", `{"runner_id":"r","complete":5}`, "complete"},
		{"complete without job", `{"runner_id":"r","complete":[{"code":"ok"}]}`, "complete[0].job_id"},
		{"complete with a wrong code", `{"runner_id":"r","complete":[{"job_id":"` + unknownID + `","code":"fine"}]}`, "complete[0].code"},
		{"complete, unknown field", `{"runner_id":"r","complete":[{"job_id":"` + unknownID + `","kode":"ok"}]}`, "complete[0].kode"},
		{"complete all without claim", `{"runner_id":"r","complete":{"code":"ok"}}`, "complete.claim_id"},
		{"complete of too many", `{"runner_id":"r","complete":` + outcomes(job.MaxOutcomes+1) + `}`, "complete"},
		{"complete of too many in the object", `{"runner_id":"r","complete":{"outcomes":` + outcomes(job.MaxOutcomes+1) + `}}`, "complete.outcomes"},
		{"complete, a list of the wrong type", `{"runner_id":"r","complete":{"outcomes":5}}`, "complete.outcomes"},
		{"complete, too many exceptions", `{"runner_id":"r","complete":{"claim_id":"` + unknownID + `","code":"ok","except":` + outcomes(job.MaxClaimJobs+1) + `}}`, "complete.except"},
		{"complete, unknown field in the object", `{"runner_id":"r","complete":{"code":"ok","x":1}}`, "complete.x"},
	} {
		t.Run(c.name, func(t *testing.T) { r.post("/jobs/claim", c.body).wrong(c.field) })
	}
	t.Run("at the limits", func(t *testing.T) {
		body := `{"runner_id":"` + repeat('r', 128) + `","max":1000,"clients":["none"],"types":["a"` + strings.Repeat(`,"a"`, job.MaxClaimNames-1) + `],"lease_ms":86400000,"max_bytes":8388608}`
		a := r.post("/jobs/claim", body)
		testkit.Equal(t, a.status, http.StatusNoContent, a.body)
		o := r.post("/jobs/claim", `{"runner_id":"r","clients":["none"],"complete":`+outcomes(job.MaxOutcomes)+`}`).object(http.StatusOK)
		testkit.Equal(t, len(o["results"].([]any)), job.MaxOutcomes, "results")
	})
}

// outcomes returns a list of n outcomes for a job that does not exist.
func outcomes(n int) string {
	one := `{"job_id":"` + unknownID + `","code":"ok"}`
	return "[" + one + strings.Repeat(","+one, n-1) + "]"
}

// TestCompletionsOfParkedClaimsAreBounded: a claim that waits keeps the results of its completion in memory, but not
// its body. If the results of all such claims take all their memory, another claim does not wait.
func TestCompletionsOfParkedClaimsAreBounded(t *testing.T) {
	inBubbleWith(t, parked{&picky{t: t}}, func(t *testing.T, s *Server, l *pipeListener) {
		body := `{"runner_id":"r","wait_ms":60000,"complete":` + outcomes(job.MaxOutcomes) + `}`
		request := fmt.Sprintf("POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		began := time.Now()
		waited, atOnce := 0, 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 100 {
			c := l.dial()
			defer c.Close()
			all.Go(func() {
				if _, err := io.WriteString(c, request); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != http.StatusOK || strings.Count(string(text), `"status":"completed"`) != job.MaxOutcomes {
					t.Errorf("%d %.200s, %v", resp.StatusCode, text, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if time.Since(began) == time.Minute {
					waited++
				} else {
					atOnce++
				}
			})
			synctest.Wait()
		}
		testkit.Holds(t, s.control.Used() == 0 && s.handouts.Used() == 0,
			"claims that wait hold", s.control.Used(), "bytes of bodies and", s.handouts.Used(), "of other answers")
		used := s.parked.Used()
		testkit.Holds(t, used <= s.parked.Total() && used >= s.parked.Total()/2, used, "bytes of results are held, of", s.parked.Total())
		all.Wait()
		testkit.Holds(t, waited >= 30 && atOnce >= 30, waited, "claims waited", atOnce, "did not")
		synctest.Wait()
		testkit.Equal(t, s.parked.Used()+s.handouts.Used(), 0, "bytes are held at the end")
	})
}

func TestParkedClaim(t *testing.T) {
	t.Run("gets the job that comes", func(t *testing.T) {
		r := start(t)
		got := make(chan reply, 1)
		go func() { got <- r.post("/jobs/claim", `{"runner_id":"r","wait_ms":60000}`) }()
		for r.get("/stats").object(http.StatusOK)["parked_claims"].(json.Number) != "1" {
		}
		r.add("/add", "x\n").object(http.StatusCreated)
		want(t, (<-got).object(http.StatusOK), "payload", "x")
	})
	t.Run("is answered when the server stops", func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(o *setup) { o.Log = zerolog.New(&log) })
		got := make(chan reply, 1)
		go func() { got <- r.post("/jobs/claim", `{"runner_id":"r","wait_ms":60000}`) }()
		for r.get("/stats").object(http.StatusOK)["parked_claims"].(json.Number) != "1" {
		}
		r.stop()
		want(t, (<-got).refused(http.StatusServiceUnavailable, "shutting_down"), "outcome", "not_stored")
		testkit.Lacks(t, log.String(), `"level":"warn"`)
	})
	t.Run("leaves with its client", func(t *testing.T) {
		r := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/jobs/claim", strings.NewReader(`{"runner_id":"r","wait_ms":60000}`))
		testkit.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		ended := make(chan error, 1)
		go func() { _, err := http.DefaultClient.Do(req); ended <- err }()
		parked := func(n json.Number) {
			for r.get("/stats").object(http.StatusOK)["parked_claims"].(json.Number) != n {
			}
		}
		parked("1")
		cancel()
		<-ended
		parked("0")
		r.add("/add", "x\n").object(http.StatusCreated)
		want(t, r.post("/jobs/claim", `{"runner_id":"s"}`).object(http.StatusOK), "run_attempts", 1)
	})
}

// late is an engine that decides a claim after its client has hung up.
type late struct {
	backend.Engine
	gone func()
}

func (l *late) ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	claimed, jobs, receipt, err := l.Engine.ClaimAdmitted(context.WithoutCancel(ctx), c, wait, admit)
	l.gone()
	<-ctx.Done()
	return claimed, jobs, receipt, err
}

func TestJobsOfAClientThatIsGoneAreGivenBack(t *testing.T) {
	l := &late{}
	r := start(t, func(o *setup) { l.Engine, o.engine = o.engine, l })
	id := r.add("/add", "x\n").object(http.StatusCreated)["first_id"].(string)
	ctx, cancel := context.WithCancel(t.Context())
	l.gone = cancel
	req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/jobs/claim", strings.NewReader(`{"runner_id":"r"}`)))(t)
	req.Header.Set("Content-Type", "application/json")
	testkit.Fails(http.DefaultClient.Do(req))(t)
	for {
		o := r.get("/jobs/" + id).object(http.StatusOK)
		if o["status"] == "pending" && fmt.Sprint(o["run_attempts"]) == "0" {
			break
		}
	}
}

// TestJobsOfAClientThatReadAndHungUpStayItsOwn: a runner can use one connection per request and close it after the
// answer. Its jobs stay claimed.
func TestJobsOfAClientThatReadAndHungUpStayItsOwn(t *testing.T) {
	r := start(t)
	for range 50 {
		r.add("/add", strings.Repeat(strings.Repeat("x", 1000)+"\n", 200)).object(http.StatusCreated)
		hangsUp := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer := testkit.Must(hangsUp.Post(r.url+"/jobs/claim", "application/json", strings.NewReader(`{"runner_id":"r","max":200}`)))(t)
		var claim struct {
			ID string `json:"claim_id"`
		}
		testkit.NoError(t, json.NewDecoder(answer.Body).Decode(&claim))
		testkit.NoError(t, answer.Body.Close())
		want(t, r.post("/jobs/tickle", `{"claim_id":"`+claim.ID+`"}`).object(http.StatusOK), "held", 200)
	}
}

// nestedDistinct is a strategy with n keys.
func nestedDistinct(n int) string {
	return strings.Repeat(`{"name":"prefer_distinct","meta_key":"k","underlying":`, n) + `"random"` + strings.Repeat("}", n)
}

// TestClaimPrefersDistinctValues: a claim of several jobs spreads over the values of a key, and the next one prefers the
// values that have the fewest active jobs.
func TestClaimPrefersDistinctValues(t *testing.T) {
	s := start(t)
	for _, user := range []string{"anna", "anna", "anna", "bert", "bert", ""} {
		meta := ""
		if user != "" {
			meta = `,"meta":{"user":"` + user + `"}`
		}
		s.post("/jobs/create", `{"payload":"p"`+meta+`}`).object(http.StatusCreated)
	}
	claim := func(max int, strategy string) (users []string) {
		got := s.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":%d,"strategy":%s}`, max, strategy)).object(http.StatusOK)
		for _, j := range got["jobs"].([]any) {
			meta, _ := j.(map[string]any)["meta"].(map[string]any)
			user, _ := meta["user"].(string)
			users = append(users, user)
		}
		return users
	}
	const byUser = `{"name":"prefer_distinct","meta_key":"user","underlying":{"name":"oldest"}}`
	testkit.EqualSlices(t, claim(1, `"oldest"`), []string{"anna"}, "the oldest")
	// Jobs without the key count as having a value without active jobs.
	testkit.EqualSlices(t, claim(3, byUser), []string{"bert", "", "anna"}, "the next ones")
	got := claim(9, nestedDistinct(job.MaxDistinctKeys))
	testkit.Equal(t, len(got), 2, "the rest is of", got) // nothing is withheld
}

// onOwnClock runs a test of a whole server with a fake clock.
func onOwnClock(t *testing.T, test func(t *testing.T, s *scenario)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &scenario{t: t, dir: dir, began: time.Now(), free: 1 << 40}
		s.up()
		test(t, s)
		s.down(true)
	})
}

// send sends a request. headers are pairs of a name and a value.
func (s *scenario) send(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host, req.RemoteAddr = "127.0.0.1:1717", "127.0.0.1:5"
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", web.MIMEJSON)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.server.Handler().ServeHTTP(patient{w}, req)
	return reply{t, method + " " + path, w.Code, w.Header(), w.Body.String()}
}

// TestRefusedClaimsGiveTheirJobsBack: the server refuses a claim that is already stored if there is no memory for the
// answer. The jobs of the claim are pending again at once. The problem says whether a repeat gets them.
func TestRefusedClaimsGiveTheirJobsBack(t *testing.T) {
	onOwnClock(t, func(t *testing.T, s *scenario) {
		const claim = `{"runner_id":"r","max":2}`
		s.send(t, "POST", "/add", "one\ntwo\n").object(http.StatusCreated)
		session := s.send(t, "POST", "/sessions", "").object(http.StatusCreated)["session_id"].(string)
		full := func(test func()) { // while another request holds the whole budget for claims
			others := web.Share{Lane: s.server.handouts}
			testkit.MustHold(t, others.Grow(t.Context(), s.server.handouts.Total(), 0), "the budget is not free")
			test()
			others.Release()
		}
		free := func(what string) {
			t.Helper()
			synctest.Wait() // the server releases the jobs of a claim without a key after the answer
			for _, j := range s.send(t, "GET", "/jobs", "").object(http.StatusOK)["jobs"].([]any) {
				want(t, j.(map[string]any), "status", "pending", "run_attempts", 0)
			}
			testkit.MustHold(t, !t.Failed(), "after", what)
		}
		full(func() {
			want(t, s.send(t, "POST", "/jobs/claim", claim).refused(http.StatusServiceUnavailable, "overloaded"), "outcome", "not_stored")
		})
		free("a claim without a key")
		for _, c := range []struct {
			name          string
			first, second []string
		}{
			{"a key", []string{web.HeaderKey, "k1"}, []string{web.HeaderKey, "k2"}},
			{"a number", []string{web.HeaderSession, session, web.HeaderNumber, "1"}, []string{web.HeaderSession, session, web.HeaderNumber, "2"}},
		} {
			full(func() {
				want(t, s.send(t, "POST", "/jobs/claim", claim, c.first...).refused(http.StatusServiceUnavailable, "overloaded"), "outcome", "stored")
			})
			free(c.name)
			again := s.send(t, "POST", "/jobs/claim", claim, c.first...)
			if got := ids(again.object(http.StatusOK)); len(got) != 0 || again.header.Get(web.HeaderReplayed) != "true" {
				t.Errorf("%s: the repeat of a refused claim: %v %v", c.name, got, again.header)
			}
			// The refusal of a repeat releases no jobs, because the first answer handed them out.
			got := s.send(t, "POST", "/jobs/claim", claim, c.second...).object(http.StatusOK)
			testkit.Equal(t, len(ids(got)), 2, c.name, "the next claim")
			full(func() {
				want(t, s.send(t, "POST", "/jobs/claim", claim, c.second...).refused(http.StatusServiceUnavailable, "overloaded"), "outcome", "stored")
			})
			repeated := ids(s.send(t, "POST", "/jobs/claim", claim, c.second...).object(http.StatusOK))
			testkit.Equal(t, len(repeated), 2, c.name, "the repeat of a refused repeat", repeated)
			s.send(t, "POST", "/jobs/"+ids(got)[0]+"/release", `{"how":"unget"}`).object(http.StatusOK)
			s.send(t, "POST", "/jobs/"+ids(got)[1]+"/release", `{"how":"unget"}`).object(http.StatusOK)
			free(c.name + ", released")
		}
		// A claim with outcomes: the outcomes are not applied if there is no memory for their results. If there is, the
		// answer has the results.
		complete := `{"runner_id":"r","max":2,"complete":` + outcomes(3)
		full(func() {
			want(t, s.send(t, "POST", "/jobs/claim", complete+`}`).refused(http.StatusServiceUnavailable, "overloaded"), "outcome", "not_stored")
			o := s.send(t, "POST", "/jobs/claim", complete+`,"wait_ms":1000}`, web.HeaderKey, "k3").object(http.StatusOK)
			refused, _ := o["claim_refused"].(map[string]any)
			testkit.Holds(t, refused["code"] == "overloaded" && len(o["results"].([]any)) == 3 && len(ids(o)) == 0, o)
		})
		free("a claim with outcomes")
		for name, used := range map[string]int64{"handouts": s.server.handouts.Used(), "parked": s.server.parked.Used(), "control": s.server.control.Used()} {
			testkit.Equal(t, used, 0, "bytes", name, "are held at the end")
		}
	})
}

// TestHandlerOfOneJob: the answer to a claim of one job names its handler in a header.
func TestHandlerOfOneJob(t *testing.T) {
	r := start(t)
	put := func(path string) map[string]any {
		t.Helper()
		return r.do(http.MethodPut, path, strings.NewReader(`{"kind":"exec","program":"`+strings.ReplaceAll(path, "/", ".")[1:5]+`"}`), "Content-Type", web.MIMEJSON).object(http.StatusCreated)
	}
	all := put("/handlers/x")
	own := put("/handlers/x?client=acme")
	for _, c := range []struct {
		body string
		of   map[string]any
	}{{`{"type":"x"}`, all}, {`{"type":"x","client":"acme"}`, own}, {`{"type":"y"}`, nil}} {
		r.post("/jobs/create", c.body).object(http.StatusCreated)
		a := r.post("/jobs/claim", `{"runner_id":"r"}`)
		want := ""
		if c.of != nil {
			want = c.of["handler_id"].(string) + " exec " + c.of["digest"].(string)
		}
		got := a.header.Get(answer.HeaderHandler)
		testkit.Holds(t, a.status == http.StatusOK && got == want, c.body, a.status, "the handler is", got, "want", want)
	}
}
