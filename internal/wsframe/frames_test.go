package wsframe

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/internal/wsframe/wsframetest"
)

const maxMessage = 1000

// valid are frames that break no rule.
const valid = "\x81\x83\x00\x00\x00\x00abc" + // a text
	"\x02\x80\x00\x00\x00\x00" + "\x89\x81\x00\x00\x00\x00p" + "\x80\x80\x00\x00\x00\x00" + // an empty message in two frames, with a ping between them
	"\x82\xfe\x00\x01\x00\x00\x00\x00x" + "\x82\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00x" // lengths in more bytes than needed

// TestViolations: each mistake is noticed exactly at the byte that shows it, however the bytes are split.
func TestViolations(t *testing.T) {
	longest := "\x02\xfe\x01\xf4\x00\x00\x00\x00" + strings.Repeat("x", 500)
	longest += "\x80" + longest[1:]
	for _, v := range wsframetest.Violations(maxMessage) {
		for _, piece := range []int{1, 2, 7, 1 << 20} {
			bytes := valid + longest + v.Bytes
			f := frames{most: maxMessage}
			var broken *Error
			passed := 0
			for rest := []byte(bytes); len(rest) > 0 && broken == nil; {
				p := rest[:min(piece, len(rest))]
				rest = rest[len(p):]
				n := 0
				n, broken = f.pass(p)
				passed += n
			}
			switch {
			case broken == nil:
				t.Errorf("%s, in pieces of %d: no mistake", v.Name, piece)
			case broken.Status != v.Status || broken.Reason == "" || len(broken.Reason) > 123:
				t.Errorf("%s, in pieces of %d: %d %q, want %d", v.Name, piece, broken.Status, broken.Reason, v.Status)
			case passed < len(valid)+len(longest):
				t.Errorf("%s, in pieces of %d: a mistake is found at byte %d of %d", v.Name, piece, passed, len(valid)+len(longest))
			}
		}
	}
}

// TestAccept: for each mistake, the server gets an Error, whatever it was reading, and the client gets the server's close
// frame. Frames that arrive with the request are checked, too.
func TestAccept(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(w, r, nil, maxMessage)
		if err != nil {
			t.Error(err)
			return
		}
		for err == nil {
			_, _, err = conn.Read(r.Context())
		}
		broken, ok := errors.AsType[*Error](err)
		if !ok {
			t.Error(err)
			broken = &Error{websocket.StatusInternalError, err.Error()}
		}
		_ = conn.Close(broken.Status, broken.Reason) // the client checks it
	}))
	defer s.Close()
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
	for _, v := range wsframetest.Violations(maxMessage) {
		for name, c := range map[string][2]string{"": {request, valid + v.Bytes}, " with the request": {request + valid + v.Bytes, ""}} {
			status, reason, err := wsframetest.Closing(s.Listener.Addr().String(), c[0], c[1])
			testkit.Holds(t, status == v.Status && err == nil, v.Name, name, status, reason, err, "want", v.Status)
		}
	}
}
