package api

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/ingest"
)

// Defaults are the attributes of jobs that a create request does not give.
type Defaults = command.Defaults

// Blobs has the blobs of a server.
type Blobs = files.Storage

// Options configure a server. Engine is required. The zero values of the other fields are useful defaults.
type Options struct {
	Engine   *ingest.Engine
	Blobs    *Blobs // nil: the server stores no blobs
	Defaults Defaults
	// Hosts are the names that a request's Host can have in addition to localhost and any IP address. *.example.com
	// allows all names below example.com, and * allows any name.
	Hosts []string
	// Origins are the origins of other sites whose pages may use the server with keys, such as https://board.example.
	Origins []string
	// Certificates say for which keys the certificates of clients stand. The first rule that a certificate meets counts.
	Certificates []CertificateRule
	// Issuers verify tokens and log people in. The caller runs them. Nil: no tokens are accepted.
	Issuers *oidc.Issuers
	// RequireClaimID makes the server refuse tickles, completions and releases without a claim_id.
	RequireClaimID bool
	// GetSwitches serves GET /start, /stop and /quit; see getSwitches.
	GetSwitches bool
	Log         zerolog.Logger
	Build       Version
	// MaxConnections is the largest number of open connections. 0 means 16384.
	MaxConnections int
	TLS            *TLS // nil: the server speaks HTTP without TLS
	// StreamHeartbeat is the time between two pings of a stream. 0 means 5 s.
	StreamHeartbeat time.Duration
	// RequireKeys makes each request need a key from the start on. Otherwise requests need one once there is a key.
	RequireKeys bool
	// Trusted lets every request do everything, without a key. It is for commands that have the data directory to themselves: Run
	// refuses to listen with it.
	Trusted bool
	// Unready, if not nil, returns why the server is not ready although its engine is.
	Unready func() error
	// OnLostFailures returns the number of lost runners for which the server's hook failed. Nil means that there is no
	// hook.
	OnLostFailures func() uint64
	// Spans returns counts of the spans of runs: exported, dropped and failed. Nil means that no traces are exported.
	Spans func() SpanCounts
	// Quit is called for a request to /quit, and must shut the process down. If it is nil, the server refuses the
	// request.
	Quit func()
}

// CheckOrigins returns an error unless each text is an origin for Options.Origins.
func CheckOrigins(list []string) error { return web.CheckOrigins(list) }
