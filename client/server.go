package client

import (
	"context"
	"net/http"
	"time"
)

// Stats are the server's figures; the wire has more of them than are named here, and Text holds all.
type Stats struct {
	Appended uint64           `json:"appended"` // watermarks: appended ≥ synced ≥ applied ≥ flushed
	Synced   uint64           `json:"synced"`
	Applied  uint64           `json:"applied"`
	Flushed  uint64           `json:"flushed"`
	Jobs     map[string]int64 `json:"jobs"` // by status
	Queues   int              `json:"queues"`
	Parked   int              `json:"parked_claims"`
	Ready    bool             `json:"ready"`
	Stopped  bool             `json:"stopped"` // by Stop
	Sweeps   int              `json:"sweeps"`  // under way
	Keys     uint64           `json:"idempotency_keys"`
	Text     []byte           `json:"-"`
}

// Stats returns the server's figures. It never waits for the journal.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	a, err := c.do(ctx, get("/stats"))
	if err != nil {
		return s, err
	}
	s.Text = a.body
	return s, decode(a, &s)
}

// Version is which build the server is.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Level   int    `json:"level"` // of what Apply decides
}

// Version returns which build the server is.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	a, err := c.do(ctx, get("/version"))
	if err != nil {
		return v, err
	}
	return v, decode(a, &v)
}

// Ping is nil when the server answers.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.do(ctx, get("/ping"))
	return err
}

// Ready is nil when the server takes changes: its replay is done, and its journal accepts. The request is not repeated.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.once(ctx, get("/readyz"))
	return err
}

// Stop ends all handing out of jobs until Start, whatever queues are paused or not. Repeated when the answer is lost,
// as is Start.
func (c *Client) Stop(ctx context.Context) error { return c.turn(ctx, "/stop") }

// Start undoes Stop.
func (c *Client) Start(ctx context.Context) error { return c.turn(ctx, "/start") }

func (c *Client) turn(ctx context.Context, path string) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: path, repeat: repeatable})
	return err
}

// AcceptTime sets the server's time, by which leases and run_at are measured, to its wall clock at once if that is
// later, as after a step of that clock. All leases begin again. It returns how far the server's time is ahead of its
// wall clock afterwards. Repeated when the answer is lost.
func (c *Client) AcceptTime(ctx context.Context) (offset time.Duration, err error) {
	a, err := c.do(ctx, request{method: http.MethodPost, path: "/clock/accept", repeat: repeatable})
	if err != nil {
		return 0, err
	}
	var doc struct {
		ClockOffsetMs int64 `json:"clock_offset_ms"`
	}
	if err := decode(a, &doc); err != nil {
		return 0, err
	}
	return time.Duration(doc.ClockOffsetMs) * time.Millisecond, nil
}

// Quit has the server end gracefully. ErrForbidden when it is not on this machine, or does not end by request.
func (c *Client) Quit(ctx context.Context) error {
	_, err := c.once(ctx, request{method: http.MethodPost, path: "/quit"})
	return err
}
