package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// timeField is a field for a time or a duration, with a request that has %d as its value.
type timeField struct {
	name, method, path, body string
	lo, hi                   int64
	needs                    string // required state: nothing, a pending job or an active job
}

// timeFields are all fields for times and durations.
func timeFields() (list []timeField) {
	for _, f := range []timeField{
		{name: "run_at", lo: 0, hi: job.MaxTimeMs},
		{name: "expires_at", lo: 0, hi: job.MaxTimeMs},
		{name: "delay_ms", lo: 0, hi: job.MaxDelayMs},
		{name: "retention_ms", lo: 0, hi: job.MaxDelayMs},
		{name: "lease_ms", lo: job.MinLeaseMs, hi: job.MaxLeaseMs},
		{name: "timeout_ms", lo: job.MinTimeoutMs, hi: job.MaxTimeoutMs},
		{name: "backoff.initial_ms", lo: 0, hi: job.MaxDelayMs},
		{name: "backoff.factor_milli", lo: 1000, hi: job.MaxFactorMilli},
		{name: "backoff.max_ms", lo: 0, hi: job.MaxDelayMs},
	} {
		lines := f
		lines.method, lines.path, lines.body = "POST", "/add?"+strings.ReplaceAll(f.name, ".", "_")+"=%d", "line\n"
		f.method, f.path, f.body = "POST", "/jobs/create", `{"`+f.name+`":%d}`
		if outer, inner, nested := strings.Cut(f.name, "."); nested {
			f.body = `{"` + outer + `":{"` + inner + `":%d}}`
		}
		list = append(list, f, lines)
	}
	const claim = `{"runner_id":"r","clients":["nobody"],`
	return append(list,
		timeField{name: "run_at", method: "PATCH", path: "/jobs/<job>", body: `{"run_at":%d}`, lo: 0, hi: job.MaxTimeMs, needs: "pending"},
		timeField{name: "lease_ms", method: "POST", path: "/jobs/claim", body: claim + `"lease_ms":%d}`, lo: job.MinLeaseMs, hi: job.MaxLeaseMs},
		timeField{name: "wait_ms", method: "POST", path: "/jobs/claim", body: claim + `"wait_ms":%d}`, lo: 0, hi: job.MaxWaitMs},
		timeField{name: "lease_ms", method: "POST", path: "/jobs/<job>/tickle", body: `{"lease_ms":%d}`, lo: job.MinLeaseMs, hi: job.MaxLeaseMs, needs: "active"},
		timeField{name: "lease_ms", method: "POST", path: "/jobs/tickle", body: `{"claim_id":"<claim>","lease_ms":%d}`, lo: job.MinLeaseMs, hi: job.MaxLeaseMs, needs: "active"},
		timeField{name: "delay_ms", method: "POST", path: "/jobs/<job>/complete", body: `{"code":"retry","delay_ms":%d}`, lo: 0, hi: job.MaxDelayMs, needs: "active"},
		timeField{name: "delay_ms", method: "POST", path: "/jobs/complete", body: `{"claim_id":"<claim>","code":"error","delay_ms":%d}`, lo: 0, hi: job.MaxDelayMs, needs: "active"},
		timeField{name: "complete[0].delay_ms", method: "POST", path: "/jobs/claim", body: claim + `"complete":[{"job_id":"<job>","code":"error","delay_ms":%d}]}`, lo: 0, hi: job.MaxDelayMs, needs: "active"},
		timeField{name: "delay_ms", method: "POST", path: "/jobs/<job>/release", body: `{"how":"retry","delay_ms":%d}`, lo: 0, hi: job.MaxDelayMs, needs: "active"},
		timeField{name: "created_after", method: "GET", path: "/jobs?limit=1&created_after=%d", lo: 0, hi: job.MaxTimeMs},
		timeField{name: "created_before", method: "GET", path: "/jobs?limit=1&created_before=%d", lo: 1, hi: job.MaxTimeMs},
	)
}

// with sends the request with the value n in the field. If the request requires a job or a claim, with creates it
// first.
func (s *scenario) with(t *testing.T, f *timeField, n int64) reply {
	t.Helper()
	id, claim := "", ""
	if f.needs != "" {
		o := s.send(t, "POST", "/jobs/create", `{"client":"needed","max_attempts":9}`).object(http.StatusCreated)
		id = o["job_id"].(string)
		if f.needs == "active" {
			o := s.send(t, "POST", "/jobs/claim", `{"runner_id":"r","clients":["needed"],"strategy":"newest"}`).object(http.StatusOK)
			id, claim = o["job_id"].(string), o["claim_id"].(string)
		}
	}
	put := strings.NewReplacer("<job>", id, "<claim>", claim, "%d", fmt.Sprint(n))
	return s.send(t, f.method, put.Replace(f.path), put.Replace(f.body))
}

// sane checks the times of a document. Times of past events are not later than now. No time is before the start of the
// test, or later than the sum of all limits allows.
func sane(t *testing.T, what string, doc any, began, now int64) {
	t.Helper()
	switch v := doc.(type) {
	case []any:
		for i := range v {
			sane(t, what, v[i], began, now)
		}
	case map[string]any:
		for name, value := range v {
			n, number := value.(json.Number)
			if !number || !strings.HasSuffix(name, "_at") && name != "oldest_pending_age_ms" {
				sane(t, what, value, began, now)
				continue
			}
			at, err := n.Int64()
			testkit.Check(t, err, what, name, n)
			lo, hi := began, now
			switch name {
			case "run_at", "expires_at": // given by a client, or a delay
				lo, hi = 0, job.MaxTimeMs+2*job.MaxDelayMs
			case "deadline_at":
				hi = now + job.MaxLeaseMs
			case "next_due_at":
				hi = job.MaxTimeMs + 2*job.MaxDelayMs
			case "oldest_pending_age_ms":
				lo, hi = 0, now-began
			}
			testkit.Holds(t, at >= lo && at <= hi, what, name, "is", at, "not within", lo, "and", hi)
		}
	}
}

// TestTimesAtTheirLimits sends every time and duration at its limits and one past them, before and after the clock
// jumps.
func TestTimesAtTheirLimits(t *testing.T) {
	testkit.OneByOne(t)
	onOwnClock(t, func(t *testing.T, s *scenario) {
		began := s.engine.Now()
		read := func(what string) {
			t.Helper()
			for _, path := range []string{"/jobs?limit=1000", "/jobs?limit=1000&status=deferred", "/runners", "/queues", "/sweeps", "/stats"} {
				o := s.send(t, "GET", path, "").object(http.StatusOK)
				sane(t, what+", "+path, o, began, s.engine.Now())
			}
		}
		send := func(what string) {
			t.Helper()
			for _, f := range timeFields() {
				for _, n := range []int64{f.lo, f.lo + 1, f.hi - 1, f.hi} {
					a := s.with(t, &f, n)
					testkit.Holds(t, a.status < 300, what, a.what, "with", f.name, n, a.status, a.body)
					if strings.HasPrefix(a.body, "{") {
						var o any
						d := json.NewDecoder(strings.NewReader(a.body))
						d.UseNumber()
						testkit.Check(t, d.Decode(&o), a.what)
						sane(t, what+", "+a.what, o, began, s.engine.Now())
					}
				}
				for _, n := range []int64{f.lo - 1, f.hi + 1, math.MinInt64, math.MaxInt64} {
					a := s.with(t, &f, n)
					name := f.name
					testkit.Holds(t, a.status == http.StatusBadRequest && a.wrong(name) != nil, what, a.what, "with", name, n, a.status, a.body)
				}
			}
			// The longest backoff, repeatedly, for a job with the latest run_at and the longest retention.
			o := s.send(t, "POST", "/jobs/create", fmt.Sprintf(`{"client":"late","run_at":%d,"expires_at":%d,"retention_ms":%d,"lease_ms":%d,"timeout_ms":%d,"max_attempts":1000,
				"backoff":{"initial_ms":%d,"factor_milli":%d,"max_ms":%[3]d}}`, job.MaxTimeMs-1, job.MaxTimeMs, job.MaxDelayMs, job.MaxLeaseMs, job.MaxTimeoutMs, job.MaxDelayMs, job.MaxFactorMilli)).object(http.StatusCreated)
			id := o["job_id"].(string)
			for range 5 {
				s.send(t, "POST", "/jobs/"+id+"/run", "").object(http.StatusOK)
				s.send(t, "POST", "/jobs/claim", `{"runner_id":"r","clients":["late"]}`).object(http.StatusOK)
				o = s.send(t, "POST", "/jobs/"+id+"/complete", `{"code":"error"}`).object(http.StatusOK)
				want(t, o, "status", "deferred")
				sane(t, what+", a long backoff", o, began, s.engine.Now())
			}
			s.send(t, "POST", "/jobs/"+id+"/cancel", "").object(http.StatusOK)
			read(what)
		}
		quiet := func(what string, rest time.Duration) { // checks that the server writes few records while nothing is due
			t.Helper()
			time.Sleep(rest)
			read(what + ", after a rest")
			before := s.engine.Stats().Appended
			time.Sleep(10 * time.Minute)
			n := s.engine.Stats().Appended - before
			testkit.Holds(t, n <= 50, what, n, "records in ten minutes without requests")
		}

		send("at first")
		held := s.send(t, "POST", "/jobs/claim", `{"runner_id":"r","clients":["default"],"lease_ms":1000}`).object(http.StatusOK)
		s.ahead.Add(int64(21 * 24 * time.Hour))
		s.send(t, "POST", "/clock/accept", "").object(http.StatusOK)
		late := s.engine.Now() - began
		testkit.MustHold(t, late >= 21*86_400_000, "the clock is at", late, "ms")
		want(t, s.send(t, "GET", "/jobs/"+held["job_id"].(string), "").object(http.StatusOK), "status", "active")
		send("after three weeks at once")
		quiet("after three weeks at once", 10*time.Minute)

		s.ahead.Add(-int64(7 * 24 * time.Hour))
		send("after a week backwards")
		quiet("after a week backwards", 10*time.Minute)

		s.ahead.Add(int64(60 * 24 * time.Hour)) // the journal's time follows at double speed
		send("while the clock catches up")
		s.down(true)
		s.up() // a start sets the journal's time to the wall clock at once
		late = s.engine.Now() - began
		testkit.Holds(t, late >= 60*86_400_000, "the clock is at", late, "ms")
		send("after a start weeks later")
		quiet("after a start weeks later", 25*time.Hour) // no lease is left
	})
}
