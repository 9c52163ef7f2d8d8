package client

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/job"
)

// Strategy says which jobs a claim takes. Jobs of the highest priority are always first. It is one of the constants, or
// what PreferDistinct returns; "" means Oldest.
type Strategy string

const (
	// Oldest takes the jobs that came back from a runner, in the order of their ids, then those that have been pending
	// the longest.
	Oldest Strategy = "oldest"
	// Newest takes the jobs that became pending last, then those that came back.
	Newest Strategy = "newest"
	// Random takes each job with the same chance. A claim of several jobs takes those that follow the drawn one.
	Random Strategy = "random"
	// Fair takes one job of each client in turn.
	Fair Strategy = "fair"
)

// PreferDistinct returns the strategy that prefers jobs whose value of a key of Meta has the fewest active jobs, such as
// those of the user with the fewest. Counted are the jobs of the client that the job belongs to, whoever claimed them.
// Jobs without the key rank like those of a value without active jobs. Nothing is withheld: if only jobs of busy values
// wait, the claim takes them.
//
// Among equals, the order is that of underlying. Random draws a value and takes its oldest job. underlying may be a
// PreferDistinct of another key:
//
//	client.PreferDistinct("region", client.PreferDistinct("user", client.Random))
//
// At most four keys are allowed. A request with a strategy that is not valid returns ErrBadRequest.
func PreferDistinct(metaKey string, underlying Strategy) Strategy {
	if underlying == "" {
		underlying = Oldest
	}
	return Strategy(job.PreferDistinctName + ":" + metaKey + "/" + string(underlying))
}

// MarshalJSON returns the form of the strategy in requests: a name, or an object for PreferDistinct.
func (s Strategy) MarshalJSON() ([]byte, error) {
	if !strings.Contains(string(s), "/") {
		return json.Marshal(string(s)) // the server refuses names that it does not know
	}
	parsed, err := job.ParseStrategy(string(s))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	var form any = Strategy(parsed.Base().String())
	for _, key := range slices.Backward(parsed.DistinctKeys()) {
		form = map[string]any{"name": job.PreferDistinctName, "meta_key": key, "underlying": form}
	}
	return json.Marshal(form, json.Deterministic(true))
}
