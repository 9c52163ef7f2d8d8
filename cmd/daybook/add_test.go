package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// pending returns the number of pending jobs of a queue.
func (s *server) pending(t *testing.T, queue string) int64 {
	t.Helper()
	return parsed[queueDocument](t, get(t, s.url+"/queues/"+queue)).Counts["pending"]
}

func TestAdd(t *testing.T) {
	s := serving(t, t.TempDir())
	t.Run("from standard input", func(t *testing.T) {
		for _, args := range [][]string{{"add", "--server", s.url}, {"add", "-", "--server", s.url}} {
			r := execute(t, "one\n\ntwo\r\nlast", args...)
			testkit.MustEqual(t, r.code, terminal.ExitOK, "exit code")
			// The lines are posted as they arrive, so they are one batch or two.
			jobs := 0
			for _, batch := range strings.Fields(r.out) {
				testkit.Equal(t, testkit.Must(job.ParseID(batch))(t).Line(), 0, batch)
				text := ok(t, "get", "--batch", "--server", s.url, batch)
				_, count, _ := strings.Cut(text, "count")
				n := 0
				_, err := fmt.Sscan(count, &n)
				testkit.Check(t, err, text)
				jobs += n
			}
			testkit.Equal(t, jobs, 3)
		}
	})
	t.Run("attributes", func(t *testing.T) {
		r := execute(t, "x\n", "add", "--server", s.url, "--client", "c", "--type", "t", "--priority", "0", "--max-attempts", "2", "--delay", "1h", "--lease", "2s", "--retention", "1d", "--json")
		var b client.Added
		err := json.Unmarshal([]byte(r.out), &b)
		testkit.MustHold(t, err == nil && b.Count == 1 && b.FirstID == b.LastID, err, r.out, r.errs)
		text := ok(t, "get", "--server", s.url, b.FirstID)
		testkit.Contains(t, text, "client        c\n", "type          t\n", "priority      0\n", "max_attempts  2\n", "lease_ms      2000\n", "status        deferred\n")
	})
	t.Run("a large file in several batches", func(t *testing.T) {
		const lines = 100_000
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, "line %0100d\n", i)
		}
		path := filepath.Join(t.TempDir(), "lines")
		testkit.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
		out := ok(t, "add", path, "--server", s.url, "--type", "large")
		n := strings.Count(out, "\n")
		testkit.Holds(t, n >= 3, n, "batches")
		testkit.Equal(t, s.pending(t, "default/large"), lines)
	})
	t.Run("a stream is posted as it arrives", func(t *testing.T) {
		in, feed := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- run([]string{"add", "--server", s.url, "--type", "stream"}, in, io.Discard, io.Discard)
		}()
		for i := range int64(3) {
			testkit.Must(io.WriteString(feed, "line\nhalf "))(t)
			for s.pending(t, "default/stream") != i+1 {
			}
		}
		testkit.NoError(t, feed.Close())
		testkit.Equal(t, <-ended, terminal.ExitOK, "exit code")
		testkit.Equal(t, s.pending(t, "default/stream"), 4)
	})
	t.Run("the longest line", func(t *testing.T) {
		line := strings.Repeat("x", job.MaxPayloadBytes)
		execute(t, "a\n"+line+"\nb\n", "add", "--server", s.url, "--type", "long").ends(t, terminal.ExitOK)
		r := execute(t, "a\n"+line+"x\nb\n", "add", "--server", s.url, "--type", "longer")
		// On a slow machine the next line may arrive so late that the first one is posted alone.
		testkit.Holds(t, r.code == terminal.ExitRefused && strings.Contains(r.errs, "line 2: ") &&
			(strings.Contains(r.errs, " lines are stored in ") || strings.Contains(r.errs, "nothing was stored")), "exit code", r.code, r.errs)
	})
	t.Run("a file with a line that is too long", func(t *testing.T) {
		r := execute(t, "", "add", "--server", s.url, "--type", "longer", written(t, "in", strings.Repeat("x", job.MaxPayloadBytes+1)))
		r.ends(t, terminal.ExitRefused, "nothing was stored: line 1: ").lacks(t, "--key")
	})
	t.Run("another input with the key of an earlier one stores nothing twice", func(t *testing.T) {
		typ := "keyed"
		testkit.MustEqual(t, execute(t, "a\nb\n", "add", "--server", s.url, "--type", typ, "--key", "S1").code, terminal.ExitOK, "exit code")
		for _, in := range []string{"a\nb\nc\n", "b\n", "a\nB\n"} {
			r := execute(t, in, "add", "--server", s.url, "--type", typ, "--key", "S1")
			r.ends(t, terminal.ExitRefused, "is not the one that was added with --key S1").lacks(t, "run the same command")
		}
		execute(t, "a\nb\n", "add", "--server", s.url, "--type", typ, "--key", "S1").ends(t, terminal.ExitOK)
		for line := range strings.Lines(ok(t, "queues", "--json", "--server", s.url, "--client", "default")) {
			var q struct {
				Type   string
				Counts map[string]int
			}
			err := json.Unmarshal([]byte(line), &q)
			testkit.Holds(t, err == nil && (q.Type != typ || q.Counts["pending"] == 2), line, err)
		}
	})
	t.Run("an input that fails", func(t *testing.T) {
		var out, errs strings.Builder
		code := run([]string{"add", "--server", s.url}, io.MultiReader(strings.NewReader("half a li"), iotest.ErrReader(errors.New("it broke"))), &out, &errs)
		testkit.Holds(t, code == terminal.ExitFile && strings.Contains(errs.String(), "it broke") && out.Len() == 0, "exit", code, &out, &errs)
		execute(t, "", "add", filepath.Join(t.TempDir(), "missing")).ends(t, terminal.ExitFile)
	})
	t.Run("refused", func(t *testing.T) {
		execute(t, "x\n", "add", "--server", s.url, "--lease", "1ms").ends(t, terminal.ExitRefused, "lease_ms must be")
		execute(t, "x\n", "add", "--server", s.url, "--priority", "10").ends(t, terminal.ExitUsage)
		execute(t, "x\n", "add", "--server", s.url, "--client", "a/b").ends(t, terminal.ExitUsage)
	})
}

// answers is a server that gives these answers, in order.
func answers(t *testing.T, list ...func(w http.ResponseWriter)) (url string, asked *int, keys *[]string) {
	t.Helper()
	asked, keys = new(int), new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" {
			io.WriteString(w, "pong")
			return
		}
		_, err := io.Copy(io.Discard, r.Body)
		testkit.Check(t, err)
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		*asked++
		list[*asked-1](w)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked, keys
}

func refusal(status int, outcome string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":"some_code","detail":"some detail","outcome":%q}`, outcome)
	}
}

func created(w http.ResponseWriter) {
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"batch_id":"b","count":1,"first_id":"f","last_id":"l"}`)
}

// TestAddIsStoredOnce: whatever happened to a body, it is sent again with the same key, and stored once.
func TestAddIsStoredOnce(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"not stored":  refusal(503, "not_stored"),
		"overloaded":  refusal(429, "not_stored"),
		"unknown":     refusal(503, "unknown"),
		"not Daybook": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"no answer":   func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"cut off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(201)
			io.WriteString(w, "{")
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked, keys := answers(t, answer, created)
			r := execute(t, "x\n", "add", "--server", url)
			testkit.Holds(t, r.code == terminal.ExitOK && r.out == "b\n" && *asked == 2 && (*keys)[0] != "" && (*keys)[0] == (*keys)[1],
				"exit code", r.code, "after", *asked, "requests with the keys", *keys, r.out, r.errs)
		})
	}
	t.Run("an answer that cannot be read", func(t *testing.T) {
		url, asked, _ := answers(t, func(w http.ResponseWriter) { w.WriteHeader(201); io.WriteString(w, "{") })
		r := execute(t, "x\n", "add", "--server", url)
		testkit.Holds(t, r.code == terminal.ExitNoAnswer && r.out == "" && *asked <= 1, "exit code", r.code, *asked, "requests", r.out, r.errs)
	})
}

// TestAddContinues: the same command with the printed key completes a file that was added in part. Nothing is stored
// twice.
func TestAddContinues(t *testing.T) {
	s := serving(t, t.TempDir())
	const lines = 60_000
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line %0100d\n", i)
	}
	path := filepath.Join(t.TempDir(), "lines")
	testkit.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	// A proxy that forwards three bodies and breaks all other connections.
	var passed atomic.Int32
	target := testkit.Must(url.Parse(s.url))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/add" && passed.Add(1) > 3 {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"code":"some_code","detail":"some detail","outcome":"not_stored"}`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	r := execute(t, "", "add", path, "--server", front.URL, "--type", "parts")
	_, after, _ := strings.Cut(r.errs, "--key ")
	key, _, _ := strings.Cut(after, " ")
	stored := s.pending(t, "default/parts")
	testkit.MustHold(t, r.code == terminal.ExitRefused && key != "" && stored != 0 &&
		stored != lines, "exit code", r.code, "key", key, stored, "lines", r.errs)
	testkit.MustEqual(t, execute(t, "", "add", path, "--server", s.url, "--type", "parts", "--key", key).code, terminal.ExitOK, "exit code")
	testkit.Equal(t, s.pending(t, "default/parts"), lines)
}

// TestStateFileInUse: while an add has a state file, a second add with the same file stores nothing and does not change
// it, in whatever state the file is. Otherwise both would add every line, or one would remove lines that the other
// writes.
func TestStateFileInUse(t *testing.T) {
	s := serving(t, t.TempDir())
	in, state := written(t, "in", "a\nb\n"), filepath.Join(t.TempDir(), "state")
	args := []string{"add", "--server", s.url, "--type", "twice", "--resume", state, in}
	refused := func(when string) {
		t.Helper()
		before := testkit.Must(os.ReadFile(state))(t)
		execute(t, "", args...).ends(t, terminal.ExitDataInUse, state)
		testkit.Equal(t, string(testkit.Must(os.ReadFile(state))(t)), string(before), when, "the state file")
	}
	first := testkit.Must(checkpoint.OpenAdd(state, checkpoint.Head{Type: "x"}))(t)
	refused("after the first line")
	testkit.NoError(t, os.WriteFile(state, append(testkit.Must(os.ReadFile(state))(t), `{"event":"sent","at":1,`...), 0o600)) // an incomplete line
	testkit.Fails(checkpoint.OpenAdd(state, first.Head))(t, filelock.ErrLocked)                                               // a second one
	refused("within a line")
	first.Close()
	testkit.NoError(t, os.WriteFile(state, nil, 0o600))
	f := testkit.Must(os.OpenFile(state, os.O_RDWR, 0))(t)
	testkit.NoError(t, filelock.Lock(f))
	refused("before the first line")
	testkit.Lacks(t, ok(t, "queues", "--server", s.url), "twice")
	testkit.NoError(t, f.Close())
	ok(t, args...)
	testkit.Equal(t, s.pending(t, "default/twice"), 2)
}

// TestAddInterrupted: after Ctrl-C, add prints that it was interrupted, and how to store only the rest.
func TestAddInterrupted(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	c := client.New(s.url, client.Options{})
	for _, flags := range [][]string{{"--key", "k"}, {"--resume", filepath.Join(t.TempDir(), "state")}, nil} {
		typ := fmt.Sprint("t", len(flags), strings.Join(flags[:min(1, len(flags))], ""))
		cmd := command(append([]string{"add", "--server", s.url, "--type", typ}, flags...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		in := testkit.Must(cmd.StdinPipe())(t)
		testkit.NoError(t, cmd.Start())
		line := strings.Repeat("x", 1000) + "\n"
		testkit.Must(io.WriteString(in, strings.Repeat(line, 20_000)))(t) // more than one body
		testkit.Eventually(t, "a body is stored", func() bool {
			q, err := c.Queue(t.Context(), "default", typ)
			return err == nil && q.Counts["pending"] > 0
		})
		testkit.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		exit := new(exec.ExitError)
		testkit.Holds(t, errors.As(cmd.Wait(), &exit) && exit.ExitCode() == terminal.ExitSignal+int(syscall.SIGINT) &&
			strings.Contains(errs.String(), "interrupted"), flags, cmd.ProcessState, errs.String())
		testkit.Holds(t, flags == nil || strings.Contains(errs.String(), "To store only what is missing, run the same command"), flags, &errs)
	}
}
