package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A detail is a row beside the spans that belongs to one line: an attempt of its history, its result, its progress, or
// a step.

// remember adds an attempt to the history of each line, as a separate row. It deletes old attempts only from lines that
// may have more than are kept.
func (a *applying) remember(p part, attempt job.Attempt) {
	attempt.At = a.now.At
	value := encodeAttempt(&attempt)
	for line := p.first; line <= p.last; line++ {
		a.o.Set(historyKey(p.b.seq, line, a.now.Seq), value)
		if p.in.Attempts > job.MaxHistory || p.in.Redrives > 0 {
			a.deleteOldDetails(p.b, line, historyDetail, job.MaxHistory)
		}
	}
	p.b.details = true
	a.touch(&p.b.dirty, p.b)
}

// forgetLastAttempt deletes the newest attempt in the history of lines. A late report of the same run's outcome
// replaces it.
func (a *applying) forgetLastAttempt(p part) {
	for line := p.first; line <= p.last; line++ {
		newest := ""
		prefix := detailKey(p.b.seq, line, historyDetail)
		a.o.ScanDown(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			newest = key
			return false
		})
		if newest != "" {
			a.o.Delete(newest)
		}
	}
}

// deleteOldDetails deletes the oldest details of a line and kind, and keeps the newest kept ones.
func (a *applying) deleteOldDetails(b *batch, line uint32, kind byte, kept int) {
	var keys []string
	prefix := detailKey(b.seq, line, kind)
	a.o.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		return true
	})
	for _, key := range keys[:max(0, len(keys)-kept)] {
		a.o.Delete(key)
	}
}

// setProgress writes the step and progress of a job. A step or progress that the request does not name stays, if it was
// reported under the same claim.
func (a *applying) setProgress(b *batch, line uint32, claim uint64, t *job.Tickle) {
	step, progress, isNew := t.Step, t.Progress, t.Step != ""
	if b.details {
		if value := a.o.Get(detailKey(b.seq, line, progressDetail)); value != nil {
			if seq, oldStep, oldProgress := decodeProgress(value); seq == claim {
				isNew = isNew && step != oldStep
				if step == "" {
					step = oldStep
				}
				if progress < 0 {
					progress = oldProgress
				}
			}
		}
	}
	a.setDetail(b, line, progressDetail, encodeProgress(claim, step, progress))
	if isNew && a.meta.level >= stepsLevel {
		a.o.Set(stepKey(b.seq, line, a.now.Seq), encodeStep(claim, &job.Step{At: a.now.At, Name: step}))
		a.deleteOldDetails(b, line, stepDetail, job.MaxSteps)
	}
}

// stepsLevel is the first level that keeps the steps of jobs.
const stepsLevel = 4

func (a *applying) setDetail(b *batch, line uint32, kind byte, value []byte) {
	a.o.Set(detailKey(b.seq, line, kind), value)
	b.details = true
	a.touch(&b.dirty, b)
}

// maxPointDeletes bounds the details that one command deletes one by one. For fewer details a range deletion would be
// shorter but slower: each one that Pebble holds in memory slows all reads, and purging job by job makes very many.
// Most ticks end before they reach this number.
const maxPointDeletes = 1000

// deleteDetails deletes the details of lines.
func (a *applying) deleteDetails(r Run) {
	from, to := detailKey(r.Batch, r.First, 0), detailKey(r.Batch, r.Last+1, 0)
	var keys []string
	if a.pointDeletes > 0 {
		a.o.Scan(from, to, func(key string, _ []byte) bool {
			keys = append(keys, key)
			return len(keys) <= a.pointDeletes
		})
	}
	a.besideRows += len(keys)
	if a.pointDeletes == 0 || len(keys) > a.pointDeletes {
		a.o.DeleteRange(from, to)
		return
	}
	a.pointDeletes -= len(keys)
	for _, key := range keys {
		a.o.Delete(key)
	}
}
