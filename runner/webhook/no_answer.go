package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/daybookq/daybook/runner/task"
)

// Codes that begin the error text of a run without a complete answer. miniq uses the same codes.
const (
	codeRefused   = "ECONNREFUSED"
	codeReset     = "ECONNRESET"      // closed before the end of the answer
	codeNoAnswer  = "ETIMEDOUT"       // no status in time
	codeStalled   = "ESOCKETTIMEDOUT" // a status, but not all of the body in time
	codeNotFound  = "ENOTFOUND"       // the name is unknown
	codeNameFails = "EAI_AGAIN"       // the name could not be looked up
	codeOther     = "BATCH_ERROR"     // everything else
)

var errnos = map[syscall.Errno]string{
	syscall.ECONNREFUSED: codeRefused,
	syscall.ECONNRESET:   codeReset,
	syscall.ETIMEDOUT:    codeNoAnswer,
	syscall.EPIPE:        "EPIPE",
	syscall.EHOSTUNREACH: "EHOSTUNREACH",
	syscall.ENETUNREACH:  "ENETUNREACH",
	syscall.EMFILE:       "EMFILE",
}

// timeoutError is the cause of a context that ended because of Options.TimeoutMs.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no complete answer within %v", e.after) }

// maxFailureBytes bounds an error's text, which may quote the server.
const maxFailureBytes = 2 << 10

// failure returns the end of a run whose request got no complete answer. answered means that the status arrived.
func failure(ctx context.Context, err error, answered bool) task.End {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return task.Failed(refused.Error())
	}
	var code string
	if late, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok {
		err, code = late, codeNoAnswer
		if answered {
			code = codeStalled
		}
	} else if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err, code = fmt.Errorf("the body of the answer has more than %d bytes", tooLong.Limit), codeOther
	} else {
		code = codeOf(err)
	}
	text := err.Error()
	return task.Error(code + ": " + text[:min(len(text), maxFailureBytes)])
}

func codeOf(err error) string {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		if unknown.IsNotFound {
			return codeNotFound
		}
		return codeNameFails
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errnos[errno] != "" {
		return errnos[errno]
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return codeReset
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return codeNoAnswer
	}
	return codeOther
}
