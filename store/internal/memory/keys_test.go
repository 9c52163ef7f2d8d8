package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestSharingRunners compares the search in the order of runner prefixes with a look at each key, while keys come, change and go.
func TestSharingRunners(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() *job.Key {
		key := &job.Key{Actor: job.Actor{Name: fmt.Sprint("k", r.IntN(12))}}
		for range r.IntN(4) {
			key.RunnerPrefix += string(rune('a' + r.IntN(2)))
		}
		if n := r.IntN(3); n > 0 {
			key.Clients = []string{fmt.Sprint("c", n)}
		}
		return key
	}
	var keys Keys
	found := 0
	for range 20000 {
		if key := some(); r.IntN(3) > 0 {
			keys.Change(key.Name, key)
		} else {
			keys.Change(key.Name, nil)
		}
		if r.IntN(2) > 0 {
			continue
		}
		keys.Publish()
		key := some()
		want := false
		for _, other := range keys.byName {
			want = want || other.Name != key.Name && key.SharesRunners(other)
		}
		name := keys.SharingRunners(key)
		switch other := keys.byName[name]; {
		case want != (name != ""):
			t.Fatalf("%+v shares runners with %q; with another key: %v", key, name, want)
		case want && (other == nil || other.Name == key.Name || !key.SharesRunners(other)):
			t.Fatalf("%+v is said to share runners with %+v", key, other)
		case want:
			found++
		}
	}
	if found < 100 {
		t.Errorf("only %d keys shared runners", found)
	}
}
