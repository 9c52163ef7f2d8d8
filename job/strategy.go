package job

import (
	"fmt"
	"slices"
	"strings"
)

// Strategy decides which jobs a claim takes. It is kept in a canonical text form, so that equal strategies are equal
// strings. Jobs of the highest priority always come first. Among jobs of equal priority, the strategies are:
//
//   - Oldest: returned jobs in the order of their ids, then the jobs that have been pending the longest.
//   - Newest: the jobs that became pending last, then returned jobs, youngest first.
//   - Random: each job has the same chance, however many there are. A claim of several jobs takes the drawn job and the
//     jobs that follow it in its queue.
//   - Fair: the oldest job of each client in turn, by name. The next claim continues after the client that was served last.
//   - PreferDistinct, with a key of meta and an underlying strategy: the jobs whose value of the key has the fewest active
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

// StrategyNames lists the names of the base strategies.
var StrategyNames = []string{oldestName, string(Newest), string(Random), string(Fair)}

// PreferDistinctName is the prefix of the strategies that PreferDistinct returns.
const PreferDistinctName = "prefer_distinct"

// PreferDistinct returns a strategy that prefers jobs whose value of a key of meta has few active jobs.
//
// It counts the active jobs of all types of the job's client, whoever claimed them. Equal values of different clients are
// counted separately. A job without the key ranks like a value without active jobs. Jobs are ranked again for each job
// that is handed out, so a claim of ten jobs spreads over the values like ten claims of one job. With Random as the
// underlying strategy, each value has the same chance to be drawn for a job, and the oldest job of the drawn value is
// taken.
//
// underlying may be a PreferDistinct of another key, which orders the jobs that rank equal by this key. A strategy may
// have at most MaxDistinctKeys keys.
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

// String returns the name of a base strategy, or a text such as
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
	parts := strings.SplitN(text, "/", MaxDistinctKeys+2) // a bounded number of parts, however long the text is
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

// Base returns the base strategy: s, or the innermost strategy of a PreferDistinct.
func (s Strategy) Base() Strategy {
	if s = s[strings.LastIndexByte(string(s), '/')+1:]; s == oldestName {
		return Oldest
	}
	return s
}

// DistinctKeys returns the keys of the PreferDistinct strategies, outermost first. A base strategy has none.
func (s Strategy) DistinctKeys() (keys []string) {
	for part := range strings.SplitSeq(string(s), "/") {
		if key, ok := strings.CutPrefix(part, distinctPrefix); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
