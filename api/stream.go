package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	s        *Server
	conn     *websocket.Conn
	accepted *connection // below conn; nil in tests that do not use Run
	id       string

	answers  answerQueue
	requests requestWindow
	holding  holding
	hello    helloFields // zero before hello; only the goroutine that reads writes it
	greeted  atomic.Bool

	pushing       context.Context // ends when the stream gets no more jobs
	stop          context.CancelFunc
	subscriptions subscriptions

	pings     *time.Timer
	reading   atomic.Bool   // whether the server reads from the connection
	missed    int           // pings without an answer; only ping uses it
	done      chan struct{} // closed when nothing of the stream runs any more
	successor bool          // another stream takes the claims of this one; streams.mu guards it, and the writes of hello
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
	accepted := connectionOf(r)
	if accepted != nil {
		accepted.upgraded()
	}
	conn.SetReadLimit(maxBodyBytes)
	// The goroutine of the request has a large stack, and refers to the request. Ten thousand streams may wait.
	go func() {
		defer s.streams.running.Done()
		newStream(s, conn, accepted).run()
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

func newStream(s *Server, conn *websocket.Conn, accepted *connection) *stream {
	t := &stream{s: s, conn: conn, accepted: accepted, id: rand.Text(), done: make(chan struct{})}
	t.pushing, t.stop = context.WithCancel(context.Background())
	t.requests.init()
	t.answers.init(t)
	t.holding.init(&s.streams, t)
	return t
}

// share returns an empty share of a budget for this stream.
func (t *stream) share(from *budget) share {
	s := share{budget: from}
	if t.accepted != nil {
		s.peer = t.accepted.peer
	}
	return s
}

// run serves the stream until its connection ends.
func (t *stream) run() {
	all := &t.s.streams
	all.add(t)
	defer close(t.done)
	goAway := context.AfterFunc(t.s.draining, t.goAway)
	defer goAway()
	t.pings = time.AfterFunc(all.heartbeat, t.ping)
	err := t.guarded(t.read)
	if errors.Is(err, errPanic) {
		t.s.log.Error().AnErr("error", err).Msg("a stream has ended")
	}
	t.end(err)
}

// read serves the messages of the stream until the connection ends. The error says why the server ends it, if it does.
func (t *stream) read() error {
	for {
		t.reading.Store(true)
		m, err := t.receive()
		if err != nil {
			return err
		}
		t.reading.Store(false)
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
	t.pings.Stop()
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

// ping sends a ping and waits for the pong. A stream from which the server does not read at the moment misses no
// heartbeat, and neither does one that sends anything: its pong may wait behind a long message.
func (t *stream) ping() {
	began := time.Now()
	period := t.s.streams.heartbeat
	ctx, cancel := context.WithTimeout(context.Background(), period)
	defer cancel()
	reading := t.reading.Load()
	if err := t.conn.Ping(ctx); err == nil || !reading || !t.reading.Load() || t.accepted != nil && t.accepted.heardSince(began) {
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
	t.pings.Reset(max(0, period-time.Since(began)))
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
	all       map[string]*stream   // by id
	lingering map[string]*lingerer // by the id of the stream
	holders   map[job.ID]holder    // of claims
}

// holder is what becomes of a claim: a stream holds it, it lingers, or, with neither, it is going back to its queue. A
// claim that is not in streams.holders is bound by its lease alone.
type holder struct {
	stream   *stream
	lingerer *lingerer
}

// lingerer is a stream whose connection has ended and whose claims wait for its runner.
type lingerer struct {
	id     string
	runner string
	timer  *time.Timer
	claims map[job.ID]*heldClaim // guarded by streams.mu
}

const (
	// maxLinger bounds linger_ms: a runner that has not connected for so long has ended.
	maxLinger = 10 * time.Minute
	// maxLingering bounds the streams that linger, to as many as may be open. The claims of more go back at once.
	maxLingering = defaultMaxConnections
)

func (l *streams) init(heartbeat time.Duration) {
	l.heartbeat = cmp.Or(heartbeat, defaultStreamHeartbeat)
	l.all, l.lingering, l.holders = map[string]*stream{}, map[string]*lingerer{}, map[job.ID]holder{}
}

func (l *streams) add(t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[t.id] = t
}

// greet notes the settings of a stream.
func (l *streams) greet(t *stream, h helloFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.hello = h
}

// count returns how many streams are open, and how many linger.
func (l *streams) count() (open, lingering int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all), len(l.lingering)
}

// hold notes that a stream holds a new claim.
func (l *streams) hold(claim job.ID, t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[claim] = holder{stream: t}
}

// forget notes that a stream holds a claim no longer, unless another one has taken it over.
func (l *streams) forget(claim job.ID, t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders[claim].stream == t {
		delete(l.holders, claim)
	}
}

// adopt makes a stream hold a claim that its runner has from before, and returns the stream that held it. It reports
// false if the claim is going back to its queue, or the stream holds it already.
func (l *streams) adopt(claim job.ID, t *stream) (before *stream, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, there := l.holders[claim]
	if there && (h == (holder{}) || h.stream == t) {
		return nil, false
	}
	if h.lingerer != nil {
		delete(h.lingerer.claims, claim)
	}
	l.holders[claim] = holder{stream: t}
	return h.stream, true
}

// holding returns the holding with a claim; nil if no stream holds it. A claim that lingers lingers no longer: its
// runner uses it in other requests, and its lease bounds it.
func (l *streams) holding(claim job.ID) *holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holders[claim]
	if h.lingerer != nil {
		delete(h.lingerer.claims, claim)
		delete(l.holders, claim)
	}
	if h.stream == nil {
		return nil
	}
	return &h.stream.holding
}

// completed reports the results of completions to the streams that hold their claims. The first commands have results.
func (l *streams) completed(commands []job.Complete, results []store.Ended) {
	for i := range results {
		if h := l.holding(commands[i].Claim); h != nil {
			h.completed(&commands[i], &results[i])
		}
	}
}

// tickled reports the result of a tickle to the stream that holds its claim.
func (l *streams) tickled(cmd *job.Tickle, result *store.Tickled) {
	if h := l.holding(cmd.Claim); h != nil {
		h.tickled(cmd, result)
	}
}

// wait waits until no stream is open. When ctx is done, it closes the connections of those that are.
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
	}
	l.mu.Lock()
	open := slices.Collect(maps.Values(l.all))
	l.mu.Unlock()
	for _, t := range open {
		_ = t.conn.CloseNow() // the drain time is over
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return errors.New("stop serving: streams did not end in time")
	}
}

// ended removes a stream, and decides what becomes of its claims.
func (l *streams) ended(t *stream) {
	claims := t.holding.takeAll()
	l.mu.Lock()
	delete(l.all, t.id)
	kept := &lingerer{id: t.id, runner: t.hello.runner, claims: map[job.ID]*heldClaim{}}
	keep := t.s.draining.Err() != nil // leases bound the claims
	linger := time.Duration(t.hello.lingerMs) * time.Millisecond
	lingers := !keep && (t.successor || linger > 0 && len(l.lingering) < maxLingering)
	var back []job.ID
	for _, c := range claims {
		switch {
		case l.holders[c.id].stream != t: // another stream has taken it over
		case keep:
			delete(l.holders, c.id)
		case lingers:
			kept.claims[c.id] = c
			l.holders[c.id] = holder{lingerer: kept}
		default:
			l.holders[c.id] = holder{}
			back = append(back, c.id)
		}
	}
	if len(kept.claims) > 0 {
		l.lingering[t.id] = kept
		if !t.successor {
			kept.timer = time.AfterFunc(linger, func() { t.s.giveBack(l.expire(kept)) })
		}
	}
	l.mu.Unlock()
	t.s.giveBack(back)
}

// expire ends the time of a lingerer, and returns the claims that go back.
func (l *streams) expire(kept *lingerer) (back []job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lingering[kept.id] != kept {
		return nil
	}
	delete(l.lingering, kept.id)
	for id := range kept.claims {
		l.holders[id] = holder{}
		back = append(back, id)
	}
	return back
}

// takeOver ends the stream with an id, if it is open and belongs to the runner, and returns what lingers of it; nil if
// there is nothing.
func (l *streams) takeOver(id, runner string) *lingerer {
	l.mu.Lock()
	old := l.all[id]
	if old != nil && (old.successor || old.hello.runner != runner) {
		l.mu.Unlock()
		return nil
	}
	if old != nil {
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
	if kept == nil || kept.runner != runner {
		return nil
	}
	if kept.timer != nil {
		kept.timer.Stop() // expire does nothing if it runs already: kept is not the lingerer any more
	}
	return kept
}

// giveBack returns the jobs of claims, which must be marked as going back, to their queues without costing them an
// attempt.
func (s *Server) giveBack(claims []job.ID) {
	if len(claims) == 0 {
		return
	}
	commands := make([]job.Complete, len(claims))
	for i, id := range claims {
		commands[i] = job.Complete{Claim: id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	}
	if _, _, err := s.engine.CompleteInOrder(context.Background(), commands); err != nil {
		s.log.Error().Err(err).Int("claims", len(claims)).Msg("cannot release the jobs of a stream that ended; they stay claimed until their leases end")
	}
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	for _, id := range claims {
		delete(s.streams.holders, id)
	}
}
