package client

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
)

// read passes on what arrives, until the connection ends.
func (s *Stream) read() {
	err := s.readAll()
	_ = s.conn.CloseNow() // it has ended
	s.mu.Lock()
	s.err = fmt.Errorf("the stream has ended: %w", err)
	s.mu.Unlock()
	close(s.done)
}

func (s *Stream) readAll() error {
	for {
		kind, text, err := s.conn.Read(context.Background())
		if err != nil {
			return err
		}
		at := time.Now()
		s.heard.Store(at.UnixNano())
		if kind == websocket.MessageBinary {
			err = s.pushed(text, at)
		} else {
			err = s.lines(text, at)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
		}
	}
}

// lines passes on the answers in a text message.
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

// pushed passes on the jobs in a binary message.
func (s *Stream) pushed(text []byte, at time.Time) error {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	number, ok := bytes.CutPrefix(head, []byte(pushHead))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("a binary message begins with %.80q", head)
	}
	c := &Claim{received: at}
	if err := c.readRuns(rest); err != nil {
		return err
	}
	s.mu.Lock()
	sub := s.takers[n]
	s.mu.Unlock()
	if sub == nil {
		return fmt.Errorf("jobs for subscription %d, which does not exist", n)
	}
	sub.o.Take(c)
	return nil
}

// watch ends the connection when nothing, not even a ping, has arrived for some heartbeats.
func (s *Stream) watch() {
	ticker := time.NewTicker(max(s.heartbeat, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case now := <-ticker.C:
			if silent := now.Sub(time.Unix(0, s.heard.Load())); silent > silentHeartbeats*s.heartbeat {
				_ = s.conn.CloseNow() // nobody answers a closing handshake
				return
			}
		}
	}
}
