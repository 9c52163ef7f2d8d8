package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

func texts(payloads ...string) (jobs []*client.Job) {
	for i, p := range payloads {
		jobs = append(jobs, newJob(i, p))
	}
	return jobs
}

// TestThousandInBatches: miniq's own test. 1,000 jobs in batches of 100, one line per job.
func TestThousandInBatches(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests++
		mu.Unlock()
		body, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		fmt.Fprintln(w, "# begin")
		for line := range strings.Lines(string(body)) {
			fmt.Fprintf(w, "200 did %s\n", line)
		}
	}), handler.Options{Batch: true})
	var batches sync.WaitGroup
	for b := range 10 {
		batches.Go(func() {
			var jobs []*client.Job
			for i := range 100 {
				jobs = append(jobs, newJob(100*b+i, fmt.Sprintf("payload %d", 100*b+i)))
			}
			for i, end := range run(t, t.Context(), e, jobs...) {
				want(t, end, "ok", 200, "")
				testkit.Holds(t, string(end.Output) == fmt.Sprintf("did payload %d", 100*b+i), "job", 100*b+i, "has the output", string(end.Output))
			}
		})
	}
	batches.Wait()
	testkit.Equal(t, requests, 10, "requests")
}

func TestBatchRequest(t *testing.T) {
	var got http.Header
	var body string
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		got, body = r.Header, string(all)
		io.WriteString(w, strings.Repeat("200\n", strings.Count(body, "\n")))
	}), handler.Options{Batch: true})
	job := func(id, client_ string, kind client.Kind, payload string) *client.Job {
		return &client.Job{ID: id, Type: "mail", Client: client_, Kind: kind, Payload: []byte(payload)}
	}
	run(t, t.Context(), e, job("1", "a", client.JSON, "{\n\"a\":\r\n\"b\\n\"}"), job("2", "a", client.JSON, "2"))
	first := got
	testkit.Equal(t, body, "{ \"a\":\r \"b\\n\"}\n2\n")
	for name, value := range map[string]string{
		"Content-Type": "application/x-ndjson", "Daybook-Jobs": "2", "Daybook-Job-Ids": "1,2", "Daybook-Type": "mail", "Daybook-Client": "a",
		"Daybook-Job-Id": "", "Daybook-Attempt": "", "Traceparent": "",
	} {
		testkit.Equal(t, got.Get(name), value, name)
	}
	run(t, t.Context(), e, job("1", "a", client.JSON, "1"), job("2", "b", client.Text, "text"))
	testkit.Holds(t, got.Get("Content-Type") == "text/plain; charset=utf-8" && len(got["Daybook-Client"]) == 0 &&
		got.Get("Idempotency-Key") == first.Get("Idempotency-Key") && len(got.Get("Idempotency-Key")) == 64, got)
	run(t, t.Context(), e, job("1", "a", client.Bytes, "\xff"), job("3", "a", client.Text, "text"))
	testkit.Holds(t, got.Get("Content-Type") == "application/octet-stream" && got.Get("Idempotency-Key") != first.Get("Idempotency-Key"), got)
	var many []*client.Job
	for i := range maxIDs + 1 {
		many = append(many, newJob(i, ""))
	}
	run(t, t.Context(), e, many...)
	testkit.Holds(t, got.Get("Daybook-Jobs") == "101" && len(got["Daybook-Job-Ids"]) == 0, got)

	list := run(t, t.Context(), e, job("1", "a", client.Text, "two\nlines"), job("2", "a", client.Text, "one"), job("3", "a", client.Bytes, "\n"), job("4", "a", client.WASI, ""))
	want(t, list[0], "failed", 0, "line break")
	want(t, list[1], "ok", 200, "")
	want(t, list[2], "failed", 0, "line break")
	want(t, list[3], "failed", 0, "WASI")
	testkit.Holds(t, body == "one\n" && got.Get("Daybook-Job-Ids") == "2", body, "with", got)
	body = ""
	want(t, run(t, t.Context(), e, job("1", "a", client.Text, "\n"))[0], "failed", 0, "line break")
	testkit.Equal(t, body, "", "a batch without payloads that can be sent was sent as")
}

// TestBatchAnswers: lines count whatever the status is. The status is part of the error of a task without a valid line.
func TestBatchAnswers(t *testing.T) {
	type ended struct {
		code string
		exit int
		text string
	}
	for name, c := range map[string]struct {
		status int
		after  string
		body   string
		want   []ended
	}{
		"each its own":           {200, "", "# log\n200 out\n\n404 nope\n503 later\n100\n302 there", []ended{{"ok", 200, ""}, {"failed", 404, "nope"}, {"error", 503, "later"}, {"retry", 100, "exit code 100"}, {"retry", 0, "exit code 302: there"}}},
		"a status of 500":        {500, "", "200\n429\n", []ended{{"ok", 200, ""}, {"failed", 429, "exit code 429"}, {"error", 500, "NO_RESPONSE: HTTP 500 Internal Server Error: 2 of 3"}}},
		"a page instead":         {502, "", "<html>\n502\n</html>", []ended{{"error", 500, "INVALID_RESPONSE: HTTP 502 Bad Gateway: line 1"}, {"error", 500, "INVALID_RESPONSE: HTTP 502 Bad Gateway"}}},
		"a page with 200":        {200, "", "<html>\n200\n</html>", []ended{{"error", 500, "INVALID_RESPONSE: line 1 of the answers does not begin with an exit code: \"<html>\""}}},
		"nothing":                {200, "", "", []ended{{"error", 500, "NO_RESPONSE: 0 of 2"}, {"error", 500, "NO_RESPONSE"}}},
		"nothing but the status": {404, "", "", []ended{{"error", 500, "NO_RESPONSE: HTTP 404 Not Found: 0 of 2"}, {"error", 500, "NO_RESPONSE"}}},
		"a redirect":             {302, "", "", []ended{{"error", 500, "NO_RESPONSE: HTTP 302 Found"}}},
		"a delay":                {503, "7", "200\n500\n100\n404\n", []ended{{"ok", 200, ""}, {"error", 500, "exit code 500"}, {"retry", 100, "exit code 100"}, {"failed", 404, "exit code 404"}, {"error", 500, "NO_RESPONSE"}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}), handler.Options{Batch: true})
			for i, end := range run(t, t.Context(), e, texts(make([]string, len(c.want))...)...) {
				want(t, end, c.want[i].code, c.want[i].exit, c.want[i].text)
				testkit.Equal(t, end.DelayMs != nil, (c.after != "" && (end.Code == "error" || end.Code == "retry")), "job",
					i, "has the delay", end.DelayMs)
			}
		})
	}
}

// TestExampleOfBatchAnswer: the answer in docs/reference/handlers.md ends five jobs as the page says.
func TestExampleOfBatchAnswer(t *testing.T) {
	page := testkit.Must(os.ReadFile("../../docs/reference/handlers.md"))(t)
	_, answer, _ := strings.Cut(string(page), "TestExampleOfBatchAnswer -->\n\n```text\n")
	answer, _, _ = strings.Cut(answer, "```")
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) }), handler.Options{Batch: true})
	list := run(t, t.Context(), e, texts("a", "b", "c", "d", "e")...)
	want(t, list[0], "ok", 200, "")
	want(t, list[1], "ok", 200, "")
	want(t, list[2], "failed", 404, "no such user")
	want(t, list[3], "ok", 200, "")
	want(t, list[4], "error", 503, "try again later")
	testkit.Equal(t, string(list[1].Output), "the output", "the output of the second job")
	for i, end := range list {
		if chained := end.Then; i != 3 && len(chained) > 0 || i == 3 && (len(chained) != 1 || chained[0].Type != "mail" || string(chained[0].Payload) != "to: ada") {
			t.Errorf("job %d creates %+v", i, chained)
		}
	}
}

func TestBatchCreates(t *testing.T) {
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "J: next|1\n200\n#J: next|2\n500\nJ: next|3\n404\n#J: next|4\n")
	}), handler.Options{Batch: true, InlineBytes: 10, OutputBytes: 10})
	list := run(t, t.Context(), e, texts("a", "b", "c")...)
	for i, want := range []string{"1", "", "34"} {
		got := ""
		for _, j := range list[i].Then {
			got += string(j.Payload)
		}
		testkit.Equal(t, got, want, "job", i, "creates")
	}
}

// TestBatchAtOnce: a task ends when its line arrives, while later tasks still wait.
func TestBatchAtOnce(t *testing.T) {
	next := make(chan string)
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		for line := range next {
			io.WriteString(w, line)
			w.(http.Flusher).Flush()
		}
	}), handler.Options{Batch: true})
	var got ends
	tasks := got.tasks(t.Context(), texts("a", "b", "c"))
	var running sync.WaitGroup
	running.Go(func() { e.Run(tasks) })
	for i, line := range []string{"# nothing\n", "200\n", "404\n"} {
		next <- line
		testkit.Eventually(t, "the line ends its task", func() bool { return got.count() == i })
	}
	next <- "500 last\nJ: a|b\n"
	close(next)
	running.Wait()
	want(t, got.list[0], "ok", 200, "")
	want(t, got.list[1], "failed", 404, "exit code 404")
	want(t, got.list[2], "error", 500, "last")
}

// TestBatchContexts: a task whose context ends is given back immediately, and the remaining tasks get their answers.
// When no task waits any more, the request is cancelled.
func TestBatchContexts(t *testing.T) {
	arrived, answer, left := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case <-answer:
			io.WriteString(w, "200\n201\n202\n")
		case <-r.Context().Done():
			left <- struct{}{}
		}
	}), handler.Options{Batch: true, Concurrency: 1})

	ctx, cancel := context.WithCancel(t.Context())
	var got, cancelled ends
	tasks := got.tasks(t.Context(), texts("a", "c"))
	tasks = append(tasks[:1], append(cancelled.tasks(ctx, texts("b")), tasks[1])...)
	var running sync.WaitGroup
	running.Go(func() { e.Run(tasks) })
	<-arrived
	cancel()
	testkit.Eventually(t, "the cancelled task has ended", func() bool { return cancelled.count() == 1 })
	testkit.Holds(t, cancelled.list[0].Unget && got.count() == 0, cancelled.list[0], "and", got.count(), "others")
	answer <- struct{}{}
	running.Wait()
	want(t, got.list[0], "ok", 200, "")
	want(t, got.list[1], "ok", 202, "")

	ctx, cancel = context.WithCancel(t.Context())
	running.Go(func() {
		for i, end := range run(t, ctx, e, texts("a", "b", "c")...) {
			testkit.Holds(t, end.Unget, "task", i, "ended with", end)
		}
	})
	<-arrived
	var waits ends // it waits for its turn
	waiting, stopWaiting := context.WithCancel(t.Context())
	second := waits.tasks(waiting, texts("d", "e"))
	running.Go(func() { e.Run(second) })
	stopWaiting()
	testkit.Eventually(t, "the tasks that wait are given back", func() bool { return waits.count() == 2 })
	cancel()
	running.Wait()
	<-left
	for i, end := range run(t, ctx, e, texts("a", "b")...) {
		testkit.Holds(t, end.Unget, "task", i, "of a batch that nobody waits for ended with", end)
	}
	testkit.Holds(t, len(arrived) == 0, "a batch that nobody waits for was sent")
}
