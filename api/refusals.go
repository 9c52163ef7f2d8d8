package api

import (
	"net/netip"
	"sync"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// refusals writes the refused keys to the log, for an audit. It sums them up, so that who sends many does not fill the log: the first
// refusal with a code has a line, and then those of each minute together.
type refusals struct {
	wrong wrongKeys
	log   zerolog.Logger

	mu     sync.Mutex // guards byCode
	byCode map[string]*refusedCode
}

// refusedCode are refusals with a code. There are as many as codes of package api for keys.
type refusedCode struct {
	since int64 // unix ms; when the last line was written
	n     int   // refusals since then
	peer  netip.Addr
	key   string // the name in the last key; "": it had none
}

// summedMs is how long refusals are summed up.
const summedMs = 60_000

// refuse returns the refusal of a request from an address that failed with err. text is what the request had as its key.
func (r *refusals) refuse(peer netip.Addr, text string, err error) error {
	err = r.wrong.refuse(peer, err)
	code, now := refusal.Of(err).Code, r.wrong.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byCode == nil {
		r.byCode = map[string]*refusedCode{}
	}
	c := r.byCode[code]
	if c == nil {
		c = &refusedCode{since: now - summedMs}
		r.byCode[code] = c
	}
	c.n, c.peer = c.n+1, peer
	c.key, _, _ = job.ParseKeyText(text) // without a name, the text may be any secret
	r.write(code, c, now)
	return err
}

// refuseRequest is refuse for a request with credentials.
func (r *refusals) refuseRequest(peer netip.Addr, c *web.Credentials, err error) error {
	text := ""
	if len(c.Authorization) == 1 {
		text = keyText(c.Authorization[0])
	}
	return r.refuse(peer, text, err)
}

// flush writes the lines that are due.
func (r *refusals) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for code, c := range r.byCode {
		r.write(code, c, r.wrong.now())
	}
}

// write writes the line of a code, if it is due.
func (r *refusals) write(code string, c *refusedCode, now int64) {
	if c.n == 0 || now-c.since < summedMs {
		return
	}
	address := "loopback"
	if c.peer.IsValid() {
		address = c.peer.String()
	}
	line := r.log.Warn().Bool("audit", true).Str("code", code).Int("requests", c.n).Str("last_address", address)
	if c.key != "" {
		line = line.Str("last_key", c.key)
	}
	line.Msg("requests were refused for their keys")
	c.since, c.n = now, 0
}
