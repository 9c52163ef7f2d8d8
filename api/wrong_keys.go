package api

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/daybookq/daybook/api/internal/web"
)

const (
	// wrongKeysPerMinute is how many wrong keys an address may send. A program with an old key sends more, and learns that it has to
	// wait; a right key is never refused, because it may come through the same proxy.
	wrongKeysPerMinute = 10
	// maxWrongPeers bounds the addresses in memory, at about 200 bytes each.
	maxWrongPeers = 4096
)

// wrongKeys answers wrong keys with 429 after the first ones of an address. So nobody tries keys faster than this, and
// programs with an old key cost the server little.
type wrongKeys struct {
	now func() int64 // unix ms

	mu    sync.Mutex // guards the others
	peers map[netip.Addr]*rate.Limiter
	swept time.Time // when makeRoom last looked at all
}

// refuse returns the refusal of a request from an address that failed with err.
func (w *wrongKeys) refuse(peer netip.Addr, err error) error {
	if !errors.Is(err, errWrongKey) {
		return err
	}
	now := time.UnixMilli(w.now())
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.peers[peer]
	if l == nil {
		w.makeRoom(now)
		l = rate.NewLimiter(rate.Every(time.Minute/wrongKeysPerMinute), wrongKeysPerMinute)
		w.peers[peer] = l
	}
	if l.AllowN(now, 1) {
		return err
	}
	missing := 1 - l.TokensAt(now)
	return &web.Problem{Status: http.StatusTooManyRequests, Code: "rate_limited", Field: "Authorization", RetryAfter: time.Duration(missing * float64(time.Minute/wrongKeysPerMinute)),
		Detail: "this address has sent more wrong keys than the server answers; a right key is accepted at any time"}
}

// makeRoom forgets the addresses that sent no wrong key for a minute if the table is full, or one of the others if there are none. It
// looks at all once a minute, so that wrong keys from ever new addresses cost little.
func (w *wrongKeys) makeRoom(now time.Time) {
	if w.peers == nil {
		w.peers = map[netip.Addr]*rate.Limiter{}
	}
	if len(w.peers) < maxWrongPeers {
		return
	}
	if now.Sub(w.swept) >= time.Minute {
		w.swept = now
		for peer, l := range w.peers {
			if l.TokensAt(now) >= wrongKeysPerMinute {
				delete(w.peers, peer)
			}
		}
	}
	for peer := range w.peers {
		if len(w.peers) < maxWrongPeers {
			return
		}
		delete(w.peers, peer)
	}
}
