package stream

import (
	"context"
	"fmt"
	"io"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// push makes a claim, waits until the claim gets jobs, and sends them.
func (u *subscription) push(cmd job.Claim) error {
	t := u.t
	if err := t.s.room.full(); err != nil {
		return err
	}
	held := t.share(t.s.Handouts)
	defer held.Release()
	call := answer.ClaimCall{Cmd: cmd, Form: answer.ClaimInLines}
	if t.hello.runs {
		call.Form = answer.ClaimInRuns
	}
	var err error
	waiting, cancel := context.WithCancel(u.ctx)
	defer cancel()
	u.began(cmd.Max, cancel)
	defer u.claimEnded()
	ctx := t.ctx // never ends: the jobs of a claim that has begun are sent, or go back when the stream ends
	call.Claimed, call.Handed, _, err = t.s.Engine.ClaimUntil(ctx, cmd, waiting.Done(), func(payloadBytes int64) error {
		if err := t.s.room.full(); err != nil { // other claims may have waited at the same time
			return err
		}
		return held.Resize(ctx, payloadBytes+int64(cmd.Max)*answer.JobStateBytes)
	})
	if err != nil || len(call.Handed) == 0 {
		return err
	}
	call.Handlers = answer.HandlersOf(t.s.Decode.HandlerFor, call.Handed)
	if n := call.Bytes(); held.Held > n {
		held.Shrink(held.Held - n)
	}
	t.holding.add(u, &call)
	if t.heard.Load() != t.s.Engine.Silence(cmd.Runner) { // the runner proved silent in between
		t.giveBack(call.Claimed.Claim)
		return nil
	}
	if err := u.send(&call, &held); err != nil {
		_ = t.conn.CloseNow() // the client may have read a part; the end of the stream returns the jobs
		return err
	}
	return nil
}

// giveBack returns the jobs of a claim that were not sent.
func (t *stream) giveBack(claim job.ID) {
	if c := t.holding.lose(claim); c != nil {
		t.s.going(claim)
		t.s.giveBack([]*heldClaim{c})
	}
}

// began records the current claim, and claimEnded its end. By then, its jobs count as held and are being sent.
func (u *subscription) began(asked int, cancel context.CancelFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked, u.cancel, u.waited = asked, cancel, make(chan struct{})
	if u.credit-u.held < asked { // the credit has changed since
		cancel()
	}
}

func (u *subscription) claimEnded() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = 0
	close(u.waited)
}

// send writes the jobs of a claim.
func (u *subscription) send(call *answer.ClaimCall, held *web.Share) (err error) {
	p := web.PiecesTo(context.Background(), &pushed{t: u.t, kind: websocket.MessageText}, held, nil)
	if call.Form == answer.ClaimInRuns {
		p.To = &pushed{t: u.t, kind: websocket.MessageBinary}
		p.B = fmt.Appendf(p.B, "#:push subscription=%d\n", u.number)
		err = call.WriteRuns(p)
	} else {
		p.B = fmt.Appendf(p.B, `{"subscription":%d,"claim_id":"%s","lease_ms":%d`, u.number, call.Claimed.Claim, call.Claimed.LeaseMs)
		if p.B, err = answer.AppendHandlers(p.B, call.Handlers); err != nil {
			return err
		}
		p.B = append(p.B, `,"jobs":[`...)
		call.Fields.Sparse = true
		err = answer.AppendRunPieces(p, call.Handed, &answer.JobText{Selection: &call.Fields, Form: answer.InLines, Separator: ","})
		p.B = append(p.B, "]}\n"...)
	}
	if err == nil {
		err = p.End()
	}
	return err
}

// pushed is a message with jobs. A short text message is joined with the waiting answers.
type pushed struct {
	t    *stream
	kind websocket.MessageType
	w    io.WriteCloser // of a long message; nil before its first piece
}

func (m *pushed) More(piece []byte) (err error) {
	if m.w == nil {
		if m.w, err = m.t.conn.Writer(context.Background(), m.kind); err != nil {
			return err
		}
	}
	return writeFrames(m.w, piece)
}

func (m *pushed) End(piece []byte) error {
	switch {
	case m.w != nil:
		if err := m.More(piece); err != nil {
			return err
		}
		return m.w.Close()
	case m.kind == websocket.MessageText && len(piece) <= maxJoinedPush:
		m.t.answers.add(piece, 0)
		return nil
	}
	return m.t.write(m.kind, piece)
}

// maxJoinedPush is the largest text of jobs that is copied into the message with the waiting answers.
const maxJoinedPush = 16 << 10
