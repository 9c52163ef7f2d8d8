package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/problem"
)

const (
	// statusDone is the status with which the server closes a stream when it has answered all requests that it has
	// carried out. A proxy does not send it.
	statusDone = websocket.StatusCode(4001)
	// silentHeartbeats is the number of silent heartbeats after which the client gives a stream up.
	silentHeartbeats = 3
)

// read delivers answers and jobs as they arrive, until the connection ends.
func (s *Stream) read() {
	err := s.readAll()
	_ = s.conn.CloseNow() // it has ended
	if !s.closing.Load() {
		s.c.conn.Servers.Failed(s.url)
	}
	s.mu.Lock()
	s.err = fmt.Errorf("the stream has ended: %w", err)
	s.mu.Unlock()
	close(s.done)
}

func (s *Stream) readAll() error {
	for {
		kind, text, at, err := s.message()
		if err != nil {
			return err
		}
		if kind == websocket.MessageBinary {
			err = s.pushed(text, at)
		} else {
			err = s.lines(text, at)
		}
		if err != nil {
			return cmp.Or(s.cutOff(), fmt.Errorf("%w: %w", problem.ErrUnexpectedAnswer, err))
		}
	}
}

// cutOff returns the reason why the connection has ended, or nil if it has not. If the connection ends between two
// frames of a message, the library treats the message as complete. So when a message cannot be read and the connection
// has ended, the rest of the message is missing.
func (s *Stream) cutOff() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _, err := s.conn.Reader(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("within a message: %w", err)
}

// readStep is how much of a message is read at once. A message may be long and arrive slowly, so each step counts as a
// sign of life of the server.
const readStep = 64 << 10

// message reads a message. at is its time of arrival.
func (s *Stream) message() (kind websocket.MessageType, text []byte, at time.Time, err error) {
	kind, r, err := s.conn.Reader(context.Background())
	if err != nil {
		return kind, nil, at, err
	}
	text = make([]byte, 0, 512)
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, min(cap(text), readStep)) // a long text grows by a quarter
		}
		n, err := r.Read(text[len(text):min(cap(text), len(text)+readStep)])
		text, at = text[:len(text)+n], time.Now()
		s.heard.Store(at.UnixNano())
		if err == io.EOF {
			return kind, text, at, nil
		}
		if err != nil {
			return kind, nil, at, err
		}
	}
}

// lines delivers the answers in a text message.
func (s *Stream) lines(text []byte, at time.Time) error {
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var l streamLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		s.mu.Lock()
		if l.N == nil {
			sub := s.takers[l.Subscription]
			s.mu.Unlock()
			if sub != nil && l.Problem != nil && sub.o.Failed != nil {
				sub.o.Failed(l.Problem)
			}
			continue
		}
		waits := s.waiting[*l.N]
		delete(s.waiting, *l.N)
		s.mu.Unlock()
		if waits != nil {
			waits <- streamAnswer{ok: l.OK, problem: l.Problem, seq: l.Seq, at: at}
		}
	}
	return nil
}

const pushHead = "#:push subscription="

// pushed delivers the jobs in a binary message.
func (s *Stream) pushed(text []byte, at time.Time) error {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	number, ok := bytes.CutPrefix(head, []byte(pushHead))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("a binary message begins with %.80q", head)
	}
	c := &Claim{Received: at}
	if err := c.readRuns(rest); err != nil {
		return err
	}
	s.c.decodeClaimed(c.Jobs)
	s.mu.Lock()
	sub := s.takers[n]
	s.mu.Unlock()
	if sub == nil {
		return fmt.Errorf("jobs for subscription %d, which does not exist", n)
	}
	sub.o.Take(c)
	return nil
}

// watch ends the connection after some heartbeats in which nothing, not even a ping, has arrived.
func (s *Stream) watch() {
	ticker := time.NewTicker(max(s.heartbeat, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case now := <-ticker.C:
			if silent := now.Sub(s.Heard()); silent > silentHeartbeats*s.heartbeat {
				_ = s.conn.CloseNow() // nobody answers a closing handshake
				return
			}
		}
	}
}
