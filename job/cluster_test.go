package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// process is a process of a node, with the groups that it sends.
type process struct {
	node   string
	origin uint64
	start  uint64 // that its announcement names
	number uint64 // of its last command
	sent   []message
}

// message is what a process sends: an announcement, or consecutive commands. Links lose, repeat and delay messages, so that
// they arrive in any order and after the end of the process.
type message struct {
	from  *process
	start uint64 // of an announcement
	first uint64
	n     int
}

// numbered is a command in a log.
type numbered struct {
	node           string
	origin, number uint64
	start          uint64
}

// hasEffect says from the history alone whether a command has an effect: an announcement, if as many announcements of the node
// had one before as it names; a command, if its process was the last one of its node to announce itself, and each of its
// earlier commands had an effect exactly once since.
func hasEffect(log []numbered, effects []bool, e numbered) bool {
	announced, last := uint64(0), -1
	for i, of := range log {
		if effects[i] && of.node == e.node && of.start != 0 {
			announced, last = announced+1, i
		}
	}
	if e.start != 0 {
		return e.start == announced+1
	}
	if last < 0 || log[last].origin != e.origin {
		return false
	}
	done := uint64(0)
	for i := last + 1; i < len(log); i++ {
		if effects[i] && log[i].node == e.node && log[i].origin == e.origin {
			done++
		}
	}
	return e.number == done+1
}

func (e *numbered) command() (*Place, Command) {
	if e.start != 0 {
		return &Place{Node: e.node}, Announce{Node: e.node, Origin: e.origin, Start: e.start, Level: 1}
	}
	return &Place{Node: e.node, Origin: e.origin, Number: e.number}, nil
}

// TestNumbers compares Follow with hasEffect. Three leaders write by turns. Some know the end of the log, and some take every
// command, as a leader without the rule would. Nodes start again, also with an announcement of a start that is long past.
func TestNumbers(t *testing.T) {
	effective, refused := 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var log []numbered
		var effects []bool
		var state Cluster      // follows the whole log
		var leaders [3]Cluster // what each leader believes
		var behind [3]int      // how much of the log it knows
		processes := []*process{nil, nil, nil}
		var all []message
		for step := range 400 {
			node := random.IntN(3)
			p := processes[node]
			switch k := random.IntN(10); {
			case p == nil || k == 0: // the node starts, and knows the state of some time
				name := fmt.Sprint("n", node)
				p = &process{node: name, origin: random.Uint64() | 1, start: max(1, state.Of(name).Start+uint64(random.IntN(3)))}
				processes[node] = p
				p.sent = append(p.sent, message{from: p, start: p.start})
			case k < 4:
				n := 1 + random.IntN(3)
				p.sent = append(p.sent, message{from: p, first: p.number + 1, n: n})
				p.number += uint64(n)
			}
			all = append(all, p.sent...)
			p.sent = nil
			if len(all) == 0 {
				continue
			}
			i := random.IntN(min(len(all), 6))
			if random.IntN(20) == 0 { // from a stale link
				i = random.IntN(len(all))
			}
			m := all[i]
			if random.IntN(4) > 0 { // otherwise it comes again
				all = slices.Delete(all, i, i+1)
			}
			at := (step/20)%len(leaders) + random.IntN(8)/7 // sometimes an old leader that does not know of the new one
			at %= len(leaders)
			leader, knows := &leaders[at], random.IntN(10) > 0
			if knows && random.IntN(3) > 0 {
				for ; behind[at] < len(log); behind[at]++ {
					place, cmd := log[behind[at]].command()
					leader.Follow(place, cmd)
				}
			}
			for i := range max(m.n, 1) {
				e := numbered{node: m.from.node, origin: m.from.origin, number: m.first + uint64(i), start: m.start}
				place, cmd := e.command()
				if believed := leader.Clone(); knows && behind[at] == len(log) && !believed.Follow(place, cmd) {
					break // the leader does not write it
				}
				want := hasEffect(log, effects, e)
				if got := state.Follow(place, cmd); got != want {
					t.Fatalf("seed %d: numbered %d, %+v, has an effect: %v, want %v", seed, len(log), e, got, want)
				}
				log, effects = append(log, e), append(effects, want)
				if want {
					effective++
				} else {
					refused++
				}
			}
		}
		var again Cluster
		for i, e := range log {
			place, cmd := e.command()
			if again.Follow(place, cmd) != effects[i] {
				t.Fatalf("seed %d: numbered %d has another effect when the log is read again", seed, i)
			}
		}
	}
	if effective < 10_000 || refused < 10_000 {
		t.Errorf("%d commands had an effect, and %d had none: the run proves little", effective, refused)
	}
}
