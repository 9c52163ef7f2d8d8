package program

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// shared returns a sandbox for all tests, because probing the machine takes several processes.
var shared = sync.OnceValues(func() (*sandbox.Sandbox, error) { return sandbox.New(sandbox.Auto) })

func executor(t testing.TB, set Settings, options handler.Options) *Executor {
	t.Helper()
	s := testkit.Must(shared())(t)
	return testkit.Must(New(s, set, options))(t)
}

// batch is some tasks, with their ends.
type batch struct {
	mu    sync.Mutex
	tasks []*task.Task
	ends  []task.End
	order []int // order of the ends
}

// newBatch returns a batch of jobs with payloads.
func newBatch(ctx context.Context, payloads ...string) *batch {
	b := &batch{ends: make([]task.End, len(payloads))}
	for i, p := range payloads {
		j := &client.Job{ID: "job-" + strconv.Itoa(i), Client: "ada", Type: "upper", Payload: []byte(p), Kind: client.Text, RunAttempts: 2}
		b.tasks = append(b.tasks, task.New(ctx, j, func(e task.End) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ends[i] = e
			b.order = append(b.order, i)
		}))
	}
	return b
}

// run runs the batch. It fails the test if a task has not ended.
func (b *batch) run(t testing.TB, e *Executor) []task.End {
	t.Helper()
	e.Run(b.tasks)
	for i, task := range b.tasks {
		testkit.MustHold(t, task.Ended(), "task", i, "has not ended")
	}
	return b.ends
}

// one runs a job in a shell.
func one(t testing.TB, shell, payload string) task.End {
	t.Helper()
	return newBatch(t.Context(), payload).run(t, executor(t, Settings{Shell: shell}, handler.Options{}))[0]
}

// status returns the exit status in an end, or -1.
func status(e task.End) int64 {
	if e.ProcessExit == nil {
		return -1
	}
	return *e.ProcessExit
}

func TestOutput(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for payload, kind := range map[string]client.Kind{
		"":                               client.None,
		"text":                           client.Text,
		"two\nlines\n":                   client.Text,
		"\nline breaks at both ends\n\n": client.Text,
		`{"json": "as it is"}`:           client.Text,
		string(every):                    client.Bytes,
		strings.Repeat("ä", 100<<10):     client.Text, // in several writes
	} {
		end := one(t, "cat", payload)
		testkit.Holds(t, end.Code == "ok" && string(end.Output) == payload && end.OutputKind == kind &&
			status(end) == 0 && end.Error == "" && end.Then == nil, payload, end)
	}
	end := newBatch(t.Context(), "abc").run(t, executor(t, Settings{Argv: []string{"tr", "a-z", "A-Z"}}, handler.Options{}))[0]
	testkit.Equal(t, string(end.Output), "ABC", end)
}

func TestOutputLength(t *testing.T) {
	e := executor(t, Settings{Shell: `cat; echo said >&2`}, handler.Options{InlineBytes: 1000, OutputBytes: 1000})
	end := newBatch(t.Context(), strings.Repeat("x", 1000)).run(t, e)[0]
	testkit.Holds(t, end.Code == "ok" && len(end.Output) == 1000, end)
	end = newBatch(t.Context(), strings.Repeat("x", 1001)).run(t, e)[0]
	testkit.Holds(t, end.Code == "failed" && end.Output == nil && strings.Contains(end.Error, "more than options.output_bytes, 1000 bytes") &&
		end.ProcessExit != nil, end)
	// A program with endless output is ended.
	for _, shell := range []string{"yes", "yes J:", "tr '\\0' J < /dev/zero", "exec 2>&1; yes"} {
		if end := one(t, shell, ""); end.Code != "failed" || !strings.Contains(end.Error, "16777216 bytes") || status(end) != 137 && status(end) != 141 {
			t.Errorf("%s: %+v", shell, end)
		}
	}
}

func TestExitStatus(t *testing.T) {
	e := func(shell string, codes map[string]string) task.End {
		return newBatch(t.Context(), "").run(t, executor(t, Settings{Shell: shell, ExitCodes: codes}, handler.Options{}))[0]
	}
	codes := map[string]string{"3": "failed", "4": "ok", "5": "retry", "0": "error", "143": "failed"}
	for _, c := range []struct {
		shell  string
		codes  map[string]string
		code   string
		error  string
		status int64
	}{
		{"exit 0", nil, "ok", "", 0},
		{"exit 75", nil, "retry", "exit status 75", 75},
		{"exit 1", nil, "error", "exit status 1", 1},
		{"echo why >&2; exit 1", nil, "error", "why", 1},
		{"echo ignored >&2; exit 0", nil, "ok", "", 0},
		{"kill -TERM $$", nil, "error", "signal 15 (terminated)", 143},
		{"echo why >&2; kill -KILL $$", nil, "error", "signal 9 (killed)\nwhy", 137},
		{"exit 3", codes, "failed", "exit status 3", 3},
		{"exit 4", codes, "ok", "", 4},
		{"exit 5", codes, "retry", "exit status 5", 5},
		{"exit 6", codes, "error", "exit status 6", 6},
		{"exit 75", codes, "retry", "exit status 75", 75},
		{"exit 0", codes, "error", "exit status 0", 0},
		{"kill -TERM $$", codes, "failed", "signal 15 (terminated)", 143},
	} {
		if end := e(c.shell, c.codes); end.Code != c.code || end.Error != c.error || status(end) != c.status || end.DelayMs != nil || end.Unget {
			t.Errorf("%s: %+v, status %d", c.shell, end, status(end))
		}
	}
}

// TestErrorText: the error is the end of stderr, and begins with a whole line.
func TestErrorText(t *testing.T) {
	end := one(t, `i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done >&2; exit 1`, "")
	testkit.Holds(t, len(end.Error) <= errorBytes && len(end.Error) >= errorBytes-10 &&
		strings.HasPrefix(end.Error, "line ") && strings.HasSuffix(end.Error, "\nline 2999"), len(end.Error), "bytes", end.Error)
	end = one(t, `head -c 3000000 /dev/zero | tr '\0' '\377' >&2; exit 1`, "")
	testkit.Holds(t, end.Code == "error" && strings.HasPrefix(end.Error, "\uFFFD"), end.Error)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("DAYBOOK_TOKEN", "a secret of the runner")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TMPDIR", "/tmp")
	t.Setenv("HOME", "/nowhere")
	t.Setenv("PATH", "/usr/bin:/bin")
	dir := t.TempDir()
	e := executor(t, Settings{Shell: "env | grep -Ev '^(PWD|OLDPWD|SHLVL|_)=' | sort; pwd", Grants: sandbox.Grants{Env: map[string]string{"A": "b c", "LANG": "de"}}, Dir: dir}, handler.Options{})
	b := newBatch(t.Context(), "")
	b.tasks[0].Job.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	want := "A=b c\nDAYBOOK_ATTEMPT=2\nDAYBOOK_CLIENT=ada\nDAYBOOK_JOB_ID=job-0\nDAYBOOK_TYPE=upper\nHOME=/nowhere\nLANG=de\nPATH=/usr/bin:/bin\nTMPDIR=/tmp\n" +
		"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n" + dir + "\n"
	end := b.run(t, e)[0]
	testkit.Equal(t, string(end.Output), want, end.Error)
}

func TestTimeout(t *testing.T) {
	testkit.Need(t, "setsid")
	m := mark()
	e := executor(t, Settings{Shell: `echo said >&2; setsid sleep 1000 ` + m + ` & trap 'echo ended by itself >&2; exit 0' TERM; wait`}, handler.Options{TimeoutMs: 3000})
	end := newBatch(t.Context(), "").run(t, e)[0]
	testkit.Holds(t, end.Code == "error" &&
		end.Error == "the program took longer than options.timeout_ms, 3000 ms\nsaid\nended by itself" && status(end) == 0, end)
	left(t, m)

	// A program that ignores SIGTERM is killed.
	e = executor(t, Settings{Shell: `trap "" TERM; sleep 1000 ` + m + `; :`}, handler.Options{TimeoutMs: 3000})
	begin := time.Now()
	end = newBatch(t.Context(), "").run(t, e)[0]
	if took := time.Since(begin); end.Code != "error" || !strings.Contains(end.Error, "options.timeout_ms") || status(end) != 137 || took < grace {
		t.Errorf("after %v: %+v", took, end)
	}
	left(t, m)

	end = one(t, "sleep 0.4; echo done", "")
	testkit.Equal(t, end.Code, "ok", end) // no time-out
}

func TestNobodyWaits(t *testing.T) {
	cause := errors.New("the lease was lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	m := mark()
	b := newBatch(ctx, "first", "second")
	go func() {
		testkit.Eventually(t, "the program runs", func() bool { return len(marked(t, m)) > 0 })
		cancel(cause)
	}()
	for i, end := range b.run(t, executor(t, Settings{Shell: `exec sleep 1000 ` + m}, handler.Options{})) {
		testkit.Holds(t, end.Code == "error" && strings.Contains(end.Error, "the lease was lost") && (end.ProcessExit == nil) == (i == 1), i, end)
	}
	left(t, m)
}

func TestChain(t *testing.T) {
	many := func(n int) string {
		return `i=0; while [ $i -lt ` + strconv.Itoa(n) + ` ]; do echo "J: mail|$i"; i=$((i+1)); done; `
	}
	for name, c := range map[string]struct {
		shell  string
		code   string
		output string
		error  string
		then   []string
	}{
		"two forms":                 {`echo a; echo "J: mail|to: ada"; echo b; echo "#J: log|1|2"; echo c`, "ok", "a\nb\nc\n", "", []string{"mail:to: ada", "log:1|2"}},
		"without a line break":      {`printf 'a\nJ: mail|x'`, "ok", "a\n", "", []string{"mail:x"}},
		"in pieces":                 {`printf J; sleep 0.1; printf ': ma'; sleep 0.1; printf 'il|'; sleep 0.1; printf 'x\nrest'`, "ok", "rest", "", []string{"mail:x"}},
		"failed":                    {`echo "J: mail|x"; echo a; exit 3`, "failed", "a\n", "exit status 3", []string{"mail:x"}},
		"error":                     {`echo "J: mail|x"; exit 1`, "error", "", "exit status 1", nil},
		"retry":                     {`echo "J: mail|x"; exit 75`, "retry", "", "exit status 75", nil},
		"no bar":                    {`echo "J: mail"; echo "#J: mail"; echo J:`, "ok", "J: mail\n#J: mail\nJ:\n", "", nil},
		"within a line":             {`echo "see J: mail|x"; echo " J: mail|x"; printf J; printf '#J'`, "ok", "see J: mail|x\n J: mail|x\nJ#J", "", nil},
		"no name":                   {`echo "J: a b|x"`, "error", "", "type may hold only a-z", nil},
		"100":                       {many(100), "ok", "", "", []string{"100 of them"}},
		"101":                       {many(101), "error", "", "more than 100", nil},
		"101, but the run is error": {many(101) + "exit 1", "error", "", "exit status 1", nil},
		"a long payload":            {`printf "J: mail|"; head -c 5000000 /dev/zero | tr '\0' x; echo; echo after`, "error", "", "more than", nil},
		"a long payload at the end": {`printf "J: mail|"; head -c 5000000 /dev/zero | tr '\0' x`, "error", "", "more than", nil},
		"more than the output":      {`printf "J: mail|"; head -c 300000 /dev/zero | tr '\0' x; echo; echo after`, "ok", "after\n", "", []string{"mail:" + strings.Repeat("x", 300000)}},
	} {
		e := executor(t, Settings{Shell: c.shell, ExitCodes: map[string]string{"3": "failed"}, ChainTypes: answers.ChainTypes{"*"}}, handler.Options{})
		end := newBatch(t.Context(), "").run(t, e)[0]
		var then []string
		for _, n := range end.Then {
			then = append(then, n.Type+":"+string(n.Payload))
		}
		if len(then) == 100 && then[99] == "mail:99" {
			then = []string{"100 of them"}
		}
		testkit.Holds(t, end.Code == c.code && string(end.Output) == c.output && strings.Join(then, "\n") == strings.Join(c.then, "\n") &&
			strings.Contains(end.Error, c.error) && (c.error != "" || end.Error == ""), name, end.Code, string(end.Output), end.Error, then)
	}
	// Lines that a program copies from its payload create no jobs, unless the handler lists their types.
	for types, want := range map[string]string{"": "hello\nJ: admin.reset|all\nJ: mail|x\n", "mail": "hello\nJ: admin.reset|all\n", "log": "hello\nJ: admin.reset|all\nJ: mail|x\n"} {
		set := Settings{Argv: []string{"cat"}}
		if types != "" {
			set.ChainTypes = answers.ChainTypes{types}
		}
		end := newBatch(t.Context(), "hello\nJ: admin.reset|all\nJ: mail|x\n").run(t, executor(t, set, handler.Options{}))[0]
		testkit.Holds(t, end.Code == "ok" && string(end.Output) == want && len(end.Then) > 0 == (types == "mail") && len(end.Then) <= 1, types, end)
	}
}

// TestAProgramThatIsGone: if the program cannot be started, no job loses an attempt.
func TestAProgramThatIsGone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	testkit.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho ran\n"), 0o755))
	for _, frames := range []string{"", FramesLines} {
		e := executor(t, Settings{Argv: []string{path}, Frames: frames}, handler.Options{})
		testkit.NoError(t, os.Rename(path, path+".away"))
		ends := newBatch(t.Context(), "a", "b").run(t, e)
		for _, end := range ends {
			testkit.Holds(t, end.Unget && strings.Contains(end.Unable, "no such file"), "frames", frames, end)
		}
		testkit.NoError(t, os.Rename(path+".away", path))
	}
}

func TestSettings(t *testing.T) {
	s := testkit.Must(shared())(t)
	for name, c := range map[string]struct {
		set     Settings
		options handler.Options
		field   string
	}{
		"no program":               {Settings{}, handler.Options{}, "argv"},
		"an empty program":         {Settings{Argv: []string{""}}, handler.Options{}, "argv"},
		"both":                     {Settings{Argv: []string{"true"}, Shell: "true"}, handler.Options{}, "shell"},
		"a NUL byte":               {Settings{Argv: []string{"true", "\x00"}}, handler.Options{}, "argv"},
		"a program that is not":    {Settings{Argv: []string{"no-such-program"}}, handler.Options{}, "argv"},
		"a directory as a program": {Settings{Argv: []string{"/"}}, handler.Options{}, "argv"},
		"a PATH without it":        {Settings{Argv: []string{"true"}, Grants: sandbox.Grants{Env: map[string]string{"PATH": "/nowhere"}}}, handler.Options{}, "argv"},
		"unknown frames":           {Settings{Argv: []string{"true"}, Frames: "json"}, handler.Options{}, "frames"},
		"a relative dir":           {Settings{Argv: []string{"true"}, Dir: "tmp"}, handler.Options{}, "dir"},
		"no such dir":              {Settings{Argv: []string{"true"}, Dir: "/no/such"}, handler.Options{}, "dir"},
		"a file as dir":            {Settings{Argv: []string{"true"}, Dir: "/etc/passwd"}, handler.Options{}, "dir"},
		"a variable without name":  {Settings{Argv: []string{"true"}, Grants: sandbox.Grants{Env: map[string]string{"": "x"}}}, handler.Options{}, "env"},
		"a variable with =":        {Settings{Argv: []string{"true"}, Grants: sandbox.Grants{Env: map[string]string{"A=B": "x"}}}, handler.Options{}, "env"},
		"a variable with NUL":      {Settings{Argv: []string{"true"}, Grants: sandbox.Grants{Env: map[string]string{"A": "\x00"}}}, handler.Options{}, "env"},
		"a status of 256":          {Settings{Argv: []string{"true"}, ExitCodes: map[string]string{"256": "ok"}}, handler.Options{}, "exit_codes"},
		"a status that is none":    {Settings{Argv: []string{"true"}, ExitCodes: map[string]string{"x": "ok"}}, handler.Options{}, "exit_codes"},
		"an unknown outcome":       {Settings{Argv: []string{"true"}, ExitCodes: map[string]string{"1": "fail"}}, handler.Options{}, "exit_codes"},
		"a relative path":          {Settings{Argv: []string{"true"}, Grants: sandbox.Grants{Access: sandbox.Access{ReadOnly: []string{"etc"}}}}, handler.Options{}, "read_only"},
		"no such path":             {Settings{Argv: []string{"true"}, Grants: sandbox.Grants{Access: sandbox.Access{ReadWrite: []string{"/no/such"}}}}, handler.Options{}, "read_write"},
		"negative open files":      {Settings{Argv: []string{"true"}, OpenFiles: -1}, handler.Options{}, "open_files"},
		"negative processes":       {Settings{Argv: []string{"true"}, Processes: -1}, handler.Options{}, "processes"},
		"negative file bytes":      {Settings{Argv: []string{"true"}, FileBytes: -1}, handler.Options{}, "file_bytes"},
		"little memory":            {Settings{Argv: []string{"true"}}, handler.Options{MemoryBytes: 1}, "options.memory_bytes"},
		"options of scripts":       {Settings{Argv: []string{"true"}}, handler.Options{MaxRuns: 1}, "options.max_runs"},
	} {
		_, err := New(s, c.set, c.options)
		wrong, ok := errors.AsType[*handler.FieldError](err)
		testkit.Holds(t, ok && wrong.Field == c.field && strings.Contains(wrong.Text, c.field), name, err, "not an error of the field", c.field)
	}
}

// TestLimitsAndAccess: limits and access in the settings reach the sandbox.
func TestLimitsAndAccess(t *testing.T) {
	e := executor(t, Settings{Shell: "ulimit -n; ulimit -f", OpenFiles: 44, FileBytes: 1024}, handler.Options{})
	end := newBatch(t.Context(), "").run(t, e)[0]
	testkit.Equal(t, string(end.Output), "44\n2\n", end)
	s := testkit.Must(shared())(t)
	for _, text := range s.Missing() {
		if strings.Contains(text, "landlock") {
			t.Skip(text)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root has a directory of its own outside of /tmp")
	}
	for access, ok := range map[string]bool{"": false, "/root": true} {
		set := Settings{Shell: "ls /root"}
		if access != "" {
			set.ReadOnly = []string{access}
		}
		end := newBatch(t.Context(), "").run(t, executor(t, set, handler.Options{}))[0]
		testkit.Equal(t, end.Code == "ok", ok, "access to", access, end)
	}
}

// mark returns a text that no other process has in its arguments. sleep accepts it as a number of seconds.
func mark() string {
	text := []byte(rand.Text())
	for i, c := range text {
		text[i] = '0' + c%10
	}
	return "0." + string(text)
}

// marked returns the machine's processes that have mark in their arguments.
func marked(t testing.TB, mark string) (found []string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	testkit.Check(t, err)
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, file+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// left fails the test if a process with the mark still runs.
func left(t testing.TB, mark string) {
	t.Helper()
	found := marked(t, mark)
	testkit.Holds(t, len(found) == 0, "processes are left", strings.Join(found, "\n"))
}

// TestInterpretersBelowHome: New refuses an interpreter that needs files which the sandbox does not read. The error
// names the interpreter and the remedy. New accepts interpreters that run.
func TestInterpretersBelowHome(t *testing.T) {
	s := testkit.Must(shared())(t)
	root := testkit.Must(os.MkdirTemp(outside(t, s), "pyenv"))(t)
	t.Cleanup(func() { os.RemoveAll(root) })
	program := func(path, text string) {
		path = filepath.Join(root, path)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	program("shims/python3", `exec "`+root+`/libexec/python" "$@"`)
	program("libexec/python", "printf ran")
	program("bin/node", "printf ran")
	program("venv/bin/python3.12", "printf ran")
	testkit.NoError(t, os.WriteFile(filepath.Join(root, "venv/pyvenv.cfg"), nil, 0o644))
	env := map[string]string{"PATH": filepath.Join(root, "shims") + ":" + filepath.Join(root, "bin") + ":" + sandbox.Path()}
	reads := sandbox.Access{ReadOnly: []string{root}}
	for _, c := range []struct {
		set   Settings
		wrong string // the wrong key
	}{
		{Settings{Argv: []string{"python3", "a.py"}}, "argv"},
		{Settings{Argv: []string{"/usr/bin/env", "python3", "a.py"}}, "argv"},
		{Settings{Shell: "cd / && python3 a.py"}, "shell"},
		{Settings{Shell: "if true; then python3; fi"}, "shell"},
		{Settings{Shell: "echo $(exec python3)"}, "shell"},
		{Settings{Argv: []string{root + "/venv/bin/python3.12"}}, "argv"},
		{Settings{Argv: []string{"node"}}, ""},
		{Settings{Shell: "echo python3"}, ""},
		{Settings{Argv: []string{"python3"}, Grants: sandbox.Grants{Access: reads}}, ""},
		{Settings{Argv: []string{root + "/venv/bin/python3.12"}, Grants: sandbox.Grants{Access: reads}}, ""},
	} {
		c.set.Env = env
		e, err := New(s, c.set, handler.Options{})
		var of *handler.FieldError
		if c.wrong == "" {
			if err != nil {
				t.Errorf("%q %q: %v", c.set.Argv, c.set.Shell, err)
			} else if end := newBatch(t.Context(), "a").run(t, e)[0]; end.Code != "ok" {
				t.Errorf("%q %q: %+v", c.set.Argv, c.set.Shell, end)
			}
		} else if !errors.As(err, &of) || of.Field != c.wrong || !strings.Contains(of.Text, root) || !strings.Contains(of.Text, "read_only = [") {
			t.Errorf("%q %q: %v", c.set.Argv, c.set.Shell, err)
		}
	}
}

// outside returns a directory in which the sandbox reads nothing.
func outside(t *testing.T, s *sandbox.Sandbox) string {
	t.Helper()
	home := testkit.Must(os.UserHomeDir())(t)
	for _, dir := range []string{home, "."} {
		if !s.Reads(&sandbox.Command{}, dir) {
			return testkit.Must(filepath.Abs(dir))(t)
		}
	}
	t.Skip("the sandbox of this machine reads both the home directory and that of the test")
	return ""
}
