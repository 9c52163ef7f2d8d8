package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// purgeUnlessKept purges lines that have ended, if they are not to be kept.
func (a *Applying) purgeUnlessKept(p row.Part, next *job.State) {
	if _, atOnce := next.PurgeAt(&p.Group().Attributes); atOnce && next.Status.Terminal() {
		a.Each(p.B, p.First, p.Last, func(p row.Part) { a.purge(p, job.ReasonPurged) })
	}
}

// purge deletes lines in any status. A page is deleted with the last of its lines, and a batch with the last of all its
// lines.
func (a *Applying) purge(p row.Part, why job.Reason) {
	if why == job.ReasonPurged {
		a.keepEnd(p)
	}
	if p.B.Unique {
		a.BesideRows += uniqueKeyRows * a.deleteUniqueKeys(p.B, p.First, p.Last)
	}
	next := job.State{Status: job.Purged}
	if p.In.Status == job.Active {
		a.runEnded(p, &next, job.RunDeleted, 0, "")
	}
	a.move(p, next, why)
	if p.B.Details {
		a.deleteDetails(p.Run())
	}
	a.deletePages(p.B, p.First, p.Last)
	a.deleteIfPurged(p.B)
}
