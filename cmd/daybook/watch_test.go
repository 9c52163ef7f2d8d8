package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// endAll claims all jobs of a type, and ends them with a code.
func (s *server) endAll(t *testing.T, typ, code string) {
	t.Helper()
	c := client.New(s.url, client.Options{})
	for {
		claim := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Types: []string{typ}, Max: 100}))(t)
		if claim == nil || len(claim.Jobs) == 0 {
			return
		}
		for _, j := range claim.Jobs {
			testkit.Must(c.Complete(t.Context(), j.ID, claim.ID, client.Outcome{Code: code, Error: "because"}))(t)
		}
	}
}

// watching runs a command line in the background. It returns after it has written something to standard error.
func watching(t *testing.T, args ...string) (end func() result) {
	t.Helper()
	var out bytes.Buffer
	errs := &processLog{}
	done := make(chan int, 1)
	go func() { done <- run(args, strings.NewReader(""), &out, errs) }()
	testkit.Eventually(t, "it prints the progress, which it does after it has set up its handler", func() bool { return errs.String() != "" })
	return func() result {
		select {
		case code := <-done:
			return result{code, out.String(), errs.String(), strings.Join(args, " ")}
		case <-time.After(time.Minute):
			t.Fatalf("%q does not end: %s", args, errs)
			panic("unreachable")
		}
	}
}

func TestWatch(t *testing.T) {
	s := serving(t, t.TempDir())
	id := func(args ...string) string { return strings.TrimSpace(ok(t, append(args, "--server", s.url)...)) }
	check := func(t *testing.T, r result, code int, out string) { t.Helper(); r.ends(t, code).prints(t, out) }
	for code, want := range map[string]int{"ok": terminal.ExitOK, "failed": terminal.ExitJobFailed} {
		t.Run("job "+code, func(t *testing.T) {
			one := id("create", "--type", "job"+code, "x")
			end := watching(t, "watch", "--server", s.url, one)
			s.endAll(t, "job"+code, code)
			check(t, end(), want, "job "+one)
		})
		t.Run("batch "+code, func(t *testing.T) {
			in := written(t, "in", "a\nb\n")
			batch := id("add", "--type", "batch"+code, in)
			end := watching(t, "watch", "--server", s.url, batch)
			s.endAll(t, "batch"+code, code)
			check(t, end(), want, "batch "+batch)
		})
		t.Run("queue "+code, func(t *testing.T) {
			id("create", "--type", "queue"+code, "x")
			s.endAll(t, "queue"+code, code) // it may end before the watch begins, which does not matter
			id("create", "--type", "queue"+code, "y")
			end := watching(t, "watch", "--server", s.url, "--interval", "100ms", "default/queue"+code)
			s.endAll(t, "queue"+code, code)
			check(t, end(), want, "has no unfinished jobs: 1 ended")
			check(t, execute(t, "", "watch", "--server", s.url, "default/queue"+code), terminal.ExitOK, "0 ended")
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		one := id("create", "--type", "c", "x")
		id("cancel", one)
		check(t, execute(t, "", "watch", "--server", s.url, one), terminal.ExitJobCancelled, "cancelled")
		batch := id("submit", "--type", "c", "--name", "n", written(t, "in", "x\n"))
		id("cancel", "--batch", batch)
		check(t, execute(t, "", "watch", "--server", s.url, batch), terminal.ExitJobCancelled, "batch "+batch+" cancelled") // it has a name
		added := id("add", "--type", "c", written(t, "in", "x\ny\n"))
		id("cancel", "--job", added)
		check(t, execute(t, "", "watch", "--job", "--server", s.url, added), terminal.ExitJobCancelled, "job "+added+" cancelled")
	})
	t.Run("a batch of one job without attributes is that job", func(t *testing.T) {
		one := id("add", "--type", "single", written(t, "in", "x\n"))
		s.endAll(t, "single", "ok")
		check(t, execute(t, "", "watch", "--server", s.url, one), terminal.ExitOK, "job "+one)
		check(t, execute(t, "", "watch", "--batch", "--server", s.url, one), terminal.ExitOK, "batch "+one)
	})
	t.Run("time-out", func(t *testing.T) {
		one := id("create", "--type", "slow", "x")
		for _, what := range []string{one, "default/slow"} {
			check(t, execute(t, "", "watch", "--server", s.url, "--timeout", "100ms", what), terminal.ExitTimeout, "")
		}
	})
	t.Run("JSON is a document for each change", func(t *testing.T) {
		batch := id("add", "--type", "documents", written(t, "in", "a\nb\n"))
		var out processLog
		done := make(chan int, 1)
		go func() {
			done <- run([]string{"watch", "--json", "--interval", "100ms", "--server", s.url, batch}, strings.NewReader(""), &out, &processLog{})
		}()
		testkit.Eventually(t, "it prints", func() bool { return out.String() != "" })
		s.endAll(t, "documents", "ok")
		testkit.Equal(t, <-done, terminal.ExitOK, "exit code")
		var last client.Batch
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, line := range lines {
			last = client.Batch{}
			err := json.Unmarshal([]byte(line), &last)
			testkit.Holds(t, err == nil && (i <= 0 || line != lines[i-1]), line, err)
		}
		testkit.Holds(t, last.Status == "completed" && last.Counts["completed"] == 2 && len(lines) >= 2, lines)
	})
	t.Run("wrong use", func(t *testing.T) {
		for args, code := range map[string]int{
			"nonsense": terminal.ExitUsage, "a/b/c": terminal.ExitUsage, "--batch a/b": terminal.ExitUsage, "default/none": terminal.ExitNotFound, "--interval 1ms a/b": terminal.ExitUsage,
			"0185a1b2-c3d4-7000-8000-00000c800000": terminal.ExitNotFound, "--batch 0185a1b2-c3d4-7000-8000-00000c800000": terminal.ExitNotFound,
		} {
			execute(t, "", append([]string{"watch", "--server", s.url}, strings.Fields(args)...)...).ends(t, code)
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		one := id("create", "--type", "interrupted", "x")
		cmd := command("watch", "--server", s.url, one)
		errs := &processLog{}
		cmd.Stderr = errs
		testkit.NoError(t, cmd.Start())
		testkit.Eventually(t, "it prints the progress, which it does after it has set up its handler", func() bool { return errs.String() != "" })
		testkit.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the caller checks the exit code
		testkit.Equal(t, cmd.ProcessState.ExitCode(), terminal.ExitSignal+int(syscall.SIGINT), "exit code", errs)
	})
}

// TestWatchOverARestart: the server is unreachable for a while.
func TestWatchOverARestart(t *testing.T) {
	data := t.TempDir()
	s := serving(t, data)
	proxy := slowed(t, s.url) // the address stays the same
	one := strings.TrimSpace(ok(t, "create", "--server", s.url, "--type", "x", "y"))
	end := watching(t, "watch", "--server", proxy.url, one)
	s.end(t, syscall.SIGKILL)
	again := serving(t, data, "--listen", strings.TrimPrefix(s.url, "http://"))
	again.endAll(t, "x", "ok")
	end().ends(t, terminal.ExitOK)
}

func TestProgressTexts(t *testing.T) {
	testkit.Equal(t, terminal.Bar(0.5), "[############------------]")
	for part, want := range map[float64]string{0: "  0 %", 0.999: " 99 %", 1: "100 %", 2: "100 %"} {
		testkit.Equal(t, terminal.Percent(part), want, part)
	}
	for want, c := range map[string][2]float64{"": {1, 0}, "10s": {100, 10}, "1s": {1, 100}, "1h1m": {3650, 1}} {
		testkit.Equal(t, terminal.Remaining(c[0], c[1]), want, c)
	}
	estimate := int64(61_000)
	b := client.Batch{ID: "b", Status: "in_progress", Count: 10, Counts: map[string]int64{"pending": 5, "completed": 4, "failed": 1}, Progress: &client.BatchProgress{PerSecond: 2, EstimateMs: &estimate}}
	p := batchProgress(&b)
	testkit.Holds(t, !p.ended && p.text == "[############------------]  50 % 5 of 10, 1 failed, 2.0/s, 1m1s left", p)
	var q queueWatch
	at := time.Unix(1000, 0)
	q.look(config.QueueName{Client: "c", Type: "t"}, &client.Queue{Counts: map[string]int64{"pending": 10, "failed": 7}}, at)
	p = q.look(config.QueueName{Client: "c", Type: "t"}, &client.Queue{Paused: true, Counts: map[string]int64{"pending": 6, "completed": 3, "failed": 8}}, at.Add(2*time.Second))
	testkit.Holds(t, !p.ended && p.text == "[#########---------------]  40 % 6 pending, 1 failed, paused, 2.0/s, 3s left", p)
	// A purge makes counts smaller.
	p = q.look(config.QueueName{Client: "c", Type: "t"}, &client.Queue{Counts: map[string]int64{}}, at.Add(4*time.Second))
	testkit.Holds(t, p.ended && p.err != nil, p)
}
