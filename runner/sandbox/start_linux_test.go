package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestExit(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		for script, want := range map[string]Exit{
			"exit 0":        {Code: 0},
			"exit 1":        {Code: 1},
			"exit 255":      {Code: 255},
			"kill -9 $$":    {Code: -1, Signal: syscall.SIGKILL},
			"kill -TERM $$": {Code: -1, Signal: syscall.SIGTERM},
			"kill -SEGV $$": {Code: -1, Signal: syscall.SIGSEGV},
		} {
			got := run(t, s, shell(script)).Exit
			testkit.Holds(t, got.Code == want.Code && got.Signal == want.Signal, script, got)
			testkit.Holds(t, got.MaxResidentBytes >= 100<<10, script, "at most", got.MaxResidentBytes, "bytes of memory")
		}
	})
	e := (Exit{Code: -1, Signal: syscall.SIGTERM})
	testkit.Holds(t, e.Status() == 143 && e.String() == "signal 15 (terminated)" && !e.OK(), e.Status(), e)
	e = (Exit{Code: 75})
	testkit.Holds(t, e.Status() == 75 && e.String() == "exit status 75" && !e.OK() && (Exit{}).OK(), e.Status(), e)
}

// TestEnvironment: a program sees only the environment and the descriptors that it was given.
func TestEnvironment(t *testing.T) {
	t.Setenv("DAYBOOK_TEST_SECRET", "of the runner")
	stray := testkit.Must(os.Open("/dev/null"))(t) // a descriptor that a runner could inherit from its parent
	defer stray.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, stray.Fd(), syscall.F_SETFD, 0)
	testkit.MustEqual(t, errno, 0)
	eachKind(t, func(t *testing.T, s *Sandbox) {
		dir, w := t.TempDir(), new(bytes.Buffer)
		c := shell(`env | grep -v PWD= | sort; pwd; cat; echo; ls /proc/self/fd; echo to three >&3; echo "$1"; grep -E "^(NoNewPrivs|CapAmb|CapEff)" /proc/self/status`, "sh", "an argument\nwith a line break")
		c.Env, c.Dir, c.Stdin = append(c.Env, "A=1"), dir, strings.NewReader("input")
		read, write := testkit.Must2(os.Pipe())(t)
		defer read.Close()
		c.Files = []*os.File{write}
		result := run(t, s, c)
		write.Close()
		testkit.Must(io.Copy(w, read))(t)
		// ls itself opens descriptor 4.
		want := "A=1\nPATH=/usr/local/bin:/usr/bin:/bin\n" + dir + "\ninput\n0\n1\n2\n3\n4\nan argument\nwith a line break\n"
		out, status, _ := strings.Cut(result.out, "CapEff:")
		testkit.Equal(t, out, want, "the program saw", result.err)
		testkit.Equal(t, w.String(), "to three\n", "descriptor 3", w)
		testkit.Contains(t, status, "NoNewPrivs:\t1", "CapAmb:\t0000000000000000")
		var effective uint64
		if _, err := fmt.Sscanf(strings.TrimSpace(status), "%x", &effective); err != nil || effective&^keepCapabilities != 0 || os.Getuid() != 0 && effective != 0 {
			t.Errorf("capabilities %x: %v", effective, err)
		}
	})
}

// TestPIDNamespace: a program sees only its own processes.
func TestPIDNamespace(t *testing.T) {
	s := ofKind(t, namespace)
	if !s.tree.mountProc {
		t.Skipf("this machine cannot mount /proc in a namespace: %v", s.Missing())
	}
	r := run(t, s, shell(`echo "$PPID"; for f in /proc/[0-9]*; do echo "$f"; done`))
	lines := strings.Fields(r.out)
	testkit.Holds(t, len(lines) >= 3 && len(lines) <= 4 && lines[0] == "1" && lines[1] == "/proc/1", lines, r.err)
}

// TestTheHelperCannotBeDebugged: a program that could debug the helper could leave landlock.
func TestTheHelperCannotBeDebugged(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		r := run(t, s, inRole(t, "attach"))
		testkit.Holds(t, r.Code == 1 && strings.Contains(r.out, "not permitted"), r)
	})
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plainFile := filepath.Join(dir, "plain")
	testkit.NoError(t, os.WriteFile(plainFile, []byte("no program"), 0o644))
	garbage := filepath.Join(dir, "garbage")
	testkit.NoError(t, os.WriteFile(garbage, []byte("\x7fELF no program"), 0o755))
	all := append([]kind{plain}, kinds...)
	for _, k := range all {
		t.Run(string(k), func(t *testing.T) {
			s := &Sandbox{tree: tree{kind: plain}}
			if k != plain {
				s = ofKind(t, k)
			}
			before := descriptors(t)
			for name, c := range map[string]struct {
				c    Command
				text string
			}{
				"no program":             {Command{}, "a command needs a program"},
				"an empty program":       {Command{Argv: []string{""}}, "a command needs a program"},
				"not in PATH":            {Command{Argv: []string{"no-such-program"}, Env: []string{"PATH=/bin"}}, `"no-such-program" is not in the PATH "/bin"`},
				"no PATH":                {Command{Argv: []string{"sh"}}, `"sh" is not in the PATH ""`},
				"a file that is missing": {Command{Argv: []string{"/no/such/program"}}, "no such file"},
				"a directory":            {Command{Argv: []string{dir}}, "is a directory"},
				"not executable":         {Command{Argv: []string{plainFile}}, "permission denied"},
				"not a program":          {Command{Argv: []string{garbage}}, "exec format error"},
				"a NUL byte":             {Command{Argv: []string{"sh", "a\x00b"}}, "NUL"},
				"a NUL byte in Env":      {Command{Argv: []string{"sh"}, Env: []string{"A=\x00"}}, "NUL"},
				"no such directory":      {Command{Argv: []string{"/bin/sh"}, Dir: filepath.Join(dir, "missing")}, "working directory"},
				"a file as a directory":  {Command{Argv: []string{"/bin/sh"}, Dir: plainFile}, "is not a directory"},
				"a negative limit":       {Command{Argv: []string{"/bin/sh"}, Limits: Limits{OpenFiles: -1}}, "OpenFiles is negative"},
			} {
				p, err := s.Start(c.c)
				testkit.Holds(t, err != nil && strings.Contains(err.Error(), c.text), name, err, "not", c.text)
				if err == nil {
					p.Kill()
					p.Wait()
				}
			}
			if s.tree.landlock > 0 {
				for name, a := range map[string]Access{
					"must be absolute": {ReadOnly: []string{"etc"}},
					"no such file":     {ReadWrite: []string{"/no/such/file"}},
				} {
					_, err := s.Start(Command{Argv: []string{"/bin/sh"}, Access: a})
					testkit.Holds(t, err != nil && strings.Contains(err.Error(), name), a, err)
				}
			}
			testkit.Equal(t, descriptors(t), before, "descriptors", "before")
		})
	}
}

func TestModes(t *testing.T) {
	testkit.Fails(New("yes"))(t, `auto, require or off, not "yes"`)
	s, err := New(Auto)
	testkit.NoError(t, err)
	_, err = New(Require)
	missing := len(s.Missing()) > 0
	testkit.Holds(t, missing == errors.Is(err, ErrMissing) && missing == (err != nil), "missing", s.Missing(), "but Require says", err)
	for _, m := range s.Missing() {
		testkit.Holds(t,
			strings.HasSuffix(strings.SplitN(m, "\n", 2)[0], ".") || strings.HasSuffix(strings.SplitN(m, "\n", 2)[0], ":"), "no sentence", m)
	}
	testkit.Fails(newSandbox())(t)
}

// TestLargeOutputs: both outputs and the input, used at the same time, are larger than all buffers.
func TestLargeOutputs(t *testing.T) {
	const size = 32 << 20
	eachKind(t, func(t *testing.T, s *Sandbox) {
		var out, errs counter
		in, inWriter := io.Pipe()
		go func() { io.Copy(inWriter, io.LimitReader(zeros{}, size)); inWriter.Close() }()
		// A shell starts background processes without its input.
		c := shell("exec 3<&0; cat <&3 >&2 & head -c 33554432 /dev/zero; wait")
		c.Stdin, c.Stdout, c.Stderr = in, &out, &errs
		r := run(t, s, c)
		testkit.Holds(t, r.OK() && out == size && errs == size, r.Exit, out, "and", errs, "bytes")
	})
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestAFullOutput: if a writer returns an error, the program ends with its next write.
func TestAFullOutput(t *testing.T) {
	s := ofKind(t, kinds[0])
	full := errors.New("full")
	c := shell("while :; do echo line; done")
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, full })
	p := testkit.Must(s.Start(c))(t)
	exit, err := p.Wait()
	testkit.Holds(t, exit.Signal == syscall.SIGPIPE && errors.Is(err, full), exit, err)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestAnInputThatIsNotRead: the copy of the input ends when the program ends.
func TestAnInputThatIsNotRead(t *testing.T) {
	c := shell("exit 0")
	c.Stdin = zeros{}
	r := run(t, ofKind(t, kinds[0]), c)
	testkit.Holds(t, r.OK(), r.Exit)
}

func TestManyAtATime(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				for j := range 4 {
					want := fmt.Sprintf("%d of %d", j, i)
					var out bytes.Buffer
					c := shell(`read line; echo "$line $1"; exit "$2"`, "sh", want, fmt.Sprint(i+1))
					c.Stdin, c.Stdout = strings.NewReader("line\n"), &out
					p, err := s.Start(c)
					if err != nil {
						t.Error(err)
						return
					}
					if j == 3 {
						go p.Kill()
					}
					exit, err := p.Wait()
					if j == 3 && exit.Status() == 137 && err == nil {
						continue
					}
					testkit.Holds(t, err == nil && exit.Code == i+1 && out.String() == "line "+want+"\n", want, exit, err, &out)
				}
			})
		}
		wg.Wait()
	})
}
