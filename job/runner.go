package job

import (
	"fmt"
	"math"
)

// LoseRunner returns the jobs of a lost runner. All jobs that its claims up to the command Through hold count as
// abandoned, without waiting for their leases to end. Later claims are left alone, because the runner was back by then.
// One command returns a bounded number of jobs. Its result says whether more are left; the server then repeats the
// command.
type LoseRunner struct {
	Runner  string
	Through uint64 // a seq
}

func (LoseRunner) Verb() string { return "loserunner" }

func (l LoseRunner) Encode() (fieldText, body []byte) {
	var f fields
	f.text("runner", l.Runner)
	f.int("through", int64(l.Through))
	return f, nil
}

func decodeLoseRunner(r *fieldReader) Command {
	var l LoseRunner
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "runner":
			l.Runner = r.bounded(key, raw, MaxRunnerBytes)
		case "through":
			l.Through = uint64(r.int(key, raw, 1, math.MaxInt64))
		default:
			r.unknown(key)
		}
	}
	if l.Runner == "" {
		r.fail(fmt.Errorf("runner is missing"))
	}
	return l
}
