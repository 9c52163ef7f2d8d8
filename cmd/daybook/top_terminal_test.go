//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
)

// topProcess is daybook top in a terminal.
type topProcess struct {
	*testing.T
	*exec.Cmd
	screen, tty *os.File // the two ends of the terminal
	before      *term.State
	shown       *processLog
	ended       chan error
}

// topInTerminal starts a command as the first process of a terminal.
func topInTerminal(t *testing.T, cmd *exec.Cmd, variables ...string) *topProcess {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() {
		_ = screen.Close() // the test may have closed it
		_ = tty.Close()
	})
	testkit.NoError(t, pty.Setsize(screen, &pty.Winsize{Rows: 20, Cols: 100}))
	p := &topProcess{T: t, Cmd: cmd, screen: screen, tty: tty, shown: &processLog{}, ended: make(chan error, 1)}
	p.before = testkit.Must(term.GetState(tty.Fd()))(t)
	cmd.Env = append(cmd.Env, variables...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testkit.NoError(t, cmd.Start())
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process may have ended
	})
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := screen.Read(buffer)
			p.shown.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return p
}

// until waits until the process has shown a text.
func (p *topProcess) until(what string) {
	p.Helper()
	testkit.Eventually(p.T, fmt.Sprintf("%q is shown", what), func() bool {
		select {
		case err := <-p.ended:
			p.Fatalf("%v: %q", err, p.shown)
		default:
		}
		return strings.Contains(ansi.Strip(p.shown.String()), what)
	})
}

// ends waits until the process has ended, with exit code 0.
func (p *topProcess) ends() {
	p.Helper()
	select {
	case err := <-p.ended:
		testkit.Check(p.T, err, p.shown)
	case <-time.After(time.Minute):
		p.Fatalf("it does not end: %q", p.shown)
	}
}

// restored checks that the terminal is as it was before the process.
func (p *topProcess) restored() {
	p.Helper()
	after, err := term.GetState(p.tty.Fd())
	testkit.Holds(p.T, err == nil && reflect.DeepEqual(after, p.before), "the terminal was not restored", after, "before", p.before, err)
}

// hangupsIgnored is read at the start, because package signal forgets it when a test that serves has listened for SIGHUP.
var hangupsIgnored = signal.Ignored(syscall.SIGHUP)

// TestTopTerminalGoes: daybook top ends with its terminal, also under nohup, when no signal reports the end.
func TestTopTerminalGoes(t *testing.T) {
	if hangupsIgnored {
		t.Skip("SIGHUP is ignored, as under nohup, and daybook leaves it so")
	}
	s := serving(t, t.TempDir())
	top := func(t *testing.T) *exec.Cmd { return command("top", "--server", s.url, "--interval", "1s") }
	closed := func(p *topProcess) { testkit.NoError(p.T, p.screen.Close()) }
	for name, c := range map[string]struct {
		command func(*testing.T) *exec.Cmd
		end     func(*topProcess)
	}{
		"SIGHUP": {top, func(p *topProcess) {
			testkit.NoError(p.T, p.Process.Signal(syscall.SIGHUP))
			p.ends()
			p.restored()
			p.ended <- nil
		}},
		"closed": {top, closed},
		"closed under nohup": {func(t *testing.T) *exec.Cmd {
			inner := top(t)
			sh := exec.Command("/bin/sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`}, inner.Args...)...)
			sh.Env = inner.Env
			return sh
		}, closed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := topInTerminal(t, c.command(t), "TERM=xterm-256color")
			p.until("no queues")
			c.end(p)
			p.ends()
		})
	}
}

// TestTopTerminal runs the program in a terminal.
func TestTopTerminal(t *testing.T) {
	s := serving(t, t.TempDir())
	ok(t, "create", "--server", s.url, "--type", "resize", "x")
	for _, c := range []struct {
		variables []string
		coloured  bool
	}{{[]string{"TERM=xterm-256color", "NO_COLOR="}, true}, {[]string{"TERM=xterm-256color", "NO_COLOR=yes"}, false}} {
		t.Run(c.variables[1], func(t *testing.T) {
			p := topInTerminal(t, command("top", "--server", s.url, "--interval", "1s"), c.variables...)
			shown, until, tty := p.shown, p.until, p.tty
			keys := func(text string) { testkit.Must(p.screen.WriteString(text))(t) }
			until("default/resize")
			testkit.Holds(t, !reflect.DeepEqual(testkit.Must(term.GetState(tty.Fd()))(t), p.before), "the terminal is not in raw mode")
			if c.coloured {
				keys("p")
				until("pause default/resize? [y/N]")
				keys("y")
				until("is paused")
				testkit.Contains(t, ok(t, "queues", "--server", s.url), "paused")
			} else {
				keys("p")
				until("resume default/resize? [y/N]")
				keys("n")
				until("nothing was changed")
			}
			if !c.coloured {
				s.end(t, syscall.SIGKILL)
				until("no figures for")
			}
			keys("/zz\r")
			until("no queues")
			keys("q")
			p.ends()
			p.restored()
			for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h"} {
				testkit.Eventually(t, fmt.Sprintf("%q is followed by %q", on, off), func() bool { return strings.LastIndex(shown.String(), on) < strings.LastIndex(shown.String(), off) })
				testkit.Contains(t, shown.String(), on)
			}
			colour := regexp.MustCompile(`\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7])[;:m]`)
			testkit.Equal(t, (colour.FindString(shown.String()) != ""), c.coloured)
		})
	}
}
