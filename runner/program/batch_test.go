package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// lines returns an executor with one process per batch.
func lines(t testing.TB, shell string, options handler.Options) *Executor {
	t.Helper()
	return executor(t, Settings{Shell: shell, Frames: FramesLines, ChainTypes: answers.ChainTypes{"*"}}, options)
}

// text summarises an end.
func text(e task.End) string {
	if e.Unget {
		return "unget"
	}
	s := e.Code
	if e.ExitCode != 0 {
		s += fmt.Sprint(" ", e.ExitCode)
	}
	if len(e.Output) > 0 {
		s += " " + string(e.Output)
	}
	if e.Error != "" {
		s += " error: " + e.Error
	}
	for _, n := range e.Then {
		s += " then " + n.Type + "|" + string(n.Payload)
	}
	if e.ProcessExit != nil {
		s += fmt.Sprint(" exit ", *e.ProcessExit)
	}
	return s
}

func TestBatch(t *testing.T) {
	upper := `while read -r line; do case $line in
fail) echo 404 no ;;
retry) echo 100 ;;
error) echo "503 sorry" ;;
chain) echo "J: mail|x"; echo "#J: log|y"; echo "# a comment"; echo "200 chained" ;;
die) echo why >&2; exit 7 ;;
killed) kill -9 $$ ;;
half) printf 20; exit 7 ;;
quiet) exit 0 ;;
garbage) echo what ;;
last) printf "200 without a line break"; exit 0 ;;
*) echo "200 $line" | tr a-z A-Z ;;
esac; done`
	for name, c := range map[string]struct {
		payloads, want []string
	}{
		"all kinds":      {[]string{"a", "fail", "retry", "error", "chain", "b"}, []string{"ok 200 A", "failed 404 error: no", "retry 100 error: exit code 100", "error 503 error: sorry", "ok 200 chained then mail|x then log|y", "ok 200 B"}},
		"one":            {[]string{"a"}, []string{"ok 200 A"}},
		"none":           {[]string{""}, []string{"ok 200"}},
		"dies":           {[]string{"a", "b", "die", "c", "d"}, []string{"ok 200 A", "ok 200 B", "error error: the program ended before it answered: exit status 7\nwhy exit 7", "unget", "unget"}},
		"dies at once":   {[]string{"die", "a"}, []string{"error error: the program ended before it answered: exit status 7\nwhy exit 7", "unget"}},
		"dies at last":   {[]string{"a", "die"}, []string{"ok 200 A", "error error: the program ended before it answered: exit status 7\nwhy exit 7"}},
		"is killed":      {[]string{"a", "killed", "b"}, []string{"ok 200 A", "error error: the program ended before it answered: signal 9 (killed) exit 137", "unget"}},
		"half an answer": {[]string{"a", "half", "b"}, []string{"ok 200 A", "error error: the program ended before it answered: exit status 7 exit 7", "unget"}},
		"ends early":     {[]string{"a", "quiet", "b"}, []string{"ok 200 A", "error 500 error: NO_RESPONSE: 0 of 1 jobs have a line in the answer", "unget"}},
		"last":           {[]string{"a", "last"}, []string{"ok 200 A", "ok 200 without a line break"}},
		"a line break":   {[]string{"a", "two\nlines", "b", "two\r"}, []string{"ok 200 A", "failed error: the payload has a line break, but a handler with frames = \"lines\" gets one payload a line", "ok 200 B", "failed error: the payload has a line break, but a handler with frames = \"lines\" gets one payload a line"}},
		"only a break":   {[]string{"\n"}, []string{"failed error: the payload has a line break, but a handler with frames = \"lines\" gets one payload a line"}},
	} {
		t.Run(name, func(t *testing.T) {
			ends := newBatch(t.Context(), c.payloads...).run(t, lines(t, upper, handler.Options{}))
			for i, end := range ends {
				if text(end) != c.want[i] {
					t.Errorf("%s: %s, not %s", c.payloads[i], text(end), c.want[i])
				}
			}
		})
	}
	t.Run("garbage", func(t *testing.T) {
		ends := newBatch(t.Context(), "a", "garbage", "b").run(t, lines(t, upper, handler.Options{}))
		testkit.Holds(t, text(ends[0]) == "ok 200 A" && ends[1].Code == "error" &&
			strings.Contains(text(ends[1]), "INVALID_RESPONSE") && ends[2].Unget, ends)
	})
	t.Run("J lines off", func(t *testing.T) {
		e := executor(t, Settings{Shell: upper, Frames: FramesLines}, handler.Options{})
		ends := newBatch(t.Context(), "chain", "a").run(t, e)
		testkit.Holds(t, text(ends[0]) == "ok 200 chained" && text(ends[1]) == "ok 200 A", ends)
	})
	t.Run("an output that is too long", func(t *testing.T) {
		ends := newBatch(t.Context(), "aaaa", "a").run(t, lines(t, upper, handler.Options{InlineBytes: 3, OutputBytes: 3}))
		testkit.Holds(t, ends[0].Code == "failed" && strings.Contains(ends[0].Error, "output_bytes") && text(ends[1]) == "ok 200 A", ends)
	})
}

// TestBlame: if a process ends early, the current job is not charged for the effects of an earlier or later job in its
// batch.
func TestBlame(t *testing.T) {
	for name, c := range map[string]struct {
		shell          string
		payloads, want []string
	}{
		"an earlier job": { // its after-effect ends the process
			`while read -r line; do test "$left" && exit 7; test "$line" = leave && left=1; echo "200 $line"; done`,
			[]string{"a", "leave", "b", "c"}, []string{"ok 200 a", "ok 200 leave", "ok 200 b", "unget"},
		},
		"a later job": { // the process reads all payloads first
			`all=$(cat); case $all in *poison*) echo why >&2; exit 7; esac; echo "$all" | sed 's/^/200 /'`,
			[]string{"a", "b", "poison"}, []string{"ok 200 a", "unget", "unget"},
		},
		"the job itself": {
			`all=$(cat); case $all in *poison*) echo why >&2; exit 7; esac; echo "$all" | sed 's/^/200 /'`,
			[]string{"poison", "a"}, []string{"error error: the program ended before it answered: exit status 7\nwhy exit 7", "unget"},
		},
		"status 0": {
			`while read -r line; do test "$line" = last && exit 0; echo "200 $line"; n=$((n + 1)); test $n = 2 && exit 0; done`,
			[]string{"a", "b", "c", "d"}, []string{"ok 200 a", "ok 200 b", "ok 200 c", "unget"},
		},
		"a print": { // printed by an earlier job
			`while read -r line; do test "$left" && echo "DEBUG done"; test "$line" = leave && left=1; echo "200 $line"; done`,
			[]string{"leave", "a", "b"}, []string{"ok 200 leave", "ok 200 a", "unget"},
		},
	} {
		for i, end := range newBatch(t.Context(), c.payloads...).run(t, lines(t, c.shell, handler.Options{})) {
			testkit.Equal(t, text(end), c.want[i], name, "job", i)
		}
	}
}

// TestLongAnswers: an output longer than options.output_bytes fails its own job, even if its line never ends.
func TestLongAnswers(t *testing.T) {
	shell := `while read -r line; do case $line in
long) printf '200 '; head -c 5000001 /dev/zero | tr '\0' o; echo ;;
most) printf '200 '; head -c 5000000 /dev/zero | tr '\0' o; echo ;;
endless) printf '200 '; exec tr '\0' o < /dev/zero ;;
comment) printf '#'; exec tr '\0' o < /dev/zero ;;
*) echo "200 $line" ;;
esac; done`
	e := lines(t, shell, handler.Options{OutputBytes: 5_000_000})
	const tooLong = "failed error: the answer 200 has an output of more than 5000000 bytes, which is what options.output_bytes allows"
	for i, end := range newBatch(t.Context(), "most", "long", "a", "endless", "b").run(t, e) {
		want := []string{"ok 200 " + strings.Repeat("o", 5_000_000), tooLong, "ok 200 a", tooLong, "unget"}[i]
		testkit.Equal(t, text(end), want, "job", i)
	}
	for i, end := range newBatch(t.Context(), "a", "comment", "b").run(t, e) {
		got := strings.Replace(text(end), "exit 141", "exit 137", 1) // SIGPIPE if it arrives before SIGKILL: nobody reads the line any more
		want := []string{"ok 200 a", "error error: the program wrote a line that answers no job and does not end, and was ended exit 137", "unget"}[i]
		testkit.Equal(t, got, want, "job", i)
	}
}

// TestManyLines: the process writes while it reads, and more than a pipe can hold.
func TestManyLines(t *testing.T) {
	payloads := make([]string, 1000)
	for i := range payloads {
		payloads[i] = fmt.Sprint(i, strings.Repeat("x", 2000))
	}
	b := newBatch(t.Context(), payloads...)
	for i, end := range b.run(t, lines(t, `sed 's/^/200 /'`, handler.Options{})) {
		if end.Code != "ok" || string(end.Output) != payloads[i] || b.order[i] != i {
			t.Fatalf("%d: %.100s", i, text(end))
		}
	}
}

// TestAnswersCountAsTheyArrive: the first job ends while the process still runs.
func TestAnswersCountAsTheyArrive(t *testing.T) {
	dir := t.TempDir()
	e := executor(t, Settings{Shell: `read -r a; echo "200 $a"; while [ ! -e "$FILE" ]; do sleep 0.01; done; read -r b; echo "200 $b"`,
		Grants: sandbox.Grants{Env: map[string]string{"FILE": filepath.Join(dir, "go")}, Access: sandbox.Access{ReadOnly: []string{dir}}}, Frames: FramesLines}, handler.Options{})
	b := newBatch(t.Context(), "a", "b")
	go func() {
		testkit.Eventually(t, "the first job has ended", b.tasks[0].Ended)
		testkit.Holds(t, !b.tasks[1].Ended(), "the second job has ended")
		testkit.Check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	}()
	ends := b.run(t, e)
	testkit.Holds(t, text(ends[0]) == "ok 200 a" && text(ends[1]) == "ok 200 b", ends)
}

// TestBatchTimeout: each answer restarts the time-out.
func TestBatchTimeout(t *testing.T) {
	m := mark()
	e := lines(t, `while read -r line; do test "$line" = hang && exec sleep 1000 `+m+`; sleep 0.25; echo "200 $line"; done`, handler.Options{TimeoutMs: 2000})
	payloads := strings.Split(strings.Repeat("ok ", 10)+"hang never never", " ")
	ends := newBatch(t.Context(), payloads...).run(t, e)
	for i, end := range ends {
		switch {
		case i < 10 && text(end) == "ok 200 ok":
		case i == 10 && end.Code == "error" && strings.Contains(end.Error, "did not answer within options.timeout_ms, 2000 ms") && end.ProcessExit != nil:
		case i > 10 && end.Unget:
		default:
			t.Errorf("%d: %s", i, text(end))
		}
	}
	left(t, m)
}

// TestNobodyWaitsForABatch: the process is ended when nobody waits for any of its jobs, and continues otherwise.
func TestNobodyWaitsForABatch(t *testing.T) {
	dir, m := t.TempDir(), mark()
	e := executor(t, Settings{Shell: `while [ ! -e "$FILE" ]; do sleep 0.01; done; read -r a; echo "200 $a"; read -r b; echo "200 $b"; exec sleep 1000 ` + m,
		Grants: sandbox.Grants{Env: map[string]string{"FILE": filepath.Join(dir, "go")}, Access: sandbox.Access{ReadOnly: []string{dir}}}, Frames: FramesLines}, handler.Options{})
	contexts, cancels := make([]context.Context, 3), make([]context.CancelCauseFunc, 3)
	b := newBatch(t.Context(), "a", "b", "c")
	for i := range contexts {
		contexts[i], cancels[i] = context.WithCancelCause(t.Context())
		b.tasks[i].Context = contexts[i]
	}
	cause := errors.New("the job was cancelled")
	go func() {
		cancels[0](cause) // its answer is ignored
		testkit.Check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
		testkit.Eventually(t, "the second job has ended", b.tasks[1].Ended)
		testkit.Holds(t, !b.tasks[2].Ended(), "the batch was ended for one of its jobs")
		cancels[1](cause)
		time.Sleep(20 * time.Millisecond) // real time: nothing must happen in another process
		testkit.Holds(t, len(marked(t, m)) != 0, "the process does not run any more, though the third job is awaited")
		cancels[2](cause)
	}()
	ends := b.run(t, e)
	if ends[0].Code != "error" || !strings.Contains(ends[0].Error, "the job was cancelled") || text(ends[1]) != "ok 200 b" ||
		ends[2].Code != "error" || !strings.Contains(ends[2].Error, "the job was cancelled") {
		t.Errorf("%s\n%s\n%s", text(ends[0]), text(ends[1]), text(ends[2]))
	}
	left(t, m)

	// If nobody waits for any job at the start, no process is started.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, end := range newBatch(ctx, "a", "b").run(t, e) {
		if end.Code != "error" || end.ProcessExit != nil {
			t.Errorf("%s", text(end))
		}
	}
}

func TestBatchEnvironment(t *testing.T) {
	e := lines(t, `while read -r line; do echo "200 $DAYBOOK_BATCH ${DAYBOOK_CLIENT-none} ${DAYBOOK_TYPE-none} ${DAYBOOK_JOB_ID-none}"; done`, handler.Options{})
	b := newBatch(t.Context(), "a", "b")
	for _, end := range b.run(t, e) {
		testkit.Equal(t, text(end), "ok 200 2 ada upper none")
	}
	b = newBatch(t.Context(), "a", "b")
	b.tasks[1].Job.Client = "bob"
	for _, end := range b.run(t, e) {
		testkit.Equal(t, text(end), "ok 200 2 none upper none")
	}
}
