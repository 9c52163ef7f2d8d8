package job

import "fmt"

// Tick carries out everything that is due at its time: deferred jobs become pending, claims without a tickle are
// abandoned, and jobs past their retention are purged. One tick does a bounded share; another follows while something is
// left.
type Tick struct {
	// AsOf, if given, is the time up to which things are due, unless the command's time is earlier. If a process is
	// suspended between making a tick and writing it, no lease may end because of the time in which nobody could tickle.
	AsOf int64
	// Rows bounds the work of the tick by the approximate number of rows that it writes; 0 selects the store's bound. The
	// proposer knows how fast the disk is and whether other requests wait.
	Rows int
}

// MaxTickRows bounds Tick.Rows to about ten milliseconds of work.
const MaxTickRows = 8000

// Grace gives every lease its full length again, because nobody could tickle for a while.
type Grace struct{}

// Mark changes no state. The journal writes it when idle: its record proves that everything before it was durable.
type Mark struct{}

// SetLevel raises the level of the rules that Apply follows.
type SetLevel struct{ Level int }

func (Tick) Verb() string { return "tick" }

func (Grace) Verb() string { return "grace" }

func (Mark) Verb() string { return "mark" }

func (SetLevel) Verb() string { return "level" }

func (t Tick) Encode() (fieldText, body []byte) {
	var f fields
	f.int("as_of", t.AsOf)
	f.int("rows", int64(t.Rows))
	return f, nil
}

func (Grace) Encode() (fieldText, body []byte) { return nil, nil }

func (Mark) Encode() (fieldText, body []byte) { return nil, nil }

func (l SetLevel) Encode() (fieldText, body []byte) {
	var f fields
	f.int("level", int64(l.Level))
	return f, nil
}

func decodeTick(r *fieldReader) Command {
	var t Tick
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "as_of":
			t.AsOf = r.int(key, raw, 1, MaxTimeMs)
		case "rows":
			t.Rows = int(r.int(key, raw, 1, MaxTickRows))
		default:
			r.unknown(key)
		}
	}
	return t
}

func decodeLevel(r *fieldReader) Command {
	var l SetLevel
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key != "level" {
			r.unknown(key)
			continue
		}
		l.Level = int(r.int(key, raw, 1, 1<<31-1))
	}
	if l.Level == 0 {
		r.fail(fmt.Errorf("level is missing"))
	}
	return l
}
