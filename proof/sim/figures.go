package sim

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/report"
)

// Figures counts the events of a simulation. It is one flat list, since each field is a line of the report.
type Figures struct {
	Seeds, Kills, PowerLosses, Stops, Refused   int
	Faults, Creates, Jobs, Claims, Ends, Checks int
	// Answered operations of operators; sweeps that continued after their command.
	Operations, Sweeps      int
	Queues                  int // deleted queues
	Documents, Differing    int // changes of named documents; those whose condition did not hold
	SetAside                int // jobs that were set aside as damaged
	Cuts                    int // times that a cut journal was compared with the store's disk
	Read, Lost, Violations  int // documents of acknowledged jobs; jobs without one; broken rules
	Commands                uint64
	Numbered                int // requests in sessions
	Trespasses, TenantLists int // refused requests of tenants that named others; times that the lists of a tenant were compared
	Chained, Followed       int // jobs that outcomes created; jobs that completed jobs created
	Unclaimed               int // granted outcomes of jobs that their sender had not claimed
	Losses                  int // commands that returned jobs of lost runners
	// Claims whose jobs streams sent; begun runs that ended with their streams; granted late outcomes of these runs;
	// leases that ended without a tickle.
	Pushes, LostRuns, LateAfterLoss, Silences int
	// Batches with attributes: how many were seen as ended, how many of these failed and cancelled their other jobs,
	// creates that added jobs to a batch or were refused by it, and results read.
	Completed, Failed, Cancelled, RestCancelled, Added, Declined, Results int
	Joined                                                                int // jobs that were created alone and share a record of the journal
}

// Add adds other to f.
func (f *Figures) Add(other Figures) { report.Add(f, other) }

// sawEnd counts a batch with attributes when it is first seen as ended.
func (f *Figures) sawEnd(of *submission, status job.BatchStatus) {
	switch {
	case status == job.BatchCompleted:
		f.Completed++
	case status == job.BatchCancelled:
		f.Cancelled++
	case of.create.create.Submission.OnFailure == job.CancelRest:
		f.RestCancelled++
	default:
		f.Failed++
	}
}
