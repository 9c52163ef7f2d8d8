package job

import "fmt"

// DeleteQueue deletes a queue that has no jobs. Its next job makes another one of that name.
type DeleteQueue struct{ Client, Type string }

func (DeleteQueue) Verb() string { return "deletequeue" }

func (d DeleteQueue) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", d.Client)
	f.text("type", d.Type)
	return f, nil
}

func decodeDeleteQueue(r *fieldReader) Command {
	var d DeleteQueue
	d.Client, d.Type = r.queue()
	return d
}

// DeleteIdleQueues deletes queues that have had no jobs for IdleMs, those that have had none for the longest time
// first, except those that are paused. One command deletes a bounded number.
type DeleteIdleQueues struct{ IdleMs int64 }

func (DeleteIdleQueues) Verb() string { return "deleteidle" }

func (d DeleteIdleQueues) Encode() (fieldText, body []byte) {
	var f fields
	f.int("idle_ms", d.IdleMs)
	return f, nil
}

func decodeDeleteIdleQueues(r *fieldReader) Command {
	var d DeleteIdleQueues
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key != "idle_ms" {
			r.unknown(key)
			continue
		}
		d.IdleMs = r.int(key, raw, MinQueueIdleMs, MaxDelayMs)
	}
	if d.IdleMs == 0 {
		r.fail(fmt.Errorf("idle_ms is missing"))
	}
	return d
}

// queue reads the two fields that name a queue, and no others.
func (r *fieldReader) queue() (client, typ string) {
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "client":
			client = r.name(key, raw)
		case "type":
			typ = r.name(key, raw)
		default:
			r.unknown(key)
		}
	}
	if client == "" || typ == "" {
		r.fail(fmt.Errorf("client or type is missing"))
	}
	return client, typ
}

// Pause stops (or resumes) handing out the jobs of a queue. Active jobs are not affected.
type Pause struct {
	Client, Type string
	Paused       bool
}

func (p Pause) Verb() string {
	if p.Paused {
		return "pause"
	}
	return "resume"
}

func (p Pause) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", p.Client)
	f.text("type", p.Type)
	return f, nil
}

func decodePause(r *fieldReader, paused bool) Command {
	p := Pause{Paused: paused}
	p.Client, p.Type = r.queue()
	return p
}

// Switch stops, or starts again, handing out any job at all, apart from what each queue's own pause says. Active jobs
// are not affected.
type Switch struct{ Stopped bool }

func (s Switch) Verb() string {
	if s.Stopped {
		return "stop"
	}
	return "start"
}

func (Switch) Encode() (fieldText, body []byte) { return nil, nil }
