package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// SilentServer accepts streams and answers hello. Then it calls then with the text of hello. HTTP requests are refused.
func SilentServer(t *testing.T, heartbeat time.Duration, then func(conn *websocket.Conn, hello string)) *client.Client {
	t.Helper()
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"daybook.v1"}})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		_, hello, err := conn.Read(context.Background())
		testkit.Check(t, err)
		answer := fmt.Sprintf(`{"n":1,"ok":{"stream_id":"s","heartbeat_ms":%d}}`, heartbeat.Milliseconds())
		testkit.Check(t, conn.Write(context.Background(), websocket.MessageText, []byte(answer)))
		then(conn, string(hello))
		<-ended
	}))
	t.Cleanup(func() { close(ended); s.CloseClientConnections(); s.Close() })
	return client.New(s.URL, client.Options{})
}
