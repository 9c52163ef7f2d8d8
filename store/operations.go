package store

import "github.com/daybookq/daybook/job"

// operate applies an operation to one job.
func (a *applying) operate(m job.Move) *Moved {
	p, ok := a.find(m.Job)
	if !ok {
		return &Moved{Refusal: job.NotFound}
	}
	switch m.Op {
	case job.Cancel:
		if _, refusal := p.in.Cancel(a.now); refusal != job.Granted {
			return &Moved{Refusal: refusal}
		}
		a.cancel(p)
		return &Moved{Status: job.Cancelled}
	case job.Redrive:
		if _, refusal := p.in.Redrive(a.now); refusal != job.Granted {
			return &Moved{Refusal: refusal}
		}
		if a.deleting(p) {
			return &Moved{Refusal: job.NotFound}
		}
		if a.submissionEnded(p.b) {
			return &Moved{Refusal: job.BatchEnded}
		}
		if a.redrive(p) > 0 {
			return &Moved{Refusal: job.KeyHeld}
		}
	case job.Run:
		next, refusal := p.in.RunNow(a.now)
		if refusal != job.Granted {
			return &Moved{Refusal: refusal}
		}
		if next != p.in.State {
			a.move(p, next, reasonStarted)
		}
	case job.Delete:
		a.purge(p, reasonDeleted)
		return &Moved{Status: p.in.Status}
	}
	return &Moved{Status: job.Pending}
}

// patch changes attributes of a waiting job.
func (a *applying) patch(cmd job.Patch) *Moved {
	p, ok := a.find(cmd.Job)
	if !ok || a.deleting(p) {
		return &Moved{Refusal: job.NotFound}
	}
	next, refusal := p.in.Patch(&p.group().Attributes, &cmd, a.now)
	if refusal != job.Granted {
		return &Moved{Refusal: refusal}
	}
	if next != p.in.State {
		a.move(p, next, reasonPatched)
	}
	return &Moved{Status: a.takeBack(p, &next)}
}

// pause stops or resumes a queue.
func (a *applying) pause(cmd job.Pause) *Paused {
	q := a.queues.byName[queueName{cmd.Client, cmd.Type}]
	if q == nil {
		return &Paused{Refusal: job.QueueNotFound}
	}
	if q.paused != cmd.Paused {
		a.touchQueue(q)
		q.paused = cmd.Paused
		a.reviseIdle(q)
		a.queueMoved(q)
		a.distinct.paused(q)
		if !q.paused {
			a.gained(q)
		}
	}
	return &Paused{}
}

// setSwitch sets the switch that stops all handing out of jobs.
func (a *applying) setSwitch(cmd job.Switch) *Switched {
	a.allReadied = a.meta.stopped && !cmd.Stopped || a.allReadied && !cmd.Stopped
	a.meta.stopped = cmd.Stopped
	return &Switched{Stopped: a.meta.stopped}
}
