package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestSubmitAndResults: the lines of a file become one batch, whose results are shown in order as jobs end.
func TestSubmitAndResults(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	dir := t.TempDir()
	lines, metadata := filepath.Join(dir, "lines"), filepath.Join(dir, "metadata")
	for path, text := range map[string]string{lines: "one\n\ntwo\nthree", metadata: "about it"} {
		testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	id := strings.TrimSpace(ok(t, "submit", "--server", s.url, "--name", "nightly", "--type", "x", "--meta", "user=42", "--meta", "model=a b",
		"--metadata", metadata, "--on-failure", "cancel_rest", lines))
	testkit.Equal(t, ok(t, "results", "--server", s.url, id), "", "results of no job")
	following := make(chan string, 1)
	go func() { following <- ok(t, "results", "-f", "--server", s.url, id) }()
	c, ctx := client.New(s.url, client.Options{}), t.Context()
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 2}))(t)
	testkit.MustEqual(t, len(claim.Jobs), 2)
	for i, outcome := range []client.Outcome{{Output: []byte("first\x1b\nline\r\n\n")}, {Code: "failed", Error: "no luck"}} {
		testkit.Must(c.Complete(ctx, claim.Jobs[i].ID, claim.ID, outcome))(t)
	}
	testkit.Equal(t, <-following, "0\tcompleted\tfirst\x1b\\nline\n1\tfailed\tno luck\n2\tcancelled\t\n")
	var last map[string]any
	text := ok(t, "results", "--json", "--from", "1", "--server", s.url, id)
	err := json.Unmarshal([]byte(strings.Split(text, "\n")[0]), &last)
	testkit.Holds(t, err == nil && last["line"] == 1.0 && last["error"] == "no luck", text, err)
	var document map[string]any
	text = ok(t, "batches", "--json", "--server", s.url)
	err = json.Unmarshal([]byte(text), &document)
	testkit.Holds(t, err == nil && document["batch_id"] == id && document["ended_at"] != nil && document["open"] == false, text, err)
	for _, null := range []string{"progress", "chunk_size", "traceparent", "tracestate", "baggage"} {
		value, given := document[null]
		testkit.Holds(t, given && value == nil, null, "is", value)
	}
	list := ok(t, "batches", "--server", s.url, "--status", "failed", "--meta", "user=42", "--name", "nightly")
	testkit.Contains(t, list, id, "model=a b user=42", "nightly")
	testkit.Equal(t, ok(t, "batches", "--server", s.url, "--status", "paused"), "there are no such batches\n")
	text = ok(t, "stats", "--server", s.url)
	testkit.Holds(t, strings.Contains(text, "batches failed") && !strings.Contains(text, "batches in progress"), text)
	stats := testkit.Must(c.Stats(ctx))(t)
	testkit.Holds(t, stats.Batches["failed"] == 1 && stats.Batches["in_progress"] == 0, stats.Batches)
	testkit.Contains(t, ok(t, "get", "--batch", "--server", s.url, id), "no luck", "cancel_rest")
}

// TestSubmitRefuses: a wrong row cancels the batch, and a wrong header or flag creates none.
func TestSubmitRefuses(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	r := execute(t, "", "submit", "--server", s.url, "--type", "row", "--format", "csv", written(t, "in", "a,b\n1,2\n3\n"))
	r.ends(t, terminal.ExitFile, "was cancelled after", "line 3: the row has 1")
	r = execute(t, "", "submit", "--server", s.url, "--type", "header", "--format", "csv", written(t, "in", "a,a\n1,2\n"))
	r.ends(t, terminal.ExitFile, "line 1: two columns").lacks(t, "batch")
	ok(t, "submit", "--server", s.url, "--type", "soon", "--priority", "7", "--max-attempts", "2", "--lease", "5s", "--timeout", "1m", "--delay", "1h", written(t, "in", "a\n"))
	doc := ok(t, "jobs", "--server", s.url, "--type", "soon", "--json")
	testkit.Contains(t, doc, `"priority":7`, `"max_attempts":2`, `"lease_ms":5000`, `"timeout_ms":60000`, `"status":"deferred"`)
	for _, args := range [][]string{{"--priority", "10"}, {"--run-at", "tomorrow", "--delay", "1h"}, {"--format", "xml"}, {"--delimiter", ";"}, {"--format", "csv", "--strip-cr"}, {"--format", "ndjson", "--chunks", "blobs"}} {
		execute(t, "", append([]string{"submit", "--server", s.url}, args...)...).ends(t, terminal.ExitUsage)
	}
}

// TestSubmitSlowly: submit stores lines while its input is silent. A signal cancels the batch, and submit prints its
// id; with --wait, a batch that is already complete continues.
func TestSubmitSlowly(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	c, ctx := client.New(s.url, client.Options{}), t.Context()
	batchOf := func(name string, ready func(b *client.Batch) bool) client.Batch {
		t.Helper()
		var found client.Batch
		testkit.Eventually(t, "the batch "+name+" is ready", func() bool {
			for b, err := range c.Batches(ctx, client.BatchesQuery{Name: name}) {
				testkit.NoError(t, err)
				if ready(&b) {
					found = b
					return true
				}
			}
			return false
		})
		return found
	}
	waits := make(chan struct{}, 1) // the command waits for the end of the batch
	target := testkit.Must(url.Parse(s.url))(t)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog = log.New(io.Discard, "", 0) // the command ends while it waits
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("wait_ms") {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	interrupted := func(name string, wait bool) (client.Batch, string) {
		t.Helper()
		args := []string{"submit", "--server", proxy.URL, "--name", name}
		if wait {
			args = append(args, "--wait")
		}
		cmd := command(args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		in := testkit.Must(cmd.StdinPipe())(t)
		testkit.NoError(t, cmd.Start())
		testkit.Must(io.WriteString(in, "one\ntwo\n"))(t)
		if wait {
			in.Close()
		}
		batchOf(name, func(b *client.Batch) bool { return b.Count == 2 && b.Open == !wait })
		if wait { // the command knows that the batch is closed
			<-waits
		}
		testkit.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		if exit := new(exec.ExitError); !errors.As(cmd.Wait(), &exit) || exit.ExitCode() != terminal.ExitSignal+int(syscall.SIGINT) {
			t.Errorf("%s: %v: %s", name, cmd.ProcessState, errs.String())
		}
		return batchOf(name, func(*client.Batch) bool { return true }), errs.String()
	}
	if b, said := interrupted("slow", false); b.Status != "cancelled" || !regexp.MustCompile("the batch "+b.ID+" was cancelled after [02] jobs: interrupted").MatchString(said) { // 0: before the answer
		t.Errorf("%+v: %s", b, said)
	}
	b, said := interrupted("whole", true)
	testkit.Holds(t, b.Status == "in_progress" && strings.Contains(said, "interrupted; the batch "+b.ID+" goes on"), b, said)
}

// TestSubmitWaits: with --wait, the exit code is the outcome of the batch.
func TestSubmitWaits(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := worker.Worker{Client: client.New(s.url, client.Options{}), Types: []string{"x"}, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		if string(j.Payload) == "bad" {
			return client.Outcome{Code: "failed", Error: "a bad line"}, nil
		}
		return client.Outcome{}, nil
	}}
	go func() { ended <- w.Run(ctx) }()
	defer func() { cancel(); testkit.Check(t, <-ended, "worker") }()
	execute(t, "good\n", "submit", "--server", s.url, "--type", "x", "--wait", "--json").ends(t, terminal.ExitOK).prints(t, `"status":"completed"`)
	execute(t, "good\nbad\n", "submit", "--server", s.url, "--type", "x", "--wait").ends(t, terminal.ExitJobFailed, "has failed: a bad line")
	cutOff := regexp.MustCompile(`was cancelled after [01] jobs: line`)
	for _, input := range []string{strings.Repeat("x", 4<<20+1), "good\n" + strings.Repeat("x", 4<<20+1) + "\nmore\n"} { // no batch looks as if it had all lines
		r := execute(t, input, "submit", "--server", s.url, "--name", "cut")
		testkit.Holds(t, r.code != terminal.ExitOK && cutOff.MatchString(r.errs), "exit code", r.code, r.errs)
	}
	testkit.Equal(t, execute(t, "", "batches", "--server", s.url, "--name", "cut", "--status", "completed").out, "there are no such batches\n")
	execute(t, "", "batches", "--server", s.url, "--limit", "-1").ends(t, terminal.ExitUsage)
	for _, wrong := range [][]string{{"--meta", "x"}, {"--on-failure", "stop"}} {
		execute(t, "", append([]string{"submit", "--server", s.url}, wrong...)...).ends(t, terminal.ExitUsage)
	}
}
