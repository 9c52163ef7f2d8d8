//go:build unix

package main

import (
	"fmt"
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

// TestTopTerminal runs the program in a terminal.
func TestTopTerminal(t *testing.T) {
	s := serving(t, t.TempDir())
	ok(t, "create", "--server", s.url, "--type", "resize", "x")
	for _, c := range []struct {
		variables []string
		coloured  bool
	}{{[]string{"TERM=xterm-256color", "NO_COLOR="}, true}, {[]string{"TERM=xterm-256color", "NO_COLOR=yes"}, false}} {
		t.Run(c.variables[1], func(t *testing.T) {
			screen, tty, err := pty.Open()
			if err != nil {
				t.Skipf("there are no pseudo-terminals: %v", err)
			}
			defer screen.Close()
			defer tty.Close()
			if err := pty.Setsize(screen, &pty.Winsize{Rows: 20, Cols: 100}); err != nil {
				t.Fatal(err)
			}
			before, err := term.GetState(tty.Fd())
			if err != nil {
				t.Fatal(err)
			}
			cmd := command(t, "top", "--server", s.url, "--interval", "1s")
			cmd.Env = append(cmd.Env, c.variables...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer func() {
				_ = cmd.Process.Kill() // it may have ended
			}()
			shown := &processLog{}
			go func() {
				buffer := make([]byte, 4096)
				for {
					n, err := screen.Read(buffer)
					shown.Write(buffer[:n])
					if err != nil {
						return
					}
				}
			}()
			until := func(what string) {
				t.Helper()
				testkit.Eventually(t, fmt.Sprintf("%q is shown", what), func() bool {
					select {
					case err := <-ended:
						t.Fatalf("%v: %q", err, shown)
					default:
					}
					return strings.Contains(ansi.Strip(shown.String()), what)
				})
			}
			keys := func(text string) {
				if _, err := screen.WriteString(text); err != nil {
					t.Fatal(err)
				}
			}
			until("default/resize")
			raw, err := term.GetState(tty.Fd())
			if err != nil || reflect.DeepEqual(raw, before) {
				t.Errorf("the terminal is not in raw mode: %v", err)
			}
			if c.coloured {
				keys("p")
				until("pause default/resize? [y/N]")
				keys("y")
				until("is paused")
				if q := ok(t, "queues", "--server", s.url); !strings.Contains(q, "paused") {
					t.Error(q)
				}
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
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%v: %q", err, shown)
				}
			case <-time.After(time.Minute):
				t.Fatalf("q does not end it: %q", shown)
			}
			after, err := term.GetState(tty.Fd())
			if err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("the terminal was not restored: %+v, before %+v; %v", after, before, err)
			}
			for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h"} {
				testkit.Eventually(t, fmt.Sprintf("%q is followed by %q", on, off), func() bool { return strings.LastIndex(shown.String(), on) < strings.LastIndex(shown.String(), off) })
				if !strings.Contains(shown.String(), on) {
					t.Errorf("%q is not there", on)
				}
			}
			colour := regexp.MustCompile(`\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7])[;:m]`)
			if found := colour.FindString(shown.String()); (found != "") != c.coloured {
				t.Errorf("colours: %q", found)
			}
		})
	}
}
