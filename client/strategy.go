package client

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// Strategy decides which jobs a claim takes. Jobs of the highest priority are always first. It is one of the constants,
// or a result of PreferDistinct; "" means Oldest.
type Strategy string

const (
	// Oldest takes the jobs that runners have returned, in the order of their ids, then the jobs that have been pending
	// the longest.
	Oldest Strategy = "oldest"
	// Newest takes the jobs that became pending last, then the jobs that runners have returned.
	Newest Strategy = "newest"
	// Random takes each job with the same chance. A claim of several jobs takes the jobs that follow the drawn one.
	Random Strategy = "random"
	// Fair takes one job of each client in turn.
	Fair Strategy = "fair"
)

// PreferDistinct returns the strategy that prefers jobs by the value of a key of their Meta: values with the fewest
// active jobs are first, for example the user with the fewest. Active jobs are counted per client, whoever claimed
// them. Jobs without the key rank as if their value had no active jobs. Nothing is withheld: if only jobs of busy
// values wait, the claim takes them.
//
// underlying decides among equals. Random draws a value and takes its oldest job. underlying may be a PreferDistinct of
// another key:
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
		return nil, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	var form any = Strategy(parsed.Base().String())
	for _, key := range slices.Backward(parsed.DistinctKeys()) {
		form = map[string]any{"name": job.PreferDistinctName, "meta_key": key, "underlying": form}
	}
	return json.Marshal(form, json.Deterministic(true))
}
