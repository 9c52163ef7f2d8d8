package crash

import (
	"encoding/json"

	"github.com/daybookq/daybook/job"
)

// claimed is the answer to a claim.
type claimed struct {
	claim   job.ID // zero: there was no job
	jobs    []document
	ended   int
	refused bool // the outcome for all jobs of the ended claim was refused
}

// read reads the answer to a claim.
func (w *claimRequest) read(body []byte) (a claimed, err error) {
	if w.runs {
		return readRuns(body)
	}
	if w.max == 0 && w.ends == nil {
		a.jobs = make([]document, 1)
		if err = json.Unmarshal(body, &a.jobs[0]); err == nil && a.jobs[0].ClaimID != nil {
			a.claim = *a.jobs[0].ClaimID
		}
		return a, err
	}
	var doc struct {
		ClaimID *job.ID    `json:"claim_id"`
		Jobs    []document `json:"jobs"`
		Ended   int        `json:"ended"`
		Refused *struct {
			Code string `json:"code"`
		} `json:"complete_refused"`
	}
	if err = json.Unmarshal(body, &doc); err == nil && doc.ClaimID != nil {
		a.claim = *doc.ClaimID
	}
	a.jobs, a.ended, a.refused = doc.Jobs, doc.Ended, doc.Refused != nil
	return a, err
}

// result is the result of one outcome.
type result struct {
	JobID  job.ID  `json:"job_id"`
	Status *string `json:"status"`
	Code   string  `json:"code"`
}

// readResults reads the results of sendOutcomes.
func (g *grant) readResults(body []byte) ([]result, error) {
	if g.runs {
		return resultsInRuns(body)
	}
	var doc struct {
		Results []result `json:"results"`
	}
	err := json.Unmarshal(body, &doc)
	return doc.Results, err
}
