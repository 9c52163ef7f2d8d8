package job

import (
	"fmt"
)

// Command is a request to change state in the form in which it is journaled. Its text has two parts: the fields, one
// line of the record's header, and a body, which may hold anything. Whatever a decision depends on is in the command or
// in stored state. Times are unix milliseconds, durations milliseconds.
type Command interface {
	// Verb names the command in the journal.
	Verb() string
	// Encode returns the text form. The parts may share memory with the command.
	Encode() (fields, body []byte)
}

// Level is the version of what Apply decides. It changes only through a SetLevel command in the journal, so that a
// record leads to the same state whichever binary applies it.
const Level = 4

// Decode is the inverse of Encode. It is strict: unknown verbs and fields, values out of bounds and bodies that do not
// fit their fields are errors. The command may share memory with fields and body.
func Decode(verb string, fields, body []byte) (Command, error) {
	r := fieldReader{rest: string(fields)}
	var cmd Command
	var err error
	switch verb {
	case "create":
		cmd, err = decodeCreate(&r, body)
		body = nil
	case "claim":
		cmd = decodeClaim(&r)
	case "tickle":
		cmd, err = decodeTickle(&r, body)
		body = nil
	case "complete":
		cmd, err = decodeComplete(&r, body)
		body = nil
	case "pause", "resume":
		cmd = decodePause(&r, verb == "pause")
	case "closebatch":
		cmd = decodeChangeBatch(&r, CloseBatch)
	case "resumebatch":
		cmd = decodeChangeBatch(&r, ResumeBatch)
	case "deletequeue":
		cmd = decodeDeleteQueue(&r)
	case "deleteidle":
		cmd = decodeDeleteIdleQueues(&r)
	case "cancel":
		cmd = decodeMove(&r, Cancel)
	case "redrive":
		cmd = decodeMove(&r, Redrive)
	case "run":
		cmd = decodeMove(&r, Run)
	case "delete":
		cmd = decodeMove(&r, Delete)
	case "patch":
		cmd = decodePatch(&r)
	case "stop", "start":
		cmd = decodeBare(&r, Switch{Stopped: verb == "stop"})
	case "opensession":
		cmd = decodeOpenSession(&r)
	case "endsession":
		cmd = decodeEndSession(&r)
	case "puthandler":
		cmd, err = decodePutHandler(&r, body)
		body = nil
	case "deletehandler":
		cmd = decodeDeleteHandler(&r)
	case "putfileset":
		cmd = decodePutFileset(&r)
	case "deletefileset":
		cmd = decodeDeleteFileset(&r)
	case "loserunner":
		cmd = decodeLoseRunner(&r)
	case "tick":
		cmd = decodeTick(&r)
	case "grace":
		cmd = decodeBare(&r, Grace{})
	case "mark":
		cmd = decodeBare(&r, Mark{})
	case "level":
		cmd = decodeLevel(&r)
	default:
		return nil, fmt.Errorf("decode command: unknown verb %q", verb)
	}
	if r.err != nil { // it may be why something is missing
		err = r.err
	}
	if err == nil && len(body) > 0 {
		err = fmt.Errorf("unexpected body of %d bytes", len(body))
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", verb, err)
	}
	return cmd, nil
}

func decodeBare(r *fieldReader, cmd Command) Command {
	if key, _, ok := r.next(); ok {
		r.unknown(key)
	}
	return cmd
}
