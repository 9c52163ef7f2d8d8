package job

import "fmt"

// OpenSession opens a session: the lasting identity of a runner or producer, which numbers its requests (see Once). The
// session has the id of the command.
type OpenSession struct {
	Runner string // the owner, for people; "": not given
}

// EndSession ends a session. The server forgets the session and its requests.
type EndSession struct{ Session ID }

func (OpenSession) Verb() string { return "opensession" }
func (EndSession) Verb() string  { return "endsession" }

func (o OpenSession) Encode() (fieldText, body []byte) {
	var f fields
	f.text("runner", o.Runner)
	return f, nil
}

func (e EndSession) Encode() (fieldText, body []byte) {
	var f fields
	f.id("session", e.Session)
	return f, nil
}

func decodeOpenSession(r *fieldReader) Command {
	var o OpenSession
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key != "runner" {
			r.unknown(key)
			continue
		}
		o.Runner = r.bounded(key, raw, MaxRunnerBytes)
	}
	return o
}

func decodeEndSession(r *fieldReader) Command {
	var e EndSession
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key != "session" {
			r.unknown(key)
			continue
		}
		e.Session = r.id(raw)
	}
	if e.Session.IsZero() {
		r.fail(fmt.Errorf("session is missing"))
	}
	return e
}
