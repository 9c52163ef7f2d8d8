package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// operate applies an operation to one job.
func (a *Applying) operate(m job.Move) *applied.Moved {
	p, ok := a.Find(m.Job)
	if !ok {
		return &applied.Moved{Refusal: job.NotFound}
	}
	switch m.Op {
	case job.Cancel:
		if _, refusal := p.In.Cancel(a.Now); refusal != job.Granted {
			return &applied.Moved{Refusal: refusal}
		}
		a.cancel(p)
		return &applied.Moved{Status: job.Cancelled}
	case job.Redrive:
		if _, refusal := p.In.Redrive(a.Now); refusal != job.Granted {
			return &applied.Moved{Refusal: refusal}
		}
		if a.deleting(p) {
			return &applied.Moved{Refusal: job.NotFound}
		}
		if a.submissionEnded(p.B) {
			return &applied.Moved{Refusal: job.BatchEnded}
		}
		if a.redrive(p) > 0 {
			return &applied.Moved{Refusal: job.KeyHeld}
		}
	case job.Run:
		next, refusal := p.In.RunNow(a.Now)
		if refusal != job.Granted {
			return &applied.Moved{Refusal: refusal}
		}
		if next != p.In.State {
			a.move(p, next, job.ReasonStarted)
		}
	case job.Delete:
		a.purge(p, job.ReasonDeleted)
		return &applied.Moved{Status: p.In.Status}
	}
	return &applied.Moved{Status: job.Pending}
}

// patch changes attributes of a waiting job.
func (a *Applying) patch(cmd job.Patch) *applied.Moved {
	p, ok := a.Find(cmd.Job)
	if !ok || a.deleting(p) {
		return &applied.Moved{Refusal: job.NotFound}
	}
	next, refusal := p.In.Patch(&p.Group().Attributes, &cmd, a.Now)
	if refusal != job.Granted {
		return &applied.Moved{Refusal: refusal}
	}
	if next != p.In.State {
		a.move(p, next, job.ReasonPatched)
	}
	return &applied.Moved{Status: a.takeBack(p, &next)}
}

// pause stops or resumes a queue.
func (a *Applying) pause(cmd job.Pause) *applied.Paused {
	q := a.AllQueues.ByName[row.QueueName{cmd.Client, cmd.Type}]
	if q == nil {
		return &applied.Paused{Refusal: job.QueueNotFound}
	}
	if q.Paused != cmd.Paused {
		a.touchQueue(q)
		q.Paused = cmd.Paused
		a.reviseIdle(q)
		a.queueMoved(q)
		a.Distinct.Paused(q)
		if !q.Paused {
			a.gained(q)
		}
	}
	return &applied.Paused{}
}

// setSwitch sets the switch that stops all handing out of jobs.
func (a *Applying) setSwitch(cmd job.Switch) *applied.Switched {
	a.AllReadied = a.Meta.Stopped && !cmd.Stopped || a.AllReadied && !cmd.Stopped
	a.Meta.Stopped = cmd.Stopped
	return &applied.Switched{Stopped: a.Meta.Stopped}
}
