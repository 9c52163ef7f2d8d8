package job

import "fmt"

// Status is the stage of a job's life.
type Status uint8

// The zero Status means that the line does not exist.
const (
	Deferred Status = iota + 1
	Pending
	Active
	Completed
	Failed
	Cancelled
	// Purged lines are without a document. They only keep their place in the batch until the batch is deleted.
	Purged

	NumStatus = int(Purged) + 1
)

var statusNames = [NumStatus]string{"none", "deferred", "pending", "active", "completed", "failed", "cancelled", "purged"}

// Statuses lists the statuses that a job document can show, in the order of a job's life.
var Statuses = []Status{Deferred, Pending, Active, Completed, Failed, Cancelled}

func (s Status) String() string {
	if int(s) < NumStatus {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus parses a status that a job document can show.
func ParseStatus(name string) (Status, error) {
	for _, s := range Statuses {
		if statusNames[s] == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("status %q is not one of deferred, pending, active, completed, failed, cancelled", name)
}

// Waits reports whether the job is waiting to be handed out.
func (s Status) Waits() bool { return s == Deferred || s == Pending }

// Unfinished reports whether the job is waiting or active. It then owns its unique key.
func (s Status) Unfinished() bool { return s.Waits() || s == Active }

// ShowsClaim reports whether documents show a claim: an active job shows the claim that holds it, and an ended job shows
// the claim of its last run. A waiting job shows none, though its state may name one.
func (s Status) ShowsClaim() bool { return s == Active || s.Terminal() }

// Terminal reports whether only a redrive or a purge can follow.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Code classifies the outcome of a run.
type Code uint8

// OK and Fail are final. After Retry and Error the job runs again. Unget returns the job as if it had never been claimed.
// The server sets the other two: Damaged if it could not read the payload, in which case it sets the job aside until
// somebody runs it, and Lost if the runner vanished after the run had begun.
const (
	NoCode Code = iota
	OK
	Fail
	Retry
	Error
	Unget
	Damaged
	Lost
)

// Reported reports whether runners report the code as the outcome of a run.
func (c Code) Reported() bool { return c == OK || c == Fail || c == Retry || c == Error }

var codeNames = [...]string{"", "ok", "failed", "retry", "error", "unget", "damaged", "lost"}

func (c Code) String() string { return codeNames[c] }

// ParseCode parses the code of an outcome: ok, failed, retry, error, unget, damaged or lost.
func ParseCode(text string) (Code, error) {
	for i, name := range codeNames {
		if i > 0 && name == text {
			return Code(i), nil
		}
	}
	return NoCode, fmt.Errorf("code %q is not one of ok, failed, retry, error", text)
}

// Exit codes have three digits, of which the first is the class, as in HTTP: 1xx retry, 2xx ok, 4xx failed, 5xx error.
var classCode = [10]Code{1: Retry, 2: OK, 4: Fail, 5: Error}

// ExitCodeClass returns the code for the class of an exit code, or NoCode if the class is unknown.
func ExitCodeClass(exitCode int) Code {
	if exitCode < 100 || exitCode > 599 {
		return NoCode
	}
	return classCode[exitCode/100]
}

// DefaultExitCode returns the exit code for an outcome with code c if the runner does not give one.
func (c Code) DefaultExitCode() int {
	switch c {
	case OK:
		return 200
	case Fail:
		return 400
	case Retry:
		return 100
	case Error:
		return 500
	}
	return 0
}
