package peer

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
)

// echoStream answers the requests of a stream in JSON, and sends a job for each create, in the same messages as Daybook:
// one message with the answers to a message's requests, and one with the jobs. It keeps no jobs. A client's rate with it
// is the limit of streams.
func echoStream(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		return // Accept has answered
	}
	_ = serveStream(r.Context(), conn) // it ends when the client disconnects
	_ = conn.CloseNow()
}

func serveStream(ctx context.Context, conn *websocket.Conn) error {
	const claim = `{"subscription":2,"claim_id":"01930000-0000-7000-8000-000000000000","lease_ms":30000,"jobs":[`
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var answers []byte
		created := 0
		for line := range bytes.Lines(message) {
			number, body, found := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"n":`)), []byte(","))
			if !found {
				return fmt.Errorf("the client sent %.100q", line)
			}
			answers = fmt.Appendf(answers, `{"n":%s,"ok":{}}`+"\n", number)
			if bytes.HasPrefix(body, []byte(`"create"`)) {
				created++
			}
		}
		if err := conn.Write(ctx, websocket.MessageText, answers); err != nil {
			return err
		}
		if created == 0 {
			continue
		}
		push := []byte(claim)
		for i := range created {
			if i > 0 {
				push = append(push, ',')
			}
			push = fmt.Appendf(push, `{"job_id":"01930000-0000-7000-8000-000000000000","payload":"%s"}`, payload)
		}
		if err := conn.Write(ctx, websocket.MessageText, append(push, "]}\n"...)); err != nil {
			return err
		}
	}
}
