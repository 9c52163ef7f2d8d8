package api

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// streamProtocol is the WebSocket subprotocol that docs/stream.md describes.
const streamProtocol = "daybook.v1"

const (
	defaultStreamHeartbeat = 5 * time.Second
	// A stream is closed when its client has not answered missedHeartbeats pings in a row.
	missedHeartbeats = 3
)

// stream is one connection that carries many requests, and jobs as soon as there are any. Its goroutines are: the one
// that reads messages, one for each request that waits for the engine, and one for each subscription.
type stream struct {
	s     *Server
	conn  *websocket.Conn
	under *connection // nil in tests that do not use Run
	id    string

	answers  answerQueue
	requests requestWindow
	holding  holding
	hello    helloFields // zero before hello; only the goroutine that reads writes it
	greeted  bool

	pushing       context.Context // ends when the stream gets no more jobs
	stop          context.CancelFunc
	subscriptions subscriptions

	heart     *time.Timer
	missed    int           // pings without an answer; only beat uses it
	done      chan struct{} // closed when nothing of the stream runs any more
	successor bool          // another stream takes the claims of this one; guarded by streams.mu
}

// stream answers GET /stream.
func (s *Server) stream(c echo.Context) error {
	r := c.Request()
	if err := checkUpgrade(c); err != nil {
		return err
	}
	if s.draining.Err() != nil {
		return errShuttingDown
	}
	s.streams.running.Add(1)
	conn, err := websocket.Accept(c.Response(), r, &websocket.AcceptOptions{
		Subprotocols:       []string{streamProtocol},
		InsecureSkipVerify: true, // guard has checked Host and Origin
	})
	if err != nil {
		s.streams.running.Done()
		return err
	}
	under := connectionOf(r)
	if under != nil {
		under.upgraded()
	}
	conn.SetReadLimit(maxBodyBytes)
	// The goroutine of the request has a large stack, and refers to the request. Ten thousand streams may wait.
	go func() {
		defer s.streams.running.Done()
		newStream(s, conn, under).run()
	}()
	return nil
}

// checkUpgrade refuses a request that does not begin a WebSocket with the subprotocol of streams.
func checkUpgrade(c echo.Context) error {
	r, h := c.Request(), c.Response().Header()
	if !r.ProtoAtLeast(1, 1) || r.Method != http.MethodGet || !headerHas(r, echo.HeaderConnection, "upgrade") || !headerHas(r, echo.HeaderUpgrade, "websocket") {
		h.Set(echo.HeaderUpgrade, "websocket")
		h.Set(echo.HeaderConnection, "Upgrade")
		return &problem{status: http.StatusUpgradeRequired, code: "upgrade_required", detail: "a stream is a WebSocket; send the headers Connection: Upgrade and Upgrade: websocket with HTTP/1.1 (docs/stream.md)"}
	}
	if r.Header.Get("Sec-WebSocket-Version") != "13" {
		h.Set("Sec-WebSocket-Version", "13")
		return &problem{status: http.StatusUpgradeRequired, code: "upgrade_required", field: "Sec-WebSocket-Version", detail: "Sec-WebSocket-Version must be 13"}
	}
	if keys := r.Header.Values("Sec-WebSocket-Key"); len(keys) != 1 || !isWebSocketKey(keys[0]) {
		return badRequest("Sec-WebSocket-Key", "Sec-WebSocket-Key must be given once, and be the base64 of 16 bytes")
	}
	if !headerHas(r, "Sec-WebSocket-Protocol", streamProtocol) {
		return badRequest("Sec-WebSocket-Protocol", "Sec-WebSocket-Protocol must offer "+streamProtocol)
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

func newStream(s *Server, conn *websocket.Conn, under *connection) *stream {
	t := &stream{s: s, conn: conn, under: under, id: rand.Text(), done: make(chan struct{})}
	t.pushing, t.stop = context.WithCancel(context.Background())
	t.requests.init()
	t.answers.init(t)
	t.holding.init(&s.streams, t)
	return t
}

// run serves the stream until its connection ends.
func (t *stream) run() {
	all := &t.s.streams
	all.add(t)
	defer close(t.done)
	goAway := context.AfterFunc(t.s.draining, t.goAway)
	defer goAway()
	t.heart = time.AfterFunc(all.heartbeat, t.beat)
	err := t.guarded(t.read)
	if errors.Is(err, errPanic) {
		t.s.log.Error().AnErr("error", err).Msg("a stream has ended")
	}
	t.end(err)
}

// read serves the messages of the stream until the connection ends. The error says why the server ends it, if it does.
func (t *stream) read() error {
	for {
		m, err := t.receive()
		if err != nil {
			return err
		}
		err = t.serve(m)
		m.release()
		if err != nil {
			return err
		}
	}
}

// end closes the connection and waits until nothing of the stream runs any more. Then the claims of the stream go back,
// unless the stream lingers, or its client continues with another stream, or the server shuts down: leases then bound
// how long the jobs stay claimed.
func (t *stream) end(why error) {
	if websocket.CloseStatus(why) == websocket.StatusNormalClosure { // the client does not intend to come back
		t.hello.lingerMs = 0
	}
	if broken, ok := errors.AsType[*protocolError](why); ok {
		_ = t.conn.Close(broken.status, broken.reason) // if the client has gone, it need not know
	}
	_ = t.conn.CloseNow() // no error that matters: nothing is written any more
	t.stop()
	t.heart.Stop()
	t.requests.drain()
	t.subscriptions.running.Wait()
	t.s.streams.ended(t)
}

// goAway ends the stream when the server shuts down. Before that, it answers the requests that it has received, and
// sends the jobs that it has claimed.
func (t *stream) goAway() {
	t.stop()
	t.requests.drain()
	t.subscriptions.running.Wait()
	t.answers.flush()
	_ = t.conn.Close(websocket.StatusGoingAway, errShuttingDown.Error()) // ends read, also if the client does not answer
}

// beat sends a ping and waits for the pong. A stream whose messages the server does not read at the moment, because
// too many of its requests are under way, misses no heartbeat: its pong waits behind these messages.
func (t *stream) beat() {
	began := time.Now()
	period := t.s.streams.heartbeat
	ctx, cancel := context.WithTimeout(context.Background(), period)
	defer cancel()
	if err := t.conn.Ping(ctx); err == nil || t.requests.full() {
		t.missed = 0
	} else if t.missed++; t.missed >= missedHeartbeats {
		_ = t.conn.CloseNow() // the client does not answer, so a closing handshake would only wait
		return
	}
	select {
	case <-t.pushing.Done():
		return
	default:
	}
	t.checkLeases()
	t.heart.Reset(max(0, period-time.Since(began)))
}

// protocolError ends a stream because its client breaks the protocol, or sends something that cannot be answered by
// number.
type protocolError struct {
	status websocket.StatusCode
	reason string // at most 123 bytes
}

func (e *protocolError) Error() string { return e.reason }

// streams are all streams that are open or linger.
type streams struct {
	heartbeat time.Duration
	running   sync.WaitGroup // handlers of streams

	mu        sync.Mutex
	all       map[string]*stream // by id
	lingering map[string]*lingerer
	holders   map[job.ID]*stream // of claims, so that other requests can tell a stream that its jobs have ended
}

// holds notes which stream holds a claim; nil: none.
func (l *streams) holds(claim job.ID, t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t != nil {
		l.holders[claim] = t
	} else {
		delete(l.holders, claim)
	}
}

// holder returns the stream that holds a claim; nil if there is none.
func (l *streams) holder(claim job.ID) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[claim]
}

// completed tells the stream that holds the claim of a completion what became of its jobs.
func (l *streams) completed(cmd *job.Complete, result *store.Ended) {
	if t := l.holder(cmd.Claim); t != nil {
		t.holding.completed(cmd, result)
	}
}

// completedAll is completed for the commands of a request, of which the first have results.
func (l *streams) completedAll(commands []job.Complete, results []store.Ended) {
	for i := range results {
		l.completed(&commands[i], &results[i])
	}
}

// tickled tells the stream that holds the claim of a tickle which of its jobs are lost.
func (l *streams) tickled(cmd *job.Tickle, result *store.Tickled) {
	if t := l.holder(cmd.Claim); t != nil {
		t.holding.tickled(cmd, result)
	}
}

// lingerer is a stream whose connection has ended and whose claims wait for its client.
type lingerer struct {
	timer  *time.Timer
	claims []*heldClaim
	runner string
}

const (
	// maxLinger bounds linger_ms: longer leases would be of use to nobody.
	maxLinger = 10 * time.Minute
	// maxLingering bounds the streams that linger. The claims of more go back at once.
	maxLingering = 1 << 14
)

func (l *streams) add(t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[t.id] = t
}

// count returns how many streams are open, and how many linger.
func (l *streams) count() (open, lingering int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all), len(l.lingering)
}

// wait waits until no stream is open, at most until ctx is done.
func (l *streams) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		l.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("stop serving: streams did not end in time")
	}
}

// ended removes a stream, and decides what becomes of its claims.
func (l *streams) ended(t *stream) {
	claims := t.holding.takeAll()
	l.mu.Lock()
	delete(l.all, t.id)
	linger := time.Duration(t.hello.lingerMs) * time.Millisecond
	kept := &lingerer{claims: claims, runner: t.hello.runner}
	switch {
	case len(claims) == 0, t.s.draining.Err() != nil:
		l.mu.Unlock()
		return
	case t.successor: // takes them
		l.lingering[t.id] = kept
		l.mu.Unlock()
		return
	case linger > 0 && len(l.lingering) < maxLingering:
		kept.timer = time.AfterFunc(linger, func() {
			l.mu.Lock()
			_, there := l.lingering[t.id]
			delete(l.lingering, t.id)
			l.mu.Unlock()
			if there {
				t.s.giveBack(kept.claims)
			}
		})
		l.lingering[t.id] = kept
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	t.s.giveBack(claims)
}

// takeOver ends the stream with an id, if it is still open, and returns the claims that it held; nil if there is none
// with this id.
func (l *streams) takeOver(id string) *lingerer {
	l.mu.Lock()
	old := l.all[id]
	if old != nil {
		if old.successor { // another stream is taking over
			l.mu.Unlock()
			return nil
		}
		old.successor = true
	}
	l.mu.Unlock()
	if old != nil {
		_ = old.conn.CloseNow() // the client has another connection now
		<-old.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.lingering[id]
	if kept == nil || kept.timer != nil && !kept.timer.Stop() {
		return nil
	}
	delete(l.lingering, id)
	return kept
}

// giveBack returns the jobs of claims to their queues, without costing them an attempt. Claims that another stream has
// taken over stay.
func (s *Server) giveBack(claims []*heldClaim) {
	commands := make([]job.Complete, 0, len(claims))
	for _, c := range claims {
		if s.streams.holder(c.id) != nil {
			continue
		}
		commands = append(commands, job.Complete{Claim: c.id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
	}
	if len(commands) == 0 {
		return
	}
	if _, _, err := s.engine.CompleteInOrder(context.Background(), commands); err != nil {
		s.log.Error().Err(err).Int("claims", len(claims)).Msg("cannot release the jobs of a stream that ended; they stay claimed until their leases end")
	}
}
