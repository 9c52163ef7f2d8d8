package stream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/rates"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Options are the parts of the server that streams use.
type Options struct {
	Engine backend.Engine
	Decode *command.Decoder
	Log    zerolog.Logger
	// Authorize returns the key that credentials stand for, which must have one of the roles, or nil if no key is needed. Access
	// has the roles of the verbs.
	Authorize func(c web.Credentials, roles job.Roles) (*job.Key, error)
	Access    map[string]job.Roles
	Rates     *rates.Rates
	// Draining is done when the shutdown begins.
	Draining context.Context
	// Heartbeat is the time between two pings of a stream. 0 means defaultStreamHeartbeat.
	Heartbeat time.Duration
	// Connections is the largest number of open connections. Streams take only a part of them.
	Connections int
	Bulk        *web.Lane // for long messages with creates
	Control     *web.Lane // for other messages
	Handouts    *web.Lane // for jobs that are sent
	Changes     *web.Lane // for long answers
	Waiting     *web.Lane // for outstanding requests, beside their messages and answers
	Jobs        *web.Lane // for subscriptions, and the claims that streams hold
	Pages       web.Turns // to read claims
	Registry    *prometheus.Registry
	// Requests are the metrics of the server's requests. Those of streams are among them.
	Requests *web.RequestMetrics
}

// Streams are all open and lingering streams.
type Streams struct {
	Options
	running   sync.WaitGroup // handlers of streams
	room      streamRoom
	finishers finishers
	verbs     map[string]*web.RouteMetrics // by name

	messages     web.BodyRule
	bulkMessages web.BodyRule

	mu        sync.Mutex
	all       map[string]*stream   // by id
	lingering map[string]*lingerer // by the id of the stream
	holders   map[job.ID]holder    // of claims
}

// holder is the holder of a claim: a stream, or a lingerer. If both are nil, the claim is going back to its queue. A
// claim that is not in streams.holders is bound only by its lease.
type holder struct {
	stream   *stream
	lingerer *lingerer
}

// lingerer is a stream whose connection has ended and whose claims wait for its runner.
type lingerer struct {
	id     string
	runner string
	scope  *job.Scope            // of its key
	until  time.Time             // when all claims go back
	timer  *time.Timer           // for the claims that go back next; nil: a successor decides
	claims map[job.ID]*heldClaim // guarded by streams.mu
	held   *web.Share            // share of their memory
}

const (
	// maxLinger bounds linger_ms. A runner that has not reconnected by then has ended.
	maxLinger = 10 * time.Minute
	// streamsEnd is the longest time in which streams may end after their connections are closed: begun requests are
	// carried out.
	streamsEnd = 5 * time.Second
	// maxLingering bounds the lingering streams to the number of streams that may be open. If another stream ends, its
	// claims go back at once.
	maxLingering = web.DefaultMaxConnections
)

// New returns a server's streams, of which none is open.
func New(o Options) *Streams {
	o.Heartbeat = cmp.Or(o.Heartbeat, defaultStreamHeartbeat)
	l := &Streams{
		Options: o, room: newStreamRoom(o), verbs: map[string]*web.RouteMetrics{},
		messages: web.BodyRule{Lane: o.Control, Limit: web.MaxBodyBytes}, bulkMessages: web.BodyRule{Lane: o.Bulk, Limit: web.MaxBodyBytes},
		all: map[string]*stream{}, lingering: map[string]*lingerer{}, holders: map[job.ID]holder{},
	}
	l.finishers.init(o.Draining.Done())
	for _, v := range append(streamVerbs, verbUnknown) {
		l.verbs[v.name] = o.Requests.Of("stream", v.name, true)
	}
	l.register(o.Registry)
	return l
}

func (l *Streams) add(t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[t.id] = t
}

// greet records the settings of a stream.
func (l *Streams) greet(t *stream, h helloFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.hello = h
}

// snapshot returns the open streams.
func (l *Streams) snapshot() []*stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.all))
}

// Count returns the number of open streams and of lingering streams.
func (l *Streams) Count() (open, lingering int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all), len(l.lingering)
}

// hold records that a stream holds a new claim.
func (l *Streams) hold(claim job.ID, t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[claim] = holder{stream: t}
}

// forget records that a stream no longer holds a claim, unless another stream has taken the claim over.
func (l *Streams) forget(claim job.ID, t *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders[claim].stream == t {
		delete(l.holders, claim)
	}
}

// going marks a claim as going back to its queue.
func (l *Streams) going(claim job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[claim] = holder{}
}

// adopt makes a stream hold a claim that its runner already has. If the claim lingered, adopt returns the record of it.
// If another stream held it, adopt returns that stream. It reports false if the claim is going back to its queue, or
// the stream already holds it.
func (l *Streams) adopt(claim job.ID, t *stream) (kept *heldClaim, before *stream, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, there := l.holders[claim]
	if there && (h == (holder{}) || h.stream == t) {
		return nil, nil, false
	}
	if h.lingerer != nil {
		kept = h.lingerer.claims[claim]
		delete(h.lingerer.claims, claim)
	}
	l.holders[claim] = holder{stream: t}
	return kept, h.stream, true
}

// holding returns the holding with a claim, or nil if no stream holds it. A lingering claim lingers no longer, because
// its runner uses it in other requests and its lease bounds it. Ids can be guessed, and Apply answers a key that is not for the jobs
// of a claim as if the claim were lost. So a refusal counts only for a key that is for all that the stream's key is for; sees is
// whether the result shows that the sender's key is for the claim.
func (l *Streams) holding(ctx context.Context, claim job.ID, sees bool) *holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holders[claim]
	if !sees && !h.mayRefuse(&job.KeyOf(ctx).By().Scope) {
		return nil
	}
	if h.lingerer != nil {
		delete(h.lingerer.claims, claim)
		delete(l.holders, claim)
	}
	if h.stream == nil {
		return nil
	}
	return &h.stream.holding
}

// Completed reports the results of completions to the streams that hold their claims. results may cover only the first
// commands.
func (l *Streams) Completed(ctx context.Context, commands []job.Complete, results []applied.Ended) {
	granted := func(r applied.JobResult) bool { return r.Refusal == job.Granted }
	for i := range results {
		r := results[i]
		sees := r.All > 0 || slices.ContainsFunc(r.Results, granted)
		h := l.holding(ctx, commands[i].Claim, sees)
		if h == nil {
			continue
		}
		if !(holder{stream: h.t}).mayRefuse(&job.KeyOf(ctx).By().Scope) { // of a stream of several clients, the key may see some jobs
			r.Results = slices.DeleteFunc(slices.Clone(r.Results), func(r applied.JobResult) bool { return !granted(r) })
		}
		h.completed(&commands[i], &r)
	}
}

// End carries out the commands of a completion. It returns the results of all commands, and the journal position of the
// last one. If a command fails after others were applied, the outcome of the request is unknown. The client finds it
// out by a repeat of the request.
func (l *Streams) End(ctx context.Context, done *command.Completion) (all applied.Ended, seq uint64, err error) {
	ended, receipt, err := l.Engine.CompleteInOrder(ctx, done.Commands)
	l.Completed(ctx, done.Commands, ended)
	return command.JoinEnded(ended, receipt, err)
}

// Tickled reports the result of a tickle, and its time in the log, to the stream that holds its claim.
func (l *Streams) Tickled(ctx context.Context, cmd *job.Tickle, result *applied.Tickled, at int64) {
	if h := l.holding(ctx, cmd.Claim, result.Held > 0); h != nil {
		h.tickled(cmd, result, at)
	}
}

// Wait waits until no stream is open. When ctx is done, it closes the connections of the remaining streams.
func (l *Streams) Wait(ctx context.Context) error {
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
	for _, t := range l.snapshot() {
		t.cut() // the drain time is over
	}
	timer := time.NewTimer(streamsEnd)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return errors.New("stop serving: streams did not end in time")
	}
}

// ended removes a stream, and decides for each of its claims whether it lingers, goes back to its queue or stays with
// the runner.
func (l *Streams) ended(t *stream) {
	claims, held := t.holding.takeAll()
	l.room.left(t)
	l.mu.Lock()
	delete(l.all, t.id)
	linger := time.Duration(t.hello.lingerMs) * time.Millisecond
	kept := &lingerer{id: t.id, runner: t.hello.runner, scope: &job.KeyOf(t.ctx).By().Scope, until: time.Now().Add(linger), claims: map[job.ID]*heldClaim{}, held: held}
	keep := t.s.Draining.Err() != nil // leases bound the claims
	if t.lost {
		linger = 0
	}
	lingers := !keep && (t.successor || linger > 0 && len(l.lingering) < maxLingering)
	var back []*heldClaim
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
			back = append(back, c)
		}
	}
	if len(kept.claims) > 0 {
		l.lingering[t.id] = kept
		if !t.successor {
			kept.timer = time.AfterFunc(time.Until(kept.next()), func() { t.s.expireDue(kept) })
		}
	} else {
		held.Release()
	}
	l.mu.Unlock()
	t.s.giveBack(back)
}

// next returns the time when the first of the claims goes back.
func (k *lingerer) next() time.Time {
	next := k.until
	for _, c := range k.claims {
		if due := c.beforeLeaseEnds(); due.Before(next) {
			next = due
		}
	}
	return next
}

// expire ends the time of a lingerer, and returns the claims that go back.
func (l *Streams) expire(kept *lingerer) (back []*heldClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expireAt(kept, kept.until)
}

// expireDue gives back the claims of a lingerer whose time is over, and waits for the next ones. Before a lease ends it
// looks up the claim in the state, because tickles that the stream did not see, and a start of the server, make leases
// end later than the lingerer records.
func (l *Streams) expireDue(kept *lingerer) {
	now := time.Now() // claims that become due later are looked up first, by the next call
	for _, id := range l.due(kept, now) {
		ends := l.leasesEnd(id)
		l.mu.Lock()
		if c := kept.claims[id]; c != nil {
			c.since = ends.Add(-c.lease)
		}
		l.mu.Unlock()
	}
	l.mu.Lock()
	var back []*heldClaim
	if kept.timer != nil {
		back = l.expireAt(kept, now)
	}
	l.mu.Unlock()
	l.giveBack(back)
}

// due returns the claims of a lingerer whose leases seem to end. It returns none if the lingerer's time is over,
// because then all of them go back.
func (l *Streams) due(kept *lingerer, now time.Time) (claims []job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lingering[kept.id] != kept || kept.timer == nil || !now.Before(kept.until) {
		return nil
	}
	for id, c := range kept.claims {
		if c.isDue(now) {
			claims = append(claims, id)
		}
	}
	return claims
}

// leasesEnd returns when the first lease of the claim's jobs ends, or the zero time if the claim holds no jobs or they
// cannot be read.
func (l *Streams) leasesEnd(claim job.ID) time.Time {
	var jobs []job.Job
	err := l.Pages.Do(context.Background(), func() (err error) {
		_, jobs, err = l.Engine.ClaimDocument(claim, 0)
		return err
	})
	if err != nil || len(jobs) == 0 {
		return time.Time{}
	}
	return l.firstLeaseEnd(jobs)
}

// firstLeaseEnd returns when the first lease of active jobs ends.
func (l *Streams) firstLeaseEnd(jobs []job.Job) time.Time {
	first := int64(math.MaxInt64)
	for i := range jobs {
		first = min(first, jobs[i].DeadlineAt)
	}
	return time.Now().Add(time.Duration(min(first-l.Decode.Now(), job.MaxLeaseMs)) * time.Millisecond)
}

// expireAt removes the due claims of a lingerer, or all of its claims if its time is over, and returns them marked as
// going back. The caller holds l.mu.
func (l *Streams) expireAt(kept *lingerer, now time.Time) (back []*heldClaim) {
	if l.lingering[kept.id] != kept {
		return nil
	}
	over := !now.Before(kept.until)
	for id, c := range kept.claims {
		if over || c.isDue(now) {
			delete(kept.claims, id)
			l.holders[id] = holder{}
			back = append(back, c)
		}
	}
	if len(kept.claims) == 0 {
		delete(l.lingering, kept.id)
		kept.held.Release()
	} else {
		kept.timer.Reset(time.Until(kept.next()))
	}
	return back
}

// takeOver ends the stream with an id, if it is open and belongs to the runner, and returns its lingerer. It returns
// nil if the stream has none.
func (l *Streams) takeOver(id, runner string) *lingerer {
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
		old.cut() // the client has another connection now
		<-old.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.lingering[id]
	if kept == nil || kept.runner != runner {
		return nil
	}
	if kept.timer != nil {
		kept.timer.Stop()
		kept.timer = nil
	}
	return kept
}

// Lose stops all work of streams for a runner that was declared lost. It closes the runner's connections, and returns
// the jobs of its open and lingering streams at once. The channel is closed when that is done.
func (l *Streams) Lose(runner string) (returned <-chan struct{}) {
	var open []*stream
	var kept []*lingerer
	l.mu.Lock()
	for _, t := range l.all {
		if t.hello.runner == runner {
			t.lost = true
			open = append(open, t)
		}
	}
	for _, k := range l.lingering {
		if k.runner == runner {
			kept = append(kept, k)
		}
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, t := range open {
			t.stop()
			t.cut()
		}
		for _, k := range kept {
			l.giveBack(l.expire(k))
		}
		for _, t := range open {
			<-t.done
		}
	}()
	return done
}

// EndRefused ends the streams whose credentials are not good any more: a key was revoked, a key, token or login has ended, or the first key was made. Their
// jobs return to the queues, as the jobs of a lost runner do. It does not wait.
func (l *Streams) EndRefused() {
	for _, t := range l.snapshot() {
		if t.authorize("hello") == nil {
			continue
		}
		l.mu.Lock()
		t.lost = true
		l.mu.Unlock()
		go func() {
			t.stop()
			t.cut()
		}()
	}
}

// giveBack takes the jobs of claims from runners that have vanished; see heldClaim.given. The claims must already be
// marked as going back.
func (l *Streams) giveBack(claims []*heldClaim) {
	if len(claims) == 0 {
		return
	}
	var commands []job.Complete
	for _, c := range l.notElsewhere(claims) {
		commands = append(commands, c.given())
	}
	if _, _, err := l.Engine.CompleteInOrder(context.Background(), commands); err != nil {
		l.Log.Error().Err(err).Int("claims", len(claims)).Msg("cannot release the jobs of a stream that ended; they stay claimed until their leases end")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		delete(l.holders, c.id)
	}
}

// notElsewhere returns the claims that their runners do not continue at another node of the cluster. There, a claim is
// tickled when a stream takes it over.
func (l *Streams) notElsewhere(claims []*heldClaim) (here []*heldClaim) {
	if _, shared := l.Engine.Cluster(); !shared {
		return claims
	}
	if err := l.Engine.CatchUp(context.Background(), 0); err != nil {
		l.Log.Warn().Err(err).Int("claims", len(claims)).Msg("it is not known whether the runners of streams that ended use other nodes; their jobs stay claimed until their leases end")
		return nil
	}
	for _, c := range claims {
		err := l.Pages.Do(context.Background(), func() error {
			doc, _, err := l.Engine.ClaimDocument(c.id, 0)
			if err == nil && doc.TickledAt <= c.seen {
				here = append(here, c)
			}
			return err
		})
		if err != nil && !errors.Is(err, job.ClaimNotFound) {
			l.Log.Warn().Err(err).Stringer("claim_id", c.id).Msg("cannot read a claim of a stream that ended; its lease bounds it")
		}
	}
	return here
}

// takeUp tickles a claim that a stream has taken over and no stream of this server held, so that the node that held it
// before does not return its jobs.
func (t *stream) takeUp(c *heldClaim) {
	if _, shared := t.s.Engine.Cluster(); !shared {
		return
	}
	cmd := job.Tickle{Claim: c.id, Runner: t.hello.runner, Progress: -1}
	tickled, receipt, err := t.s.Engine.Tickle(t.ctx, cmd)
	if err != nil {
		t.s.Log.Warn().Err(err).Stringer("claim_id", c.id).Msg("cannot tickle a claim that a stream takes over")
		return
	}
	t.holding.tickled(&cmd, &tickled, receipt.At)
}

// register registers the metrics of streams.
func (l *Streams) register(registry *prometheus.Registry) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("daybook_streams", "Open streams.", func() float64 { open, _ := l.Count(); return float64(open) })
	gauge("daybook_streams_lingering", "Streams whose connection has ended and whose claims wait for their client.", func() float64 { _, lingering := l.Count(); return float64(lingering) })
	gauge("daybook_streams_limit", "How many streams can be open at once.", func() float64 { return float64(l.room.most) })
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "daybook_streams_evicted_total", Help: "Streams without a request, a subscription and jobs that the server closed to make room for other streams and connections.",
	}, func() float64 { return float64(l.room.evictions()) }))
}
