package guest

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
	"time"
)

// sender sends frames. Its methods may be called from several goroutines.
type sender struct {
	mu    sync.Mutex
	to    io.Writer
	frame []byte
}

// send sends a frame. If the runner no longer reads, nobody needs this process: send exits.
func (s *sender) send(kind byte, run uint32, parts ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame = AppendFrame(s.frame[:0], kind, run, parts...)
	if _, err := s.to.Write(s.frame); err != nil {
		os.Exit(1)
	}
	if cap(s.frame) > 1<<20 {
		s.frame = nil
	}
}

// stdout is the stdout of a guest. It sends a part whenever it holds MaxPartBytes.
type stdout struct {
	sender *sender
	run    uint32
	held   []byte
}

// Write implements io.Writer.
func (o *stdout) Write(b []byte) (int, error) {
	n := len(b)
	for len(o.held)+len(b) > MaxPartBytes {
		part := MaxPartBytes - len(o.held)
		o.held = append(o.held, b[:part]...)
		o.sender.send(Output, o.run, o.held)
		o.held, b = o.held[:0], b[part:]
	}
	o.held = append(o.held, b...)
	return n, nil
}

// stderr keeps the end of a guest's stderr. While the guest runs, it sends that every stderrDelay, because the runner may
// kill the process before the guest ends.
type stderr struct {
	sender *sender
	run    uint32

	mu    sync.Mutex
	held  []byte
	timer *time.Timer
	ended bool
}

// stderrDelay is how long written bytes are held before they are sent.
const stderrDelay = 50 * time.Millisecond

// Write implements io.Writer.
func (e *stderr) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = append(e.held, b[max(0, len(b)-StderrBytes):]...)
	if len(e.held) > 2*StderrBytes {
		e.held = append(e.held[:0], e.held[len(e.held)-StderrBytes:]...)
	}
	if e.timer == nil {
		e.timer = time.AfterFunc(stderrDelay, e.flush)
	}
	return len(b), nil
}

func (e *stderr) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = nil
	if e.ended || len(e.held) == 0 {
		return
	}
	e.sender.send(Errors, e.run, e.held[max(0, len(e.held)-StderrBytes):])
	e.held = e.held[:0]
}

// end returns the bytes that were not sent. After that, nothing is sent.
func (e *stderr) end() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if e.timer != nil {
		e.timer.Stop()
	}
	return e.held[max(0, len(e.held)-StderrBytes):]
}

// stdin is the stdin of a guest: a pipe, so that the guest can poll it and set it to non-blocking.
type stdin struct {
	sender *sender
	run    uint32
	guest  *os.File // read by the guest
	far    *os.File
	pumped chan struct{} // closed when pump returns; nil if pump is not needed
	credit bool          // the runner waits for Credit

	mu    sync.Mutex
	more  sync.Cond
	held  []byte // at most Window bytes
	whole bool   // no more input follows held
	ended bool   // the run has ended
}

// directBytes is how much an empty pipe accepts without blocking, on every system.
const directBytes = 4 << 10

// newStdin returns the input of a run. first is its beginning, and all of it if whole is set.
func newStdin(s *sender, run uint32, first []byte, whole bool) (*stdin, error) {
	near, far, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in := &stdin{sender: s, run: run, guest: near, far: far}
	if whole && len(first) <= directBytes {
		_, err := far.Write(first)
		far.Close()
		if err != nil {
			near.Close()
			return nil, err
		}
		return in, nil
	}
	in.more.L = &in.mu
	in.held, in.whole, in.credit = append(make([]byte, 0, MaxPartBytes), first...), whole, !whole
	in.pumped = make(chan struct{})
	go in.pump()
	return in, nil
}

// pump writes the input to the pipe. It returns at the end of the input or of the run.
func (in *stdin) pump() {
	defer close(in.pumped)
	defer in.far.Close()
	var part []byte
	for {
		in.mu.Lock()
		for len(in.held) == 0 && !in.whole {
			in.more.Wait()
		}
		part, in.held = in.held, part[:0]
		in.mu.Unlock()
		if len(part) == 0 {
			return
		}
		if _, err := in.far.Write(part); err != nil {
			return
		}
		if in.credit {
			in.sender.send(Credit, in.run, binary.LittleEndian.AppendUint32(nil, uint32(len(part))))
		}
	}
}

// add adds a part, or ends the input if the part is empty. It returns false if the runner has sent more than it may.
func (in *stdin) add(part []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return true // sent before the runner saw the end
	}
	if in.pumped == nil || in.whole || len(in.held)+len(part) > Window {
		return false
	}
	in.held, in.whole = append(in.held, part...), len(part) == 0
	in.more.Signal()
	return true
}

// close ends the input after the run, and waits for pump.
func (in *stdin) close() {
	in.guest.Close()
	if in.pumped == nil {
		return
	}
	in.far.SetWriteDeadline(time.Unix(1, 0))
	in.mu.Lock()
	in.held, in.whole, in.ended = nil, true, true
	in.more.Signal()
	in.mu.Unlock()
	<-in.pumped
}
