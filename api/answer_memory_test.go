package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/query"
)

// lavish is an engine whose jobs have the maximum size.
type lavish struct {
	picky
	handed atomic.Int64 // claims

	reading, mostReading atomic.Int64 // documents
}

func (e *lavish) doc(n int) job.Job {
	id := job.NewID(fuzzReceipt.At, fuzzReceipt.Seq, n)
	return job.Job{ID: id, Batch: id.WithLine(0), Client: "c", Type: "t", Status: job.Pending, Attributes: job.Attributes{Kind: job.Text}, Payload: bytes.Repeat([]byte{'x'}, job.MaxPayloadBytes), Progress: -1}
}

func (e *lavish) List(query.Filter) ([]job.Job, query.JobPlace, error) {
	return []job.Job{e.doc(0), e.doc(1)}, query.JobPlace{}, nil
}

func (e *lavish) JobWithin(_ job.ID, room int64) (job.Job, bool, error) {
	if room < job.MaxPayloadBytes {
		return job.Job{}, false, nil
	}
	e.mostReading.Store(max(e.mostReading.Load(), e.reading.Add(1)))
	time.Sleep(time.Millisecond) // real time: other requests may arrive in the meantime
	e.reading.Add(-1)
	return e.doc(0), true, nil
}

func (e *lavish) ClaimAdmitted(_ context.Context, c job.Claim, _ time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	if err := admit(2 * job.MaxPayloadBytes); err != nil {
		return applied.Claimed{}, nil, ingest.Receipt{}, err
	}
	e.handed.Add(1)
	return applied.Claimed{Claim: job.NewID(1, 1, 0), LeaseMs: 1000, Runs: []applied.Run{{Batch: 7, Last: 1}}}, runs.Of([]job.Job{e.doc(0), e.doc(1)}), fuzzReceipt, nil
}

// TestAnswersInFlightAreBounded: answers to clients that do not read take a bounded number of bytes in memory. Further
// clients get 503. Other kinds of requests are still served.
func TestAnswersInFlightAreBounded(t *testing.T) {
	const claim = `{"runner_id":"r","max":2}`
	head := func(method, path, body string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	}
	for _, c := range []struct {
		name, request, other string
		of                   func(s *Server) *web.Lane
	}{
		{"completions", head("POST", "/jobs/complete", `{"outcomes":`+outcomes(5000)+`}`), head("POST", "/jobs/claim", claim), func(s *Server) *web.Lane { return s.changes }},
		{"lists", head("GET", "/jobs", ""), head("POST", "/jobs/claim", claim), func(s *Server) *web.Lane { return s.documents }},
		{"documents", head("GET", "/jobs/"+unknownID, ""), head("POST", "/jobs/claim", claim), func(s *Server) *web.Lane { return s.documents }},
		{"claims", head("POST", "/jobs/claim", claim), head("GET", "/jobs", ""), func(s *Server) *web.Lane { return s.handouts }},
		{"changes", head("POST", "/jobs/"+unknownID+"/tickle", "{}"), head("POST", "/jobs/claim", claim), func(s *Server) *web.Lane { return s.changes }},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := &lavish{picky: picky{t: t}}
			inBubbleWith(t, engine, func(t *testing.T, s *Server, l *pipeListener) {
				bounded := func() {
					synctest.Wait()
					of := c.of(s)
					testkit.Holds(t, of.Used() <= of.Total()+2*answer.MaxDocumentsBytes, of.Used(), "bytes held, of", of.Total())
				}
				for range 100 {
					conn := l.dial()
					defer conn.Close()
					testkit.Must(io.WriteString(conn, c.request))(t)
					synctest.Wait() // a body that is being decoded takes memory for which later bodies would wait, and time would pass
				}
				bounded()
				n := engine.mostReading.Load()
				testkit.Holds(t, n <= 6, n, "documents of the greatest length were read at once")
				testkit.Holds(t, c.of(s).Used() >= c.of(s).Total()/2, "only", c.of(s).Used(), "bytes are held: the test does not reach its limit")
				began := time.Now()
				conn := l.dial()
				defer conn.Close()
				testkit.Must(io.WriteString(conn, c.other))(t)
				resp := testkit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
				testkit.Must(io.Copy(io.Discard, resp.Body))(t)
				testkit.Holds(t, resp.StatusCode == http.StatusOK, "others", resp.StatusCode)
				took := time.Since(began)
				testkit.Holds(t, took <= 0, "others waited", took)
				// A request can wait 8 s for memory for its body, and 8 s for memory for its answer. After that, its
				// client has PaceTime to read the refusal.
				for range 60 {
					time.Sleep(time.Second)
					bounded()
				}
				left, _ := s.web.Connections()
				testkit.Equal(t, left, 1, "connections are left") // the client that reads
				testkit.Equal(t, c.of(s).Used(), 0, "bytes are held at the end")
			})
		})
	}
}

// TestLongAnswersAreWhole: an answer that is written in pieces is complete, in both formats.
func TestLongAnswersAreWhole(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	payloads := make([]string, 3000)
	for i := range payloads {
		payloads[i] = fmt.Sprint(i) + strings.Repeat("é\"", i%1500)
	}
	testkit.Must(json.Marshal(payloads))(t)
	r.add("/add", strings.Join(payloads, "\n")+"\n").object(http.StatusCreated)
	check := func(what string, at int, list []any) {
		t.Helper()
		for i, j := range list {
			if got := j.(map[string]any)["payload"]; got != payloads[at+i] {
				t.Fatalf("%s: job %d: %.100v", what, at+i, got)
			}
		}
	}
	listed, after := 0, ""
	for listed < len(payloads) {
		o := r.get("/jobs?limit=1000" + after).object(http.StatusOK)
		list := o["jobs"].([]any)
		check("list", listed, list)
		listed += len(list)
		testkit.MustHold(t, len(list) != 0, "an empty page")
		after = fmt.Sprintf("&after=%v", o["next"])
	}
	for claimed, lines := 0, false; claimed < len(payloads); lines = !lines {
		if !lines {
			o := r.post("/jobs/claim", `{"runner_id":"r","max":1000}`).object(http.StatusOK)
			check("claim", claimed, o["jobs"].([]any))
			claimed += len(o["jobs"].([]any))
			o = r.get(fmt.Sprintf("/claims/%v", o["claim_id"])).object(http.StatusOK)
			check("claim document", claimed-len(o["jobs"].([]any)), o["jobs"].([]any))
			continue
		}
		a := r.post("/jobs/claim", `{"runner_id":"r","max":1000}`, "Accept", web.MIMENDJSON)
		d := json.NewDecoder(strings.NewReader(a.body))
		var head map[string]any
		testkit.NoError(t, d.Decode(&head))
		var list []any
		for d.More() {
			var j any
			testkit.NoError(t, d.Decode(&j))
			list = append(list, j)
		}
		check("lines", claimed, list)
		claimed += len(list)
	}
}

// TestReadOfLongJobs: a job that needs more memory than the caller allows is not read. The largest job fits into the
// share for it.
func TestReadOfLongJobs(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	fits := func(id string, room int64) bool {
		t.Helper()
		at := testkit.Must(job.ParseID(id))(t)
		testkit.NoError(t, r.engine.CatchUp(t.Context(), 0))
		doc, fits := testkit.Must2(r.engine.JobWithin(at, room))(t)
		testkit.Holds(t, fits || len(doc.Payload)+len(doc.Output) == 0, len(doc.Payload), "and", len(doc.Output), "bytes were read")
		return fits
	}
	id := r.post("/jobs/create", `{"payload":"`+repeat('x', 100)+`"}`).object(http.StatusCreated)["job_id"].(string)
	testkit.Holds(t, !fits(id, 99) && fits(id, 100), "a payload of 100 bytes")
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	r.post("/jobs/"+id+"/complete", `{"code":"ok","output":"`+repeat('y', 1000)+`"}`).object(http.StatusOK)
	testkit.Holds(t, !fits(id, 1099) && fits(id, 2000), "with an output of 1000 bytes")

	id = r.post("/jobs/create", `{"max_attempts":1000,"payload":"`+repeat('x', job.MaxPayloadBytes)+`"}`).object(http.StatusCreated)["job_id"].(string)
	at := testkit.Must(job.ParseID(id))(t)
	for i := range job.MaxHistory + 1 {
		o := job.Outcome{ID: at, Code: job.Error, ExitCode: job.Error.DefaultExitCode(), Error: repeat('z', job.MaxErrorBytes)}
		o.LogAddr = repeat('a', job.MaxAddrBytes)
		if i == job.MaxHistory {
			o.Code, o.ExitCode = job.Fail, job.Fail.DefaultExitCode()
			o.Result = job.Result{OutputAddr: o.LogAddr, LogAddr: o.LogAddr, OutputKind: job.Text, Output: []byte(repeat('y', job.MaxOutputBytes))}
		}
		ended, _ := testkit.Must2(r.engine.Complete(t.Context(), job.Complete{Unclaimed: true, Outcomes: []job.Outcome{o}}))(t)
		testkit.MustEqual(t, ended.Results[0].Refusal, job.Granted, ended)
	}
	testkit.Holds(t, !fits(id, job.MaxPayloadBytes+job.MaxOutputBytes), "the longest document is shorter than it can be")
	o := r.get("/jobs/" + id).object(http.StatusOK)
	testkit.Holds(t, len(o["payload"].(string)) == job.MaxPayloadBytes && len(o["output"].(string)) == job.MaxOutputBytes &&
		len(o["attempts"].([]any)) == job.MaxHistory, "the longest document is not whole")
	testkit.Equal(t, r.server.documents.Used()+r.server.changes.Used(), 0, "bytes are still held")
}
