package job

import (
	"errors"
	"fmt"
)

// Outcome is how a run ended, as its runner reports it.
type Outcome struct {
	ID       ID   // zero in the outcome that a bulk complete gives to all jobs of a claim
	Code     Code // never NoCode
	ExitCode int  // of the same class as Code; 0 for unget
	// DelayMs is how long a retry or error waits; negative means the backoff of the job.
	DelayMs int64
	Error   string // MaxErrorBytes at most
	Result
	// Then are the jobs that the outcome creates, if it is ok or failed; nil: none. An outcome for all of a claim has
	// none. Their frame is LenFrame. Groups without a client, meta or traceparent inherit those of the job.
	Then *Create
}

// Result is what a run returns beside its outcome.
type Result struct {
	ProcessExit *int64 // the exit status of a process or container, as its system reports it
	OutputAddr  string
	// OutputAddrKind is the kind of what OutputAddr names: Text, JSON or Bytes; Nothing: the runner has not said.
	OutputAddrKind Kind   `json:",omitzero"`
	LogAddr        string `json:",omitzero"` // of what the run printed
	OutputKind     Kind   // Nothing: no inline output
	Output         []byte
}

// Empty reports whether there is nothing to keep.
func (r *Result) Empty() bool {
	return r.ProcessExit == nil && r.OutputAddr == "" && r.LogAddr == "" && r.OutputKind == Nothing
}

// CheckAddrKind says what is wrong with the kind of what the address names, or nil.
func (r *Result) CheckAddrKind() error {
	switch {
	case r.OutputAddrKind == WASI:
		return fmt.Errorf("output_addr_kind must be text, json or bytes, not %s", r.OutputAddrKind)
	case r.OutputAddrKind != Nothing && r.OutputAddr == "":
		return errors.New("output_addr_kind requires output_addr")
	}
	return nil
}

// Same reports whether a repeated outcome is the one that was stored, so that repeating it is no error.
func (o *Outcome) Same(code Code, exitCode int) bool { return o.Code == code && o.ExitCode == exitCode }

// Why a run, or a job, ended.
type Why uint8

// Reported: its runner reported how it ended. Abandoned: its lease or its time-out passed. Asked: somebody cancelled the
// job. Expired: the job was not started by its expires_at. RunnerLost: its runner vanished after the run had begun.
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
	At        int64 // when it ended, unix ms
	Runner    string
	Code      Code // NoCode when abandoned, or when the runner was lost
	ExitCode  int
	Error     string
	Why       Why
	StartedAt int64 // when its claim got the job, unix ms; 0: no claim had it, or the job is in the answer of a claim
}

// DamagedText is the error of a job whose code is Damaged, and of any other of which something cannot be read.
const DamagedText = "a part of the job cannot be read, because the store is damaged: rebuild the store, then run the job if its code is damaged"
