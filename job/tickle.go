package job

import (
	"bytes"
	"fmt"
)

// Tickle reports that a runner is alive. It covers the jobs that it names, the jobs of a claim, or all jobs of a runner.
// If it names jobs together with a claim or runner, then that claim or runner must hold them.
type Tickle struct {
	IDs     []ID
	Claim   ID
	Runner  string
	LeaseMs int64 // 0: keep the length of the lease
	// Step and Progress are for the named jobs. Progress is in millionths, negative if not reported.
	Step     string
	Progress int64
}

// ProgressUnit is the Progress of a finished job.
const ProgressUnit = 1_000_000

func (Tickle) Verb() string { return "tickle" }

func (t Tickle) Encode() (fieldText, body []byte) {
	f := make(fields, 0, usualFields)
	f.id("claim", t.Claim)
	f.text("runner", t.Runner)
	f.int("lease_ms", t.LeaseMs)
	f.text("step", t.Step)
	if t.Progress >= 0 {
		f.key("progress")
		f = fmt.Appendf(f, "%d", t.Progress)
	}
	for _, id := range t.IDs {
		body = append(id.AppendText(body), '\n')
	}
	return f, body
}

func decodeTickle(r *fieldReader, body []byte) (Command, error) {
	t := Tickle{Progress: -1}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "claim":
			t.Claim = r.id(raw)
		case "runner":
			t.Runner = r.bounded(key, raw, MaxRunnerBytes)
		case "lease_ms":
			t.LeaseMs = r.int(key, raw, MinLeaseMs, MaxLeaseMs)
		case "step":
			t.Step = r.bounded(key, raw, MaxStepBytes)
		case "progress":
			t.Progress = r.int(key, raw, 0, ProgressUnit)
		default:
			r.unknown(key)
		}
	}
	for len(body) > 0 {
		line, rest, ok := bytes.Cut(body, []byte("\n"))
		id, err := parseCanonicalID(line)
		if err != nil || !ok {
			return nil, fmt.Errorf("line %q: %w", line, ErrBadID)
		}
		t.IDs = append(t.IDs, id)
		body = rest
	}
	if len(t.IDs) > MaxTickleIDs {
		return nil, fmt.Errorf("%d jobs are named", len(t.IDs))
	}
	if len(t.IDs) == 0 && t.Claim.IsZero() && t.Runner == "" {
		return nil, fmt.Errorf("neither jobs nor claim nor runner are named")
	}
	if len(t.IDs) == 0 && (t.Step != "" || t.Progress >= 0) {
		return nil, fmt.Errorf("step and progress want jobs")
	}
	return t, nil
}
