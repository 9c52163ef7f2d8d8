package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

// The types of the jobs.
const (
	workedType  = "worked"  // for Workers of the Go client
	nextType    = "next"    // the jobs that follow jobs of workedType; their meta names the tag of the job before
	claimedType = "claimed" // for claimers, whose requests are histories for the model
)

// The lease of jobs is shorter than some of the faults, so that leases run out.
const (
	workedLease  = 3 * time.Second
	claimedLease = 1500 * time.Millisecond
)

// The size of the load.
const (
	producers  = 8
	workers    = 2
	claimers   = 3
	readers    = 2
	mostQueued = 600 // unfinished jobs, above which producers wait
)

// load are the users of a cluster, who know the addresses of all nodes. They go on while nodes fail.
type load struct {
	l    *ledger
	name string // begins all tags
	urls func(first int) string
	http *http.Client
	seed uint64

	// The contexts end one after the other. Producers begin no more requests after ctx, and the other users after rest. They
	// still repeat the requests that have begun until they are answered, unless the trial is given up.
	ctx, rest, given   context.Context
	end, endRest, give context.CancelFunc
	producers, others  sync.WaitGroup

	acked      atomic.Int64 // creates
	unfinished atomic.Int64 // acknowledged jobs that nobody has completed yet; about

	mu     sync.Mutex
	recent []read // acknowledged changes, for readers
	failed []error
}

// read is an acknowledged change that each later read must show.
type read struct {
	id        string
	completed bool
	output    string
}

func newLoad(l *ledger, name string, urls func(int) string, by *http.Client, seed uint64) *load {
	o := &load{l: l, name: name, urls: urls, http: by, seed: seed}
	o.ctx, o.end = context.WithCancel(context.Background())
	o.rest, o.endRest = context.WithCancel(context.Background())
	o.given, o.give = context.WithCancel(context.Background())
	return o
}

// start starts all users.
func (o *load) start(nodes []*rig.Node) {
	for i := range producers {
		o.producers.Go(func() { o.produce(i) })
	}
	for i := range workers {
		o.others.Go(func() { o.work(i) })
	}
	for i := range claimers {
		o.others.Go(func() { o.claimJobs(i) })
	}
	for i := range readers {
		o.others.Go(func() { o.read(i, nodes) })
	}
}

// finish ends the producers, and the other users once drained returns: then all jobs are completed.
func (o *load) finish(drained func() error) error {
	o.end()
	o.producers.Wait()
	err := drained()
	o.endRest()
	o.others.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(append(o.failed, err)...)
}

// abandon ends all users of a trial that has failed.
func (o *load) abandon() {
	o.end()
	o.endRest()
	o.give()
}

func (o *load) rng(role string, i int) *rand.Rand {
	return rand.New(rand.NewPCG(o.seed, uint64(len(role))<<32+uint64(i)))
}

// client returns a client of all nodes, that begins with the i-th one.
func (o *load) client(i int) *client.Client {
	return client.New(o.urls(i), client.Options{HTTP: o.http, RetryFor: 5 * time.Second, Timeout: 5 * time.Second})
}

// again repeats a request until it is answered: f returns no error, or a refusal that says more than that the node cannot
// serve it now.
func (o *load) again(f func(ctx context.Context) error) (err error) {
	for o.given.Err() == nil {
		if err = f(o.given); err == nil || !isOpen(err) && !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOverloaded) {
			return err
		}
		rig.Pause(o.given, 20*time.Millisecond)
	}
	return errors.Join(client.ErrUnknown, err)
}

// session opens a session.
func (o *load) session(c *client.Client, name string) (s *client.Session) {
	if err := o.again(func(ctx context.Context) (err error) {
		s, err = c.OpenSession(ctx, name)
		return err
	}); err != nil && o.given.Err() == nil {
		o.l.problem("open a session: %v", err)
	}
	return s
}

// numbered repeats a request with a number of a session until it is answered.
func (o *load) numbered(c *client.Client, s *client.Session, f func(ctx context.Context, c *client.Client) error) error {
	n, err := s.Take(o.given)
	if err != nil {
		return err
	}
	defer s.Answered(n)
	return o.again(func(ctx context.Context) error { return f(ctx, c.Numbered(n)) })
}

// produce creates jobs: with keys, with numbers of a session, and with neither, in which case it never repeats them.
func (o *load) produce(i int) {
	rng, c := o.rng("producer", i), o.client(i)
	s := o.session(c, fmt.Sprint("producer-", i))
	for n := 0; s != nil && o.ctx.Err() == nil; n++ {
		if o.unfinished.Load() > mostQueued {
			rig.Pause(o.ctx, 20*time.Millisecond)
			continue
		}
		typ, lines := []string{workedType, claimedType}[rng.IntN(2)], 1
		if rng.IntN(3) == 0 {
			lines += rng.IntN(20)
		}
		tags, jobs := make([]string, lines), make([]client.NewJob, lines)
		follows := typ == workedType && rng.IntN(4) == 0
		for line := range jobs {
			tags[line] = fmt.Sprintf("%s-p%d-%d-%d", o.name, i, n, line)
			jobs[line] = newJob(typ, tags[line], rng.IntN(500), follows)
		}
		o.l.ask(follows, tags...)
		ids, err := o.create(c, s, rng.IntN(3), jobs)
		o.l.answer(err, ids, tags...)
		switch {
		case err == nil:
			o.acked.Add(1)
			o.unfinished.Add(int64(lines))
			o.remember(read{id: ids[rng.IntN(lines)]})
		case !isOpen(err) && !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOverloaded):
			o.l.problem("create %v: %v", tags, err)
		}
		rig.Pause(o.ctx, time.Duration(rng.IntN(30))*time.Millisecond)
	}
}

func newJob(typ, tag string, filler int, follows bool) client.NewJob {
	j := client.TextJob(typ, tag+" "+strings.Repeat("x", filler))
	j.MaxAttempts = 1000 // no job fails because leases run out
	j.LeaseMs = claimedLease.Milliseconds()
	if typ == workedType {
		j.LeaseMs = workedLease.Milliseconds()
	}
	if follows {
		j.Meta = map[string]string{"of": tag}
		j.OnComplete = &client.FollowOn{Type: nextType, Attributes: client.Attributes{MaxAttempts: 1000, LeaseMs: workedLease.Milliseconds()}}
	}
	return j
}

// create creates jobs in one of three ways, and returns their ids.
func (o *load) create(c *client.Client, s *client.Session, way int, jobs []client.NewJob) (ids []string, err error) {
	key := client.NewKey()
	one := func(ctx context.Context, c *client.Client) error {
		if len(jobs) == 1 {
			j := jobs[0]
			j.Key = key
			made, err := c.Create(ctx, j)
			if err == nil {
				ids = []string{made.ID}
			}
			return err
		}
		made, err := c.CreateMany(ctx, jobs, client.CreateOptions{Key: key})
		if err == nil {
			ids = batchIDs(made.FirstID, made.Count)
		}
		return err
	}
	switch way {
	case 0:
		err = o.again(func(ctx context.Context) error { return one(ctx, c) })
	case 1:
		key = ""
		err = o.numbered(c, s, one)
	default: // once; without an answer nobody knows whether the jobs exist
		key = ""
		err = one(o.given, c)
		if err != nil && o.given.Err() != nil {
			err = errors.Join(client.ErrUnknown, err)
		}
	}
	return ids, err
}

const mostRecent = 100

func (o *load) remember(r read) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recent = append(o.recent, r); len(o.recent) > mostRecent {
		o.recent = o.recent[1:]
	}
}

// read reads what was acknowledged at any node, also at one that is cut off or has just come back. A node may refuse to
// answer, but its answer must include each change that was acknowledged before the read.
func (o *load) read(i int, nodes []*rig.Node) {
	rng := o.rng("reader", i)
	for o.rest.Err() == nil {
		rig.Pause(o.rest, time.Duration(rng.IntN(20))*time.Millisecond)
		o.mu.Lock()
		var r read
		if len(o.recent) > 0 {
			// Mostly the newest changes, which a node that is behind lacks.
			r = o.recent[max(len(o.recent)-1-rng.IntN(5), 0)]
		}
		o.mu.Unlock()
		if r.id == "" {
			continue
		}
		at := nodes[rng.IntN(len(nodes))]
		ctx, cancel := context.WithTimeout(o.rest, 5*time.Second)
		j, err := at.Client.Job(ctx, r.id)
		cancel()
		switch {
		case errors.Is(err, client.ErrNotFound):
			o.l.problem("node %s does not show job %s, which was acknowledged before", at.Process.URL(), r.id)
		case err == nil && r.completed && (j.Status != "completed" || string(j.Output) != r.output):
			o.l.problem("node %s shows job %s as %s with output %q, although it was acknowledged before as completed with %q", at.Process.URL(), r.id, j.Status, j.Output, r.output)
		case err == nil:
			o.l.tally(func(t *tally) { t.Reads++ })
		}
	}
}

// work runs a Worker of the Go client, which claims ahead, tickles, reports in batches, and repeats reports.
func (o *load) work(i int) {
	var begun atomic.Int64
	w := &worker.Worker{
		Client: client.New(o.urls(i), client.Options{HTTP: o.http}), Types: []string{workedType, nextType}, RunnerID: fmt.Sprint(o.name, "-worker-", i),
		Concurrency: 8, Wait: time.Second, DrainTimeout: rig.NoService, ReportTimeout: 2 * rig.NoService,
		NoStream: i%2 == 1,
		Handler: func(ctx context.Context, j *client.Job) (client.Outcome, error) {
			n := begun.Add(1)
			if n%5 == 0 {
				rig.Pause(ctx, time.Duration(n%50)*time.Millisecond)
			}
			if n%23 == 0 {
				return client.Outcome{}, worker.RetryAfter(50*time.Millisecond, errors.New("not yet"))
			}
			output := fmt.Sprintf("run %d of worker %d of job %s", n, i, j.ID)
			o.l.returns(j.ID, output)
			return client.TextOutput(output), nil
		},
		OnEvent: func(e worker.Event) {
			if e.Job == nil || e.Err != nil || e.Outcome.Code != "" && e.Outcome.Code != "ok" {
				return
			}
			o.completed(e.Job.ID, string(e.Outcome.Output))
		},
	}
	if err := w.Run(o.rest); err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = append(o.failed, fmt.Errorf("worker %d: %w", i, err))
	}
}

func (o *load) completed(id, output string) {
	o.l.complete(id, output)
	o.unfinished.Add(-1)
	o.remember(read{id, true, output})
}

// claimJobs claims jobs and completes them by single requests, each of which it repeats until it is answered.
func (o *load) claimJobs(i int) {
	rng, c := o.rng("claimer", i), o.client(i)
	name := fmt.Sprint(o.name, "-claimer-", i)
	s := o.session(c, name)
	for s != nil && o.rest.Err() == nil {
		claim := o.claim(c, s, name, 1+rng.IntN(10))
		if claim == nil {
			continue
		}
		for _, j := range claim.Jobs {
			way := rng.IntN(20)
			if o.ctx.Err() != nil {
				way = 19 // the rest of the jobs is completed
			}
			if way < 4 {
				e := event{kind: tickled, claim: claim.ID, call: o.l.now()}
				o.note(j.ID, e, o.again(func(ctx context.Context) error {
					_, err := c.Tickle(ctx, j.ID, client.TickleOptions{ClaimID: claim.ID})
					return err
				}))
			}
			switch {
			case way == 0: // the claimer dies
				continue
			case way == 1: // it is late
				rig.Pause(o.ctx, claimedLease+200*time.Millisecond)
			}
			o.finishJob(c, s, rng, claim.ID, j.ID, fmt.Sprintf("%s of claim %s", j.ID, claim.ID))
		}
	}
}

// claim claims jobs with a number, so that a repeat gets the jobs of the first try.
func (o *load) claim(c *client.Client, s *client.Session, name string, most int) (claim *client.Claim) {
	const wait = 100 * time.Millisecond
	call := o.l.now()
	err := o.numbered(c, s, func(ctx context.Context, c *client.Client) (err error) {
		claim, err = c.Claim(ctx, client.ClaimRequest{RunnerID: name, Max: most, Types: []string{claimedType}, Wait: wait})
		return err
	})
	ret := o.l.now()
	if err != nil {
		if o.given.Err() == nil {
			o.l.problem("claim: %v", err)
		}
		claim = nil
	}
	if claim == nil || claim.Replayed {
		o.l.otherClaim(event{call: call, ret: ret}, claim != nil || err != nil || ret-call > int64(3*wait))
	}
	if claim == nil {
		return nil
	}
	for _, j := range claim.Jobs {
		o.l.event(j.ID, event{kind: handed, call: call, ret: ret, claim: claim.ID, attempts: j.RunAttempts, lease: j.LeaseMs * int64(time.Millisecond)})
	}
	return claim
}

// finishJob completes a job, with a number or without.
func (o *load) finishJob(c *client.Client, s *client.Session, rng *rand.Rand, claim, id, output string) {
	o.l.returns(id, output)
	e := event{kind: ended, claim: claim, output: output, call: o.l.now()}
	complete := func(ctx context.Context, c *client.Client) error {
		_, err := c.Complete(ctx, id, claim, client.TextOutput(output))
		return err
	}
	var err error
	if rng.IntN(2) == 0 {
		err = o.numbered(c, s, complete)
	} else {
		err = o.again(func(ctx context.Context) error { return complete(ctx, c) })
	}
	if o.note(id, e, err); err == nil {
		o.completed(id, output)
	}
}

// note records the answer to a request about a job.
func (o *load) note(id string, e event, err error) {
	e.ret = o.l.now()
	switch {
	case err == nil:
	case errors.Is(err, client.ErrClaimLost), errors.Is(err, client.ErrNotActive):
		e.refused = true
	default:
		if o.given.Err() == nil {
			o.l.problem("%v: %v", &e, err)
		}
		return
	}
	o.l.event(id, e)
}
