package api

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/internal/wsframe/wsframetest"
)

// frames is a connection to a stream whose frames the test itself writes and reads.
type frames struct {
	*testing.T
	io.Writer
	*bufio.Reader
}

const handshake = "GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: " + stream.Protocol + "\r\n\r\n"

// frames opens a stream.
func (r *rig) frames() *frames {
	r.Helper()
	conn := r.dial()
	r.Cleanup(func() { _ = conn.Close() })
	testkit.Must(io.WriteString(conn, handshake))(r)
	f := &frames{r.T, conn, bufio.NewReader(conn)}
	answer := testkit.Must(http.ReadResponse(f.Reader, nil))(r)
	testkit.MustEqual(r, answer.StatusCode, http.StatusSwitchingProtocols, "open stream:", answer)
	return f
}

// send writes a frame, masked with zeroes.
func (f *frames) send(first byte, text string) {
	f.Helper()
	head := []byte{first, 0x80 | byte(min(len(text), 126))}
	if len(text) >= 126 {
		head = binary.BigEndian.AppendUint16(head, uint16(len(text)))
	}
	testkit.Must(f.Write(append(append(head, 0, 0, 0, 0), text...)))(f)
}

// next reads a frame.
func (f *frames) next() (first byte, length int) {
	f.Helper()
	head := make([]byte, 2, 10)
	more := func(n int) {
		head = head[:2+n]
		testkit.Must(io.ReadFull(f.Reader, head[2:]))(f)
	}
	testkit.Must(io.ReadFull(f.Reader, head))(f)
	switch length = int(head[1]); length {
	case 126:
		more(2)
		length = int(binary.BigEndian.Uint16(head[2:]))
	case 127:
		more(8)
		length = int(binary.BigEndian.Uint64(head[2:]))
	}
	testkit.Must(f.Discard(length))(f)
	return head[0], length
}

// TestStreamFrames: the server answers a ping while it sends a long message.
func TestStreamFrames(t *testing.T) {
	const long = 3 << 20
	r := start(t)
	r.add("/add", strings.Repeat("x", long)+"\n")
	for _, form := range []string{"json", "runs"} {
		f := r.frames()
		f.send(0x81, `{"n":1,"hello":{"runner_id":"r","jobs":"`+form+`"}}`)
		first, _ := f.next()
		testkit.MustEqual(t, first, 0x81, "hello is answered")
		f.send(0x81, `{"n":2,"subscribe":{"credit":1}}`)
		f.send(0x89, "ping")
		length, pong, pinged := 0, false, false
		for length < long {
			switch first, n := f.next(); {
			case first == 0x8a:
				pong = pong || pinged
			case n > stream.MaxFrameBytes:
				t.Fatalf("%s: a frame has %d bytes", form, n)
			case n > 200: // not the answer to subscribe
				if length += n; !pinged {
					pinged = true
					f.send(0x89, "ping")
				}
				if !pong {
					time.Sleep(10 * time.Millisecond) // real time: a client on a slow line
				}
			}
		}
		testkit.Holds(t, pong, form, "no pong before the end of the message")
		f.send(0x88, "\x03\xe8") // the job goes back
		if first, _ := f.next(); first == 0x80 {
			first, _ = f.next()
			testkit.Equal(t, first, 0x88, form, "instead of a close frame")
		}
		r.streamsAre(0)
	}
}

// TestStreamPings: a flood of pings ends the stream.
func TestStreamPings(t *testing.T) {
	r := start(t)
	f := r.frames()
	for range stream.MaxControls {
		f.send(0x89, "ping")
	}
	for range stream.MaxControls {
		first, _ := f.next()
		testkit.MustEqual(t, first, 0x8a, "a ping is answered")
	}
	flood := strings.Repeat("\x89\x80\x00\x00\x00\x00", 100*stream.MaxControls)
	if _, err := io.WriteString(f, flood); err != nil {
		t.Log(err) // the server has closed the connection already
	}
	if _, err := io.Copy(io.Discard, f.Reader); err != nil {
		t.Log(err)
	}
	r.streamsAre(0)
}

// TestStreamViolations: a client that breaks the rules of WebSockets, or sends a message that is too long, gets a close
// frame with the status and the reason.
func TestStreamViolations(t *testing.T) {
	r := start(t)
	for _, v := range wsframetest.Violations(web.MaxBodyBytes) {
		status, reason, err := wsframetest.Closing(strings.TrimPrefix(r.url, "http://"), handshake, v.Bytes)
		testkit.Holds(t, status == v.Status && reason != "" && err == nil, v.Name, status, reason, err, "want", v.Status)
	}
	r.streamsAre(0)
}
