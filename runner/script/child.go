package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/disk"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/script/protocol"
)

const (
	// stopGrace is how long a job may continue after nobody waits for it any more.
	stopGrace = 500 * time.Millisecond
	// endGrace is how long a host may take to end after its connection has ended.
	endGrace = time.Second
	// drainTime bounds the reading of the last messages after a process has ended, in case another process has its
	// connection open.
	drainTime = time.Second
)

// Errors of reading from a host, in addition to the errors of package protocol.
var (
	errTimeout = errors.New("the time is over")
	errStopped = errors.New("nobody waits for the job any more")
	errGone    = errors.New("the process is gone")
)

// child is a process that runs a host, with the connection to it. Only one goroutine at a time may use it, but any may
// call kill.
type child struct {
	process        *sandbox.Process
	conn           *os.File
	lines          *protocol.Lines
	dir            string // its own working and temporary directory
	stdout, stderr *stream

	// Set by begin:
	ctx     context.Context
	timeout time.Duration

	mu     sync.Mutex
	until  time.Time // deadline of reads; zero before the first read
	gone   time.Time // when the process ended
	reason string    // why the runner ended it, or ""

	ended chan struct{} // closed when the process and all its descendants are gone
	exit  sandbox.Exit  // read it after ended is closed
}

// childSettings are the same for all children of a pool.
type childSettings struct {
	sandbox *sandbox.Sandbox
	dir     string // children get directories in it
}

// startChild starts the host of a language. Its environment has PATH, LANG, HOME, TMPDIR and the variables of g.
func startChild(s *childSettings, i *interpreter, g *sandbox.Grants, limits sandbox.Limits, log func(stream, text string)) (_ *child, err error) {
	dir, err := os.MkdirTemp(s.dir, i.name+"-")
	if err != nil {
		return nil, fmt.Errorf("create a directory for a script: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir) // no script has run in it
		}
	}()
	source, err := hosts.ReadFile("hosts/" + i.host)
	if err != nil {
		return nil, err
	}
	host := filepath.Join(dir, i.host)
	if err := os.WriteFile(host, source, 0o600); err != nil {
		return nil, fmt.Errorf("write the host of a script: %w", err)
	}
	near, far, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	c := &child{
		conn: near, dir: dir, ended: make(chan struct{}),
		stdout: &stream{log: func(text string) { log("stdout", text) }}, stderr: &stream{log: func(text string) { log("stderr", text) }},
	}
	access := sandbox.Access{
		ReadOnly:  slices.Concat(g.ReadOnly, i.reads),
		ReadWrite: slices.Concat(g.ReadWrite, []string{dir}), // g may set another TMPDIR
		Network:   g.Network,
	}
	env := g.Environment(map[string]string{"PATH": sandbox.Path(), "LANG": locale(), "HOME": dir, "TMPDIR": dir})
	c.process, err = s.sandbox.Start(sandbox.Command{
		Argv: i.argv(i.path, host), Env: env, Dir: dir,
		Stdout: c.stdout, Stderr: c.stderr, Files: []*os.File{far}, Limits: limits, Access: access,
	})
	if err != nil {
		near.Close()
		return nil, err
	}
	c.lines = protocol.NewLines(readFunc(c.read))
	go c.wait()
	return c, nil
}

// wait waits until the process ends, which happens at the latest when close or kill ends it.
func (c *child) wait() {
	exit, err := c.process.Wait()
	if err != nil {
		c.stderr.log(err.Error())
	}
	c.mu.Lock()
	c.exit, c.gone = exit, time.Now()
	c.deadline()
	c.mu.Unlock()
	close(c.ended)
}

// begin sets the context and the time-out for the next answer. The time-out begins with the first read.
func (c *child) begin(ctx context.Context, timeout time.Duration) {
	c.ctx, c.timeout = ctx, timeout
	c.mu.Lock()
	c.until = time.Time{}
	c.mu.Unlock()
}

// next returns the next message. It fails with errTimeout, errStopped, errGone, protocol.ErrTooLong, or an error that
// describes an invalid message.
func (c *child) next(limit int) (*protocol.Message, error) {
	line, err := c.lines.Next(limit)
	if err != nil {
		return nil, err
	}
	return protocol.Decode(line)
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// read reads from the connection until the time-out, or until the process has ended.
func (c *child) read(p []byte) (int, error) {
	c.mu.Lock()
	if c.until.IsZero() {
		c.until = time.Now().Add(c.timeout)
	}
	c.deadline()
	c.mu.Unlock()
	if c.ctx.Done() != nil {
		stopped := make(chan struct{})
		stop := context.AfterFunc(c.ctx, func() {
			defer close(stopped)
			c.mu.Lock()
			defer c.mu.Unlock()
			if until := time.Now().Add(stopGrace); until.Before(c.until) {
				c.until = until
				c.deadline()
			}
		})
		defer func() {
			if !stop() {
				<-stopped
			}
		}()
	}
	n, err := c.conn.Read(p)
	if err == nil {
		return n, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded) || !c.gone.IsZero():
		return n, errGone
	case c.ctx.Err() != nil:
		return n, errStopped
	}
	return n, errTimeout
}

// deadline sets the deadline of reads. c.mu is held.
func (c *child) deadline() {
	until := c.until
	if !c.gone.IsZero() {
		if drained := c.gone.Add(drainTime); until.IsZero() || drained.Before(until) {
			until = drained
		}
	}
	c.conn.SetReadDeadline(until) // fails only if the connection is closed; reads then fail, too
}

// write writes messages. If it fails, the next read fails with the reason, unless the host answers without reading.
func (c *child) write(text []byte) error {
	_, err := c.conn.Write(text)
	return err
}

// kill immediately ends the process and all its descendants. Only the first reason is kept.
func (c *child) kill(reason string) {
	c.mu.Lock()
	if c.reason == "" && c.gone.IsZero() {
		c.reason = reason
	}
	c.mu.Unlock()
	c.process.Kill()
}

// why waits until a process whose connection has ended ends, too, and returns why it ended.
func (c *child) why() string {
	select {
	case <-c.ended:
	case <-time.After(endGrace):
		c.kill("its process closed descriptor 3, the connection with the runner")
		<-c.ended
	}
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	if reason == "" {
		reason = "its process ended: " + c.exit.String()
	}
	if tail := c.stderr.end(); tail != "" {
		reason += "\n" + tail
	}
	return reason
}

// close closes the connection and removes the directory. It kills the process if that does not end within endGrace.
func (c *child) close() error {
	c.conn.Close()
	select {
	case <-c.ended:
	case <-time.After(endGrace):
		c.kill("the runner ended it")
		<-c.ended
	}
	c.stdout.end()
	c.stderr.end()
	if err := disk.RemoveTree(c.dir); err != nil {
		return fmt.Errorf("remove the directory of a script: %w", err)
	}
	return nil
}
