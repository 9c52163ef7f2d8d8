package job

import (
	"fmt"
)

// Command is a request to change state, in the form that is journaled. Its text has two parts: the fields, which are one
// line of the record's header, and a body of arbitrary bytes. Every decision depends only on the command and on stored
// state. Times are in unix milliseconds and durations in milliseconds.
type Command interface {
	// Verb names the command in the journal.
	Verb() string
	// Encode returns the text form. The parts may share memory with the command.
	Encode() (fields, body []byte)
}

// IsAudited reports whether the audit has a command: the commands of operators and admins, and the cancellations of producers.
// Logins are in the server's log.
func IsAudited(cmd Command) bool {
	switch c := cmd.(type) {
	case PutDocument:
		return c.Kind != LoginDocument
	case DeleteDocument:
		return c.Kind != LoginDocument
	case Pause, Switch, DeleteQueue, Move, Patch, ChangeBatch, SetLevel, SetHistory, SetMember:
		return true
	}
	return false
}

// AuditedFields returns what the audit shows of a command: its fields, and for a key or quota what it permits. It has no secrets, and
// no sums of them.
func AuditedFields(cmd Command) string {
	var more []byte
	if p, is := cmd.(PutDocument); is {
		switch p.Kind {
		case KeyDocument:
			if key, err := DecodeKey(p.Name, p.Document); err == nil { // else the command is refused
				more = key.permitted()
			}
		case QuotaDocument:
			more = p.Document
		}
		if more != nil {
			p.Summary = "" // more has it
			cmd = p
		}
	}
	text, _ := cmd.Encode()
	if more == nil {
		return string(text)
	}
	return string(text) + " " + string(more)
}

// Level is the version of the rules that Apply follows. It changes only through a SetLevel command in the journal, so
// that a record leads to the same state whichever binary applies it.
const Level = 1

// Decode is the inverse of Encode. It is strict: it fails on unknown verbs and fields, on values out of bounds, and on
// bodies that do not match their fields. The command may share memory with fields and body.
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
	case "putdocument":
		cmd, err = decodePutDocument(&r, body)
		body = nil
	case "deletedocument":
		cmd = decodeDeleteDocument(&r)
	case "loserunner":
		cmd = decodeLoseRunner(&r)
	case "member":
		cmd = decodeSetMember(&r)
	case "announce":
		cmd = decodeAnnounce(&r)
	case "tick":
		cmd = decodeTick(&r)
	case "grace":
		cmd = decodeBare(&r, Grace{})
	case "mark":
		cmd = decodeBare(&r, Mark{})
	case "level":
		cmd = decodeLevel(&r)
	case "history":
		cmd = decodeHistory(&r)
	default:
		return nil, fmt.Errorf("decode command: unknown verb %q", verb)
	}
	if r.err != nil { // report this first: it may be the reason why a field is missing
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
