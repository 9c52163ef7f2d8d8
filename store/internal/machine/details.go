package machine

import (
	"cmp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// A detail is a row beside the spans that belongs to one line: an attempt of its history, its result, its progress, or
// a step.

// remember adds an attempt to the history of each line, as a separate row. It deletes old attempts only from lines that
// may have more than are kept.
func (a *Applying) remember(p row.Part, attempt job.Attempt) {
	attempt.At = a.Now.At
	value := row.EncodeAttempt(&attempt)
	for line := p.First; line <= p.Last; line++ {
		a.O.Set(row.HistoryKey(p.B.Seq, line, a.Now.Seq), value)
		if p.In.Attempts > job.MaxHistory || p.In.Redrives > 0 {
			a.forgetOldAttempts(p.B, line)
		}
	}
	p.B.Details = true
	a.Touch(&p.B.Dirty, p.B)
}

// forgetLastAttempt deletes the newest attempt in the history of lines. A late report of the same run's outcome
// replaces it.
func (a *Applying) forgetLastAttempt(p row.Part) {
	for line := p.First; line <= p.Last; line++ {
		newest := ""
		prefix := row.DetailKey(p.B.Seq, line, row.HistoryDetail)
		a.O.ScanDown(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			newest = key
			return false
		})
		if newest != "" {
			a.O.Delete(newest)
		}
	}
}

// forgetOldAttempts deletes the oldest attempts of a line, and keeps job.MaxHistory.
func (a *Applying) forgetOldAttempts(b *row.Batch, line uint32) {
	var keys []string
	prefix := row.DetailKey(b.Seq, line, row.HistoryDetail)
	a.O.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		return true
	})
	for _, key := range keys[:max(0, len(keys)-job.MaxHistory)] {
		a.O.Delete(key)
	}
}

// setProgress writes the step and progress of a job. A step or progress that the request does not name stays, if it was
// reported under the same claim.
func (a *Applying) setProgress(b *row.Batch, line uint32, claim uint64, t *job.Tickle) {
	p, isNew := row.Progress{Claim: claim, Step: t.Step, Progress: t.Progress}, t.Step != ""
	if b.Details {
		if value := a.O.Get(row.DetailKey(b.Seq, line, row.ProgressDetail)); value != nil {
			old := row.DecodeProgress(value)
			p.Steps = old.Steps
			if old.Claim == claim {
				isNew = isNew && p.Step != old.Step
				p.Step = cmp.Or(p.Step, old.Step)
				if p.Progress < 0 {
					p.Progress = old.Progress
				}
			}
		}
	}
	if isNew {
		a.O.Set(row.StepKey(b.Seq, line, byte(p.Steps%job.MaxSteps)), row.EncodeStep(&job.Step{At: a.Now.At, Name: p.Step}))
		p.Steps++
	}
	a.setDetail(b, line, row.ProgressDetail, p.Encode())
}

func (a *Applying) setDetail(b *row.Batch, line uint32, kind byte, value []byte) {
	a.O.Set(row.DetailKey(b.Seq, line, kind), value)
	b.Details = true
	a.Touch(&b.Dirty, b)
}

// MaxPointDeletes bounds the details that one command deletes one by one. For fewer details a range deletion would be
// shorter but slower: each one that Pebble holds in memory slows all reads, and purging job by job makes very many.
// Most ticks end before they reach this number.
const MaxPointDeletes = 1000

// deleteDetails deletes the details of lines.
func (a *Applying) deleteDetails(r row.Run) {
	from, to := row.DetailKey(r.Batch, r.First, 0), row.DetailKey(r.Batch, r.Last+1, 0)
	var keys []string
	if a.PointDeletes > 0 {
		a.O.Scan(from, to, func(key string, _ []byte) bool {
			keys = append(keys, key)
			return len(keys) <= a.PointDeletes
		})
	}
	a.BesideRows += len(keys)
	if a.PointDeletes == 0 || len(keys) > a.PointDeletes {
		a.O.DeleteRange(from, to)
		return
	}
	a.PointDeletes -= len(keys)
	for _, key := range keys {
		a.O.Delete(key)
	}
}
