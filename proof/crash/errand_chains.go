package crash

import (
	"context"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/client"
)

// This file has the steps of an errand about chained jobs. The errand takes a job with an on_complete. The job's outcome
// creates another job as well, and the errand repeats the outcome. Then exactly these two jobs must exist. The steps need
// no random numbers.

// ownChain is the job of this errand.
type ownChain struct {
	chains     int // such jobs so far
	source     string
	chainClaim string
}

// chainTypes are the types of the job and of the two jobs that it creates.
func (e *errands) chainTypes() (source, created string) {
	return e.name + "-source", e.name + "-created"
}

// chainPayloads returns the payloads of the jobs that the completion creates: of the outcome's job and of the follow-on
// job.
func (e *errands) chainPayloads() (then, output string) {
	return fmt.Sprintf("then %d of %s", e.chains, e.name), fmt.Sprintf("output %d of %s", e.chains, e.name)
}

func (e *errands) chainSteps() []step {
	return []step{e.createSource(), e.claimSource(), e.completeSource(), e.claimCreated(), e.completeCreated()}
}

func (e *errands) createSource() step {
	source, created := e.chainTypes()
	none := int64(0)
	e.chains++
	j := client.TextJob(source, fmt.Sprintf("chain %d", e.chains))
	j.RetentionMs, j.LeaseMs, j.Meta = &none, ownLeaseMs, map[string]string{"chain": fmt.Sprint(e.chains)}
	j.OnComplete = &client.FollowOn{Type: created, Attributes: client.Attributes{RetentionMs: &none, LeaseMs: ownLeaseMs}}
	return e.underNumber("create a job that another one follows", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		doc, err := c.Create(ctx, j)
		if err != nil {
			return "", err
		}
		e.source = doc.ID
		return doc.ID, nil
	}, nil)
}

func (e *errands) claimSource() step {
	source, _ := e.chainTypes()
	return e.underNumber("claim a job that another one follows", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		got, err := c.Claim(ctx, client.ClaimRequest{RunnerID: e.name, Types: []string{source}, Max: 10})
		switch {
		case err != nil:
			return "", err
		case got == nil || len(got.Jobs) != 1 || got.Jobs[0].ID != e.source:
			return "", impossiblef("claim of the only job, %s: %+v", e.source, got)
		}
		e.chainClaim = got.ID
		return got.ID, nil
	}, nil)
}

// completeSource completes the job twice, with the same number.
func (e *errands) completeSource() step {
	_, created := e.chainTypes()
	then, output := e.chainPayloads()
	none := int64(0)
	j := client.TextJob(created, then)
	j.RetentionMs, j.LeaseMs = &none, ownLeaseMs
	o := client.TextOutput(output)
	o.Then = []client.NewJob{j}
	return e.underNumber("complete a job and create another one", 2, false, func(ctx context.Context, c *client.Client) (string, error) {
		return completeJob(ctx, c, e.source, e.chainClaim, o)
	}, nil)
}

// completeJob completes a job, and returns its status, which must be completed.
func completeJob(ctx context.Context, c *client.Client, id, claim string, o client.Outcome) (string, error) {
	doc, err := c.Complete(ctx, id, claim, o)
	switch {
	case err != nil:
		return "", err
	case doc.Status != "completed":
		return "", impossiblef("the completion was answered with %+v", *doc)
	}
	return doc.Status, nil
}

// claimCreated claims all jobs that the completion created.
func (e *errands) claimCreated() step {
	_, created := e.chainTypes()
	then, output := e.chainPayloads()
	var want []string
	for _, payload := range []string{then, output} {
		want = append(want, fmt.Sprintf("%s, hops 1, chain %d", payload, e.chains))
	}
	slices.Sort(want)
	return e.underNumber("claim chained jobs", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		got, err := c.Claim(ctx, client.ClaimRequest{RunnerID: e.name, Types: []string{created}, Max: 10})
		if err != nil {
			return "", err
		}
		var found []string
		if got != nil {
			e.chainClaim = got.ID
			for _, j := range got.Jobs {
				doc, err := e.c.Job(ctx, j.ID) // a claim does not show the hops
				if err != nil {
					return "", err
				}
				found = append(found, fmt.Sprintf("%s, hops %d, chain %s", j.Payload, doc.Hops, doc.Meta["chain"]))
			}
		}
		if slices.Sort(found); !slices.Equal(found, want) {
			return "", impossiblef("the completion of job %s must have created %q, and has created %q", e.source, want, found)
		}
		return e.chainClaim, nil
	}, nil)
}

func (e *errands) completeCreated() step {
	return e.underNumber("complete chained jobs", 1, false, func(ctx context.Context, c *client.Client) (string, error) {
		ended, _, err := c.CompleteClaim(ctx, e.chainClaim, client.TextOutput("the end"))
		if err == nil && ended != 2 {
			err = impossiblef("claim %s of two chained jobs ended %d", e.chainClaim, ended)
		}
		return fmt.Sprint(ended), err
	}, nil)
}
