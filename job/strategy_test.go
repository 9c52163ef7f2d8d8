package job

import (
	"slices"
	"strings"
	"testing"
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
			if again, err := ParseStrategy(s.String()); again != s || err != nil {
				t.Errorf("%v is read as %v, %v", s, again, err)
			}
			if s.Base() != base || !slices.Equal(s.DistinctKeys(), keys) {
				t.Errorf("%v has base %v and keys %q, not %v and %q", s, s.Base(), s.DistinctKeys(), base, keys)
			}
		}
		if _, err := PreferDistinct("f", s); err == nil {
			t.Errorf("%v is nested again", s)
		}
		if _, err := ParseStrategy(distinctPrefix + "f/" + s.String()); err == nil {
			t.Errorf("%v is read when nested again", s)
		}
	}
	if got := mustDistinct("user", mustDistinct("region", Random)).String(); got != "prefer_distinct:user/prefer_distinct:region/random" {
		t.Error(got)
	}
	long := strings.Repeat("k", MaxMetaNameBytes)
	mustDistinct(long, Oldest)
	for _, key := range []string{"", "a/b", "a b", "ü", long + "k"} {
		if _, err := PreferDistinct(key, Oldest); err == nil {
			t.Errorf("%q is taken for a key", key)
		}
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
		if s.String() != text || rebuilt != s {
			t.Fatalf("%q is read as %v, which rebuilt is %v", text, s, rebuilt)
		}
	})
}
