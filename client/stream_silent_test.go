package client_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// fill sends more requests than the connection accepts. Each must end soon after its context.
func fill(t *testing.T, over *client.Client, allowed time.Duration) {
	t.Helper()
	output := client.TextOutput(strings.Repeat("x", 200<<10))
	outcomes := []client.JobOutcome{{JobID: "018c2b6e-7f00-7000-8000-000000400001", Outcome: output}}
	for unavailable := 0; unavailable < 3; {
		ctx, cancel := context.WithTimeout(t.Context(), allowed)
		_, err := over.CompleteMany(ctx, "018c2b6e-7f00-7000-8000-000000400000", outcomes) // nobody answers it, so it must end with its context
		cancel()
		switch {
		case errors.Is(err, problem.ErrUnknown):
		case err != nil: // it was sent over HTTP, since the queue of the stream is full
			unavailable++
		default:
			t.Fatal("a request that nobody has read is answered")
		}
	}
}

// TestStreamBlocked: if a stream accepts no data, its requests end with their contexts, and take bounded memory.
func TestStreamBlocked(t *testing.T) {
	s := testkit.Must(clienttest.SilentServer(t, time.Hour, func(*websocket.Conn, string) {}).OpenStream(t.Context(), client.StreamOptions{}))(t)
	fill(t, s.Client(), 5*time.Millisecond)
	testkit.Holds(t, s.Err() == nil, "the stream has ended", s.Err())
}

// TestStreamSilent: a stream whose server is silent ends, although a write of it is blocked.
func TestStreamSilent(t *testing.T) {
	read := make(chan struct{})
	c := clienttest.SilentServer(t, time.Second, func(conn *websocket.Conn, _ string) {
		_, _, err := conn.Read(context.Background())
		testkit.Check(t, err)
		close(read)
	})
	s := testkit.Must(c.OpenStream(t.Context(), client.StreamOptions{}))(t)
	asked := make(chan error, 1)
	go func() {
		_, err := s.Client().CompleteMany(t.Context(), "018c2b6e-7f00-7000-8000-000000400000", []client.JobOutcome{{JobID: "018c2b6e-7f00-7000-8000-000000400001"}})
		asked <- err
	}()
	<-read
	fill(t, s.Client(), time.Millisecond)
	<-s.Done()
	testkit.Failed(t, <-asked, "418")
}

// TestStreamCutWithinAMessage: if a server ends between two frames of a message, the client reports no unexpected
// answer.
func TestStreamCutWithinAMessage(t *testing.T) {
	for name, sent := range map[string]struct {
		kind websocket.MessageType
		text string
	}{
		"text":   {websocket.MessageText, `{"subscription":1,"claim_id":"`},
		"binary": {websocket.MessageBinary, "#:push subscription=1\n#:claim v=1 claim_id="},
	} {
		t.Run(name, func(t *testing.T) {
			c := clienttest.SilentServer(t, time.Minute, func(conn *websocket.Conn, _ string) {
				w, err := conn.Writer(context.Background(), sent.kind)
				if err == nil {
					_, err = w.Write([]byte(sent.text + strings.Repeat("x", 64<<10))) // too long for the buffer of the library
				}
				testkit.Check(t, err)
				_ = conn.CloseNow() // its error does not matter
			})
			s := testkit.Must(c.OpenStream(t.Context(), client.StreamOptions{}))(t)
			defer s.Close()
			<-s.Done()
			err := s.Err()
			testkit.Holds(t, !errors.Is(err, problem.ErrUnexpectedAnswer) && strings.Contains(err.Error(), "within a message"), err)
		})
	}
}

// TestStreamGoesAway: when the server closes a stream with 4001, it has not carried out the requests without an answer.
// After any other end it may have, so a create is not repeated: a proxy may send 1001.
func TestStreamGoesAway(t *testing.T) {
	for status, unknown := range map[websocket.StatusCode]bool{
		4001: false, websocket.StatusGoingAway: true, websocket.StatusNormalClosure: true, websocket.StatusInternalError: true,
	} {
		c := clienttest.SilentServer(t, time.Hour, func(conn *websocket.Conn, _ string) {
			_, _, err := conn.Read(context.Background())
			testkit.Check(t, err)
			_ = conn.Close(status, "")
		})
		s := testkit.Must(c.OpenStream(t.Context(), client.StreamOptions{}))(t)
		err := s.CreateJoined(c, client.NewJob{})
		testkit.Holds(t, err != nil && errors.Is(err, problem.ErrUnknown) == unknown, "after", status, err)
	}
}

// TestStreamHearsSlowMessages: a message that takes longer than three heartbeats to arrive keeps the stream open.
func TestStreamHearsSlowMessages(t *testing.T) {
	const heartbeat, piece = time.Second, 64 << 10
	const pieces = 16
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw := upgrade(t, w, r)
		defer conn.Close()
		_, err := rw.Reader.Peek(1)
		testkit.Check(t, err) // an answer before the client's hello would have no request
		go func() {
			for {
				if _, err := rw.Reader.Discard(1); err != nil {
					return
				}
			}
		}()
		hello := fmt.Sprintf(`{"n":1,"ok":{"stream_id":"s","heartbeat_ms":%d}}`, heartbeat.Milliseconds())
		_, err = conn.Write(append([]byte{0x81, byte(len(hello))}, hello...))
		testkit.Check(t, err)
		// An answer to no request of the client, in one frame.
		text := `{"n":7,"ok":"` + strings.Repeat("x", pieces*piece) + `"}`
		_, err = conn.Write(binary.BigEndian.AppendUint64([]byte{0x81, 127}, uint64(len(text))))
		testkit.Check(t, err)
		for len(text) > 0 { // takes four heartbeats
			n := min(piece, len(text))
			if _, err := conn.Write([]byte(text[:n])); err != nil {
				t.Errorf("the client has closed the stream: %v", err)
				return
			}
			text = text[n:]
			time.Sleep(4 * heartbeat / pieces) // real time: a message that arrives slowly
		}
		_, err = conn.Write([]byte{0x88, 2, 1000 >> 8, 1000 & 255})
		testkit.Check(t, err)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	stream := testkit.Must(client.New(s.URL, client.Options{}).OpenStream(t.Context(), client.StreamOptions{}))(t)
	<-stream.Done()
	testkit.Equal(t, websocket.CloseStatus(stream.Err()), websocket.StatusNormalClosure, "the stream has ended with", stream.Err())
}

// upgrade answers the handshake of a stream, and returns its connection.
func upgrade(t *testing.T, w http.ResponseWriter, r *http.Request) (interface {
	Write([]byte) (int, error)
	Close() error
}, *bufio.ReadWriter) {
	t.Helper()
	conn, rw := testkit.Must2(http.NewResponseController(w).Hijack())(t)
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: daybook.v1\r\n"
	_, err := fmt.Fprintf(conn, "%sSec-WebSocket-Accept: %s\r\n\r\n", head, acceptKey(r.Header.Get("Sec-WebSocket-Key")))
	testkit.Check(t, err)
	return conn, rw
}

// acceptKey is the answer to a key of RFC 6455.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
