package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func mustDistinct(key string, underlying Strategy) Strategy {
	s, err := PreferDistinct(key, underlying)
	if err != nil {
		panic(err)
	}
	return s
}

func TestStrategy(t *testing.T) {
	for _, base := range []Strategy{Oldest, Newest, Random, Fair} {
		s := base
		var keys []string
		for _, key := range []string{"", "a", "b:c", "d", "e"} {
			if key != "" {
				s = mustDistinct(key, s)
				keys = append([]string{key}, keys...)
			}
			again, err := ParseStrategy(s.String())
			testkit.Holds(t, again == s && err == nil, s, "is read as", again, err)
			if s.Base() != base || !slices.Equal(s.DistinctKeys(), keys) {
				t.Errorf("%v has base %v and keys %q, not %v and %q", s, s.Base(), s.DistinctKeys(), base, keys)
			}
		}
		_, err := PreferDistinct("f", s)
		testkit.Holds(t, err != nil, s, "is nested again")
		_, err = ParseStrategy(distinctPrefix + "f/" + s.String())
		testkit.Holds(t, err != nil, s, "is read when nested again")
	}
	testkit.Equal(t, mustDistinct("user", mustDistinct("region", Random)).String(), "prefer_distinct:user/prefer_distinct:region/random")
	long := strings.Repeat("k", MaxMetaNameBytes)
	mustDistinct(long, Oldest)
	for _, key := range []string{"", "a/b", "a b", "ü", long + "k"} {
		_, err := PreferDistinct(key, Oldest)
		testkit.Holds(t, err != nil, key, "is taken for a key")
	}
}

// FuzzStrategy: a text is refused, or it is the only text of its strategy.
func FuzzStrategy(f *testing.F) {
	for _, seed := range []string{"", "oldest", "fair", "prefer_distinct:a/oldest", "prefer_distinct:a/prefer_distinct:b/newest", "prefer_distinct:a/", "/random"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStrategy(text)
		if err != nil {
			return
		}
		rebuilt := s.Base()
		for _, key := range slices.Backward(s.DistinctKeys()) {
			rebuilt = mustDistinct(key, rebuilt)
		}
		testkit.MustHold(t, s.String() == text && rebuilt == s, text, "is read as", s, "which rebuilt is", rebuilt)
	})
}
