package job

import "fmt"

// DeleteQueue deletes a queue without jobs. A later job for the same client and type makes a new queue.
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

// DeleteIdleQueues deletes queues that have been without jobs for IdleMs, the longest idle first. It skips paused queues.
// One command deletes a bounded number of queues.
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

// queue reads the two fields that name a queue, and accepts no others.
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

// Pause stops (or resumes) handing out the jobs of a queue. It does not affect active jobs.
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

// Switch stops (or resumes) handing out jobs of all queues, independently of their pauses. It does not affect active
// jobs.
type Switch struct{ Stopped bool }

func (s Switch) Verb() string {
	if s.Stopped {
		return "stop"
	}
	return "start"
}

func (Switch) Encode() (fieldText, body []byte) { return nil, nil }
