package measure

import (
	"context"
	"errors"
)

// Description is the background that a reader of the results needs about a driver.
type Description struct {
	Driver string `json:"driver"` // its short name, in tables and flags
	System string `json:"system"` // the server, with its version
	Client string `json:"client"` // the client that drives it, with its version
	// Durable names the settings that make the server write to disk before it answers.
	Durable string `json:"durable"`
	// Weaker names the acknowledgements that still do not wait for the disk. It is empty for a system that is as durable
	// as Daybook.
	Weaker string `json:"weaker,omitempty"`
	// Usage names the calls of the client that are used.
	Usage string `json:"usage"`
	// Syncs is how often the server synced a file for one call by a single caller, by the name of the call. It is empty
	// if that could not be counted.
	Syncs map[string]float64 `json:"syncs_per_call,omitempty"`
}

// ErrMissing means that a system is not available. The error that wraps it has the reason.
var ErrMissing = errors.New("not available on this machine")

// Driver drives one system through one client.
type Driver interface {
	Name() string
	// Describe finds the server and its version. It returns ErrMissing if the server is not installed.
	Describe(ctx context.Context) (Description, error)
	// Does reports whether the driver can do a work.
	Does(Work) bool
	// Start starts the server with an empty directory dir, and returns when it answers.
	Start(ctx context.Context, dir string) (Session, error)
}

// Session is a running server. It may also be a Runner or Limited.
type Session interface {
	// Dial opens a connection for one caller.
	Dial(ctx context.Context, caller int) (Conn, error)
	// Fill creates jobs that wait to be claimed, as quickly as it can.
	Fill(ctx context.Context, jobs int) error
	// Pid returns the id of the server's root process. The server is this process and its descendants.
	Pid() int
	// Close ends the server, even in the middle of work.
	Close() error
}

// Runner is a Session that does some kinds of work itself, instead of through connections. Run does t.Jobs jobs of t.Work.
// Fill was called before, if the kind needs it. Run calls t.Begin once it is prepared, and t.End when all jobs are done
// and acknowledged.
type Runner interface {
	Runs(Work) bool
	Run(ctx context.Context, t *Turn) error
}

// Limited is a Session of a system whose calls take fewer jobs than the batches of the works. A caller then makes more
// calls with fewer jobs each.
type Limited interface {
	MostJobs() int // of one call
}

// Conn is used by one goroutine at a time. Every method returns when the server has acknowledged the call.
type Conn interface {
	Create(ctx context.Context, jobs int) error
	// Claim claims up to max jobs, and returns the number of jobs that it got, or 0 if no job waits.
	Claim(ctx context.Context, max int) (got int, err error)
	// Complete completes the jobs of the last Claim.
	Complete(ctx context.Context) error
	Close() error
}

// Exchanger is a Conn that can complete the jobs of the last claim and claim up to max more in one round trip.
type Exchanger interface {
	Exchange(ctx context.Context, max int) (got int, err error)
}

// ErrUnsupported is returned by a Conn's methods for which its system lacks a call. Does prevents these calls.
var ErrUnsupported = errors.New("the system has no such call")
