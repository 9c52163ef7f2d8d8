package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

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
			if again := ids(s.send(t, "POST", "/jobs/claim", claim, c.second...).object(http.StatusOK)); len(again) != 2 {
				t.Errorf("%s: the repeat of a refused repeat: %v", c.name, again)
			}
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
