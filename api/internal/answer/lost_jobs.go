package answer

import (
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Lost is a job that the runner does not hold, although it named the job or held it before.
type Lost struct {
	JobID job.ID `json:"job_id"`
	Code  string `json:"code" schema:"Code"`
}

// LostJobs returns the list for a document. It is never nil, because nil would be encoded as null.
func LostJobs(results []applied.JobResult) []Lost {
	list := make([]Lost, len(results))
	for i := range results {
		list[i] = Lost{results[i].ID, results[i].Refusal.Code()}
	}
	return list
}

// HeldDocument has the number of jobs that are still held, and the jobs that the runner has lost.
type HeldDocument struct {
	Held int    `json:"held" minimum:"0" doc:"number of jobs that are still held"`
	Lost []Lost `json:"lost"`
}

// NothingHeld refuses a tickle if none of its jobs is held.
func NothingHeld(t *applied.Tickled) error {
	if t.Held > 0 {
		return nil
	}
	r := t.Refusal
	if r == job.Granted {
		r = job.ClaimLost
	}
	p := *refusal.Err(r).(*web.Problem)
	p.Members = map[string]any{"lost": LostJobs(t.Lost)} // the document has the list even if it is empty
	return &p
}
