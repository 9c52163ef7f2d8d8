package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/internal/testkit"
)

// print adds to the log of a job.
func (r *rig) print(id, claim string, offset int, text string) reply {
	return r.do(http.MethodPost, fmt.Sprintf("/jobs/%s/log?offset=%d&claim_id=%s", id, offset, claim), strings.NewReader(text), "Content-Type", "text/plain")
}

// TestLog: only the run that holds a job writes its log. The log is kept until the end of the job, and longer if there
// is a blob.
func TestLog(t *testing.T) {
	r := start(t)
	id := r.make(`{"type":"x","backoff":{"initial_ms":0}}`)
	r.get("/jobs/"+id+"/log").refused(http.StatusNotFound, codeNoLog)
	r.print(id, unknownID, 0, "x").refused(http.StatusBadRequest, "job_not_active")
	_, claim := r.claimed("x")
	r.get("/jobs/"+id+"/log").refused(http.StatusNotFound, codeNoLog)
	r.print(id, unknownID, 0, "x").refused(http.StatusConflict, "claim_lost")
	r.print(unknownID, claim, 0, "x").refused(http.StatusNotFound, "job_not_found")
	r.print(id, "x", 0, "x").refused(http.StatusBadRequest, "bad_id")
	r.print(id, claim, -1, "x").wrong("offset")
	r.do(http.MethodPost, "/jobs/"+id+"/log?claim_id="+claim, strings.NewReader("x"), "Content-Type", "text/plain").wrong("offset")
	r.do(http.MethodPost, "/jobs/"+id+"/log?offset=0", strings.NewReader("x"), "Content-Type", "text/plain").wrong("claim_id")
	r.print(id, claim, 0, repeat('x', joblog.MaxBytes+1)).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.get("/jobs/" + id + "/log?follow=1").wrong("follow")

	r.print(id, claim, 0, "one\n").wantStatus(http.StatusNoContent)
	r.print(id, claim, 4, "two\n").wantStatus(http.StatusNoContent)
	a := r.get("/jobs/" + id + "/log")
	if a.status != http.StatusOK || a.body != "one\ntwo\n" || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %q %v", a.status, a.body, a.header)
	}
	testkit.Equal(t, endsAwaited(r), 1, "wait for the end of the job")

	// A reader follows the log over a second run to its end.
	following := testkit.Must(http.Get(r.url + "/jobs/" + id + "/log?follow=true"))(t)
	defer following.Body.Close()
	lines := bufio.NewReader(following.Body)
	line := func(want string) {
		t.Helper()
		got, err := lines.ReadString('\n')
		testkit.Holds(t, got == want && err == nil, got, err, "want", want)
	}
	line("one\n")
	line("two\n")
	r.print(id, claim, 8, "three\n").wantStatus(http.StatusNoContent)
	line("three\n")
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"error"}`, claim)).object(http.StatusOK)
	r.print(id, claim, 14, "late\n").refused(http.StatusBadRequest, "job_not_active")
	_, again := r.claimed("x")
	r.print(id, claim, 14, "late\n").refused(http.StatusConflict, "claim_lost")
	r.print(id, again, 0, "four\n").wantStatus(http.StatusNoContent)
	line("\n")
	line("[the job runs again]\n")
	line("four\n")
	address := r.put("/blobs?client=default", "the whole log").object(http.StatusCreated)["address"].(string)
	r.print(id, again, 5, "five\n").wantStatus(http.StatusNoContent)
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","log_addr":%q}`, again, address)).object(http.StatusOK)
	rest, err := io.ReadAll(lines)
	testkit.Holds(t, string(rest) == "five\n" && err == nil, rest, err)
	for _, path := range []string{"/log", "/log?follow=true"} {
		if a := r.get("/jobs/" + id + path); a.status != http.StatusOK || a.body != "the whole log" {
			t.Errorf("%d %q", a.status, a.body)
		}
	}
	if a := r.do(http.MethodHead, "/jobs/"+id+"/log", nil); a.status != http.StatusOK || a.body != "" {
		t.Errorf("%d %q", a.status, a.body)
	}

	// Without a blob, the end of the log is kept for a while.
	id = r.make(`{"type":"y"}`)
	_, claim = r.claimed("y")
	r.print(id, claim, 0, "short").wantStatus(http.StatusNoContent)
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","log_addr":"s3://elsewhere"}`, claim)).object(http.StatusOK)
	if a := r.get("/jobs/" + id + "/log?follow=true"); a.body != "short" {
		t.Errorf("%d %q", a.status, a.body)
	}
	page := r.get("/metrics").body
	for _, line := range []string{"daybook_job_logs 2", "daybook_job_log_readers 0", "daybook_job_logs_dropped_total 0"} {
		testkit.Holds(t, strings.Contains(page, line+"\n"), "the metrics lack", line)
	}
	if appended := regexp.MustCompile(`(?m)^daybook_job_log_appended_bytes_total [1-9]`); !appended.MatchString(page) {
		t.Error("no bytes of logs were counted")
	}
	silent := r.make(`{"type":"z"}`)
	r.post("/jobs/"+silent+"/cancel", "").object(http.StatusOK)
	r.get("/jobs/"+silent+"/log").refused(http.StatusNotFound, codeNoLog)
	r.get("/jobs/"+silent+"/log?follow=true").refused(http.StatusNotFound, codeNoLog)
}

// TestLogFollowsWaitingJob: a reader waits for the first text of a job that has not begun, and sees the job end without
// text.
func TestLogFollowsWaitingJob(t *testing.T) {
	r := start(t)
	first, second := r.make(`{"type":"x"}`), r.make(`{"type":"y"}`)
	got := map[string]chan reply{first: make(chan reply, 1), second: make(chan reply, 1)}
	for id, to := range got {
		go func() { to <- r.get("/jobs/" + id + "/log?follow=true") }()
	}
	r.until("both wait", func() bool { return r.server.logs.readers.Load() == 2 })
	_, claim := r.claimed("x")
	r.print(first, claim, 0, "text").wantStatus(http.StatusNoContent)
	r.post("/jobs/"+first+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, claim)).object(http.StatusOK)
	r.post("/jobs/"+second+"/cancel", "").object(http.StatusOK)
	a := <-got[first]
	testkit.Holds(t, a.status == http.StatusOK && a.body == "text", a.status, a.body)
	a = <-got[second]
	testkit.Holds(t, a.status == http.StatusOK && a.body == "", a.status, a.body)
	r.until("nobody waits", func() bool { return r.server.logs.readers.Load() == 0 })
}
