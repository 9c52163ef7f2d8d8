package job

import (
	"errors"
	"fmt"
)

// Outcome is the end of a run, as its runner reports it.
type Outcome struct {
	ID       ID   // zero in an outcome for all jobs of a claim
	Code     Code // never NoCode
	ExitCode int  // of the same class as Code; 0 for unget
	// DelayMs is the wait after a retry or error. A negative value selects the job's backoff.
	DelayMs int64
	Error   string // at most MaxErrorBytes
	Result
	// Then are the jobs that the outcome creates if it is ok or failed; nil: none. An outcome for all jobs of a claim
	// creates none. Their frame is LenFrame. Groups without a client, meta or traceparent inherit them from the job.
	Then *Create
}

// Result is the data that a run returns with its outcome.
type Result struct {
	ProcessExit *int64 // the exit status of a process or container, as its system reports it
	OutputAddr  string
	// OutputAddrKind is the kind of the output at OutputAddr: Text, JSON or Bytes; Nothing: the runner did not say.
	OutputAddrKind Kind   `json:",omitzero"`
	LogAddr        string `json:",omitzero"` // where the run's log is stored
	OutputKind     Kind   // Nothing: no inline output
	Output         []byte
}

// Empty reports whether the result has nothing to store.
func (r *Result) Empty() bool {
	return r.ProcessExit == nil && r.OutputAddr == "" && r.LogAddr == "" && r.OutputKind == Nothing
}

// CheckAddrKind returns an error unless the kind is valid for the output at OutputAddr.
func (r *Result) CheckAddrKind() error {
	switch {
	case r.OutputAddrKind == WASI:
		return fmt.Errorf("output_addr_kind must be text, json or bytes, not %s", r.OutputAddrKind)
	case r.OutputAddrKind != Nothing && r.OutputAddr == "":
		return errors.New("output_addr_kind requires output_addr")
	}
	return nil
}

// Same reports whether a repeated outcome equals the stored one. Repeating an outcome is not an error.
func (o *Outcome) Same(code Code, exitCode int) bool { return o.Code == code && o.ExitCode == exitCode }

// Why is the reason why a run or a job ended.
type Why uint8

// Reported: the runner reported the end. Abandoned: the lease or the time-out passed. Asked: somebody cancelled the job.
// Expired: the job was not started by its expires_at. RunnerLost: the runner vanished after the run had begun.
const (
	Reported Why = iota + 1
	Abandoned
	Asked
	Expired
	RunnerLost
)

var whyNames = [...]string{"", "reported", "abandoned", "cancelled", "expired", "runner_lost"}

func (w Why) String() string { return whyNames[w] }

// ParseWhy parses the name of a reason, which is the value of a field.
func ParseWhy(field, name string) (Why, error) { return parseName[Why](field, name, whyNames[:]) }

// Attempt is an entry of a job's history: a run that did not succeed.
type Attempt struct {
	At       int64 // when it ended, unix ms
	Runner   string
	Code     Code // NoCode when abandoned, or when the runner was lost
	ExitCode int
	Error    string
	Why      Why
	// The fields below are not in the answer to a claim.
	StartedAt   int64  // when its claim got the job, unix ms; 0: no claim had the job
	Claim       ID     // zero: no claim had the job
	ProcessExit *int64 // see Result
	LogAddr     string // where the run's log is stored
}

// DamagedText is the error of a job with code Damaged, and of any other job with a part that cannot be read.
const DamagedText = "a part of the job cannot be read, because the store is damaged: rebuild the store, then run the job if its code is damaged"
