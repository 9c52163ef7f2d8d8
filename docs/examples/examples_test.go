//go:build unix

package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// built is the directory of the programs, which are built once for all tests.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "daybook-examples")
	if err != nil {
		panic(err)
	}
	built = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// language has the producer and the worker of a language.
type language struct {
	name             string
	producer, worker []string // the commands, without the arguments
	// prepare builds them. If they cannot run on this machine, it returns the reason.
	prepare func() (missing string, err error)
}

var languages = []language{
	{"go", []string{"BUILT/producer"}, []string{"BUILT/worker"}, sync.OnceValues(func() (string, error) {
		return "", command("go", "build", "-o", built+string(filepath.Separator), "./go/...")
	})},
	{"python", []string{"python3", "python/producer.py"}, []string{"python3", "python/worker.py"}, func() (string, error) {
		return need("python3"), nil
	}},
	{"typescript", []string{"node", "BUILT/typescript/producer.js"}, []string{"node", "BUILT/typescript/worker.js"}, sync.OnceValues(func() (string, error) {
		const compiler = "../../bin/typescript/node_modules" // scripts/tools
		if missing := need("node"); missing != "" {
			return missing, nil
		}
		if _, err := os.Stat(compiler); err != nil {
			return "the TypeScript compiler is not in bin/typescript: run `scripts/tools`", nil
		}
		// tsc checks the types and fails if one is wrong. The second file says that the programs are modules, as
		// package.json does.
		out := filepath.Join(built, "typescript")
		if err := command("node", compiler+"/typescript/bin/tsc", "-p", "typescript", "--typeRoots", compiler+"/@types", "--outDir", out); err != nil {
			return "", err
		}
		return "", os.WriteFile(filepath.Join(out, "package.json"), []byte(`{"type":"module"}`), 0o644)
	})},
}

func need(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return program + " is not installed"
	}
	return ""
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// forEach runs a test with the programs of each language.
func forEach(t *testing.T, test func(t *testing.T, l language)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			missing := testkit.Must(l.prepare())(t)
			if missing != "" {
				testkit.MustEqual(t, os.Getenv("TESTS_NEED_PROGRAMS"), "", "TESTS_NEED_PROGRAMS is set, and", missing)
				t.Skip("skipped:", missing)
			}
			test(t, l)
		})
	}
}

// process is a running producer or worker.
type process struct {
	*exec.Cmd
	t    *testing.T
	out  bytes.Buffer // read it after the end
	errs messages
	done chan struct{}
	err  error
}

// messages is the standard error of a process so far.
type messages struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (m *messages) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(b)
}

func (m *messages) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

// says waits until the process has written text to its standard error.
func (p *process) says(text string) {
	p.t.Helper()
	testkit.Eventually(p.t, fmt.Sprintf("%v says %q", p.Args, text), func() bool { return strings.Contains(p.errs.String(), text) })
}

// start starts a producer or worker of the server at url.
func start(t *testing.T, url string, argv []string, input string, args, environment []string) *process {
	t.Helper()
	argv = append(append([]string{}, argv...), args...)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "BUILT", built)
	}
	p := &process{Cmd: exec.Command(argv[0], argv[1:]...), t: t, done: make(chan struct{})}
	p.Env = append(os.Environ(), append(environment, "DAYBOOK_SERVER="+url)...)
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(input), &p.out, &p.errs
	testkit.NoError(t, p.Start())
	go func() { p.err = p.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%v: %v\n%s%s", argv, p.err, tail(p.out.String()), tail(p.errs.String()))
		}
	})
	return p
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// startWorker starts a worker whose jobs take workMs, and whose leases last leaseMs.
func startWorker(t *testing.T, s *daybooktest.Server, l language, workMs, leaseMs int) *process {
	t.Helper()
	return start(t, s.URL, l.worker, "", []string{"words"}, []string{fmt.Sprintf("WORK_MS=%d", workMs), fmt.Sprintf("LEASE_MS=%d", leaseMs)})
}

// changed returns the language with a changed worker: it replaces each old text in the program by the new text after it
// in oldNew.
func changed(t *testing.T, l language, oldNew []string) language {
	t.Helper()
	dir, worker := "python", "worker.py"
	if l.name == "typescript" {
		dir, worker = filepath.Join(built, "typescript"), "worker.js"
	}
	copied := filepath.Join(t.TempDir(), "copy")
	testkit.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	l.worker = []string{l.worker[0], filepath.Join(copied, worker)}
	text := testkit.Must(os.ReadFile(l.worker[1]))(t)
	for i := 0; i < len(oldNew); i += 2 {
		testkit.MustEqual(t, strings.Count(string(text), oldNew[i]), 1, worker, "does not have", oldNew[i], "once")
		text = bytes.Replace(text, []byte(oldNew[i]), []byte(oldNew[i+1]), 1)
	}
	testkit.NoError(t, os.WriteFile(l.worker[1], text, 0o644))
	return l
}

// forEachChanged runs a test with a changed worker of each language that has changes. Go has no changes: its worker is
// worker.Worker, whose tests have the same cases.
func forEachChanged(t *testing.T, changes map[string][]string, test func(t *testing.T, l language)) {
	forEach(t, func(t *testing.T, l language) {
		if changes[l.name] != nil {
			test(t, changed(t, l, changes[l.name]))
		}
	})
}

// post runs the producer, and returns its output.
func post(t *testing.T, s *daybooktest.Server, l language, key, input string) string {
	t.Helper()
	p := start(t, s.URL, l.producer, input, []string{"words", key}, nil)
	p.ended(time.Minute)
	return p.out.String()
}

// ended waits for the end of the program, which must have exit code 0.
func (p *process) ended(within time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
		if p.err != nil {
			p.t.Fatalf("%v: %v\n%s", p.Args, p.err, tail(p.errs.String()))
		}
	case <-time.After(within):
		p.t.Fatalf("%v runs after %v", p.Args, within)
	}
}

// stop ends a worker with SIGTERM. A claim that waits at the server needs a second, and more if the machine is busy.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.ended(15 * time.Second)
}

func (p *process) signal(s os.Signal) { p.t.Helper(); testkit.NoError(p.t, p.Process.Signal(s)) }

// input returns n lines of 1 to 5 words. If bad is one of the lines, that line has no words.
func input(n, bad int) string {
	var b strings.Builder
	for i := range n {
		if i == bad {
			b.WriteString("!!!\n")
		} else {
			fmt.Fprintf(&b, "line%d%s\n", i, strings.Repeat(" word", i%5))
		}
	}
	return b.String()
}

func counts(t *testing.T, s *daybooktest.Server) map[string]int64 {
	t.Helper()
	q := testkit.Must(s.Client.Queue(t.Context(), "default", "words"))(t)
	return q.Counts
}

// until waits for a condition.
func until(t *testing.T, s *daybooktest.Server, what string, is func(map[string]int64) bool) {
	t.Helper()
	testkit.Eventually(t, what, func() bool { return is(counts(t, s)) })
}

// holds waits until a worker has got the answer to its first claim, with a job. The server counts a request only when it
// has answered it; the job is active already while the answer is on its way.
func holds(t *testing.T, s *daybooktest.Server) {
	t.Helper()
	until(t, s, "a job is claimed", func(c map[string]int64) bool { return c["active"] == 1 })
	claims := regexp.MustCompile(`daybook_http_requests_total\{class="2xx",method="POST",route="/jobs/claim"\} [1-9]`)
	testkit.Eventually(t, "the claim is answered", func() bool {
		resp := testkit.Must(http.Get(s.URL + "/metrics"))(t)
		defer resp.Body.Close()
		page := testkit.Must(io.ReadAll(resp.Body))(t)
		return claims.Match(page)
	})
}

// done checks that n jobs ended, each with the right result, and that none is left. It returns the number of jobs that
// ran more than once.
func done(t *testing.T, s *daybooktest.Server, n int) (repeated int) {
	t.Helper()
	until(t, s, "all jobs end", func(c map[string]int64) bool { return c["pending"]+c["deferred"]+c["active"] == 0 })
	jobs := 0
	for j, err := range s.Client.Jobs(t.Context(), client.JobsQuery{Type: "words", PageSize: 1000}) {
		testkit.NoError(t, err)
		jobs++
		if j.RunAttempts > 1 {
			repeated++
		}
		words := len(regexp.MustCompile(`\w+`).FindAll(j.Payload, -1))
		if words == 0 {
			testkit.Holds(t, j.Status == "failed" && j.RunAttempts == 1 &&
				strings.Contains(j.Error, "no words"), j.Payload, "is", j.Status, "after", j.RunAttempts, "runs", j.Error)
			continue
		}
		var output struct{ Words int }
		if err := json.Unmarshal(j.Output, &output); err != nil || j.Status != "completed" || output.Words != words {
			t.Errorf("%q is %s after %+v, with the output %s (%v)", j.Payload, j.Status, j.Attempts, j.Output, err)
		}
	}
	testkit.Equal(t, jobs, n, "jobs")
	return repeated
}

// TestJobsAreDone runs the commands of README.md: the producer posts each line once, even if it runs twice; the worker
// does each job once.
func TestJobsAreDone(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		const n = 500
		text := input(n, 77)
		for range 2 {
			testkit.MustEqual(t, strings.TrimSpace(post(t, s, l, "k", text)), fmt.Sprint(n), "the producer printed")
		}
		long := strings.Repeat("word ", 300_000) + "\n" // longer than the bodies that the producer otherwise sends
		post(t, s, l, "long", text+long+text+strings.TrimSuffix(long, "\n"))
		w := startWorker(t, s, l, 0, 30_000)
		testkit.Equal(t, done(t, s, 3*n+2), 0, "jobs ran more than once")
		w.stop()
	})
}

// TestAKeyOfAnotherInput: a key that was used for another input is refused, and nothing is posted.
func TestAKeyOfAnotherInput(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		post(t, s, l, "k", "one\n")
		p := start(t, s.URL, l.producer, "two\n", []string{"words", "k"}, nil)
		<-p.done
		testkit.Holds(t, p.ProcessState.ExitCode() == 1 && strings.Contains(p.errs.String(), "key_reused") &&
			counts(t, s)["pending"] == 1, "exit code", p.ProcessState.ExitCode(), counts(t, s), p.errs.String())
	})
}

// TestServerIsKilled: producer and worker wait for a server that was killed, and continue after its restart.
func TestServerIsKilled(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		s.Kill()
		const n = 300
		p := start(t, s.URL, l.producer, input(n, -1), []string{"words", "k"}, nil)
		s.Restart()
		p.ended(time.Minute)
		w := startWorker(t, s, l, 20, 30_000)
		for _, enough := range []int64{1, n / 2} {
			until(t, s, "jobs complete", func(c map[string]int64) bool { return c["completed"] >= enough })
			s.Kill()
			s.Restart()
		}
		done(t, s, n)
		w.stop()
	})
}

// TestWorkerIsKilled: when the leases of a killed worker have ended, another worker does its jobs.
func TestWorkerIsKilled(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		const n = 100
		post(t, s, l, "k", input(n, -1))
		killed := startWorker(t, s, l, 1000, 2000)
		until(t, s, "the worker holds jobs", func(c map[string]int64) bool { return c["active"] > 0 })
		killed.signal(syscall.SIGKILL)
		<-killed.done
		held := counts(t, s)["active"] > 0 // a run that had not begun does not count as an attempt
		w := startWorker(t, s, l, 5, 2000)
		testkit.Holds(t, done(t, s, n) != 0 || held, "no job ran again: the worker was killed when it held none")
		w.stop()
	})
}

// TestWorkerStops: after SIGTERM a worker finishes the jobs that it has begun, gives back the rest, and ends.
func TestWorkerStops(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		const n = 200
		post(t, s, l, "k", input(n, -1))
		w := startWorker(t, s, l, 500, 30_000)
		until(t, s, "the worker holds jobs", func(c map[string]int64) bool { return c["active"] > 0 })
		w.stop()
		c := counts(t, s)
		testkit.MustHold(t, c["active"] == 0 && c["deferred"] == 0 && c["pending"] != 0, "after the end of the worker", c)
		w = startWorker(t, s, l, 0, 30_000)
		testkit.Equal(t, done(t, s, n), 0, "jobs ran more than once")
		w.stop()
	})
}

// TestLateWorker: a worker that stood still for longer than its lease drops its results, since another worker has done
// its jobs. Afterwards it continues.
func TestLateWorker(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		const n = 8
		post(t, s, l, "k", input(n, -1))
		late := startWorker(t, s, l, 3000, 2000)
		until(t, s, "the worker holds jobs", func(c map[string]int64) bool { return c["active"] == n })
		late.signal(syscall.SIGSTOP)
		w := startWorker(t, s, l, 0, 30_000)
		testkit.Equal(t, done(t, s, n), n, "jobs ran again")
		w.stop()
		late.signal(syscall.SIGCONT)
		post(t, s, l, "more", "more\n")
		done(t, s, n+1)
		late.stop()
		done(t, s, n+1)
	})
}

// TestBadOutcomes: if the server refuses an outcome, or if the worker cannot encode it, the other jobs of the claim need
// no second run. Outcomes that are too long for one request are reported in several.
func TestBadOutcomes(t *testing.T) {
	works := map[string][]string{
		"python": {`    return {"words": words}`, `    if words == 5: return "x" * (5 << 20)
    if words == 6: return "x" * (3 << 20)
    if words == 7: raise ValueError("\u00fc" * 50_000)
    if words == 8: return {"words": object()}
    if words == 9: return {"words": float("nan")}
    if words == 10: return "\ud800"
    return {"words": words}`},
		"typescript": {`    return { words };`, `    if (words === 5) return "x".repeat(5 << 20);
    if (words === 6) return "x".repeat(3 << 20);
    if (words === 7) throw new Error("\u00fc".repeat(50_000));
    if (words === 8) return { words: 1n };
    if (words === 9) return undefined;
    return { words };`},
	}
	forEachChanged(t, works, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		var lines strings.Builder
		for i := range 20 {
			fmt.Fprintln(&lines, strings.Repeat("word ", 1+i%10))
		}
		post(t, s, l, "k", lines.String())
		w := startWorker(t, s, l, 0, 30_000)
		until(t, s, "all jobs end", func(c map[string]int64) bool { return c["completed"]+c["failed"] == 20 })
		w.stop()
		for j, err := range s.Client.Jobs(t.Context(), client.JobsQuery{Type: "words", PageSize: 1000}) {
			testkit.NoError(t, err)
			words := len(strings.Fields(string(j.Payload)))
			wrong := words == 7 || words == 8 || words >= 9 && l.name == "python" // an error: the job runs until its attempts are used up
			failed := wrong || words == 5
			if (j.Status == "failed") != failed || (j.RunAttempts > 1) != wrong || (j.Error != "") != failed {
				t.Errorf("the job of %d words is %s after %d runs: %.100s", words, j.Status, j.RunAttempts, j.Error)
			}
			testkit.Holds(t, words != 7 || len(j.Error) >= 60_000 && utf8.ValidString(j.Error), "its error has", len(j.Error), "bytes")
		}
	})
}

// TestServerIsAwayAfterSIGTERM: if a worker is stopped in the middle of a long job, its time for the report begins when
// the job ends.
func TestServerIsAwayAfterSIGTERM(t *testing.T) {
	shorter := map[string][]string{"python": {"STOP_SECONDS = 10\n", "STOP_SECONDS = 8\n"}, "typescript": {"stopMs = 10_000;", "stopMs = 8_000;"}}
	forEachChanged(t, shorter, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		post(t, s, l, "k", "one\n")
		w := startWorker(t, s, l, 9000, 30_000)
		holds(t, s)
		w.signal(syscall.SIGTERM)
		s.Kill()
		w.says("/jobs/complete")
		s.Restart()
		w.ended(time.Minute)
		testkit.Equal(t, done(t, s, 1), 0, "the job ran twice")
	})
}

// TestReportsEnd: a worker that cannot report ends its tickles, and the jobs run again. Then the worker continues.
func TestReportsEnd(t *testing.T) {
	shorter := map[string][]string{"python": {"REPORT_SECONDS = 600\n", "REPORT_SECONDS = 1\n"}, "typescript": {"reportMs = 600_000;", "reportMs = 1_000;"}}
	forEachChanged(t, shorter, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		post(t, s, l, "k", "one\n")
		w := startWorker(t, s, l, 3000, 2000)
		holds(t, s)
		s.Kill()
		w.says("run again when their lease has ended")
		s.Restart()
		testkit.Equal(t, done(t, s, 1), 1, "the job did not run again")
		w.stop()
	})
}
