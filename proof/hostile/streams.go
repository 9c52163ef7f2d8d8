package hostile

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// streamAttacks is a list of attacks in streams. They write frames by hand, since a WebSocket library would keep to the
// rules.
var streamAttacks = []*request{
	{what: "silent, no hello", stream: func(ctx context.Context, _ *hostileStream) { <-ctx.Done() }},
	{what: "jobs that nobody reads", stream: unreadJobs},
	{what: "answers that nobody reads", stream: unreadAnswers},
	{what: "a byte a second", stream: byteByByte},
	{what: "half of a message", stream: halfMessage},
	{what: "empty frames without end", stream: emptyFrames},
	{what: "pings", stream: pings},
	{what: "messages of 8 MiB", stream: hugeMessages},
	{what: "subscriptions and credit", stream: manySubscriptions},
	{what: "requests without end", stream: manyRequests},
	{what: "jobs taken by streams that vanish", stream: vanish},
	{what: "claims and streams of others", stream: claimsOfOthers},
}

// inStream opens a stream and attacks with it.
func inStream(ctx context.Context, c net.Conn, r *request) {
	s := &hostileStream{Conn: c, r: bufio.NewReader(c)}
	if err := s.open(); err == nil {
		r.stream(ctx, s)
	}
}

// hostileStream is a stream that breaks the rules.
type hostileStream struct {
	net.Conn
	r *bufio.Reader
}

const (
	text, fragment, ping = 0x81, 0x01, 0x89 // first bytes of frames
	more                 = 0x00
)

// open makes the handshake. It fails if the server refuses it.
func (s *hostileStream) open() error {
	if _, err := io.WriteString(s, "GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: daybook.v1\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(s.r, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		answer.Body.Close()
		return errRefused
	}
	return nil
}

// frame returns a frame, masked with zeroes.
func frame(first byte, body string) []byte {
	b := []byte{first}
	switch n := len(body); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), body...)
}

// send sends frames, and reports whether the connection accepts them.
func (s *hostileStream) send(frames ...[]byte) bool {
	for _, f := range frames {
		if _, err := s.Write(f); err != nil {
			return false
		}
	}
	return true
}

// drain reads everything until the connection ends.
func (s *hostileStream) drain() { _, _ = io.Copy(io.Discard, s.r) }

// repeat sends frames again and again, with a pause. Without the pause, a few attackers would use the whole processor, as
// they could with HTTP requests.
func (s *hostileStream) repeat(ctx context.Context, pause time.Duration, next func(i int) []byte) {
	for i := 0; ctx.Err() == nil && s.send(next(i)); i++ {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

var helloFrame = frame(text, `{"n":0,"hello":{"runner_id":"hostile","jobs":"runs"}}`)

func unreadJobs(ctx context.Context, s *hostileStream) {
	s.send(helloFrame)
	for i := range 16 {
		s.send(frame(text, fmt.Sprintf(`{"n":%d,"subscribe":{"clients":["victim"],"credit":1000,"lease_ms":60000}}`, i+1)))
	}
	<-ctx.Done()
}

// smallRequests returns requests that the server answers without writing to the journal.
func smallRequests(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\":%d,\"credit\":{\"subscription\":%d,\"credit\":%d}}\n", i, 1<<40, i)
	}
	return b.String()
}

func unreadAnswers(ctx context.Context, s *hostileStream) {
	s.send(helloFrame)
	if s.LocalAddr().(*net.TCPAddr).Port%8 > 0 { // one connection in eight is enough
		<-ctx.Done()
		return
	}
	long := strings.Repeat("x", 64)
	f := frame(text, strings.ReplaceAll(smallRequests(1000), `"subscription"`, `"`+long+`"`)) // the answers name the field
	s.repeat(ctx, time.Second, func(int) []byte { return f })
}

func byteByByte(ctx context.Context, s *hostileStream) {
	go s.drain()
	f := append(helloFrame[:len(helloFrame):len(helloFrame)], frame(text, smallRequests(100))...)
	s.repeat(ctx, time.Second, func(i int) []byte { return f[i%len(f):][:1] })
}

func halfMessage(ctx context.Context, s *hostileStream) {
	go s.drain()
	s.send(helloFrame, frame(fragment, `{"n":1,"create":{"payload":"`+strings.Repeat("x", 1<<20)))
	s.send(frame(more, strings.Repeat("x", 1<<20))[:1<<19])
	<-ctx.Done()
}

func emptyFrames(ctx context.Context, s *hostileStream) {
	go s.drain()
	f := frame(fragment, "")
	f = append(f, strings.Repeat(string(frame(more, "")), 100)...)
	s.repeat(ctx, 100*time.Millisecond, func(i int) []byte {
		if i == 0 {
			return f
		}
		return f[len(frame(more, "")):]
	})
}

func pings(ctx context.Context, s *hostileStream) {
	if fd := s.LocalAddr().(*net.TCPAddr).Port; fd%2 == 0 { // half of the connections read no pongs
		go s.drain()
	}
	f := []byte(strings.Repeat(string(frame(ping, strings.Repeat("x", 125))), 10))
	s.repeat(ctx, 100*time.Millisecond, func(int) []byte { return f })
}

func hugeMessages(ctx context.Context, s *hostileStream) {
	const id = "018c2b6e-7f00-7000-8000-000000400001"
	outcome := `{"job_id":"` + id + `","code":"ok","output":"` + strings.Repeat("x", 8300) + `"}`
	list := outcome + strings.Repeat(","+outcome, 999)
	f := frame(text, `{"n":1,"complete":{"claim_id":"`+id+`","outcomes":[`+list+`]}}`)
	if fd := s.LocalAddr().(*net.TCPAddr).Port; fd%2 == 0 {
		go s.drain()
	}
	s.repeat(ctx, time.Second, func(int) []byte { return f })
}

func manySubscriptions(ctx context.Context, s *hostileStream) {
	go s.drain()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf(`"%0100d"`, i)
	}
	s.send(helloFrame)
	for i := range 16 {
		s.send(frame(text, fmt.Sprintf(`{"n":%d,"subscribe":{"clients":["nobody%d"],"types":[%s],"credit":10000}}`, i+1, s.LocalAddr().(*net.TCPAddr).Port, strings.Join(names, ","))))
	}
	s.repeat(ctx, time.Second, func(i int) []byte {
		at := i%16 + 1
		var b strings.Builder
		for j := range 20 {
			fmt.Fprintf(&b, "{\"n\":%d,\"credit\":{\"subscription\":%d,\"credit\":%d}}\n", 100+j, at, j%2*10000)
		}
		if i%4 == 0 {
			fmt.Fprintf(&b, "{\"n\":99,\"unsubscribe\":{\"subscription\":%d}}\n{\"n\":%d,\"subscribe\":{\"clients\":[\"nobody\"],\"credit\":1}}\n", at, at)
		}
		return frame(text, b.String())
	})
}

func manyRequests(ctx context.Context, s *hostileStream) {
	go s.drain()
	s.send(helloFrame)
	f := frame(text, smallRequests(50))
	s.repeat(ctx, time.Second, func(int) []byte { return f })
}

func vanish(ctx context.Context, s *hostileStream) {
	s.send(helloFrame, frame(text, `{"n":1,"subscribe":{"clients":["victim"],"credit":5,"max":1,"lease_ms":60000}}`))
	_ = s.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, s.r, 1<<20) // a few jobs, if there are any
	if tcp, ok := s.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset
	}
	s.Close()
}

func claimsOfOthers(ctx context.Context, s *hostileStream) {
	go s.drain()
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"018c2b6e-7f00-7000-8000-0000%08x"`, i<<6)
	}
	s.send(frame(text, `{"n":1,"hello":{"runner_id":"honest","linger_ms":600000,"resume":"AAAAAAAAAAAAAAAAAAAAAAAAAA","claims":[`+strings.Join(ids, ",")+`]}}`))
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
}
