package stream

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/wsframe"
	"github.com/daybookq/daybook/job"
)

// Protocol is the WebSocket subprotocol that docs/reference/stream.md describes.
const Protocol = "daybook.v1"

const (
	defaultStreamHeartbeat = 5 * time.Second
	// A stream is closed when its client has not answered MissedHeartbeats pings in a row.
	MissedHeartbeats = 3
)

// Serve is a connection that carries many requests, and jobs as soon as there are any. Its goroutines are the reader
// of messages, a finisher for each request that waits for the engine, and one goroutine for each subscription.
type stream struct {
	s        *Streams
	conn     *websocket.Conn
	accepted *web.Connection // below conn; nil in tests that do not use Run
	id       string
	// credentials are those of the request that opened it. ctx has its key, and never ends.
	credentials web.Credentials
	ctx         context.Context

	answers  answerQueue
	requests requestWindow
	holding  holding
	hello    helloFields // zero before hello; only the goroutine that reads writes it
	greeted  atomic.Bool

	pushing       context.Context // ends when the stream gets no more jobs
	stop          context.CancelFunc
	subscriptions subscriptions

	controls  int       // pings and pongs of the client since counted; only the goroutine that reads uses both
	counted   time.Time // at most a second ago
	pings     *time.Timer
	reading   atomic.Bool   // the server is reading from the connection
	receiving atomic.Bool   // a part of a message has arrived
	missed    int           // pings without an answer; only ping uses it
	done      chan struct{} // closed when all goroutines of the stream have ended
	successor bool          // another stream takes the claims of this one; streams.mu guards it, and the writes of hello
	lost      bool          // its runner was declared lost; streams.mu guards it
	heard     atomic.Uint64 // the silence of the runner (Engine.Silence) after which its client has shown life
	client    string        // whose place it has; see job.Owner
	evicted   bool          // its place is already free; streamRoom.mu guards it
}

// Serve answers GET /stream.
func (l *Streams) Serve(c echo.Context) error {
	r := c.Request()
	if err := checkUpgrade(c); err != nil {
		return err
	}
	if l.Draining.Err() != nil {
		return web.ErrShuttingDown
	}
	accepted, key := web.ConnectionOf(r), job.KeyOf(r.Context())
	leave, err := l.Rates.Stream(key)
	if err != nil {
		return err
	}
	owner := job.OwnerOf(r.Context(), func() int { return l.Engine.OwnersOfKeys() })
	if err := l.admit(owner); err != nil {
		leave()
		return err
	}
	l.running.Add(1)
	var t *stream // set before anything is read
	conn, err := wsframe.Accept(c.Response(), r, &websocket.AcceptOptions{
		Subprotocols:       []string{Protocol},
		InsecureSkipVerify: true, // guard has checked Host and Origin
		OnPingReceived:     func(context.Context, []byte) bool { return t.control() },
		OnPongReceived:     func(context.Context, []byte) { t.control() },
	}, web.MaxBodyBytes)
	if err != nil {
		l.room.leave(owner.Client)
		leave()
		l.running.Done()
		return err
	}
	credentials := web.CredentialsOf(r, web.Access{}).Clone()
	if accepted != nil {
		accepted.Upgraded()
	}
	// The goroutine of the request has a large stack, and refers to the request. Ten thousand streams may be waiting,
	// so each continues in a new goroutine.
	go func() {
		defer l.running.Done()
		defer leave()
		t = newStream(l, conn, accepted)
		t.credentials, t.ctx, t.client = credentials, job.WithKey(t.ctx, key), owner.Client
		t.run()
	}()
	return nil
}

// checkUpgrade refuses a request that does not begin a WebSocket with the subprotocol of streams.
func checkUpgrade(c echo.Context) error {
	r, h := c.Request(), c.Response().Header()
	if !r.ProtoAtLeast(1, 1) || r.Method != http.MethodGet || !headerHas(r, echo.HeaderConnection, "upgrade") || !headerHas(r, echo.HeaderUpgrade, "websocket") {
		h.Set(echo.HeaderUpgrade, "websocket")
		h.Set(echo.HeaderConnection, "Upgrade")
		return &web.Problem{Status: http.StatusUpgradeRequired, Code: "upgrade_required", Detail: "a stream is a WebSocket; send the headers Connection: Upgrade and Upgrade: websocket with HTTP/1.1 (docs/reference/stream.md)"}
	}
	if r.Header.Get("Sec-WebSocket-Version") != "13" {
		h.Set("Sec-WebSocket-Version", "13")
		return &web.Problem{Status: http.StatusUpgradeRequired, Code: "upgrade_required", Field: "Sec-WebSocket-Version", Detail: "Sec-WebSocket-Version must be 13"}
	}
	if keys := r.Header.Values("Sec-WebSocket-Key"); len(keys) != 1 || !isWebSocketKey(keys[0]) {
		return web.BadRequest("Sec-WebSocket-Key", "Sec-WebSocket-Key must be given once, and be the base64 of 16 bytes")
	}
	if !headerHas(r, "Sec-WebSocket-Protocol", Protocol) {
		return web.BadRequest("Sec-WebSocket-Protocol", "Sec-WebSocket-Protocol must offer "+Protocol)
	}
	return nil
}

func isWebSocketKey(key string) bool {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	return err == nil && len(b) == 16
}

// headerHas reports whether a header, which is a list, has a token.
func headerHas(r *http.Request, name, token string) bool {
	return slices.ContainsFunc(r.Header.Values(name), func(value string) bool {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
		return false
	})
}

func newStream(s *Streams, conn *websocket.Conn, accepted *web.Connection) *stream {
	t := &stream{s: s, conn: conn, accepted: accepted, id: rand.Text(), done: make(chan struct{}), ctx: context.Background()}
	t.pushing, t.stop = context.WithCancel(context.Background())
	t.requests.init(t.pushing, t.share(s.room.requests))
	t.answers.init(t)
	t.holding.init(s, t)
	return t
}

// share returns an empty share of a lane for this stream.
func (t *stream) share(from *web.Lane) web.Share {
	s := web.Share{Lane: from}
	if t.accepted != nil {
		s.Peer = t.accepted.Peer
	}
	return s
}

// run serves the stream until its connection ends.
func (t *stream) run() {
	all := t.s
	all.add(t)
	defer close(t.done)
	goAway := context.AfterFunc(t.s.Draining, func() { t.goAway(web.ErrShuttingDown.Error()) })
	defer goAway()
	t.pings = time.AfterFunc(all.Heartbeat, t.ping)
	err := t.guarded(t.read)
	if errors.Is(err, web.ErrPanic) {
		t.s.Log.Error().AnErr("error", err).Msg("a stream has ended")
	}
	t.end(err)
}

// read serves the messages of the stream until the connection ends. If the server ends it, the error is the reason.
func (t *stream) read() error {
	for {
		t.reading.Store(true)
		m, err := t.receive()
		if err != nil {
			return err
		}
		t.reading.Store(false)
		err = t.serve(m)
		t.s.Rates.Sent(job.KeyOf(t.ctx), m.counted)
		m.Release()
		if err != nil {
			return err
		}
	}
}

// end closes the connection and waits until all goroutines of the stream have ended. Then the claims of the stream go
// back to their queues, except in three cases: the stream lingers, its client continues with another stream, or the
// server shuts down. Leases then bound how long the jobs stay claimed.
func (t *stream) end(why error) {
	if websocket.CloseStatus(why) == websocket.StatusNormalClosure { // the client does not intend to continue
		t.hello.lingerMs = 0
	}
	if broken, ok := errors.AsType[*protocolError](why); ok {
		_ = t.conn.Close(broken.status, broken.reason) // if the client has gone, it need not know
	}
	_ = t.conn.CloseNow() // the error does not matter: nothing is written after it
	t.stop()
	t.pings.Stop()
	t.requests.drain()
	t.subscriptions.running.Wait()
	t.s.ended(t)
}

// ping sends a ping and waits for the pong. It counts no missed heartbeat while the server does not read from the
// stream, nor if any other bytes arrive: the pong may be waiting after a long message.
func (t *stream) ping() {
	began := time.Now()
	period := t.s.Heartbeat
	ctx, cancel := context.WithTimeout(context.Background(), period)
	defer cancel()
	reading := t.reading.Load()
	if err := t.conn.Ping(ctx); err == nil || !reading || !t.reading.Load() || t.accepted != nil && t.accepted.HeardSince(began) {
		t.missed = 0
	} else if t.missed++; t.missed >= MissedHeartbeats {
		t.cut() // the client does not answer, so a closing handshake would only wait
		return
	}
	select {
	case <-t.pushing.Done():
		return
	default:
	}
	t.checkLeases()
	t.pings.Reset(max(0, period-time.Since(began)))
}

// MaxControls bounds the pings and pongs of a client in a second. A pong costs the server as much as a small request,
// and nothing else bounds how many it must send.
const MaxControls = 50

// control counts a ping or pong of the client. It reports false, and ends the connection, if there are too many.
func (t *stream) control() bool {
	if now := time.Now(); now.Sub(t.counted) > time.Second {
		t.counted, t.controls = now, 0
	}
	if t.controls++; t.controls <= MaxControls {
		return true
	}
	t.cut()
	return false
}

// cut ends the connection at once, even if a closing handshake is waiting for the client. CloseNow would wait for that
// handshake.
func (t *stream) cut() {
	if t.accepted == nil {
		_ = t.conn.CloseNow() // nothing is left to do
		return
	}
	_ = t.accepted.Close() // then read ends, and after it the stream
}

// protocolError ends a stream because its client breaks the protocol, or sends a message without a number to answer
// under.
type protocolError struct {
	status websocket.StatusCode
	reason string // at most 123 bytes
}

func (e *protocolError) Error() string { return e.reason }

// unusedSince returns the time of the stream's last request. unused is false if the stream has a subscription or jobs,
// or is receiving a message: a long one may arrive slowly.
func (t *stream) unusedSince() (since time.Time, unused bool) {
	since, unused = t.requests.idleSince()
	return since, unused && !t.receiving.Load() && t.subscriptions.count() == 0 && t.holding.size() == 0
}

// leaveUnused ends the stream if it is still unused. It does not wait for the end.
func (t *stream) leaveUnused() bool {
	since, unused := t.unusedSince()
	if !unused || !t.requests.closeIdle(since) {
		return false
	}
	t.evicted = true
	go func() {
		late := time.AfterFunc(web.IdleGrace, t.cut) // the client need not answer
		defer late.Stop()
		t.goAway("the server needs the place of a stream that is not in use")
	}()
	return true
}

// StatusDone means that the server has answered every request that it has carried out. It is a private code: proxies
// such as Caddy send 1001 when they are reconfigured, and do not know which requests the server has carried out.
const StatusDone = websocket.StatusCode(4001)

// goAway ends a stream because the server must close it. Before that, the server answers the requests that it has
// received, and sends the jobs that it has claimed. So a request without an answer was not carried out.
func (t *stream) goAway(reason string) {
	t.stop()
	t.requests.drain()
	t.subscriptions.running.Wait()
	t.answers.flush()
	_ = t.conn.Close(StatusDone, reason) // ends read, even if the client does not answer
}

// helloFields are the settings of a stream.
type helloFields struct {
	runner   string
	lingerMs int64
	runs     bool // jobs are sent in runs
}

// guarded calls f, and turns a panic into an error with the stack: a request must not end the process.
func (t *stream) guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = web.Panicked(r)
		}
	}()
	return f()
}

// Request and About describe the request for a stream.
type Request struct {
	Protocol string `header:"Sec-WebSocket-Protocol" required:"true" doc:"daybook.v1, beside others if the client likes"`
}

var About = operation.About{
	ID: "stream", Tag: "Running", Summary: "Open a stream",
	Text: "A WebSocket with the subprotocol daybook.v1, which carries requests of runners and producers and sends jobs as\n" +
		"soon as there are any. docs/reference/stream.md has its messages.\n",
	Replies:   []operation.Reply{{Status: http.StatusSwitchingProtocols, Text: "The connection is a WebSocket now."}},
	Refusals:  []int{http.StatusUpgradeRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable},
	Faultless: true,
}
