package client

import (
	"context"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Stats are figures of the server. The server's document has more of them; Text is the whole document.
type Stats struct {
	Appended uint64           `json:"appended"` // watermarks: appended ≥ synced ≥ applied ≥ flushed
	Synced   uint64           `json:"synced"`
	Applied  uint64           `json:"applied"`
	Flushed  uint64           `json:"flushed"`
	Jobs     map[string]int64 `json:"jobs"`    // by status
	Batches  map[string]int64 `json:"batches"` // batches with attributes, by status
	Queues   int              `json:"queues"`
	Parked   int              `json:"parked_claims"`
	Ready    bool             `json:"ready"`
	Stopped  bool             `json:"stopped"` // see Stop
	Sweeps   int              `json:"sweeps"`  // running
	Keys     uint64           `json:"idempotency_keys"`
	KeyBytes uint64           `json:"idempotency_key_bytes"` // of their rows
	// SessionBytes is about how many bytes the rows of sessions have.
	SessionBytes uint64 `json:"session_bytes"`
	Blobs        int64  `json:"blob_bytes"`      // bytes of all blobs
	DiskFree     int64  `json:"disk_free_bytes"` // of the file system with the data
	Journal      struct {
		Bytes int64 `json:"bytes"`
	} `json:"journal"`
	Store struct {
		Bytes int64 `json:"bytes"`
	} `json:"store"`
	// History says how far the history of jobs reaches. Since is in unix ms; it and First are 0 if there is none.
	History struct {
		Bytes    int64 `json:"bytes"`
		MaxBytes int64 `json:"max_bytes"`
		MaxAgeMs int64 `json:"max_age_ms"`
		Since    int64 `json:"since"`
		First    int64 `json:"first_seq"` // the seq of the oldest command
	} `json:"history"`
	Text []byte `json:"-"`
}

// Stats returns figures of the server. The server answers without waiting for its journal.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	a, err := c.conn.Do(ctx, transport.Get("/stats"))
	if err != nil {
		return s, err
	}
	s.Text = a.Body
	return s, transport.Decode(a, &s)
}

// Version describes the build of the server.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Level   int    `json:"level"` // the newest level of rules that the server knows; see Client.Level
}

// Version returns the version of the server.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return transport.Ask[Version](ctx, &c.conn, transport.Get("/version"))
}

// Ping returns nil if the server answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.conn.Tell(ctx, transport.Get("/ping"))
}

// Ready returns nil if the server accepts changes: it has replayed its journal, and can write to it. Ready is not
// repeated.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.conn.Once(ctx, transport.Get("/readyz"))
	return err
}

// Stop makes the server hand out no jobs until Start, in all queues, paused or not. Stop and Start are repeated when
// the answer is lost.
func (c *Client) Stop(ctx context.Context) error {
	return c.conn.Tell(ctx, transport.New(http.MethodPost, "/stop"))
}

// Start ends the effect of Stop.
func (c *Client) Start(ctx context.Context) error {
	return c.conn.Tell(ctx, transport.New(http.MethodPost, "/start"))
}

// AcceptTime sets the server's time to its wall clock if the wall clock is later, as after a step of that clock. The
// server measures leases and run_at by its own time. All leases get their full length again. AcceptTime returns how far
// the server's time is ahead of its wall clock afterwards. It is repeated when the answer is lost.
func (c *Client) AcceptTime(ctx context.Context) (offset time.Duration, err error) {
	doc, err := transport.Ask[struct {
		ClockOffsetMs int64 `json:"clock_offset_ms"`
	}](ctx, &c.conn, transport.New(http.MethodPost, "/clock/accept"))
	return time.Duration(doc.ClockOffsetMs) * time.Millisecond, err
}

// Level returns the level of the rules by which the server applies its journal, and the newest level that the server knows.
func (c *Client) Level(ctx context.Context) (level, newest int, err error) {
	return c.level(ctx, transport.Get("/level"))
}

// RaiseLevel raises the level to the newest one that the server knows. Older versions of the server, which do not know this
// level, can then no longer start with its data. RaiseLevel is repeated when the answer is lost.
func (c *Client) RaiseLevel(ctx context.Context) (level int, err error) {
	level, _, err = c.level(ctx, transport.New(http.MethodPost, "/level/raise"))
	return level, err
}

func (c *Client) level(ctx context.Context, r transport.Request) (level, newest int, err error) {
	doc, err := transport.Ask[struct {
		Level  int `json:"level"`
		Newest int `json:"newest"`
	}](ctx, &c.conn, r)
	return doc.Level, doc.Newest, err
}

// Quit makes the server stop gracefully. The error is ErrForbidden if the client is on another machine, or the server
// does not allow it (serve --allow-quit).
func (c *Client) Quit(ctx context.Context) error {
	_, err := c.conn.Once(ctx, transport.Request{Method: http.MethodPost, Path: "/quit"})
	return err
}
