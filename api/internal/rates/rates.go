package rates

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// Rates are the rates of all keys that have some. A key without any takes no memory and no lock.
type Rates struct {
	engine backend.Engine
	now    func() time.Time

	mu   sync.Mutex
	keys map[string]*usage // of the keys that were used lately, by name
}

// New returns the rates of the keys of an engine. Only differences of the times of now count.
func New(engine backend.Engine, now func() time.Time) *Rates {
	return &Rates{engine: engine, now: now, keys: map[string]*usage{}}
}

// usage is the use of one key. A nil usage is of a key without rates, and permits everything.
type usage struct {
	all *Rates
	key string

	mu      sync.Mutex // guards the rest
	rates   job.Rates
	nodes   int64
	counted time.Time // when the nodes were counted
	// The buckets are nil for rates that the key does not have.
	creates, claims, reads, bytes *bucket
	streams, parked               int64 // now
}

// of returns the usage of a key, or nil if it has no rates.
func (r *Rates) of(key *job.Key) *usage {
	if key == nil || key.Rates == nil {
		return nil
	}
	r.mu.Lock()
	u := r.keys[key.Name]
	if u == nil {
		u = &usage{all: r, key: key.Name}
		r.keys[key.Name] = u
	}
	r.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set(*key.Rates)
	return u
}

// nodesKnownFor is how long the number of nodes is used before it is looked up again.
const nodesKnownFor = time.Second

// set gives the usage the rates of the key, and the node's part of them. The caller holds u.mu.
func (u *usage) set(rates job.Rates) {
	now := u.all.now()
	if rates == u.rates && now.Sub(u.counted) < nodesKnownFor {
		return
	}
	nodes := u.all.nodes()
	same := rates == u.rates && nodes == u.nodes
	if u.rates, u.nodes, u.counted = rates, nodes, now; same {
		return
	}
	for _, b := range []struct {
		rate int64
		of   **bucket
	}{{rates.Creates, &u.creates}, {rates.Claims, &u.claims}, {rates.Reads, &u.reads}, {rates.Bytes, &u.bytes}} {
		if *b.of = nil; b.rate > 0 {
			*b.of = newBucket(float64(b.rate) / float64(nodes))
		}
	}
}

// nodes returns the number of nodes that share the rates: those that vote.
func (r *Rates) nodes() (n int64) {
	if s, ok := r.engine.Cluster(); ok {
		for i := range s.Nodes {
			if s.Nodes[i].Role == "voter" {
				n++
			}
		}
	}
	return max(n, 1)
}

// Tidy forgets the usage of keys that were revoked, and of those that owe nothing and are not in use.
func (r *Rates) Tidy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for name, u := range r.keys {
		if r.engine.Key(name) == nil || u.idle(now) {
			delete(r.keys, name)
		}
	}
}

// idle reports whether a new usage would be the same.
func (u *usage) idle(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, b := range []*bucket{u.creates, u.claims, u.reads, u.bytes} {
		if b != nil && !b.full(now) {
			return false
		}
	}
	return u.streams == 0 && u.parked == 0
}

// Code is the code of a refusal.
const Code = "rate_limited"

// refusal returns the problem of a key that has used up a rate.
func (u *usage) refusal(rate int64, of string, wait time.Duration) error {
	seconds := int64(math.Ceil(wait.Seconds()))
	part := ""
	if u.nodes > 1 {
		part = fmt.Sprintf(", of which each of %d nodes permits its part", u.nodes)
	}
	return &web.Problem{Status: http.StatusTooManyRequests, Code: Code, RetryAfter: time.Duration(seconds) * time.Second,
		Detail:  fmt.Sprintf("the key %s may use %d %s%s; repeat the request in %d s", u.key, rate, of, part, seconds),
		Members: map[string]any{"retry_after": seconds}}
}

// take takes n units of a rate, or returns a refusal. n may be 0: then it only looks whether anything is left.
func (u *usage) take(b func() (*bucket, int64), n int64, of string) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	from, rate := b()
	if from == nil {
		return nil
	}
	if wait := from.take(u.all.now(), n); wait > 0 {
		return u.refusal(rate, of, wait)
	}
	return nil
}

func (u *usage) ofCreates() (*bucket, int64) { return u.creates, u.rates.Creates }
func (u *usage) ofClaims() (*bucket, int64)  { return u.claims, u.rates.Claims }
func (u *usage) ofReads() (*bucket, int64)   { return u.reads, u.rates.Reads }
func (u *usage) ofBytes() (*bucket, int64)   { return u.bytes, u.rates.Bytes }

const (
	jobsCreated  = "jobs a second that are created"
	jobsClaimed  = "jobs a second that are claimed"
	readRequests = "reads a second"
	bodyBytes    = "bytes of request bodies a second"
	openStreams  = "streams at the same time"
	waitingOnes  = "claims at the same time that wait for jobs"
)

// room is how long to wait for a stream or a claim to end. Nobody knows when one does.
const room = time.Second

// enter adds one to a number of things at the same time, or returns a refusal if the key has as many as it may have. The caller
// calls leave when the thing has ended.
func (u *usage) enter(now *int64, of func() int64, what string) (leave func(), err error) {
	if u == nil {
		return func() {}, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	rate := of()
	if rate > 0 && *now >= max(1, rate/u.nodes) {
		return nil, u.refusal(rate, what, room)
	}
	*now++
	return func() {
		u.mu.Lock()
		*now--
		u.mu.Unlock()
	}, nil
}

// Admit refuses a request of a key that has read, or sent, as much as it may. A kept request is never refused. Admit also counts
// the body while it is read.
func (r *Rates) Admit(req *http.Request, key *job.Key, kept bool) error {
	u := r.of(key)
	if u == nil {
		return nil
	}
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead
	opens := req.URL.Path == "/stream" && req.Header.Get("Upgrade") != "" // Stream counts it
	if reads && !opens {
		if err := u.take(u.ofReads, 1, readRequests); err != nil {
			return err
		}
	}
	if req.ContentLength == 0 || req.Method == http.MethodDelete {
		return nil
	}
	if !kept {
		if err := u.take(u.ofBytes, 0, bodyBytes); err != nil {
			return err
		}
	}
	req.Body = &body{ReadCloser: req.Body, u: u, ctx: req.Context(), kept: kept}
	return nil
}

// body counts the bytes of a request body.
type body struct {
	io.ReadCloser
	u    *usage
	ctx  context.Context
	kept bool
	read int64
}

// Read counts what it reads. What is longer than other bodies may be is stored while it arrives, and slowed down to the rate.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if wait := b.u.sent(int64(n)); !b.kept && b.read > web.MaxBodyBytes && wait > 0 {
		timer := time.NewTimer(min(wait, longestPause))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.ctx.Done():
		}
	}
	return n, err
}

// longestPause bounds the pause between two reads, so that the connection of a client that sends is not idle for long.
const longestPause = time.Second

// sent counts bytes, and returns how long the bucket stays empty.
func (u *usage) sent(n int64) time.Duration {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes == nil {
		return 0
	}
	now := u.all.now()
	u.bytes.charge(now, n)
	return u.bytes.wait(now)
}

// Stream counts an open stream. The caller calls leave when it has ended.
func (r *Rates) Stream(key *job.Key) (leave func(), err error) {
	u := r.of(key)
	if u == nil {
		return func() {}, nil
	}
	return u.enter(&u.streams, func() int64 { return u.rates.Streams }, openStreams)
}

// Sent counts the bytes of a message of a stream. MaySend refuses a request of a key that has sent as much as it may.
func (r *Rates) Sent(key *job.Key, n int) { r.of(key).sent(int64(n)) }

func (r *Rates) MaySend(key *job.Key) error {
	u := r.of(key)
	return u.take(u.ofBytes, 0, bodyBytes)
}
