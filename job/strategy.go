package job

import (
	"fmt"
	"slices"
	"strings"
)

// Strategy says which jobs a claim takes, in a canonical text form, so that equal strategies are equal strings. Jobs of
// the highest priority are always first; among equals it is
//
//   - Oldest: those that came back, in the order of their ids, then those that have been pending the longest;
//   - Newest: those that became pending last, then those that came back, the youngest first;
//   - Random: each job with the same chance, however many there are; a claim of several jobs takes those that follow the drawn one in its queue;
//   - Fair: one job of each client in turn, by name, its oldest; the next claim continues after the client that was served last;
//   - PreferDistinct of a key of meta and an underlying strategy: the jobs whose value of the key has the fewest active
//     jobs of the same client, and among these the order of the underlying strategy. See PreferDistinct.
type Strategy string

// Oldest is the default. These four are the base strategies.
const (
	Oldest Strategy = ""
	Newest Strategy = "newest"
	Random Strategy = "random"
	Fair   Strategy = "fair"
)

const oldestName = "oldest"

// StrategyNames are the names of the base strategies.
var StrategyNames = []string{oldestName, string(Newest), string(Random), string(Fair)}

// PreferDistinctName is the name of the strategies that PreferDistinct returns.
const PreferDistinctName = "prefer_distinct"

// PreferDistinct returns the strategy that prefers jobs whose value of a key of meta has few active jobs.
//
// What counts are the active jobs of the client that the job belongs to, of all of its types, whoever claimed them.
// Values of different clients are different. A job without the key ranks as one whose value has no active jobs. The
// jobs are ranked for each job that is handed out, so that a claim of ten jobs spreads over the values as ten claims
// do. With Random below it, a value is drawn for each job, each with the same chance, and its oldest job is taken.
//
// underlying may be a PreferDistinct of another key, which ranks jobs that are equal by this one; MaxDistinctKeys keys
// are allowed in all.
func PreferDistinct(key string, underlying Strategy) (Strategy, error) {
	if err := checkMetaName(key); err != nil {
		return Oldest, fmt.Errorf("meta_key: %w", err)
	}
	if len(underlying.DistinctKeys()) == MaxDistinctKeys {
		return Oldest, fmt.Errorf("%s is nested more than %d times", PreferDistinctName, MaxDistinctKeys)
	}
	return Strategy(distinctPrefix + key + "/" + underlying.String()), nil
}

const distinctPrefix = PreferDistinctName + ":"

// String returns the name of a base strategy, or the form
//
//	prefer_distinct:user/prefer_distinct:region/random
func (s Strategy) String() string {
	if s == Oldest {
		return oldestName
	}
	return string(s)
}

// ParseStrategy is the inverse of String.
func ParseStrategy(text string) (Strategy, error) {
	parts := strings.SplitN(text, "/", MaxDistinctKeys+2) // and no more, however long the text is
	base := parts[len(parts)-1]
	if !slices.Contains(StrategyNames, base) {
		return Oldest, fmt.Errorf("strategy %q is not one of %s, nor one of them after %sKEY/, such as %suser/random, with at most %d keys",
			text, strings.Join(StrategyNames, ", "), distinctPrefix, distinctPrefix, MaxDistinctKeys)
	}
	s := Strategy(base)
	if base == oldestName {
		s = Oldest
	}
	for _, part := range slices.Backward(parts[:len(parts)-1]) {
		key, ok := strings.CutPrefix(part, distinctPrefix)
		if !ok {
			return Oldest, fmt.Errorf("strategy %q: %q is not %sKEY", text, part, distinctPrefix)
		}
		var err error
		if s, err = PreferDistinct(key, s); err != nil {
			return Oldest, fmt.Errorf("strategy %q: %w", text, err)
		}
	}
	return s, nil
}

// Base returns the base strategy: s itself, or the one below all PreferDistinct.
func (s Strategy) Base() Strategy {
	if s = s[strings.LastIndexByte(string(s), '/')+1:]; s == oldestName {
		return Oldest
	}
	return s
}

// DistinctKeys returns the keys of the PreferDistinct strategies, the outermost first; none of a base strategy.
func (s Strategy) DistinctKeys() (keys []string) {
	for part := range strings.SplitSeq(string(s), "/") {
		if key, ok := strings.CutPrefix(part, distinctPrefix); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
