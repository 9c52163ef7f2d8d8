package job

import "fmt"

// Strategy says which jobs a claim takes. Jobs of the highest priority are always first; among equals it is
//
//   - Oldest: those that came back, in the order of their ids, then those that have been pending the longest;
//   - Newest: those that became pending last, then those that came back, the youngest first;
//   - Random: each job with the same chance, however many there are; a claim of several jobs takes those that follow the drawn one in its queue;
//   - Fair: one job of each client in turn, by name, its oldest; the next claim continues after the client that was served last.
type Strategy uint8

// Oldest is the default.
const (
	Oldest Strategy = iota
	Newest
	Random
	Fair
)

var strategyNames = [...]string{"oldest", "newest", "random", "fair"}

func (s Strategy) String() string { return strategyNames[s] }

// ParseStrategy is the inverse of String.
func ParseStrategy(name string) (Strategy, error) {
	for i, n := range strategyNames {
		if n == name {
			return Strategy(i), nil
		}
	}
	return Oldest, fmt.Errorf("strategy %q is not one of oldest, newest, random, fair", name)
}
