package job

import (
	"fmt"
	"slices"
)

// Op is an operation that an operator requests for jobs.
type Op uint8

// Cancel ends unfinished jobs. Redrive makes ended jobs pending again, with no attempts counted. Run makes deferred jobs
// pending before their time. Delete removes jobs in any status.
const (
	Cancel Op = iota + 1
	Redrive
	Run
	Delete
)

var opNames = [...]string{"", "cancel", "redrive", "run", "delete"}

func (o Op) String() string { return opNames[o] }

// Takes lists the statuses that an operation applies to, in the order of a sweep: a job that changes its status during
// the sweep moves to one that the sweep has yet to visit.
func (o Op) Takes() []Status {
	switch o {
	case Cancel:
		return []Status{Deferred, Pending, Active}
	case Redrive:
		return []Status{Failed, Cancelled, Completed}
	case Run:
		return []Status{Deferred}
	}
	return []Status{Deferred, Pending, Active, Completed, Failed, Cancelled}
}

// Move applies an operation to one job, or to the jobs of a batch or queue in the given status (zero Status: in any
// status that the operation takes). If there are more jobs than one command may change, it becomes a sweep, which ticks
// advance.
type Move struct {
	Op           Op
	Job          ID // this job,
	Batch        ID // or the jobs of this batch,
	Client, Type string
	Status       Status
}

func (m Move) Verb() string { return m.Op.String() }

func (m Move) Encode() (fieldText, body []byte) {
	var f fields
	f.id("id", m.Job)
	f.id("batch", m.Batch)
	f.text("client", m.Client)
	f.text("type", m.Type)
	if m.Status != 0 {
		f.text("status", m.Status.String())
	}
	return f, nil
}

func decodeMove(r *fieldReader, op Op) Command {
	m := Move{Op: op}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "id":
			m.Job = r.id(raw)
		case "batch":
			m.Batch = r.id(raw)
		case "client":
			m.Client = r.name(key, raw)
		case "type":
			m.Type = r.name(key, raw)
		case "status":
			m.Status = r.status(key, raw)
		default:
			r.unknown(key)
		}
	}
	queue := m.Client != "" || m.Type != ""
	targets := 0
	for _, given := range [...]bool{!m.Job.IsZero(), !m.Batch.IsZero(), queue} {
		if given {
			targets++
		}
	}
	if targets != 1 || queue && (m.Client == "" || m.Type == "") {
		r.fail(fmt.Errorf("one job, or one batch, or a client and a type are wanted"))
	}
	if op == Run && m.Job.IsZero() {
		r.fail(fmt.Errorf("%s is for one job: there is no sweep that runs jobs", op))
	}
	if m.Status != 0 && (!m.Job.IsZero() || !slices.Contains(op.Takes(), m.Status)) {
		r.fail(fmt.Errorf("%s does not take the status %v here", op, m.Status))
	}
	return m
}

// Patch changes attributes of one waiting job. A nil field leaves the attribute unchanged.
type Patch struct {
	Job         ID
	Priority    *int
	RunAt       *int64 // unix ms; a time that is not in the future: now
	MaxAttempts *int
}

func (Patch) Verb() string { return "patch" }

func (p Patch) Encode() (fieldText, body []byte) {
	var f fields
	f.id("id", p.Job)
	if p.Priority != nil {
		f.key("priority")
		f = fmt.Appendf(f, "%d", *p.Priority)
	}
	if p.RunAt != nil {
		f.key("run_at")
		f = fmt.Appendf(f, "%d", *p.RunAt)
	}
	if p.MaxAttempts != nil {
		f.key("max_attempts")
		f = fmt.Appendf(f, "%d", *p.MaxAttempts)
	}
	return f, nil
}

func decodePatch(r *fieldReader) Command {
	var p Patch
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "id":
			p.Job = r.id(raw)
		case "priority":
			n := int(r.int(key, raw, 0, MaxPriority))
			p.Priority = &n
		case "run_at":
			n := r.int(key, raw, 0, MaxTimeMs)
			p.RunAt = &n
		case "max_attempts":
			n := int(r.int(key, raw, 1, MaxAttempts))
			p.MaxAttempts = &n
		default:
			r.unknown(key)
		}
	}
	if p.Job.IsZero() || p.Priority == nil && p.RunAt == nil && p.MaxAttempts == nil {
		r.fail(fmt.Errorf("the job, or what to change, is missing"))
	}
	return p
}
