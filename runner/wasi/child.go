package wasi

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

// openFiles bounds the file descriptors of a process.
const openFiles = 256

// endGrace is the time that a process gets to exit after its connection was closed.
const endGrace = time.Second

// child is a process that runs guests. Only one goroutine uses it at a time, but any goroutine may call kill.
type child struct {
	process  *sandbox.Process
	counters *counters // of the pool
	class    int64     // of the memory of its runs
	in, out  *os.File
	frames   *guest.Reader
	stderr   tail // of the process itself: written by the process alone until ended is closed
	run      uint32

	writing sync.Mutex
	frame   []byte

	mu     sync.Mutex
	cause  error                   // why the process was killed
	cancel context.CancelCauseFunc // cancels the current run; nil if there is none

	ended chan struct{} // closed when the process has exited
	exit  sandbox.Exit  // valid after ended is closed
}

// startChild starts a process.
func (p *Pool) startChild(class int64) (*child, error) {
	farIn, in, err := os.Pipe()
	if err != nil {
		return nil, &machineError{fmt.Errorf("start a process for WASI guests: %w", err)}
	}
	defer farIn.Close()
	out, farOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, &machineError{fmt.Errorf("start a process for WASI guests: %w", err)}
	}
	defer farOut.Close()
	c := &child{counters: p.counters, class: class, in: in, out: out, frames: guest.NewReader(out), ended: make(chan struct{})}
	c.process, err = p.settings.Sandbox.Start(sandbox.Command{
		Argv: []string{self(), guest.ModeRun, p.cache.dir, p.version}, Env: environment(), Stdin: farIn, Stdout: farOut, Stderr: &c.stderr,
		Limits: sandbox.Limits{MemoryBytes: processBytes(class), OpenFiles: openFiles},
		Access: sandbox.Access{ReadOnly: []string{p.cache.dir}}, Bare: true,
	})
	if err != nil {
		in.Close()
		out.Close()
		return nil, &machineError{fmt.Errorf("start a process for WASI guests: %w", err)}
	}
	go c.wait()
	return c, nil
}

func (c *child) wait() {
	exit, err := c.process.Wait()
	if err != nil {
		fmt.Fprintf(&c.stderr, "\n%v", err)
	}
	c.exit = exit
	close(c.ended)
}

// kill kills the process and cancels its current run. Only the first cause is recorded.
func (c *child) kill(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
		select {
		case <-c.ended: // it exited before
		default:
			c.counters.kill(reasonOf(cause))
		}
	}
	if c.cancel != nil {
		c.cancel(c.cause)
	}
	c.mu.Unlock()
	c.process.Kill()
}

// usable reports whether the process can take another run.
func (c *child) usable() bool {
	select {
	case <-c.ended:
		return false
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause == nil
}

// close kills the process and waits until it has exited.
func (c *child) close() {
	c.in.Close() // the process exits on that, but Kill does not rely on it
	c.process.Kill()
	<-c.ended
	c.out.Close()
}

// call is the data of one run.
type call struct {
	spec     []byte // with its length
	input    *input
	output   *output
	timeout  time.Duration
	allowed  permissions
	requests *requests
	clock    *clock // set by do
	stderr   tail
}

// do runs a guest. It returns errTimeout, errStopped, a *goneError, or an error of input or output. After an error, the
// process is not used again.
func (c *child) do(t *task.Task, r *call) (result guest.Result, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c.mu.Lock()
	if c.cause != nil {
		defer c.mu.Unlock()
		return result, c.cause
	}
	c.cancel = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.cancel = nil
		c.mu.Unlock()
	}()
	r.clock = newClock(r.timeout, func() { c.kill(errTimeout) })
	stop := t.AfterFunc(func() { c.kill(errStopped) })
	var helpers sync.WaitGroup
	result, err = c.exchange(ctx, r, &helpers)
	// If the time-out or the end of the task has begun to kill the process, the next run must not use it.
	if !r.clock.stop() && err == nil {
		c.kill(errTimeout)
	}
	if !stop() && err == nil {
		c.kill(errStopped)
	}
	if err != nil {
		c.kill(err)
	}
	cancel(nil)
	r.input.close()
	helpers.Wait()
	return result, err
}

// exchange sends a run and receives its frames until the result. It starts helpers, which end when ctx and the input have
// ended.
func (c *child) exchange(ctx context.Context, r *call, helpers *sync.WaitGroup) (result guest.Result, err error) {
	c.run++
	kind, credit := guest.Run, make(chan int, 1)
	if r.input.rest != nil {
		kind = guest.RunStream
	}
	if err := c.send(kind, r.spec, r.input.first); err != nil {
		return result, c.why()
	}
	if r.input.rest != nil {
		helpers.Go(func() { c.feed(ctx, r.input, credit) })
	}
	asking := false
	answered := make(chan struct{}, 1)
	for {
		f, err := c.frames.Next()
		if err != nil {
			return result, c.why()
		}
		if f.Run != c.run {
			return result, c.broken("a frame of another run")
		}
		switch f.Kind {
		case guest.Output:
			if _, err := r.output.Write(f.Content); err != nil {
				return result, c.reason(err)
			}
		case guest.Errors:
			r.stderr.Write(f.Content)
		case guest.Credit:
			if len(f.Content) != 4 || r.input.rest == nil {
				return result, c.broken("a credit that nobody waits for")
			}
			n := int(binary.LittleEndian.Uint32(f.Content))
			select {
			case more := <-credit:
				n += more
			default:
			}
			if n > guest.Window {
				return result, c.broken("a credit for more than was sent")
			}
			credit <- n // does not block: only this goroutine sends
		case guest.Request:
			if asking {
				select {
				case <-answered:
				default:
					return result, c.broken("a request before the answer to the last one")
				}
			}
			asking = true
			text := append([]byte(nil), f.Content...)
			helpers.Go(func() {
				r.requests.do(ctx, r.clock, r.allowed, text, func(answer []byte) {
					if ctx.Err() == nil {
						answered <- struct{}{}
						c.send(guest.Answer, answer) // if the process is gone, the read fails
					}
				})
			})
		case guest.Done:
			if err := result.Decode(f.Content); err != nil {
				return result, c.broken(err.Error())
			}
			r.stderr.Write(result.Stderr)
			if _, err := r.output.Write(result.Output); err != nil {
				return result, c.reason(err)
			}
			return result, nil
		default:
			return result, c.broken(fmt.Sprintf("a frame of kind %d", f.Kind))
		}
	}
}

// send sends a frame of the current run.
func (c *child) send(kind byte, parts ...[]byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.frame = guest.AppendFrame(c.frame[:0], kind, c.run, parts...)
	_, err := c.in.Write(c.frame)
	if cap(c.frame) > 1<<20 {
		c.frame = nil
	}
	return err
}

// feed sends the rest of the input, never more than the process has room for.
func (c *child) feed(ctx context.Context, in *input, credit <-chan int) {
	room := guest.Window - len(in.first)
	part := make([]byte, guest.MaxPartBytes)
	for {
		for room == 0 {
			select {
			case n := <-credit:
				room += n
			case <-ctx.Done():
				return
			}
		}
		n, err := in.rest.Read(part[:min(room, len(part))])
		if ctx.Err() != nil {
			return
		}
		if n > 0 {
			room -= n
			if c.send(guest.Input, part[:n]) != nil {
				return
			}
		}
		switch {
		case err == io.EOF:
			c.send(guest.Input) // if the process is gone, the read fails
			return
		case err != nil:
			c.kill(&readError{err}) // the guest must not take this for the end of the input
			return
		}
	}
}

// readError reports that the input could not be read to its end.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// reason returns the cause for which the process was killed, or err if it was not killed.
func (c *child) reason(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}

// why returns the error for a closed connection with the process.
func (c *child) why() error {
	if err := c.reason(nil); err != nil {
		return err
	}
	select { // wait for the exit status, to report it
	case <-c.ended:
	case <-time.After(endGrace): // the connection is closed or has damaged frames
		c.process.Kill()
		<-c.ended
	}
	text := "the process of the guest ended: " + c.exit.String()
	if c.exit.Signal == syscall.SIGKILL {
		text += "; the system ends it when it needs too much memory"
	}
	if stderr := c.stderr.String(); stderr != "" {
		text += "\n" + stderr
	}
	return c.reason(&goneError{"ended", text})
}

// broken returns the error for a process that breaks the protocol.
func (c *child) broken(what string) error {
	return &goneError{"protocol", "the process of the guest has sent " + what + ", and was ended"}
}
