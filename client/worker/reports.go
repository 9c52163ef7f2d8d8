package worker

import (
	"context"
	"sync"
	"time"
)

const (
	// reportJobs is how many jobs one report has at most.
	reportJobs = 1000
	// reportDelay is how long the ended jobs of a claim wait for the other jobs of the claim. Most claims are then
	// reported as a whole, in a small request, and the server ends the jobs of a claim together.
	reportDelay = 5 * time.Millisecond
	// wholeDelay replaces reportDelay if the rest of the claim will probably end by then, judging by the ended jobs,
	// and if the claim can be reported as a whole.
	wholeDelay = 50 * time.Millisecond
	// wholeFrom is how many jobs a claim must have to be reported as a whole. Jobs of smaller claims are reported
	// together.
	wholeFrom = 8
	// maxWholes is how many reports of whole claims may be outstanding. maxJoined is the limit for reports that join
	// jobs of several claims.
	maxWholes, maxJoined = 16, 4
	// While a joined report is outstanding, the next one begins only with joinJobs jobs or after joinDelay. A report
	// usually ends within milliseconds.
	joinJobs, joinDelay = 256, 50 * time.Millisecond
)

// reports are the ended jobs that the server does not know of yet.
type reports struct {
	*reporter
	changed chan struct{} // capacity 1; signals sendAll to look again

	mu             sync.Mutex   // guards the fields below
	claims         []*heldClaim // claims with jobs in toReport
	wholes, joined int          // outstanding reports
	urgent         bool         // no job waits for reportDelay, since the worker stops
}

func newReports(t *transport, w *Worker, stopping context.Context, p *problems) *reports {
	return &reports{changed: make(chan struct{}, 1), reporter: &reporter{
		transport: t, stopping: stopping, timeout: w.ReportTimeout, logger: w.Logger, onEvent: w.OnEvent, problems: p, ungets: make(chan struct{}, ungetsAtOnce),
	}}
}

// add adds the ends of runs.
func (s *reports) add(tasks []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		c := t.claim
		c.unended--
		if len(c.toReport) == 0 {
			c.since = time.Now()
			s.claims = append(s.claims, c)
			signal(s.changed)
		}
		if c.toReport = append(c.toReport, t); c.unended == 0 {
			signal(s.changed)
		}
	}
}

// hurry makes all jobs be reported without delay from now on.
func (s *reports) hurry() {
	s.mu.Lock()
	s.urgent = true
	s.mu.Unlock()
	signal(s.changed)
}

// ended records the end of a report. underWay is the counter of its kind.
func (s *reports) ended(underWay *int) {
	s.mu.Lock()
	*underWay--
	s.mu.Unlock()
	signal(s.changed)
}

// sendAll reports jobs that have ended, as many as there are in one request. It returns when done is closed.
func (s *reports) sendAll(done <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-s.changed:
		case <-timer.C:
		}
		next := s.sendDue(time.Now())
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// sendDue begins the reports that are due, and returns when the next may be due; zero means after the next signal.
func (s *reports) sendDue(now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var later, due []*heldClaim
	jobs, oldest := 0, now
	for _, c := range s.claims {
		at := c.since.Add(reportDelay)
		if c.endsSoon(now) {
			at = c.since.Add(wholeDelay)
		}
		switch {
		case c.unended > 0 && !s.urgent && now.Before(at):
			if next.IsZero() || at.Before(next) {
				next = at
			}
			later = append(later, c)
		case s.wholes < maxWholes && c.wentWell():
			s.wholes++
			tasks := c.toReport
			c.toReport = nil
			s.underWay.Go(func() {
				s.reportWhole(c, tasks)
				s.ended(&s.wholes)
			})
		default:
			due = append(due, c)
			jobs += len(c.toReport)
			if c.since.Before(oldest) {
				oldest = c.since
			}
		}
	}
	s.claims = append(later, due...)
	if len(due) == 0 || s.joined == maxJoined {
		return next
	}
	if at := oldest.Add(joinDelay); s.joined > 0 && jobs < joinJobs && now.Before(at) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
		return next
	}
	var tasks []*task
	for len(due) > 0 && len(tasks) < reportJobs {
		tasks = append(tasks, due[0].toReport...)
		due[0].toReport = nil
		due = due[1:]
	}
	if s.claims = append(later, due...); len(due) > 0 {
		signal(s.changed)
	}
	s.joined++
	s.underWay.Go(func() {
		s.report(tasks)
		s.ended(&s.joined)
	})
	return next
}

// endsSoon reports whether the ended jobs of a larger claim all ended ok with nothing else to report, and its running
// jobs most likely end within wholeDelay. reports.mu is held.
func (c *heldClaim) endsSoon(now time.Time) bool {
	ended := len(c.toReport)
	return c.unended > 0 && len(c.tasks) >= wholeFrom && ended+c.unended == len(c.tasks) &&
		now.Sub(c.since)*time.Duration(len(c.tasks)) <= wholeDelay*time.Duration(ended) && c.nothingToReport()
}

// wentWell reports whether all jobs of a larger claim have ended ok, with nothing else to report. reports.mu is held.
func (c *heldClaim) wentWell() bool {
	return len(c.tasks) >= wholeFrom && len(c.toReport) == len(c.tasks) && c.nothingToReport()
}

// nothingToReport reports whether all jobs of toReport have ended ok, without anything else to report. reports.mu is
// held.
func (c *heldClaim) nothingToReport() bool {
	for _, t := range c.toReport {
		if t.how.err != nil || t.how.giveBack || !plain(&t.how.outcome) {
			return false
		}
	}
	return true
}
