package crash

import (
	"fmt"
	"slices"

	"github.com/daybookq/daybook/client"
)

// The rows of an errand about chained jobs. The errand takes a job with an on_complete. The job's outcome creates another
// job as well, and the errand repeats the outcome. Then exactly these two jobs must exist. The rows need no random numbers.

// ownChain is the job of this errand.
type ownChain struct {
	chains             int // such jobs so far
	source, chainClaim string
}

func (e *errands) chainRows() []row {
	e.chains++
	source, created, chain := e.name+"-source", e.name+"-created", fmt.Sprint(e.chains)
	then, output := fmt.Sprintf("then %s of %s", chain, e.name), fmt.Sprintf("output %s of %s", chain, e.name)
	own := func(typ, payload string) client.NewJob {
		j, none := client.TextJob(typ, payload), int64(0)
		j.RetentionMs, j.LeaseMs = &none, ownLeaseMs
		return j
	}
	job := own(source, "chain "+chain)
	job.Meta = map[string]string{"chain": chain}
	job.OnComplete = &client.FollowOn{Type: created, Attributes: client.Attributes{RetentionMs: job.RetentionMs, LeaseMs: ownLeaseMs}}
	outcome := client.TextOutput(output)
	outcome.Then = []client.NewJob{own(created, then)}
	claimed := ids{"ID": &e.chainClaim}
	return []row{
		{
			verb: "create a job that another one follows", numbered: true, ids: ids{"ID": &e.source},
			request: func(c call) (any, error) { return c.Create(c, job) },
		},
		{
			verb: "claim a job that another one follows", numbered: true, ids: claimed,
			request: func(c call) (any, error) {
				return c.claims(client.ClaimRequest{Max: 10}, e.name, source)
			},
			answer: func() any { return fields{"Jobs": []fields{{"ID": e.source}}} },
		},
		{
			verb: "complete a job and create another one", numbered: true, times: 2,
			request: func(c call) (any, error) {
				return c.Complete(c, e.source, e.chainClaim, outcome)
			},
			answer: isCompleted,
		},
		{
			verb: "claim chained jobs", numbered: true, ids: claimed,
			request: func(c call) (any, error) {
				got, err := c.Claim(c, client.ClaimRequest{RunnerID: e.name, Types: []string{created}, Max: 10})
				if got == nil || err != nil {
					return map[string]any{"ID": "none"}, err
				}
				var jobs []string
				for _, j := range got.Jobs {
					doc, err := e.c.Job(c, j.ID) // a claim does not show the hops
					if err != nil {
						return nil, err
					}
					jobs = append(jobs, follower(string(j.Payload), doc.Hops, doc.Meta["chain"]))
				}
				slices.Sort(jobs)
				return map[string]any{"ID": got.ID, "created": jobs}, nil
			},
			answer: func() any { // in the order of chained jobs by their texts
				return fields{"created": []string{follower(output, 1, chain), follower(then, 1, chain)}}
			},
		},
		{
			verb: "complete chained jobs", numbered: true,
			request: func(c call) (any, error) {
				ended, _, err := c.CompleteClaim(c, e.chainClaim, client.TextOutput("the end"))
				return ended, err
			},
			answer: 2,
		},
	}
}

func follower(payload string, hops int, chain string) string {
	return fmt.Sprintf("%q, hops %d, chain %s", payload, hops, chain)
}

// isCompleted is the right answer to a completion.
var isCompleted = fields{"Status": "completed"}
